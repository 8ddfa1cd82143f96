"""Rules of more than one chain: two topics that meet, all instances of a class, yes-or-no questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from triplewise.tools.kg.terms import IRI, Term
from triplewise.tools.planning.bodies import Body, ground, make_atom, node_form, rename, run, signature
from triplewise.tools.planning.fit import find_classes
from triplewise.tools.planning.operations import comparison_value, is_date, is_number
from triplewise.tools.rules import Atom, Constraint, Rule

if TYPE_CHECKING:
    from triplewise.tools.planning.planner import Context

JOINED = 8
"""Bodies of each topic that are tried for a meeting point."""
VALUES = 2_000
"""Most values of a body that are compared for a meeting point."""
MEETING = 0.35
"""Gain of a rule that uses a second topic of the question as well."""


def _values(context: Context, topic: str, body: Body) -> frozenset[Term]:
    """What a body reaches from a topic."""
    result = run(context.search.kg, ground(topic, body), limit=VALUES)
    return frozenset(result.column(result.variables[0])) if result.rows else frozenset()


def meeting_rules(context: Context) -> list[Rule]:
    """Chains from two topics that end in the same nodes, scored as one body over all words."""
    search, rules = context.search, []
    first, *others = context.topics[:3]
    short_bodies = {
        t: [b for b, _ in search.bodies(t) if len(b) <= 2][:JOINED] for t in (first, *others)
    }
    reached = {(t, b): _values(context, t, b) for t, bodies in short_bodies.items() for b in bodies}
    for other in others:
        for left in short_bodies[first]:
            for right in short_bodies[other]:
                if reached[(first, left)] & reached[(other, right)]:
                    rules.append(_joined(context, first, left, other, right))
    through = [r for t in context.topics[:3] for r in _passing(context, t)]
    return sorted([*rules, *through], key=lambda r: -r.score)[: search.settings.rules]


def _joined(context: Context, first: str, left: Body, other: str, right: Body) -> Rule:
    """One rule of two chains: the second one ends in the first one's answer variable."""
    search = context.search
    answer = left[-1].variable
    taken = [a.variable for a in left]
    chain = rename(search.kg, signature(right), taken)
    chain = (*chain[:-1], Atom(chain[-1].relation, chain[-1].forward, answer))
    score = search.scorer(first).scores([(*right, *left)])[0] + MEETING
    # One wording often serves both chains ("both set in"): a shared relation is not charged twice.
    if signature(left) == signature(right):
        score = max(score, search.scorer(first).scores([left])[0] + 2 * MEETING)
    rule = replace(ground(first, left), score=score, provenance="both entities lead to the same answers")
    rule = replace(rule, constraints=(*rule.constraints, Constraint("meets", answer, chain, value=other)))
    finished = search.operations.apply(rule)
    return finished[0] if finished else rule


def _passing(context: Context, topic: str) -> list[Rule]:
    """Chains whose answers are linked to another topic by one more relation."""
    search, rules = context.search, []
    others = [o for o in context.topics if o != topic]
    for body, score in search.bodies(topic)[: JOINED * 3]:
        if len(body) < 2:
            continue
        for other in others:
            iri = search.kg.profile.expand(other)
            if iri is None or iri not in _values(context, topic, body):
                continue
            chain, last = body[:-1], body[-1]
            back = Atom(last.relation, not last.forward, chain[-1].variable)
            rule = replace(ground(topic, chain), score=score + MEETING, provenance="the answers are linked to both entities")
            rules.append(replace(rule, constraints=(*rule.constraints, Constraint("meets", chain[-1].variable, (back,), value=other))))
    return [r for rule in rules for r in search.operations.apply(rule)]


def class_rules(context: Context) -> list[Rule]:
    """All instances of the class that the question names, with what the cues ask for."""
    search, seen = context.search, context.search.seen
    if not (seen.superlative or seen.most or seen.comparison or seen.counting):
        return []
    nouns = [seen.expected, *(w for w, _ in seen.words)]
    for noun in dict.fromkeys(n for n in nouns if n):
        for node in find_classes(search.kg, noun)[:2]:
            found = _instances(context, node)
            if found:
                return found
    return []


def _instances(context: Context, node: IRI) -> list[Rule]:
    """Rules over the instances of one class."""
    search = context.search
    anchor = node_form(search.kg, search.kg.profile.short(node))
    rules = []
    for predicate in search.kg.profile.type_predicates[:1]:
        atom = make_atom(search.kg, search.kg.profile.short(IRI(predicate)), False, ())
        name = (search.kg.index.node(node).label if search.kg.index and search.kg.index.node(node) else "") or "thing"
        atom = Atom(atom.relation, False, _variable(name))
        rule = replace(ground(anchor, (atom,)), provenance=f"all instances of {name}", score=0.2)
        rules += search.operations.apply(rule)
        rules += _bound_instances(context, rule)
    return rules


