"""What may have been meant by a step that failed: facts, names and comparisons written another way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triplewise.tools.actions.repair.failed_step import EMPTY, FOUND, FailedStep, Fix, kind, nearness
from triplewise.tools.actions.replies import parse_call
from triplewise.tools.actions.terms import UNNAMED, is_bare
from triplewise.tools.actions.toolset import Action
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import write_iri

SURE, LIKELY, POSSIBLE = 0.5, 0.25, 0.1
"""Priors: a turned fact that finds something is nearly always right, another relation is one among many."""
FIRST_HOPS = 10
"""Relations tried as the way to a mediator that the agent left out."""
PLANNED = 0.15
"""What it adds that a verified rule of the plan uses the relation."""
KIN = 0.15
"""What it adds that two relations share their domain or their last part."""


def _ends(step: FailedStep) -> tuple[str, str, str] | None:
    """Subject, relation and object of the fact that failed."""
    return (step.args[0], step.args[1], step.args[2]) if len(step.args) == 3 else None


@kind("swapped", causes=(EMPTY, "bad_subject"), actions=("add_fact",))
def swapped(step: FailedStep) -> Iterator[Fix]:
    """The same fact in the other direction."""
    if (ends := _ends(step)) and not ends[2].startswith(('"', "'")):
        yield Fix("", (step.call(ends[2], ends[1], ends[0]),), ends[1], SURE)


@kind("sibling", causes=(EMPTY, "bad_relation", "both_ends_fixed"), actions=("add_fact",))
def sibling(step: FailedStep) -> Iterator[Fix]:
    """Another relation of the subject or the object, in the direction in which it is there."""
    if (ends := _ends(step)) is None or step.cause == "both_ends_fixed":
        return
    subject, failed, object_ = ends
    for node, other in ((subject, object_), (object_, subject)):
        if step.is_new(node) or node.startswith(('"', "'")):
            continue
        around = step.around(node)
        prior = {
            r: kinship(failed, r) + PLANNED * (r in step.memory.planned) for pair in around for r in pair
        }
        for relation in around.forward:
            if not (relation == failed and node == subject):
                yield Fix("", (step.call(node, relation, other),), relation, prior[relation])
        for relation in around.backward:
            if not other.startswith(('"', "'")) and not (relation == failed and node == object_):
                yield Fix("", (step.call(other, relation, node),), relation, prior[relation])
        if step.is_new(other):
            return


def kinship(relation: str, other: str) -> float:
    """What it speaks for two relations that their ids share a domain or the last part."""
    one, two = (r.replace("/", ".").replace(":", ".").split(".") for r in (relation, other))
    if min(len(one), len(two)) < 2:
        return 0.0
    return KIN * (one[-1] == two[-1] or one[:-1] == two[:-1]) + KIN / 3 * (one[0] == two[0])


@kind("mediated", causes=(EMPTY,), actions=("add_fact",))
def mediated(step: FailedStep) -> Iterator[Fix]:
    """The relation belongs to a mediator (CVT, statement) in between, and the way to it was left out."""
    profile, ends = step.kg.profile, _ends(step)
    if ends is None or not (profile.mediator_patterns or profile.unlabelled_is_mediator):
        return
    subject, relation, object_ = ends
    anchor, other = (object_, subject) if step.is_new(subject) else (subject, object_)
    if step.is_new(anchor) or anchor.startswith(('"', "'")):
        return
    node, around = step.new_variable("node"), step.around(anchor)
    first = [(r, Call("add_fact", (anchor, r, node))) for r in around.forward]
    first += [(r, Call("add_fact", (node, r, anchor))) for r in around.backward]
    first.sort(key=lambda hop: -_way_to(relation, hop[0]))
    for way, call in first[:FIRST_HOPS]:
        second = Call("add_fact", (node, relation, other))
        yield Fix("", (call, second), relation, LIKELY + kinship(relation, way))


def _way_to(relation: str, way: str) -> float:
    """How likely a relation leads to the mediator that another relation leaves."""
    return kinship(relation, way) + nearness(relation.split(".")[-1], way.split(".")[-1])


@kind("anchored", causes=(*FOUND, EMPTY, "subject_equals_object"), actions=("add_fact",))
def anchored(step: FailedStep) -> Iterator[Fix]:
    """A fact that hangs on nothing known, with a known node at one of its ends."""
    if (ends := _ends(step)) is None:
        return
    subject, relation, object_ = ends
    same = subject == object_
    if not same and not (step.is_new(subject) and step.is_new(object_)):
        return
    other = step.new_variable() if same else object_
    for node, prior in anchors(step):
        near = [LIKELY * nearness(node, end) if node.startswith("?") else 0.0 for end in (subject, object_)]
        for given, new, likely in ((subject, other, near[0]), (other, subject, near[1])):
            yield Fix("", (step.call(node, relation, new),), relation, prior + likely)
            turned = step.call(new, relation, node)
            # What stood at the object's place most likely belongs there.
            yield Fix("", (turned,), relation, prior + likely + (POSSIBLE if given == other else -POSSIBLE))


def anchors(step: FailedStep) -> Iterator[tuple[str, float]]:
    """Known nodes a fact may start from: the newest variable first, linked entities not used yet."""
    for age, variable in enumerate(reversed(step.bound)):
        yield variable, POSSIBLE / (age + 1)
    used = set(step.context.program.replace("(", " ").replace(",", " ").replace(")", " ").split())
    for entity in step.memory.linked:
        yield entity, 0.0 if entity in used else POSSIBLE


@kind("other_variable", causes=(EMPTY,), actions=("add_fact",))
def other_variable(step: FailedStep) -> Iterator[Fix]:
    """Another variable than the one that was named, or a new one where the named one is taken."""
    if (ends := _ends(step)) is None:
        return
    for place in (0, 2):
        form, other = ends[place], ends[2 - place]
        if not form.startswith("?") or form not in step.bound:
            continue
        for variable in step.bound:
            if variable not in (form, other):
                prior = POSSIBLE + POSSIBLE * nearness(variable, form)
                yield Fix("", (step.with_argument(place, variable),), ends[1], prior)
        if not step.is_new(other):
            yield Fix("", (step.with_argument(place, step.new_variable(form)),), ends[1], 0.0)


@kind("freed", causes=("both_ends_fixed",), actions=("add_fact",))
def freed(step: FailedStep) -> Iterator[Fix]:
    """A fact with both ends fixed: asked as yes or no, or with a variable at one end."""
    if (ends := _ends(step)) is None:
        return
    subject, relation, object_ = ends
    first = step.context.question.split(" ", 1)[0].casefold()
    wh_word = first.startswith(("wh", "how", "which", "name", "list", "give", "find"))
    if "ask" in step.toolset:
        asked = (Call("ask"), step.call(subject, relation, object_))
        yield Fix("", asked, relation, -POSSIBLE if wh_word else SURE)
    new = step.new_variable()
    yield Fix("", (step.call(subject, relation, new),), relation, POSSIBLE)
    yield Fix("", (step.call(new, relation, object_),), relation, POSSIBLE)


def beyond(step: FailedStep, variable: str, text: str) -> list[tuple[Call, str]]:
    """Facts that lead on from a variable to something new, each with its relation.

    Args:
        step: the step being find_fixes.
        variable: bound by the program `text`.
        text: the program.
    """
    program = PyQL.parse(text, step.kg.profile)
    around, new = step.relations(variable, program), step.new_variable()
    if new[1:] in {v.name for v in program.variables}:
        new = f"{new}_2"
    onward = [(Call("add_fact", (variable, r, new)), r) for r in around.forward]
    return onward + [(Call("add_fact", (new, r, variable)), r) for r in around.backward]


LEAST = 0.6
"""Names less alike than this are not taken for slips of one another."""
INDEXED = 3
"""Nodes that the label index may verified_fix for one name."""
SPLIT = 0.5
"""Weight of the name beside whatever else speaks for a fix."""
ACTIONS = 3
"""Actions tried for one that does not exist."""

UNKNOWN = ("unknown_variable", "bad_variable", "max_not_variable", "count_output_not_variable")


@kind("variable", causes=UNKNOWN)
def variable_meant(step: FailedStep) -> Iterator[Fix]:
    """A bound variable in place of one that nothing binds, the most alike first."""
    if step.cause == "count_output_not_variable" or step.action not in step.toolset:
        return
    kinds = [p.kind for p in step.toolset.action(step.action).parameters]
    for place, form in enumerate(step.args):
        due = kinds[min(place, len(kinds) - 1)] if kinds else ""
        unbound = form.startswith("?") and form not in step.bound
        if not (unbound or (due == "variable" and not form.startswith("?"))):
            continue
        for age, variable in enumerate(reversed(step.bound)):
            prior = SPLIT * nearness(variable, form) + 0.05 / (age + 1)
            yield Fix("", (step.with_argument(place, variable),), prior=prior)


@kind("new_output", causes=("count_output_not_variable",))
def new_output(step: FailedStep) -> Iterator[Fix]:
    """A new variable for the number that a count gives."""
    if step.args:
        yield Fix("", (step.call(*step.args[:-1], step.new_variable("count")),))


@kind("entity", causes=(EMPTY, "bad_subject", "bad_object", "unknown_entity", "bad_type", "bad_comparison"))
def entity_meant(step: FailedStep) -> Iterator[Fix]:
    """The id of the known node whose name was written, or was written with a slip."""
    if step.action == "add_filter" and step.cause == EMPTY:
        return
    relation = step.args[1] if step.action == "add_fact" and len(step.args) == 3 else ""
    for place, form in enumerate(step.args):
        if form.startswith("?") or form in step.known or (relation and place == 1):
            continue
        for node, alike in meant(step, form.strip("'\"")):
            yield Fix("", (step.with_argument(place, node),), relation, 0.3 + SPLIT * alike)


def meant(step: FailedStep, name: str) -> Iterator[tuple[str, float]]:
    """Ids of nodes that a name may mean: known ones first, else by the label index."""
    scored = {i: max(nearness(name, i), nearness(name, label)) for i, label in step.known.items()}
    found = sorted((i for i, alike in scored.items() if alike >= LEAST), key=lambda i: (-scored[i], i))
    yield from ((i, scored[i]) for i in found[:INDEXED])
    if found or (index := step.kg.index) is None:
        return
    for candidate in index.search(name, INDEXED):
        yield write_iri(candidate.iri, step.kg.profile), candidate.score * 0.8


@kind(
    "lookup_elsewhere",
    causes=(EMPTY, "unknown_variable", "bad_variable", "unknown_entity", "bad_subject"),
    actions=("get_relation",),
)
def lookup_elsewhere(step: FailedStep) -> Iterator[Fix]:
    """The relations of something known that was not looked up yet."""
    written = step.args[0] if step.args else ""
    for node in (*step.bound, *step.memory.linked):
        if node not in step.memory.looked_up and node != written:
            label = step.memory.linked.get(node, node)
            yield Fix("", (step.call(node),), prior=SPLIT * nearness(written, label))


@kind("action", causes=("unknown_action",))
def action_meant(step: FailedStep) -> Iterator[Fix]:
    """The nearest action that takes so many arguments."""
    fitting = [a for a in step.toolset.actions.values() if _takes(a, len(step.args))]
    scored = [(max(_alike(step.action, n) for n in (a.name, *a.aliases)), a.name) for a in fitting]
    for alike, name in sorted(scored, key=lambda s: (-s[0], s[1]))[:ACTIONS]:
        if alike >= LEAST - 0.1:
            yield Fix("", (step.call(*step.args, name=name),), prior=alike)


def _takes(action: Action, count: int) -> bool:
    """Whether an action can be given so many arguments."""
    least = sum(p.required for p in action.parameters)
    return least <= count and (action.variadic or count <= len(action.parameters))


def _alike(given: str, name: str) -> float:
    """How alike two action names are, as a whole or without the verb before them."""
    one, two = (n.replace("_", " ") for n in (given, name))
    return max(nearness(one, two), 0.95 * nearness(one.split()[-1], two.split()[-1]) if one and two else 0.0)


@kind("arity", causes=("arity",))
def fitted(step: FailedStep) -> Iterator[Fix]:
    """The arguments that fit, without those too many or with a new variable for the one that is missing."""
    if step.action not in step.toolset:
        return
    action, got = step.toolset.action(step.action), len(step.args)
    least = sum(p.required for p in action.parameters)
    if got > len(action.parameters) and not action.variadic:
        yield Fix("", (step.call(*step.args[: len(action.parameters)], name=action.name),))
    if got == least - 1 and action.name == "add_fact":
        new = step.new_variable()
        yield Fix("", (step.call(*step.args, new),), step.args[1], 0.2)
        yield Fix("", (step.call(new, step.args[1], step.args[0]),), step.args[1], 0.1)
    elif got == least - 1 and action.parameters[got].kind == "variable":
        for age, variable in enumerate(reversed(step.bound)):
            yield Fix("", (step.call(*step.args, variable),), prior=0.1 / (age + 1))


@kind("first_action", causes=("several_actions",))
def first_action(step: FailedStep) -> Iterator[Fix]:
    """The first of several actions in one reply."""
    try:
        call = parse_call(str(step.feedback.detail.get("first", "")), step.toolset)
    except ActionError:
        return
    yield Fix("", (call,), prior=0.5)


@kind("answer_first", causes=("execute_before_answer",))
def answer_first(step: FailedStep) -> Iterator[Fix]:
    """Which variable to return, the newest first."""
    for age, variable in enumerate(reversed(step.bound)):
        yield Fix("", (Call("set_answer", (variable,)),), prior=0.1 / (age + 1))


@kind("other_answer", causes=FOUND, actions=("set_answer",))
def other_answer(step: FailedStep) -> Iterator[Fix]:
    """Another variable to return than one that was objected to."""
    for age, variable in enumerate(reversed(step.bound)):
        if variable not in step.args:
            yield Fix("", (Call("set_answer", (variable,)),), prior=0.1 / (age + 1))


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
        for call, relation in beyond(step, form, step.context.program):
            new = next(a for a in call.arguments if a.startswith("?") and a != form)
            yield Fix("", (call, Call("set_answer", (new,))), relation, 0.2)
