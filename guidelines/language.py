"""The words guidelines are written in: the names, filters and tests that their expressions may use.

Guidelines are Jinja, sandboxed and deterministic: no clock, no chance, no attribute that could change
anything. What a model wrote only ever reaches a template as a value, never as template text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import chain, pairwise
from typing import Any, Final, Literal as OneOf
from urllib.parse import unquote

from jinja2 import ChainableUndefined, DictLoader, Environment, TemplateSyntaxError, meta, nodes, pass_context
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import Call, Feedback, ReasoningMemory
from triplewise.tools.core.errors import DataError, did_you_mean
from triplewise.tools.core.files import YamlDocument, packaged
from triplewise.tools.language.framing import asked_part
from triplewise.tools.language.lexicon import lexicon, root, section, word_list
from triplewise.tools.language.text import split_name, tokens

_VARIABLE = re.compile(r"\?\w+")
_BARE = ("most", "least", "fewest")  # superlatives without an adjective
_SIGNATURE, _PARAMETER = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL), re.compile(r"[^\s,][^,]*")


NAMES: Final[Mapping[str, str]] = packaged("triplewise.guidelines", "names.yaml")
"""Every name an expression or template may use, and what it holds."""
FIELDS: Final[Mapping[str, list[str]]] = {
    "feedback": [f.name for f in fields(Feedback)],
    "memory": [name for name in dir(ReasoningMemory) if not name.startswith("_")],
}
"""What may be read of feedback and memory."""


def situation(
    feedback: Feedback,
    memory: ReasoningMemory,
    *,
    question: str = "",
    budget_left: int | None = None,
    actions: Sequence[str] = (),
    step: int | None = None,
    several: bool = False,
    mentions: Sequence[tuple[int, int]] = (),
) -> dict[str, Any]:
    """The values of `NAMES` for one step; the memory tells budget and step where they are None.

    mentions: where the question names entities (start, end): their words ask for nothing.
    """
    if budget_left is None and memory.budget:
        budget_left = memory.budget - memory.steps - 1
    args = tuple(unquoted(argument) for argument in feedback.arguments)
    candidates = list(dict.fromkeys((*memory.bound, *memory.linked)))
    call = Call(feedback.action, feedback.arguments).text() if feedback.action else ""
    asking, numbers = asking_words(question, memory.linked.values(), mentions), section("numbers")
    return {
        "feedback": feedback,
        "memory": memory,
        "args": args,
        "call": call,
        "question": question,
        "wanted": wanted_kind(question, memory.linked.values(), mentions) if question else "",
        "extreme": extreme_of(asking),
        "numbers": [n for w in asking if (n := w if w.isdecimal() else numbers.get(w)) is not None],
        # A run may also end with an answer that was doubted when it was set, and set again nevertheless.
        "insisted": call in memory.doubted
        or (feedback.finished and memory.last in memory.doubted and memory.last.startswith("set_answer(")),
        "budget_left": budget_left,
        "actions": list(actions),
        "step": memory.steps + 2 if step is None else step,
        "several": several,
        "program_variables": list(memory.bound),
        "new_variables": [a for a in dict.fromkeys(args) if is_variable(a) and a not in memory.bound],
        "candidates": candidates,
        "untried": [c for c in candidates if _find(c, (*memory.looked_up, *args)) is None],
    }


@cache
def environment() -> Environment:
    """The sandbox in which guidelines are compiled; they may `{% include %}` the snippets."""
    snippets = packaged("triplewise.guidelines", "snippets.yaml")
    env = ImmutableSandboxedEnvironment(
        undefined=ChainableUndefined, loader=DictLoader(snippets), trim_blocks=True, lstrip_blocks=True
    )
    env.globals.clear()
    del env.filters["random"]
    env.filters.update(_FILTERS)
    env.tests.update(_TESTS)
    return env


def check_template(
    env: Environment, document: YamlDocument, place: tuple[str | int, ...], source: str, names: Iterable[str]
) -> nodes.Template:
    """Return the syntax tree of a template of a file, at a place that keys and indices lead to.

    Raises `DataError`, which names file and line, where it is not Jinja or uses other names or parts.
    """
    key = ".".join(str(part) for part in place if isinstance(part, str))
    try:
        tree = env.parse(source)
        env.from_string(source)
    except (TemplateSyntaxError, RecursionError) as error:  # or nested too deeply
        line, problem = getattr(error, "lineno", 1), getattr(error, "message", error)
        line += (document.line(*place, of_text=True) or 0) - 1
        raise DataError(f"{key}: is not valid Jinja: {problem}", document.path, line) from error
    for name in sorted(meta.find_undeclared_variables(tree) - set(names)):
        raise document.error(f"{key}: unknown name {name!r}{did_you_mean(name, names)}", *place)
    templates = env.loader.list_templates() if env.loader else []
    for included in meta.find_referenced_templates(tree):
        if included not in templates:
            legal = ", ".join(templates)
            raise document.error(f"{key}: includes unknown part {included!r}; choose from: {legal}", *place)
    return tree


def check_guideline(document: YamlDocument, index: int, key: str, source: str) -> None:
    """Raise `DataError` where an expression or text of a guideline reads a field that is not there."""
    for read in check_template(environment(), document, (index, key), source, NAMES).find_all(nodes.Getattr):
        owner = read.node.name if isinstance(read.node, nodes.Name) else ""
        if owner in FIELDS and read.attr not in FIELDS[owner]:
            problem = f"{owner} has no field {read.attr!r}{did_you_mean(read.attr, FIELDS[owner])}"
            raise document.error(f"{key}: {problem}", index, key)


def unquoted(argument: str) -> str:
    """An argument without surrounding space and one pair of outer quotes."""
    return re.sub(r"""(?s)^(["'])(.*)\1$""", r"\2", argument.strip()).strip()


def _find(form: object, ids: Iterable[str]) -> str | None:
    """Return the id that a form means: `<http://…/Q42>` and `Q42` are the same node, whichever way round."""
    text, candidates = "" if isinstance(form, Undefined) else str(form), tuple(ids)
    if text in candidates:
        return text

    def is_iri_of(iri: str, id: str) -> bool:
        endings = (f"/{id}>", f"#{id}>", f":{id}>")
        return bool(id) and iri.startswith("<") and (iri.endswith(endings) or unquote(iri).endswith(endings))

    return next((i for i in candidates if is_iri_of(text, i) or is_iri_of(i, text)), None)


def asking_words(
    question: str, labels: Iterable[str] = (), spans: Sequence[tuple[int, int]] = ()
) -> list[str]:
    """The words of the part that asks, in lower case, without the `labels` of entities and the `spans`."""
    text, part = question.casefold(), asked_part(question).casefold()
    if (at := text.find(part)) >= 0:
        text = (" " * at + part).ljust(len(text))
    folded = [label.casefold() for label in labels if label]
    places = {*spans, *((at, at + len(label)) for label in folded if (at := text.find(label)) >= 0)}
    for start, end in places:
        if 0 <= start < end <= len(text):
            text = text[:start] + " " * (end - start) + text[end:]
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text)


