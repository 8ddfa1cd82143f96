"""Rule bodies over a KG: how they read, how they grow, the programs they stand for, and what they lead to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, Rule, no_return
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg.profile import Profile, RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Relations, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_node, read_relation, read_value, write_iri

Body = tuple[Atom, ...]
Signature: TypeAlias = tuple[tuple[str, bool], ...]
"""A body without variables: relations, each with whether it is walked from subject to object."""

LONGEST = 80  # Letters of a relation's text that are compared with words
TYPES = 30  # Types looked at of some nodes
_NAME = re.compile(r"[^a-z0-9]+")
_RESERVED = frozenset({"a", "entity"})


def node_form(kg: KnowledgeGraph, short: str) -> str:
    """Return the form of a short id that is safe as an argument of an action."""
    iri = kg.profile.expand(short)
    return short if iri is None else write_iri(iri, kg.profile)


def relation_form(kg: KnowledgeGraph, short: str) -> str:
    """Return the same for a relation."""
    iri = kg.profile.expand(short, relation=True)
    return short if iri is None else write_iri(iri, kg.profile, relation=True)


def texts_of(text: RelationText, forward: bool) -> tuple[str, ...]:
    """Return all that may be said for walking a relation in one direction, its main reading first."""
    if forward:
        parts = (text.label, text.object_type, *text.aliases, text.description)
    else:
        parts = (text.inverse or text.label, text.subject_type, *text.aliases)
    short = dict.fromkeys(p for p in parts if p and len(p) <= LONGEST)
    return tuple(short) or (parts[0][:LONGEST],)  # never none: a vector of nothing is no vector


def end_type(text: RelationText, forward: bool) -> str:
    """Return what stands at the far end: its declared type; forward without one, the relation's own name."""
    return (text.object_type or text.label) if forward else text.subject_type


@lru_cache(maxsize=8_192)
def slug(text: str) -> str:
    """Return a variable name made of a text: `place of birth` -> `place_of_birth`; "" if none can be made."""
    name = _NAME.sub("_", text.lower().split("(")[0]).strip("_")
    short = "_".join(name.split("_")[:4])
    return short if short and not short[0].isdigit() and short not in _RESERVED else ""


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


def ground(anchor: str, body: Body, constraints: tuple[Constraint, ...] = ()) -> Rule:
    """Return a rule over simple paths only."""
    return Rule(anchor, body, (*no_return(anchor, body), *constraints))


def meeting(kg: KnowledgeGraph, first: str, body: Body, second: str, other: Signature) -> Rule:
    """Return the rule of a chain whose answers a chain from a second topic reaches too."""
    chain = rename(kg, other, [a.variable for a in body])
    chain = (*chain[:-1], replace(chain[-1], variable=body[-1].variable))
    return ground(first, body, (Constraint("meets", body[-1].variable, chain, value=second),))


def constrained(rule: Rule, *constraints: Constraint) -> Rule:
    """Return a rule with further constraints."""
    return replace(rule, constraints=(*rule.constraints, *constraints))


def rule_program(kg: KnowledgeGraph, rule: Rule) -> PyQL:
    """Build the query a rule stands for: that of `script(rule)`. Raises `ActionError` if it makes none."""
    profile, asks = kg.profile, any(c.kind == "ask" for c in rule.constraints)
    # Facts with both ends fixed are allowed in a yes-or-no question alone.
    program = PyQL(boolean=asks)
    body = Constraint("meets", atoms=rule.body, value=rule.anchor)
    for constraint in (body, *rule.constraints):
        kind, atoms, value = constraint.kind, constraint.atoms, constraint.value
        if kind == "ask":
            continue
        if kind in ("not", "either"):
            sides = []
            for start in (value,) if kind == "not" else (constraint.operator, value):
                fact = _read_fact(profile, start, atoms[0], f"?{atoms[0].variable}")
                sides.append(PyQL().add_fact(*fact).facts())
            program = program.add_not(*sides) if kind == "not" else program.add_union(*sides)
            continue
        start = value if kind == "meets" else constraint.variable
        start = start if kind in ("meets", "holds") else f"?{start}"
        for atom in atoms:
            end = value if kind == "holds" else f"?{atom.variable}"
            if lists_members(start, atom, profile):
                program = program.add_type(Variable(atom.variable), read_node(start, profile))
            else:
                program = program.add_fact(*_read_fact(profile, start, atom, end))
            start = end
        if constraint is body:
            for name, node in rule.differing:
                program = program.add_filter(Variable(name), "!=", read_node(node, profile))
        if kind in ("meets", "holds"):
            continue
        variable = Variable(constraint.variable)
        target = Variable(atoms[-1].variable) if atoms else variable
        match kind:
            case "type":
                program = program.add_type(variable, read_node(value, profile))
            case "filter":
                program = program.add_filter(target, constraint.operator, read_value(value, profile))
            case "distinct":
                program = program.add_filter(variable, "!=", read_value(value, profile))
            case "max":
                program = program.add_max(target)
            case "min":
                program = program.add_min(target)
            case "most":
                program = program.add_most(target, variable)
            case "least":
                program = program.add_least(target, variable)
            case "count":
                program = program.add_count(read_node(value, profile), variable)
    return program if asks else program.set_answer(Variable(rule.answer))


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


def without_topic(kg: KnowledgeGraph, rule: Rule, result: Result | None = None) -> Rule:
    """Return the rule with its topic entity left out of the answers, if it comes back to it.

    One query, but where a `result` of the rule tells.
    """
    itself = Constraint("distinct", rule.answer, value=rule.anchor)
    if len(rule.body) < 2 or itself in rule.constraints:
        return rule
    topic = kg.profile.expand(rule.anchor)
    if topic is not None and result is not None and result.outcome in (Outcome.ROWS, Outcome.EMPTY):
        return constrained(rule, itself) if topic in answers_in(result) else rule
    back = constrained(rule, Constraint("filter", rule.answer, (), "=", rule.anchor))
    return constrained(rule, itself) if run(kg, back, limit=1).rows else rule


def grow(kg: KnowledgeGraph, anchor: str, *bodies: Body) -> list[Body]:
    """Return every body that is one relation longer and has a grounding from the anchor; a query for each."""
    start, reads = kg.profile.expand(anchor), list[Callable[[], Relations]]()
    for body in bodies:
        if body:
            where = rule_program(kg, ground(anchor, body)).where(kg.profile)
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


def types_of(kg: KnowledgeGraph, nodes: Sequence[Term]) -> dict[Term, str]:
    """Return the types of some nodes with their names; one round trip."""
    links = kg.profile.type_links
    values = " ".join(n.n3() for n in nodes)
    if not links or not values:
        return {}
    where = f"VALUES ?x {{ {values} }} ?x {links}"
    ask = partial(kg.query, f"SELECT DISTINCT ?t WHERE {{ {where} ?t }}", limit=TYPES)
    reads: list[Callable[[], Any]] = [ask, partial(kg.read_labels, f"{where} ?s", TYPES)]
    result: Result = kg.together(reads)[0] if kg.is_remote else ask()
    return kg.labels(result.column("t")) if result.rows else {}