def _variable(name: str) -> str:
    """A variable named after a class."""
    from triplewise.tools.planning.bodies import slug

    return slug(name) or "x"


def _bound_instances(context: Context, rule: Rule) -> list[Rule]:
    """Instances that are also linked to a topic: "rivers in Germany"."""
    search, rules = context.search, []
    instances = _values(context, rule.anchor, rule.body)
    for topic in context.topics:
        for body, score in search.bodies(topic)[: JOINED * 2]:
            if len(body) == 1 and instances & _values(context, topic, body):
                chain = (Atom(body[0].relation, body[0].forward, rule.answer),)
                narrowed = replace(rule, constraints=(*rule.constraints, Constraint("meets", rule.answer, chain, value=topic)))
                rules += search.operations.apply(replace(narrowed, score=score + MEETING))
    return rules


def boolean_rules(context: Context) -> list[Rule]:
    """Yes-or-no questions: two topics linked by the relation named, a comparison, or mere existence."""
    seen = context.search.seen
    if seen.comparative and len(context.topics) > 1:
        found = _compared(context)
        if found:
            return found
    if seen.comparison is not None:
        return [r for t in context.topics[:1] for r in _quantity_of(context, t)]
    if len(context.topics) > 1:
        return _linked_pair(context)
    return _with_ask(context.search.check([r for t in context.topics[:1] for r in context.search.around(t)]))


def _with_ask(rules: Sequence[Rule]) -> list[Rule]:
    """The rules, read as yes or no."""
    return [replace(r, constraints=(*r.constraints, Constraint("ask"))) for r in rules]


def _linked_pair(context: Context) -> list[Rule]:
    """Does the relation that the question names hold between the two topics?

    The relation is chosen by the words among all around both topics, whether or not it links them: where
    the best one does not, the answer is no.
    """
    search = context.search
    first, second = context.topics[0], context.topics[1]
    rules = []
    for start, end in ((first, second), (second, first)):
        target = search.kg.profile.expand(end)
        for body, score in search.bodies(start)[: JOINED * 2]:
            holds = target in _values(context, start, body)
            # A longer body is only worth asking where it holds: many absent ones would fit the words.
            if len(body) > 1 and not holds:
                continue
            rules.append(replace(_linking(start, body, end), score=score + 0.25 * holds))
    return sorted(rules, key=lambda r: (-r.score, len(r.body)))[: search.settings.rules]


def _linking(start: str, body: Body, end: str) -> Rule:
    """Does a body lead from one topic to the other? A single relation is asked for as one fact."""
    note = "the relation the question names"
    if len(body) == 1:
        return Rule(start, (), (Constraint("ask"), Constraint("holds", start, body, value=end)), provenance=note)
    rule = replace(ground(start, body), provenance=note)
    equal = Constraint("filter", body[-1].variable, (), "=", end)
    return replace(rule, constraints=(Constraint("ask"), *rule.constraints, equal))


def _quantity_of(context: Context, topic: str) -> list[Rule]:
    """A topic's own number or date, compared with the one in the question."""
    search, comparison = context.search, context.search.seen.comparison
    assert comparison is not None
    rules = []
    for body, score in search.bodies(topic):
        if len(body) > 2 or len(rules) >= 3:
            continue
        ends = _values(context, topic, body)
        if ends and all(is_date(e) if comparison.is_date else is_number(e) for e in ends):
            check = Constraint("filter", body[-1].variable, (), comparison.operator, comparison_value(comparison))
            rules.append(replace(ground(topic, body), score=score, provenance="the quantity the question compares"))
            rules[-1] = replace(rules[-1], constraints=(Constraint("ask"), *rules[-1].constraints, check))
    return rules


def _compared(context: Context) -> list[Rule]:
    """Two topics compared by a quantity both have."""
    search = context.search
    operator, *names = search.seen.comparative
    first, second = context.topics[0], context.topics[1]
    rules: list[Rule] = []
    found = search.operations.own_quantities(first, names)
    for atom, likeness in found[:2]:
        twin = Atom(atom.relation, True, f"{atom.variable}_2")
        check = Constraint("filter", atom.variable, (), operator, f"?{twin.variable}")
        # The second chain has no node in common with the first: it only binds what is compared with.
        side = Constraint("meets", twin.variable, (twin,), value=second)
        rule = replace(ground(first, (atom,)), score=likeness, provenance="both have the quantity compared")
        rules.append(replace(rule, constraints=(*rule.constraints, side, Constraint("ask"), check)))
    return rules