def extreme_of(words: Sequence[str]) -> OneOf["", "most", "least"]:
    """Whether words ask for what has the most or the least of something: "largest", "the fewest"."""
    known, regular = lexicon().adjectives, [word for word in words if word.endswith("est")]  # not "last"
    signs = [known[a].sign for word in regular if (a := lexicon().adjective_of(word, "est") or "") in known]
    signs += [1 if word == "most" else -1 for the, word in pairwise(words) if the == "the" and word in _BARE]
    return "" if not signs else "most" if signs[0] > 0 else "least"


def wanted_kind(
    question: str, labels: Iterable[str] = (), spans: Sequence[tuple[int, int]] = ()
) -> OneOf["", "who", "when", "count", "yes_no"]:
    """The kind of answer that a question asks for; "" where it does not tell, or tells two kinds."""
    words = asking_words(question, labels, spans)
    asking, begins = word_list("asking") & set(words), words[0] if words else ""
    match [*asking]:
        case [] if begins in word_list("verbs") and "or" not in words and "you" not in words[:2]:
            return "yes_no"  # "can you name ..." asks for no yes
        case ["who" | "whom"]:
            return "who"
        case ["when"] if begins == "when":
            return "when"
        case [_] if ("how", "many") in pairwise(words):
            return "count"
    return ""


