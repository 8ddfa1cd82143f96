"""Mends of comparisons: the operator, the value, the side, and looking through nodes without a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triplewise.tools.actions.repair.facts import beyond
from triplewise.tools.actions.repair.failed_step import EMPTY, FOUND, FailedStep, Fix, kind
from triplewise.tools.actions.resolve import is_bare
from triplewise.tools.actions.show import UNNAMED
from triplewise.tools.core.call import Call

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OPEN = {"<": "<=", ">": ">=", "=": "contains"}
_WORDS = (
    (("at least", "no less", "not less", "from", "since", "minimum"), ">="),
    (("at most", "no more", "not more", "until", "up to", "maximum"), "<="),
    (("not", "differ", "other", "except", "unequal"), "!="),
    (("more", "great", "larg", "high", "old", "above", "over", "after", "later", "exceed", "gt"), ">"),
    (("less", "small", "low", "young", "below", "under", "before", "earl", "lt", "few"), "<"),
    (("contain", "includ", "like", "match"), "contains"),
    (("start", "begin", "prefix"), "starts_with"),
    (("end", "suffix"), "ends_with"),
    (("equal", "is", "same", "eq", "on", "in", "at"), "="),
)
_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)")
_SHORT_YEAR = re.compile(r"(?:'|\b)(\d\d)\s*$")
_DAY = re.compile(r"(?<!\d)(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?!\d)")
_QUANTITY = re.compile(r"[-+]?\d[\d,' ]*(?:\.\d+)?")
_SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "m": 1e6, "billion": 1e9, "bn": 1e9}
ONWARD = 12
"""Relations tried to look through a node without a name."""


@kind("operator", causes=("bad_operator", "relation_as_operator"), actions=("add_filter",))
def operator_meant(step: FailedStep) -> Iterator[Fix]:
    """The operator that words mean, or the fact where a relation stands in its place."""
    if len(step.args) != 3:
        return
    left, given, right = step.args
    if step.cause == "relation_as_operator":
        yield Fix("", (Call("add_fact", (left, given, right)),), given, 0.3)
        yield Fix("", (Call("add_fact", (right, given, left)),), given, 0.2)
    words = given.strip("'\"").replace("_", " ").casefold()
    found = [op for stems, op in _WORDS if any(re.search(rf"\b{stem}", words) for stem in stems)]
    for place, operator in enumerate(dict.fromkeys(found)):
        yield Fix("", (step.call(left, operator, right),), prior=0.3 - 0.1 * place)


@kind("comparison", causes=(EMPTY, "bad_comparison"), actions=("add_filter",))
def comparison(step: FailedStep) -> Iterator[Fix]:
    """The comparison turned around, made less strict, or of another variable."""
    if len(step.args) != 3:
        return
    left, operator, right = step.args
    if operator in _TURNED:
        yield Fix("", (step.call(left, _TURNED[operator], right),), prior=0.2)
    if operator in _OPEN and not (operator == "=" and is_bare(right)):
        yield Fix("", (step.call(left, _OPEN[operator], right),), prior=0.1)
    if step.cause == "bad_comparison" and operator not in ("=", "!="):
        yield Fix("", (step.call(left, "=", right),), prior=0.1)
    for place in (0, 2):
        if step.args[place] in step.bound:
            others = [v for v in reversed(step.bound) if v not in step.args]
            for age, variable in enumerate(others):
                yield Fix("", (step.with_argument(place, variable),), prior=0.15 / (age + 1))


@kind(
    "value",
    causes=("bad_date", "bad_number", "bad_object", "bare_number_node", "bad_comparison"),
)
def value_meant(step: FailedStep) -> Iterator[Fix]:
    """The year, day or number in something that is written as none."""
    for place, form in enumerate(step.args):
        if form.startswith("?") or (is_bare(form) and step.cause not in ("bad_date", "bare_number_node")):
            continue
        for rank, value in enumerate(readings(form.strip("'\""))):
            if value == form:
                continue
            yield Fix("", (step.with_argument(place, value),), prior=0.3 - 0.05 * rank)
    if step.cause == "bare_number_node" and step.action == "add_fact" and len(step.args) == 3:
        subject, relation, number = step.args
        new = step.new_variable("value")
        bound = Call("add_fact", (subject, relation, new))
        yield Fix("", (bound, Call("add_filter", (new, "=", number))), relation, 0.3)


def readings(form: str) -> list[str]:
    """What a text may mean as a day, a year or a number, the most exact first."""
    found: list[str] = []
    if match := _DAY.search(form):
        year, month, day = match[1], int(match[2]), int(match[3])
        found += [f"{year}-{month:02d}-{day:02d}", f"{year}-{day:02d}-{month:02d}"]
    found += _YEAR.findall(form)
    if not found and (match := _SHORT_YEAR.search(form)) and not is_bare(form):
        found += [f"19{match[1]}", f"20{match[1]}"]
    if match := _QUANTITY.match(form.strip()):
        found.append(_number(match[0], form[match.end() :].strip().casefold()))
    return list(dict.fromkeys(found))


def _number(digits: str, unit: str) -> str:
    """A number without separators, times what the word behind it says."""
    value = re.sub(r"[,' ]", "", digits)
    factor = _SCALES.get(unit.split(" ", 1)[0].strip("."), 1.0) if unit else 1.0
    return value if factor == 1.0 else f"{float(value) * factor:.0f}"


@kind("window", causes=(EMPTY, "bad_date"), actions=("add_time_window",))
def window(step: FailedStep) -> Iterator[Fix]:
    """A time window with its relations, or its ends, the other way round."""
    if len(step.args) != 5:
        return
    node, first, last, start, end = step.args
    yield Fix("", (step.call(node, first, last, end, start),), prior=0.3)
    yield Fix("", (step.call(node, last, first, start, end),), prior=0.2)


@kind("through", causes=FOUND, actions=("set_answer",))
def through(step: FailedStep) -> Iterator[Fix]:
    """What lies behind nodes without a name that were set as the answer."""
    for form in step.args:
        if set(step.feedback.values.get(form[1:], ())) != {UNNAMED}:
            continue
        for call, relation in beyond(step, form, step.bench.program):
            new = next(a for a in call.arguments if a.startswith("?") and a != form)
            yield Fix("", (call, Call("set_answer", (new,))), relation, 0.2)
