"""The loop that baselines share: link, then one action at a time while a budget is left, then the answer.

It is the machine of the presets; what a baseline does is its `act`. Benchmarks score ids, a model that
answers from memory or from texts writes names: the product's linker turns them into nodes of that name or
alias, in the context of the question; a name that the graph does not know stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from triplewise.nodes.act import read_values
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, spent_budget
from triplewise.nodes.models import Reply
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.result import normal_values, sentence
from triplewise.nodes.state import Answer, AnswerStatus, State, Step, Verdict
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import XSD, Term
from triplewise.tools.extraction.resolution import literal
from triplewise.tools.kg.vocabulary import node_labels
from triplewise.tools.linking.linker import link as link_mentions, without_brackets
from triplewise.tools.parsing.statements import decides, form_of, slot_of

MOST = 200  # answers read from one reply, and characters of a name that is linked
QUOTED = 120  # characters of a reply in a reason
ANSWER = "answer"  # the action that ends a run, and the name under which its step keeps labels and ids
_MARK = re.compile(
    r"^[\s>*_#-]*(?:so\s+)?(?:my\s+|the\s+)?(?:final\s+)?answers?(?:\(s\))?[\s*_]*(?:(?:is|are)[\s*_]*)?[:=][*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = re.compile(r"\bthe (?:final )?answers? (?:is|are):?\s+(\S[^\n]*)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*\(?(\d{1,3})[.)]\s+(?=\S)")
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)


def inspect(state: State, runtime: Runtime[Context]) -> Update:
    """Whether the run has ended, by a step whose feedback is finished, or else has used up a budget."""
    if state.steps and state.last.feedback.finished:
        return {"verdict": Verdict("finished")}
    reason = spent_budget(state, runtime.context)
    return {"verdict": Verdict("spent", note=reason) if reason else Verdict("ok")}


def prompt_path(name: str) -> str:
    """Return the path of a prompt of this package, `prompts_NAME.yaml`, as the setting `prompt` takes it."""
    return str(Path(__file__).with_name(f"prompts_{name}.yaml"))


def plain_question(state: State) -> str:
    """Return the question without brackets around its mentions; a slot keeps its `[SEP]`."""
    return state.question if slot_of(state.question) is not None else without_brackets(state.question)


def ask(state: State, env: Environment, prompt: str, part: str, **values: Any) -> Reply:
    """Ask the model a part of a prompt: of the file that the context names, else `prompts_PROMPT.yaml`."""
    env.context.require_model("this baseline")
    about_question = {
        "question": plain_question(state),
        "form": form_of(state.question),
        "decides": decides(state.question),
        "entities": {e.label: e.id for e in state.linked},
    }
    text = load_prompt(env.context.prompt or prompt_path(prompt)).render(part, **{**about_question, **values})
    return env.ask(text)


# -- replies in words


class Named(NamedTuple):
    """One answer: a short id, or the text itself where the graph has no such thing; and its text."""

    value: str
    label: str


def read_answers(reply: str, reasoned: bool = False) -> tuple[str, ...]:
    """Return the answers of a reply as texts, each once: a list in square brackets, or one a line.

    With `reasoned` only what follows the last `Answer:` counts, or the last `the answer is` without one.
    """
    if marks := list(_MARK.finditer(reply)):
        reply = reply[marks[-1].end() :]
    elif reasoned:
        reply = (_SENTENCE.findall(reply) or [""])[-1].strip().removesuffix(".")
    texts = read_values(_FENCE.sub("", reply).strip().strip("*"))
    numbers = [_NUMBER.match(text) for text in texts]
    # Lines numbered from 1 on lose their numbers; `2. Bundesliga` alone is a name.
    if [m and int(m[1]) for m in numbers] == list(range(1, len(texts) + 1)):
        texts = tuple(text[m.end() :] for text, m in zip(texts, numbers, strict=True) if m)
    plain = (text.strip().strip("*_`").strip() for text in texts)
    # The only full stop of a text ends it, unless what stands before is short, as in `Robert Downey Jr.`.
    plain = (t[:-1] if re.fullmatch(r"[^.]*\b\w{4,}\W?\.", t) else t for t in plain)
    return tuple(dict.fromkeys(text for text in plain if text))[:MOST]


def name_reply(
    reply: str, state: State, env: Environment, *, reasoned: bool = False, shown: Iterable[Term] = ()
) -> tuple[tuple[Named, ...], str]:
    """Return the answers of a reply, and why there are none; see `read_answers` and `name_answers`."""
    if named := name_answers(read_answers(reply, reasoned), state, env, shown):
        return named, ""
    words = " ".join(reply.split())
    if re.search(r"\bunknown\b\W*$", words, re.IGNORECASE):
        return (), "the model says that it does not know"
    quoted = words if len(words) <= QUOTED else f"{words[:QUOTED]}..."
    return (), f"the model's reply holds no answer: {quoted!r}" if words else "the model's reply is empty"


def name_answers(
    texts: Sequence[str], state: State, env: Environment, shown: Iterable[Term] = ()
) -> tuple[Named, ...]:
    """Return what texts mean on the KG, each once: true or false, a number, a date, or the node called so.

    Nodes that the model was `shown` go before all others of their names.
    """
    truth, nodes, ids = normal_values(state.question, texts), list(shown), dict[str, str]()
    if truth in (("true",), ("false",)):
        return (Named(truth[0], "Yes" if truth == ("true",) else "No"),)
    for exact in (False, True):
        for node, name in node_labels(env.kg, nodes, exact).items() if nodes else ():
            ids.setdefault(normalise(name), env.kg.profile.short(node))
    named: dict[str, Named] = {}
    for text in texts:
        one, norm = Named(text, text), normalise(text)
        if norm in ids:
            one = Named(ids[norm], text)
        elif value := literal(text, XSD + "date") or literal(text, XSD + "decimal"):
            one = Named(value.value, text)
        elif norm and len(text) <= MOST:
            with suppress(ConfigurationError):
                (mention,) = link_mentions(plain_question(state), env.kg, {text: None}, env.encoder)
                full = [found for found in mention.candidates if found.kind in ("exact", "alias")]
                for found in full[:1]:  # but for capitals and signs
                    one = Named(found.id, found.label if normalise(found.label) == norm else text)
        named.setdefault(one.value, one)
    return tuple(named.values())


def make_step(state: State, thought: str, call: Call, feedback: Feedback) -> Step:
    """Return one more step of a run."""
    seen, before = feedback.observation, state.program
    return Step(len(state.steps) + 1, thought, call.text(), feedback, observation=seen, program_before=before)


def answer_step(state: State, thought: str, named: Sequence[Named], why_none: str = "") -> Step:
    """Return the step that ends a run with some answers; `why_none`: why there are none."""
    labels, values = [n.label for n in named], tuple(n.value for n in named)
    shown = f"The answer is {', '.join(labels)}." if named else why_none
    feedback = Feedback(
        ANSWER, values, message="" if named else why_none, observation=shown, values={ANSWER: labels},
        ids={ANSWER: [*values]}, answers=values, finished=True,
    )  # fmt: skip
    return make_step(state, thought, Call(ANSWER, tuple(labels)), feedback)


def answer_of(step: Step | None) -> tuple[tuple[Named, ...], str]:
    """Return the answers of a step that `answer_step` made, and why there are none; nothing of another."""
    if step is None or step.feedback.action != ANSWER:
        return (), ""
    feedback = step.feedback
    return tuple(map(Named, feedback.answers, feedback.values.get(ANSWER, []))), feedback.message


def conclude(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the result of the last step; nothing in a run whose budget was spent before."""
    return {"answer": make_answer(state, runtime.context, *answer_of(state.last if state.steps else None))}


def majority(state: State, keys: Mapping[int, Hashable], what: str) -> tuple[int | None, str]:
    """Return the first step that says what most say (`keys`: place -> what), and how many agree."""
    if not keys:
        last = state.last.feedback.message if state.steps else ""
        return None, f"none of {len(state.steps)} {what} finds an answer; the last: {last}"
    ((best, votes),) = Counter(keys.values()).most_common(1)  # of equals the first
    return next(i for i, key in keys.items() if key == best), f"{votes} of {len(state.steps)} {what} agree"


def make_answer(state: State, context: Context, named: Sequence[Named], reason: str = "") -> Answer:
    """Return the answer of a run that nothing in the graph proves; `reason`: why there are none."""
    status: AnswerStatus = "answered" if named else "not_found"
    if state.verdict is not None and state.verdict.status == "spent":
        so_far = "the answer is what there was so far" if named else "nothing was answered so far"
        status, reason = "budget_spent", f"{state.verdict.note}; {so_far}"
    values, labels = tuple(n.value for n in named), tuple(n.label for n in named)
    text = sentence(labels) or f"Not found: {reason}."
    return Answer(status, values, labels, text, reason=reason, corrections=state.corrections)
