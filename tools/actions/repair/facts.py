"""Mends of facts: turned around, over another relation, from another node, through a mediator."""

from __future__ import annotations

from collections.abc import Iterator

from triplewise.tools.actions.repair.failed_step import EMPTY, FOUND, FailedStep, Fix, kind
from triplewise.tools.actions.repair.similarity import nearness
from triplewise.tools.core.call import Call
from triplewise.tools.pyql import PyQL

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
    used = set(step.bench.program.replace("(", " ").replace(",", " ").replace(")", " ").split())
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
    first = step.bench.question.split(" ", 1)[0].casefold()
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
