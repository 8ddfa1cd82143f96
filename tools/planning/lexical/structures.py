"""Rules of more than one chain: topics that meet or exclude each other, members of a class, yes or no."""

from __future__ import annotations

from dataclasses import replace

from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.planning.bodies import (
    Body,
    answers,
    ground,
    make_atom,
    node_form,
    rename,
    signature,
    slug,
)
from triplewise.tools.planning.lexical.operations import comparison_value, is_date, is_number
from triplewise.tools.planning.lexical.search import SAMPLE, Search, with_constraint

JOINED = 8
"""Bodies of each topic that are tried for a meeting point."""
MEETING = 0.35
"""Gain of a rule that uses a second topic of the question as well."""


def meeting_rules(search: Search) -> list[Rule]:
    """Rules that use two topics: chains that meet, chains through the other topic, "or", "not"."""
    if len(search.topics) < 2:
        return []
    if search.excluded:
        return _excluding(search, search.excluded)
    if search.seen.joint == "or":
        return [] if search.seen.comparative else _either(search)
    pairs = [(a, b) for i, a in enumerate(search.topics[:3]) for b in search.topics[i + 1 : 3]]
    rules = [r for a, b in pairs for r in _meeting(search, a, b)]
    rules += [r for t in search.topics[:3] for r in _passing(search, t)]
    return sorted(rules, key=lambda r: -r.score)[: 2 * search.settings.checked]


def _short_bodies(search: Search, topic: str) -> list[Body]:
    """The best bodies of up to two relations, and every single relation among the best."""
    ranked = [b for b, _ in search.bodies(topic)]
    singles = [b for b in ranked if len(b) == 1][:JOINED]
    return list(dict.fromkeys([*singles, *[b for b in ranked if len(b) == 2][:JOINED]]))


def _meeting(search: Search, first: str, second: str) -> list[Rule]:
    """Chains from two topics that end in the same nodes."""
    rules = []
    for left in _short_bodies(search, first):
        for right in _short_bodies(search, second):
            if search.reached(first, left) & search.reached(second, right):
                rules.append(_joined(search, first, left, second, right))
    return rules


def _joined(search: Search, first: str, left: Body, second: str, right: Body) -> Rule:
    """One rule of two chains, scored as one body; the second ends in the first one's answers."""
    answer = left[-1].variable
    chain = rename(search.kg, signature(right), [a.variable for a in left])
    chain = (*chain[:-1], Atom(chain[-1].relation, chain[-1].forward, answer))
    scorer = search.scorer(first)
    score = scorer.scores([(*right, *left)])[0] + MEETING
    if signature(left) == signature(right):
        # One wording serves both chains ("both set in"): the shared relation is not charged twice.
        score = max(score, scorer.scores([left])[0] + 2 * MEETING)
    rule = replace(ground(first, left), score=score, provenance="both entities lead to the same answers")
    return with_constraint(rule, Constraint("meets", answer, chain, value=second))


def _passing(search: Search, topic: str) -> list[Rule]:
    """Chains whose inner node is linked to another topic: the other topic restricts, the chain goes on."""
    rules = []
    for body, _score in search.bodies(topic)[: JOINED * 3]:
        for other in search.topics:
            if other != topic and len(body) > 1:
                rules += _through(search, topic, body, other)
    return rules


def _through(search: Search, topic: str, body: Body, other: str) -> list[Rule]:
    """Rules in which an inner node of a body is also reached from another topic by one relation."""
    rules = []
    for at in range(1, len(body)):
        inner = search.reached(topic, body[:at])
        for link in [b for b in _short_bodies(search, other) if len(b) == 1][:4]:
            if inner & search.reached(other, link):
                atom = Atom(link[0].relation, link[0].forward, body[at - 1].variable)
                both = search.scorer(topic).scores([(*link, *body)])[0]
                rule = replace(ground(topic, body), score=both + MEETING)
                rule = replace(rule, provenance="a step of the way is linked to the other entity")
                rules.append(with_constraint(rule, Constraint("meets", atom.variable, (atom,), value=other)))
    return rules


def _excluding(search: Search, excluded: str) -> list[Rule]:
    """Members of one topic's answers that have no such relation to the excluded topic."""
    rules = []
    first = next(t for t in search.topics if t != excluded)
    for left in _short_bodies(search, first):
        for right in [b for b in _short_bodies(search, excluded) if len(b) == 1]:
            if not search.reached(first, left) & search.reached(excluded, right):
                continue
            answer = left[-1].variable
            atom = Atom(right[0].relation, right[0].forward, answer)
            rule = replace(
                _joined(search, first, left, excluded, right), constraints=ground(first, left).constraints
            )
            rule = replace(rule, provenance="the answers of one entity without those of the other")
            itself = Constraint("distinct", answer, value=excluded)
            rules.append(with_constraint(rule, Constraint("not", answer, (atom,), value=excluded), itself))
    return rules


def _either(search: Search) -> list[Rule]:
    """What one relation links to one topic or to the other."""
    first, second = search.topics[:2]
    rules = []
    others = {signature(b) for b, _ in search.bodies(second)}
    for body, score in search.bodies(first):
        if len(body) == 1 and signature(body) in others:
            union = Constraint("either", body[0].variable, body, operator=first, value=second)
            rules.append(
                Rule(first, (), (union,), score=score + 2 * MEETING, provenance="linked to either entity")
            )
    return rules[: search.settings.checked]


def class_rules(search: Search) -> list[Rule]:
    """All members of the class that the question names."""
    if search.topics and not search.seen.constrained:
        return []
    nodes = search.classes or _classes_of_words(search)
    rules = [_members(search, node) for node in nodes[:2]]
    return [r for r in rules if _knows_names(search, r)]


