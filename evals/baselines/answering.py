"""From the words of a model to an answer: linked to the knowledge graph, with its own words kept.

Benchmarks score ids, a model that answers from memory or from texts writes names. They are linked by the
product's own linker, in the context of the question, to nodes that have such a name or alias in full; a name
that the graph does not know stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from triplewise.nodes.act import read_values
from triplewise.nodes.answer import sentence
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.forms import decides, denies, form_of, normal_values, slot_of
from triplewise.nodes.phase import Update
from triplewise.nodes.state import Answer, AnswerStatus, ProofTriple, State, Step
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import XSD
from triplewise.tools.linking.linker import EntityCandidate, link, without_brackets
from triplewise.tools.reading.values import literal

MOST = 200
"""Answers that are read from one reply."""
LONGEST = 200
"""Characters above which a text is no name."""
QUOTED = 120
"""Characters of a reply that a reason quotes."""
SAID = "answer"
"""The name under which a step keeps the labels and ids of what was answered."""

_MARK = re.compile(
    r"^[\s>*_#-]*(?:so\s+)?(?:my\s+|the\s+)?(?:final\s+)?answers?(?:\(s\))?[\s*_]*(?:(?:is|are)[\s*_]*)?[:=][*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = re.compile(r"\bthe (?:final )?answers? (?:is|are):?\s+(\S[^\n]*)", re.IGNORECASE)
_PARTS = re.compile(r"\s*;\s*|,\s+(?:and\s+)?|\s+and\s+")
_NUMBER = re.compile(r"\s*\(?(\d{1,3})[.)]\s+(?=\S)")
_ARTICLE = re.compile(r"^(?:the|an?)\s+(?=\S)", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_ABBREVIATED = re.compile(r"(?:\.\S*|\b\w{1,3})\.$")


class Named(NamedTuple):
    """One answer: a short id, or the text itself where the graph has no such thing; and its text."""

    value: str
    label: str


def read_answers(reply: str, reasoned: bool = False) -> tuple[str, ...]:
    """The answers of a reply as texts, each once: a list in square brackets, or one a line.

    Args:
        reply: what the model wrote.
        reasoned: whether reasoning stands before them: then only what follows the last `Answer:` counts, or
            the last `the answer is` where nothing is marked so.
    """
    marks = list(_MARK.finditer(reply))
    if marks:
        reply = reply[marks[-1].end() :]
    elif reasoned:
        said = _SENTENCE.findall(reply)
        reply = said[-1].strip().removesuffix(".") if said else ""
    reply = _FENCE.sub("", reply).strip().strip("*")
    texts = (_plain(text) for text in _unnumbered(read_values(reply)))
    return tuple(dict.fromkeys(t for t in texts if t))[:MOST]


def _unnumbered(texts: Sequence[str]) -> Sequence[str]:
    """Lines without their numbers, where they are numbered from 1 on: `2. Bundesliga` alone is a name."""
    found = [_NUMBER.match(text) for text in texts]
    if [m and int(m[1]) for m in found] != list(range(1, len(texts) + 1)):
        return texts
    return [text[m.end() :] for text, m in zip(texts, found, strict=True) if m]


def _plain(text: str) -> str:
    """A text without marks of emphasis, and without the point at its end."""
    text = text.strip().strip("*_`").strip()
    return text if _ABBREVIATED.search(text) else text.removesuffix(".")


def name_answers(
    texts: Sequence[str], state: State, context: Context, known: Mapping[str, str] | None = None
) -> tuple[Named, ...]:
    """What texts mean on the KG, each value once.

    Yes and no become `true` and `false` where the question wants that. Numbers and dates stay what they are.

    Args:
        texts: as a model wrote them. state: the question. context: names KG and encoder.
        known: normalised name -> id of nodes that the model was shown; they go before all others of the name.
    """
    truth = normal_values(state.question, texts)
    if truth in (("true",), ("false",)):
        return (Named(truth[0], truth[0]),)
    named: dict[str, Named] = {}
    for text in texts:
        for one in _named(text, state, context, known or {}):
            named.setdefault(one.value, one)
    return tuple(named.values())


def _named(text: str, state: State, context: Context, known: Mapping[str, str]) -> list[Named]:
    """One text as an answer; as several, where it is a list of which the graph knows every part."""
    whole = _linked(text, state, context, known)
    if whole is not None:
        return [whole]
    parts = [p for p in _PARTS.split(text) if p]
    if len(parts) > 1:
        found = [_linked(part, state, context, known) for part in parts]
        if all(found):
            return [one for one in found if one is not None]
    return [Named(text, text)]


def _linked(text: str, state: State, context: Context, known: Mapping[str, str]) -> Named | None:
    """A text as a node of the KG, a number or a date; None if it is none of them."""
    if (id_ := known.get(normalise(text))) is not None:
        return Named(id_, text)
    if value := _written(text):
        return Named(value, text)
    for name in dict.fromkeys((text, _ARTICLE.sub("", text))):
        if normalise(name) and len(name) <= LONGEST and (found := _node(name, state, context)):
            # The graph's own spelling, where the two differ in capitals and signs alone.
            same = normalise(found.label) == normalise(text)
            return Named(found.id, found.label if same else text)
    return None


def _written(text: str) -> str:
    """A date or a number as data has it, read from how people write it: 9 November 1989; 12,000."""
    found = literal(text, XSD + "date") or literal(text, XSD + "decimal")
    return found.value if found is not None else ""


def _node(name: str, state: State, context: Context) -> EntityCandidate | None:
    """The likeliest node that is called so in full: what is merely like it is no answer that was given."""
    with suppress(ConfigurationError):
        given = {name: None}
        (found,) = link(
            plain_question(state), environment(context).kg, given=given, encoder=environment(context).encoder
        )
        return next((c for c in found.candidates if c.kind in ("exact", "alias")), None)
    return None


def answer_step(state: State, thought: str, named: Sequence[Named], why_none: str = "") -> Step:
    """The step that ends a run with some answers; `why_none` says in words why there are none."""
    labels, values = [n.label for n in named], tuple(n.value for n in named)
    feedback = Feedback(
        action=SAID,
        arguments=values,
        message="" if named else why_none,
        observation=f"The answer is {', '.join(labels)}." if named else why_none,
        values={SAID: labels},
        ids={SAID: list(values)},
        answers=values,
        finished=True,
    )
    return make_step(state, thought, Call(SAID, tuple(labels)), feedback)


def make_step(state: State, thought: str, call: Call, feedback: Feedback) -> Step:
    """One more step of a run."""
    return Step(
        number=len(state.steps) + 1,
        thought=thought,
        call=call.text(),
        feedback=feedback,
        observation=feedback.observation,
        program_before=state.program,
    )


def said_nothing(reply: str) -> str:
    """Why a reply is no answer, in words."""
    words = " ".join(reply.split())
    if not words:
        return "the model's reply is empty"
    if re.search(r"\bunknown\b\W*$", words, re.IGNORECASE):
        return "the model says that it does not know"
    shown = words if len(words) <= QUOTED else f"{words[:QUOTED]}..."
    return f"the model's reply holds no answer: {shown!r}"


def plain_question(state: State) -> str:
    """The question without brackets around its mentions; a slot keeps its `[SEP]`."""
    return state.question if slot_of(state.question) is not None else without_brackets(state.question)


def asked(state: State) -> dict[str, Any]:
    """What prompts of baselines may name of a question."""
    return {
        "question": plain_question(state),
        "form": form_of(state.question),
        "decides": decides(state.question),
        "entities": {e.label: e.id for e in state.linked},
    }


def conclude(state: State, runtime: Runtime[Context]) -> Update:
    """The answer of the step that ended the run; none of a run whose budget was spent before."""
    named, message = ended(state)
    return {"answer": make_answer(state, runtime.context, named, message)}


def ended(state: State) -> tuple[tuple[Named, ...], str]:
    """The answers of the step that ended a run, and why there are none; nothing where no step did."""
    if not state.steps or not state.last.feedback.finished:
        return (), ""
    return named_in(state.last), state.last.feedback.message


def named_in(step: Step) -> tuple[Named, ...]:
    """The answers of a step that `answer_step` made."""
    labels = step.feedback.values.get(SAID, [])
    return tuple(Named(*pair) for pair in zip(step.feedback.answers, labels, strict=True))


def make_answer(
    state: State,
    context: Context,
    named: Sequence[Named],
    reason: str = "",
    *,
    proof: Sequence[ProofTriple] = (),
    sparql: str = "",
) -> Answer:
    """The answer of a run.

    Args:
        state: how the run ended. context: whether the world is closed.
        named: the answers. reason: why there are none, or what else is to be said.
        proof, sparql: facts that prove them, and the query that gives them.
    """
    status: AnswerStatus = "answered" if named else "not_found"
    if state.verdict is not None and state.verdict.status == "spent":
        so_far = "the answer is what there was so far" if named else "nothing was answered so far"
        status, reason = "budget_spent", f"{state.verdict.note}; {so_far}"
    if status == "not_found" and context.closed_world and decides(state.question):
        assumed = str(denies(state.question)).lower()
        named, status = [Named(assumed, assumed)], "answered"
        reason = f"{reason}; assumed, for what is not proven counts as untrue (closed_world)"
    labels = tuple(n.label for n in named)
    return Answer(
        status=status,
        values=tuple(n.value for n in named),
        labels=labels,
        text=sentence(labels) or f"Not found: {reason}.",
        sparql=sparql,
        proof=tuple(proof),
        reason=reason,
        corrections=state.corrections,
    )


def extended(state: State, step: Step, **more: Any) -> Update:
    """An update with one more step."""
    return {"steps": (*state.steps, step), **more}