def is_variable(value: object) -> bool:
    """Whether it is written as a variable: ?name."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def _quote_list(items: Iterable[object]) -> str:
    quoted = (item if item.startswith("...") else f"'{item}'" for item in map(str, items))
    return f"[{', '.join(quoted)}]"


def _preview(items: Iterable[object], n: int = 40) -> list[object]:
    listed = list(items)
    return [*listed[:n], f"... ({len(listed) - n} more)"] if len(listed) > n else listed


def _offered(context: Context, node: object) -> Mapping[str, Sequence[str]]:
    """Return the relations of a looked-up node, by direction."""
    looked_up: Mapping[str, Mapping[str, Sequence[str]]] = context["memory"].looked_up
    return looked_up.get(_find(node, looked_up) or "", {})


def _values_of(context: Context, variable: object) -> list[str]:
    values, name = context["feedback"].values, str(variable)
    return values.get(name) or values.get(name.lstrip("?")) or values.get(f"?{name}") or []


def _signature(context: Context, action: object) -> re.Match[str] | None:
    signatures = (_SIGNATURE.fullmatch(signature) for signature in context["actions"])
    return next((match for match in signatures if match is not None and match[1] == str(action)), None)


def _repairs(context: Context, feedback: Feedback) -> list[str]:
    ids = {*context["memory"].linked, *context["memory"].seen}
    read = {unquoted(form): str(id) for form, id in feedback.detail.get("repaired", {}).items()}
    return [f"{form} -> {id}" for form, id in read.items() if form != unquoted(id) and form not in ids]


def _is_known(context: Context, value: object) -> bool:
    memory = context["memory"]
    return _find(value, (*memory.bound, *memory.linked, *memory.seen)) is not None


def _is_offered_for(context: Context, relation: object, node: object, way: str = "") -> bool:
    directions = _offered(context, node)
    return any(_find(relation, directions.get(w, ())) is not None for w in ([way] if way else directions))


def _is_stranger(context: Context, value: object) -> bool:
    text, forms = str(value), context["feedback"].arguments
    literals = {unquoted(form) for form in forms if form.strip().startswith(('"', "'"))}
    is_id = bool(text) and not text.startswith("?") and text not in literals
    return is_id and not _is_known(context, text) and text.casefold() not in context["question"].casefold()


def _as_answers(context: Context, variables: Sequence[str]) -> list[str]:
    """Return variables, the likeliest answer first: a count, then what the question names first.

    What is compared comes last; without a word of the question, what has a class comes first.
    """
    program, question = context["feedback"].program, context["question"]
    asked = [root(word) for word in asking_words(question)]

    def order(place: int) -> tuple[object, ...]:
        name = re.escape(variables[place])
        types, named = re.findall(rf"add_type\({name}, (.+)\)", program), f"add_fact\\(.+, (.+), {name}\\)"
        texts = [variables[place], *types, *re.findall(named, program)]
        words = {root(w) for t in texts for w in tokens(split_name(re.split("[/#:.?]", t.strip("<>"))[-1]))}
        first = next((i for i, word in enumerate(asked) if word in words - word_list("stop")), len(asked))
        is_count, is_extreme = (re.search(f"add_{way}{name}\\)", program) for way in (r"count\(.*", r"m..\("))
        return (
            not is_count,
            f"add_filter({variables[place]}," in program,
            first,
            bool(is_extreme),
            not types,
            -place,
        )

    return [variables[place] for place in sorted(range(len(variables)), key=order)]


_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "names": lambda items: ", ".join(map(str, items)),
    "as_answers": pass_context(_as_answers),  # variables, the likeliest answer first
    "quote_list": _quote_list,  # a list of quoted names: ['?x', 'Q42']
    "preview": _preview,  # the first n items, and how many more there are
    "closest": lambda name, options, n=3: difflib.get_close_matches(str(name), [*map(str, options)], n),
    # The relations that a looked-up node was offered, by direction as text, at most n of each; and as a list.
    "relations": pass_context(
        lambda c, node, n=40: "; ".join(
            f"{way}: {_quote_list(_preview(names, n))}" for way, names in _offered(c, node).items()
        )
    ),
    "offered": pass_context(lambda c, node: list(dict.fromkeys(chain(*_offered(c, node).values())))),
    "values_of": pass_context(_values_of),  # the previewed values of a variable after this step
    # The signature of an action, e.g. `add_max(max_var)`, or its bare name; and how many parameters it takes.
    "signature": pass_context(lambda c, action: m[0] if (m := _signature(c, action)) else str(action)),
    "arity": pass_context(lambda c, action: (m := _signature(c, action)) and len(_PARAMETER.findall(m[2]))),
    # What was written as a name and read as an id, e.g. `Tokyo -> Q1490`; quotes alone are not a name.
    "repairs": pass_context(_repairs),
    # The id of the linked entity with this label (case does not matter), or an empty string.
    "id_of": pass_context(
        lambda c, of: next(
            (i for i, n in c["memory"].linked.items() if n.casefold() == str(of).casefold()), ""
        )
    ),
}
_TESTS: Final[Mapping[str, Callable[..., bool]]] = {
    "variable": is_variable,
    "known": pass_context(_is_known),  # bound, linked, or an id seen in an observation
    # Offered for a looked-up node (`way`: "forward", "backward", or either), or for anything so far.
    "offered_for": pass_context(_is_offered_for),
    "relation": pass_context(lambda c, v: any(_is_offered_for(c, v, node) for node in c["memory"].looked_up)),
    # Written as an id that was neither linked nor seen; no word of the question itself.
    "stranger": pass_context(_is_stranger),
    # A node that was looked up and has instances or subclasses, as far as this step's facts tell.
    "class": pass_context(
        lambda c, value: any(
            _is_offered_for(c, r, value, "backward") for r in c["feedback"].detail.get("class_relations", ())
        )
    ),
    "bound": pass_context(lambda c, value: value in c["memory"].bound),  # by the program before this step
    "looked_up": pass_context(lambda c, value: _find(value, c["memory"].looked_up) is not None),
    # Every previewed value of the variable is a mediator node without a name.
    "unnamed": pass_context(lambda c, variable: {*_values_of(c, variable)} == {UNNAMED}),
}