def _knows_names(search: Search, rule: Rule) -> bool:
    """Whether the KG says the names that were not linked of the members of a class.

    "Films of X" are not all films where nothing is known of X; planets "in the Solar System" are all planets
    where the descriptions of planets say so.
    """
    names, index = {w.lower() for w in search.seen.unlinked}, search.kg.index
    if not names or index is None:
        return not names
    members = (index.node(m) for m in answers(search.kg, rule, SAMPLE) if isinstance(m, IRI))
    said = [e.description.lower() for e in members if e is not None]
    return all(2 * sum(name in text for text in said) > len(said) for name in names)


def _classes_of_words(search: Search) -> tuple[IRI, ...]:
    """Classes named by other content words, where the expected noun names none."""
    if search.topics:
        return ()
    found = (find_classes(search.kg, word) for word, _ in search.seen.words)
    return next((nodes for nodes in found if nodes), ())


def _members(search: Search, node: IRI) -> Rule:
    """The members of one class."""
    kg = search.kg
    entry = kg.index.node(node) if kg.index else None
    name = entry.label if entry else "class"
    atom = make_atom(kg, kg.profile.short(IRI(kg.profile.type_predicates[0])), False, ())
    body = (Atom(atom.relation, False, slug(name) or "x"),)
    rule = ground(node_form(kg, kg.profile.short(node)), body)
    return replace(rule, provenance=f"all members of the class {name}", score=0.2)


def boolean_rules(search: Search) -> list[Rule]:
    """Yes-or-no questions: a comparison, the relation named between two topics, membership, or existence."""
    seen, topics = search.seen, search.topics
    if not topics:
        return []
    if seen.comparative and len(topics) > 1:
        found = _compared(search)
        if found:
            return found
    if seen.comparisons:
        return _quantity_of(search, topics[0])
    if len(topics) > 1:
        return _linked_pair(search)
    members = _is_a(search, topics[0])
    if members or seen.unlinked:
        # With an unknown name in the question, that a relation exists proves nothing about the two.
        return members
    return [with_constraint(r, Constraint("ask")) for r in search.checked(search.chains(topics[0]))]


def _is_a(search: Search, topic: str) -> list[Rule]:
    """Is the topic a member of the class named ("Is Mars a planet?")?"""
    kg, words = search.kg, [w for w, _ in search.seen.words]
    phrases = [" ".join(words[-2:]), *reversed(words)]
    nodes = next((found for p in phrases if (found := find_classes(kg, p))), search.classes)
    if not nodes:
        return []
    predicate = kg.profile.short(IRI(kg.profile.type_predicates[0]))
    atom = make_atom(kg, predicate, True, ())
    value = node_form(kg, kg.profile.short(nodes[0]))
    holds = Constraint("holds", topic, (atom,), value=value)
    return [Rule(topic, (), (Constraint("ask"), holds), score=1.0, provenance="the class the question names")]


def _linked_pair(search: Search) -> list[Rule]:
    """Does the relation that the question names hold between the two topics?

    The relation is chosen by the words among all around both topics, whether or not it links them: where
    the best one does not, the answer is no.
    """
    first, second = search.topics[:2]
    rules = []
    for start, end in ((first, second), (second, first)):
        target = search.kg.profile.expand(end)
        for body, score in search.bodies(start)[: JOINED * 2]:
            holds = target in search.reached(start, body)
            # A longer body is only worth asking where it holds: many absent ones would fit the words.
            if len(body) == 1 or holds:
                rules.append(replace(_linking(start, body, end), score=score + 0.25 * holds))
    return sorted(rules, key=lambda r: (-r.score, len(r.body)))[: search.settings.rules]


def _linking(start: str, body: Body, end: str) -> Rule:
    """Does a body lead from one topic to the other? A single relation is asked for as one fact."""
    note = "the relation the question names"
    if len(body) == 1:
        return Rule(
            start, (), (Constraint("ask"), Constraint("holds", start, body, value=end)), provenance=note
        )
    rule = replace(ground(start, body), provenance=note)
    equal = Constraint("filter", body[-1].variable, (), "=", end)
    return replace(rule, constraints=(Constraint("ask"), *rule.constraints, equal))


def _quantity_of(search: Search, topic: str) -> list[Rule]:
    """A topic's own number or date, compared with the one in the question."""
    comparison = search.seen.comparisons[0]
    rules: list[Rule] = []
    test = is_date if comparison.is_date else is_number
    for body, score in search.bodies(topic):
        if len(body) > 2 or len(rules) >= 3:
            continue
        ends = search.reached(topic, body)
        if ends and all(test(e) for e in ends):
            check = Constraint(
                "filter", body[-1].variable, (), comparison.operator, comparison_value(comparison)
            )
            rule = replace(ground(topic, body), score=score, provenance="the quantity the question compares")
            rules.append(replace(rule, constraints=(Constraint("ask"), *rule.constraints, check)))
    return rules


def _compared(search: Search) -> list[Rule]:
    """Two topics compared by a quantity both have."""
    operator, *names = search.seen.comparative
    first, second = search.topics[:2]
    rules: list[Rule] = []
    for atom, likeness in search.operations.own_quantities(first, names)[:2]:
        twin = Atom(atom.relation, True, f"{atom.variable}_2")
        check = Constraint("filter", atom.variable, (), operator, f"?{twin.variable}")
        # The second chain shares no node with the first: it only binds what is compared with.
        side = Constraint("meets", twin.variable, (twin,), value=second)
        rule = replace(ground(first, (atom,)), score=likeness, provenance="both have the quantity compared")
        rules.append(with_constraint(rule, side, Constraint("ask"), check))
    return rules
