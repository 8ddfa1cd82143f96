"""Mends of names: the variable, the entity, the action or the number of arguments that was meant."""

from __future__ import annotations

from collections.abc import Iterator

from triplewise.tools.actions.action import Action
from triplewise.tools.actions.repair.failed_step import EMPTY, FOUND, FailedStep, Fix, kind
from triplewise.tools.actions.repair.similarity import nearness
from triplewise.tools.actions.replies import parse_call
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.pyql.text import write_iri

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
