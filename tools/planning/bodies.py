"""Rule bodies over a KG: how they read, how they grow, the programs they stand for, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Relations, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.parsing.program import slug
from triplewise.tools.parsing.similarity import end_type
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_node, read_relation, write_iri

Body = tuple[Atom, ...]
Signature: TypeAlias = tuple[tuple[str, bool], ...]
"""A body without variables: relations, each with whether it is walked from subject to object."""


def node_form(kg: KnowledgeGraph, short: str) -> str:
    """Return the form of a short id that is safe as an argument of an action."""
    iri = kg.profile.expand(short)
    return short if iri is None else write_iri(iri, kg.profile)


def relation_form(kg: KnowledgeGraph, short: str) -> str:
    """Return the same for a relation."""
    iri = kg.profile.expand(short, relation=True)
    return short if iri is None else write_iri(iri, kg.profile, relation=True)


def make_atom(kg: KnowledgeGraph, relation: str, forward: bool, taken: Iterable[str]) -> Atom:
    """Return an atom for a short relation id, with a readable variable that is not taken yet."""
    text = relation_texts(kg, [relation])[relation]
    base = slug(end_type(text, forward)) or "x"
    used, name, n = set(taken), base, 1
    while name in used:
        n += 1
        name = f"{base}_{n}"
    return Atom(relation_form(kg, relation), forward, name)


def rename(kg: KnowledgeGraph, signature: Iterable[tuple[str, bool]], taken: Iterable[str] = ()) -> Body:
    """Return atoms with fresh readable variables for a sequence of (relation, direction)."""
    used, atoms = list(taken), []
    for relation, forward in signature:
        atoms.append(make_atom(kg, relation, forward, used))
        used.append(atoms[-1].variable)
    return tuple(atoms)


def signature(body: Body) -> Signature:
    """Return a body without its variable names."""
    return tuple((a.relation, a.forward) for a in body)


def ground(anchor: str, body: Body, keeps_topic: bool = False) -> Rule:
    """Return a body as the rule of a topic entity."""
    return Rule(anchor, body, keeps_topic)


def rule_program(kg: KnowledgeGraph, rule: Rule) -> PyQL:
    """Return the query that a rule stands for. Raises `ActionError` if it makes none."""
    profile, program, start = kg.profile, PyQL(), rule.anchor
    for atom in rule.body:
        end = f"?{atom.variable}"
        if lists_members(start, atom, profile):
            program = program.add_type(Variable(atom.variable), read_node(start, profile))
        else:
            program = program.add_fact(*_read_fact(profile, start, atom, end))
        start = end
    for name, node in rule.differing:
        program = program.add_filter(Variable(name), "!=", read_node(node, profile))
    return program.set_answer(Variable(rule.answer))


def lists_members(start: str, atom: Atom, profile: Profile) -> bool:
    """Whether a step goes from a class to its members, which are those of its subclasses too."""
    if atom.forward or start.startswith("?") or not profile.subclass_predicates:
        return False
    return read_relation(atom.relation, profile).value in profile.type_predicates


def _read_fact(profile: Profile, start: str, atom: Atom, end: str) -> tuple[Node, IRI, Node]:
    """Return the fact of an atom that is walked from `start` to `end`."""
    subject, object_ = (start, end) if atom.forward else (end, start)
    relation = read_relation(atom.relation, profile)
    return read_node(subject, profile), relation, read_node(object_, profile)


def run(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> Result:
    """Return the answers of a rule, none where its actions do not make a query.

    Raises `QueryFailedError` where the graph did not answer: what a rule leads to is then unknown.
    """
    try:
        sparql = rule_program(kg, rule).sparql(kg.profile)
    except ActionError as error:
        return Result(Outcome.EMPTY, message=str(error))
    result = kg.query(sparql, limit=limit)
    result.check()
    return result


def answers(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> tuple[Term, ...]:
    """Return the values a rule leads to, () where it leads nowhere."""
    return answers_in(run(kg, rule, limit))


def answers_in(result: Result) -> tuple[Term, ...]:
    """Return the values in the result of a rule."""
    return result.column(result.variables[0]) if result.rows else ()


def grow(kg: KnowledgeGraph, anchor: str, *bodies: Body) -> list[Body]:
    """Return every body that is one relation longer and has a grounding from the anchor; a query for each."""
    start, reads = kg.profile.expand(anchor), list[Callable[[], Relations]]()
    for body in bodies:
        if body:
            where = rule_program(kg, ground(anchor, body, keeps_topic=True)).where(kg.profile)
            reads.append(partial(kg.relations, Variable(body[-1].variable), where))
        else:
            reads.append(partial(Relations, Outcome.EMPTY) if start is None else partial(kg.relations, start))
    short, steps = kg.profile.short, list[tuple[Body, str, bool]]()
    types, subclass = map(IRI, kg.profile.type_predicates[:1]), kg.profile.subclass_predicates
    for body, near in zip(bodies, kg.together(reads), strict=True):
        steps += [(body, short(r), True) for r in near.forward]
        steps += [(body, short(r), False) for r in near.backward]
        if not body and any(r.value in subclass for r in near.backward):
            # What is above other classes has their members, though it may have none of its own.
            steps += [(body, short(r), False) for r in types if r not in near.backward]
    relation_texts(kg, [r for _, r, _ in steps])  # all at once; `make_atom` asks for one
    return [(*body, make_atom(kg, r, forward, [a.variable for a in body])) for body, r, forward in steps]
