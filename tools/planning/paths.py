"""Paths of relations over a KG: how they read and grow, their programs, what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Path, Rule
from triplewise.tools.core.terms import Term, Variable
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Relations, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.parsing.program import slug
from triplewise.tools.pyql.program import PyQL, fresh
from triplewise.tools.pyql.text import Reader, write_iri
from triplewise.tools.retrieval.similarity import end_type


def node_form(kg: KnowledgeGraph, short: str, relation: bool = False) -> str:
    """Return the form of a short id, of a node or a relation, that is safe as an argument of an action."""
    iri = kg.profile.expand(short, relation=relation)
    return short if iri is None else write_iri(iri, kg.profile, relation=relation)


def make_atom(kg: KnowledgeGraph, relation: str, forward: bool, before: Iterable[Atom] = ()) -> Atom:
    """Return an atom for a short relation id, with a readable variable that those before it do not have."""
    name = slug(end_type(relation_texts(kg, [relation])[relation], forward)) or "x"
    return Atom(node_form(kg, relation, True), forward, fresh(name, [atom.variable for atom in before]))


def with_variables(kg: KnowledgeGraph, path: Iterable[Atom]) -> Path:
    """Return a path with readable variables."""
    atoms: Path = ()
    for atom in path:
        atoms = (*atoms, make_atom(kg, atom.relation, atom.forward, atoms))
    return atoms


def rule_program(kg: KnowledgeGraph, rule: Rule) -> PyQL:
    """Return the query of a rule. Raises `ActionError` if it makes none."""
    read, program, start = Reader(kg.profile), PyQL(), rule.anchor
    for atom in rule.path:
        end = f"?{atom.variable}"
        subject, object = (start, end) if atom.forward else (end, start)
        program = program.add_fact(*read.fact(subject, atom.relation, object))
        start = end
    for name, node in rule.differing:
        program = program.add_filter(Variable(name), "!=", read.node(node))
    return program.set_answer(Variable(rule.answer))


def run(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> Result:
    """Return the answers of a rule, none if it makes no query. Raises `QueryFailedError` without answer."""
    try:
        sparql = rule_program(kg, rule).sparql(kg.profile)
    except ActionError as error:
        return Result(Outcome.EMPTY, message=str(error))
    result = kg.query(sparql, limit=limit)
    result.check()
    return result


def answers(kg: KnowledgeGraph, rule: Rule, limit: int | None = None) -> tuple[Term, ...]:
    """Return the values a rule leads to, () where it leads nowhere."""
    result = run(kg, rule, limit)
    return result.column(result.variables[0]) if result.rows else ()


def grow(kg: KnowledgeGraph, anchor: str, *paths: Path) -> list[Path]:
    """Return every path that is one relation longer and has a grounding from the anchor; a query for each."""
    start, reads = kg.profile.expand(anchor), list[Callable[[], Relations]]()
    for path in paths:
        if path:
            where = rule_program(kg, Rule(anchor, path, keeps_topic=True)).where(kg.profile)
            reads.append(partial(kg.relations, Variable(path[-1].variable), where))
        else:
            reads.append(partial(Relations, Outcome.EMPTY) if start is None else partial(kg.relations, start))
    steps = [
        (path, kg.profile.short(relation), forward)
        for path, near in zip(paths, kg.together(reads), strict=True)
        for forward, relations in ((True, near.forward), (False, near.backward))
        for relation in relations
    ]
    relation_texts(kg, [relation for _, relation, _ in steps])  # all at once; `make_atom` asks for one
    return [(*path, make_atom(kg, relation, forward, path)) for path, relation, forward in steps]
