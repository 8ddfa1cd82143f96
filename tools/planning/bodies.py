"""Rule bodies over a KG: what their relations say, how they grow, and what they lead to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, Rule, no_return, script
from triplewise.tools.core.terms import Term, Variable
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import write_iri

Body = tuple[Atom, ...]
_NAME = re.compile(r"[^a-z0-9]+")
_RESERVED = frozenset({"a", "entity"})


def node_form(kg: KnowledgeGraph, short: str) -> str:
    """The form of a short id that is safe as an argument of an action."""
    iri = kg.profile.expand(short)
    return short if iri is None else write_iri(iri, kg.profile)


def relation_form(kg: KnowledgeGraph, short: str) -> str:
    """The same for a relation."""
    iri = kg.profile.expand(short, relation=True)
    return short if iri is None else write_iri(iri, kg.profile, relation=True)


def texts_of(text: RelationText, forward: bool) -> tuple[str, ...]:
    """All that may be said for walking a relation in one direction, its main reading first."""
    if forward:
        parts = (text.label, text.object_type, *text.aliases, text.description)
    else:
        parts = (text.inverse or text.label, text.subject_type, *text.aliases)
    return tuple(dict.fromkeys(p for p in parts if p and len(p) <= 80))


def end_type(text: RelationText, forward: bool) -> str:
    """What stands at the far end: its declared type; forward without one, the relation's own name."""
    return (text.object_type or text.label) if forward else text.subject_type


@lru_cache(maxsize=8_192)
def slug(text: str) -> str:
    """A variable name made of a text: `place of birth` -> `place_of_birth`; "" if none can be made."""
    name = _NAME.sub("_", text.lower().split("(")[0]).strip("_")
    short = "_".join(name.split("_")[:4])
    return short if short and not short[0].isdigit() and short not in _RESERVED else ""


def variable_name(text: RelationText, forward: bool, taken: Iterable[str]) -> str:
    """A readable variable name for the far end of a relation that is not taken yet."""
    base = slug(end_type(text, forward)) or "x"
    used, name, n = set(taken), base, 1
    while name in used:
        n += 1
        name = f"{base}_{n}"
    return name


def make_atom(kg: KnowledgeGraph, relation: str, forward: bool, taken: Iterable[str]) -> Atom:
    """An atom for a short relation id, with a readable variable."""
    text = relation_texts(kg, [relation])[relation]
    return Atom(relation_form(kg, relation), forward, variable_name(text, forward, taken))


def rename(kg: KnowledgeGraph, signature: Iterable[tuple[str, bool]], taken: Iterable[str] = ()) -> Body:
    """Atoms with fresh readable variables for a sequence of (relation, direction)."""
    used, atoms = list(taken), []
    for relation, forward in signature:
        atoms.append(make_atom(kg, relation, forward, used))
        used.append(atoms[-1].variable)
    return tuple(atoms)


def signature(body: Body) -> tuple[tuple[str, bool], ...]:
    """A body without its variable names."""
    return tuple((a.relation, a.forward) for a in body)


def rule_program(kg: KnowledgeGraph, rule: Rule) -> PyQL:
    """The query a rule stands for, as the agent would build it."""
    calls = (c for c in script(rule) if c.name not in ("get_relation", "execute"))
    return PyQL.parse("\n".join(c.text() for c in calls), kg.profile)


def ground(anchor: str, body: Body, constraints: tuple[Constraint, ...] = ()) -> Rule:
    """A rule over simple paths only."""
    return Rule(anchor, body, (*no_return(anchor, body), *constraints))


def run(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> Result:
    """The answers of a rule; outcome `syntax` where its actions do not make a query."""
    try:
        sparql = rule_program(kg, rule).sparql(kg.profile)
    except ActionError as error:
        return Result(Outcome.SYNTAX, message=str(error))
    return kg.query(sparql, limit=limit)


def answers(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> tuple[Term, ...]:
    """The values a rule leads to, () where it leads nowhere."""
    result = run(kg, rule, limit)
    return result.column(result.variables[0]) if result.rows else ()


def without_topic(kg: KnowledgeGraph, rule: Rule) -> Rule:
    """The rule with its topic entity left out of the answers, if it comes back to it; one query."""
    barred = any(
        c.kind == "distinct" and (c.variable, c.value) == (rule.answer, rule.anchor) for c in rule.constraints
    )
    if len(rule.body) < 2 or barred:
        return rule
    back = Constraint("filter", rule.answer, (), "=", rule.anchor)
    if not answers(kg, replace(rule, constraints=(*rule.constraints, back)), limit=1):
        return rule
    return replace(
        rule, constraints=(*rule.constraints, Constraint("distinct", rule.answer, value=rule.anchor))
    )


def grow(kg: KnowledgeGraph, anchor: str, body: Body) -> list[Body]:
    """Every body that is one relation longer and has a grounding from the anchor; one query."""
    if body:
        program = rule_program(kg, ground(anchor, body))
        around = kg.relations(Variable(body[-1].variable), program.where(kg.profile))
    else:
        start = kg.profile.expand(anchor)
        if start is None:
            return []
        around = kg.relations(start)
    taken = [a.variable for a in body]
    short = kg.profile.short
    steps = [(short(r), True) for r in around.forward] + [(short(r), False) for r in around.backward]
    relation_texts(kg, [r for r, _ in steps])
    return [(*body, make_atom(kg, r, forward, taken)) for r, forward in steps]


def neighbourhood(
    kg: KnowledgeGraph,
    anchor: str,
    hops: int,
    beam: int,
    score: Callable[[Sequence[Body]], Sequence[float]],
) -> list[Body]:
    """Bodies of up to `hops` relations from an anchor; at each hop the best `beam` grow on."""
    found: list[Body] = []
    frontier: list[Body] = [()]
    for _hop in range(hops):
        grown = [longer for body in frontier for longer in grow(kg, anchor, body)]
        found += grown
        values = score(grown)
        order = sorted(range(len(grown)), key=lambda i: (-values[i], i))
        frontier = [grown[i] for i in order[:beam]]
    return found
