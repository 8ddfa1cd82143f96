"""What a result tells beyond its values: how they compare, and facts that guidelines weigh."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, Final

from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ReasoningMemory
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.pyql.program import (
    MATCHES,
    TEMPORAL,
    Count,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    PyQL,
    Union,
)
from triplewise.tools.pyql.text import NUMERIC, read_iri

SAMPLE = 200
_SAMPLE_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_SAMPLE_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}


def compared(kg: KnowledgeGraph, before: PyQL, after: PyQL) -> PyQL:
    """Return the program `after` a filter or superlative was added, with values compared as what they are.

    Args:
        kg: asked for a sample of the values, with one query, only where datatypes matter.
        before: the program without the clause.
        after: the program with it.

    Raises:
        ActionError: `bad_comparison` if entities are to be ordered.
    """
    profile = kg.profile
    clause = after.clauses[-1] if len(after.clauses) == len(before.clauses) + 1 else None
    if not isinstance(clause, Filter | Extreme) or clause.kind:
        return after
    sides = (clause.left, clause.right) if isinstance(clause, Filter) else ()
    if (isinstance(clause, Filter) and clause.operator in MATCHES) or any(isinstance(s, IRI) for s in sides):
        return after
    counts = {c.output for c in before.clauses if isinstance(c, Count)}
    variables = tuple(v for v in clause.mentions if v not in counts)
    if not variables:
        return after
    sampled = replace(before, answer=variables, boolean=False, order=None)
    result = kg.query(sampled.preview_sparql(profile, SAMPLE))
    values = [v for row in result.rows for v in row if v is not None] if result.outcome.ok else []
    entities = bool(values) and not any(isinstance(v, Literal) for v in values)
    if isinstance(clause, Extreme):
        # Engines order entities by their ids, which means nothing. Where names are ids, a year is one too.
        if entities and not profile.percent_names:
            form = clause.variable.n3()
            raise ActionError(
                "bad_comparison",
                f"{form} holds entities, which have no order: bind a number or date of them with add_fact",
                given=form,
            )
    else:
        if entities and profile.percent_names and clause.operator in ("=", "!="):
            # A literal among entities whose names are their ids is the name of one.
            left, right = ((read_iri(s.value, profile) or s) if isinstance(s, Literal) else s for s in sides)
            clause, sides = replace(clause, left=left, right=right), (left, right)
        values += [side for side in sides if isinstance(side, Literal)]
    return replace(after, clauses=(*before.clauses, replace(clause, kind=kind_of(values))))


def kind_of(values: Iterable[Term]) -> Kind:
    """Return how to compare values that are all to be compared with each other."""
    traits = [_trait(v) for v in values if isinstance(v, Literal)]
    found = set(traits)
    dates = {t for t in found if t in TEMPORAL or t == "date"}
    if dates:
        return "" if len(found) == 1 and dates <= _COMPARABLE else "date"
    if found <= {"number"}:
        return ""
    digits = sum(t in ("digits", "number") for t in traits)
    if digits and 2 * digits >= len(traits):
        return "number"
    return "text" if "tagged" in found else ""


def is_measure(term: Term) -> bool:
    """Whether a value is a number or a date, by its datatype or by how it is written."""
    return isinstance(term, Literal) and _trait(term) not in ("tagged", "text")


def _trait(literal: Literal) -> str:
    """Return what a literal is as far as comparing goes."""
    if literal.datatype in NUMERIC:
        return "number"
    if literal.datatype in TEMPORAL:
        return literal.datatype
    if literal.language:
        return "tagged"
    if _SAMPLE_DATE.fullmatch(literal.value):
        return "date"
    return "digits" if _SAMPLE_NUMBER.fullmatch(literal.value) else "text"


KINDS: Final = ("number", "date", "year", "boolean", "text", "dated", "entity", "unnamed", "unseen")
"""Kinds of values: a `year` may be a number too; `dated` is an entity whose name may tell a time, as
"2011 Finals"; `unnamed` a mediator, `unseen` an entity whose name was not fetched."""

_LOOKED_AT, _BESIDE = 20, 1_000
"""Nodes without a name that are looked at, and facts about them that are read."""

_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?%?")
_YEAR = re.compile(r"1\d{3}|20\d\d")
_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z)?")
_TELLS_TIME = re.compile(
    r"\d|\b(?:jan|febr)uary\b|\b(?:march|april|may|june|july|august)\b|\b(?:septem|octo|novem|decem)ber\b"
    r"|day\b|\b(?:spring|summer|autumn|winter|century|era|period|age|war|easter|christmas)\b",
    re.IGNORECASE,
)


def kind_of_value(term: Term, name: str | None) -> str:
    """Return one of `KINDS`. `name`: as it is shown, None where that was not fetched."""
    if isinstance(term, Literal):
        if term.datatype in NUMERIC:
            return "number"
        if term.datatype in TEMPORAL:
            return "date"
        return "boolean" if term.datatype == XSD + "boolean" else _kind_of_text(term.value)
    if name is None:
        return "unseen"
    if name == UNNAMED:
        return "unnamed"
    plain = _kind_of_text(name)
    return plain if plain != "text" else "dated" if _TELLS_TIME.search(name) else "entity"


def _kind_of_text(text: str) -> str:
    """Return the kind of a text that may be a number or a date."""
    text = text.strip()
    if _YEAR.fullmatch(text):
        return "year"
    if _DATE.fullmatch(text):
        return "date"
    return "number" if _NUMBER.fullmatch(text) else "text"


def result_facts(
    kg: KnowledgeGraph,
    program: PyQL,
    memory: ReasoningMemory,
    result: Result,
    named: Mapping[Term, str],
) -> dict[str, Any]:
    """Return facts about a result with rows, all plain JSON.

    Keys:
        solutions: rows fetched. kinds: variable -> kind -> how many of its distinct values.
        answer_kinds: the same for all answer variables together, where they are set.
        topics: linked entities among the answers only because a relation was walked there and back.
        ends: answer variables whose values have no name and nothing else beside them: no mediators, though
            they look like ones.
        tied: `variable`, `owner` and `count`, where the newest clause is a superlative that several share.
    """
    if not result.rows:
        return {}
    columns = {v: result.column(v) for v in result.variables}
    if kg.profile.percent_names:  # the name of such a term is known without a query
        named = {t: kg.profile.short(t) for column in columns.values() for t in column} | dict(named)
    kinds = {v: Counter(kind_of_value(t, named.get(t)) for t in c) for v, c in columns.items()}
    facts: dict[str, Any] = {
        "solutions": len(result.rows),
        "kinds": {v: dict(counts) for v, counts in kinds.items()},
    }
    answers = [v.name for v in program.answer if v.name in columns]
    if answers:
        total = sum((kinds[v] for v in answers), Counter[str]())
        facts["answer_kinds"] = dict(total)
        facts["topics"] = _topics(kg, program, memory, columns)
        hidden = [v for v in answers if "unnamed" in kinds[v] and not set(kinds[v]) - {"unnamed", "unseen"}]
        facts["ends"] = [v for v in hidden if _are_ends(kg, columns[v])]
    if tied := _tied(program, columns, kinds):
        facts["tied"] = tied
    return {key: value for key, value in facts.items() if value}


def _are_ends(kg: KnowledgeGraph, nodes: Sequence[Term]) -> bool:
    """Whether most of the first nodes have but one other beside them: what joins nothing is no mediator."""
    shown = [node for node in nodes if isinstance(node, IRI)][:_LOOKED_AT]
    values = " ".join(node.n3() for node in shown)
    result = kg.query(
        f"SELECT DISTINCT ?node ?relation ?other WHERE {{ VALUES ?node {{ {values} }} "
        "{ ?node ?relation ?other } UNION { ?other ?relation ?node } }",
        limit=_BESIDE,
    )
    if result.outcome != Outcome.ROWS:
        return False
    types = set(kg.profile.type_predicates)
    beside: dict[Term, set[Term]] = {}
    for node, relation, other in result.rows:
        if not isinstance(relation, IRI) or relation.value in types or kg.profile.excludes(relation):
            continue
        if node is not None and other is not None:
            beside.setdefault(node, set()).add(other)
    return 2 * sum(len(others) < 2 for others in beside.values()) > len(beside)


def _topics(
    kg: KnowledgeGraph, program: PyQL, memory: ReasoningMemory, columns: Mapping[str, Sequence[Term]]
) -> list[str]:
    """Return linked entities that a relation leads away from and straight back to, as answers.

    A topic may well answer its own question over two different relations: the writer of a director's films.
    """
    back = []
    for out, home in permutations(program.facts(), 2):
        for start, end, turn in (
            (out.subject, home.subject, out.object == home.object),
            (out.object, home.object, out.subject == home.subject),
        ):
            if not (turn and out.relation == home.relation and isinstance(start, IRI)):
                continue
            if end in program.answer and start in columns.get(end.name, ()):
                back.append(kg.profile.short(start))
    return [id for id in dict.fromkeys(back) if id in memory.linked]


def _tied(
    program: PyQL, columns: Mapping[str, Sequence[Term]], kinds: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return what a superlative, the newest clause, left several of; {} if one solution stands out."""
    clause = program.clauses[-1] if program.clauses else None
    if not isinstance(clause, Extreme) or clause.variable.name not in columns:
        return {}
    owners = _owners(program, clause.variable)
    if len(owners) == 1 and set(kinds.get(owners[0].name, ())) == {"unnamed"}:
        # Several statements about one thing are no tie: what matters is whose they are.
        owners = [v for v in _owners(program, owners[0]) if v != clause.variable] or owners
    sizes = {v: len(columns[v.name]) for v in owners if v.name in columns}
    if not sizes or min(sizes.values()) < 2:
        return {}
    owner = min(sizes, key=lambda v: sizes[v])
    return {"variable": clause.variable.n3(), "owner": owner.n3(), "count": sizes[owner]}


def _owners(program: PyQL, variable: Variable) -> list[Variable]:
    """Return the variables whose value, or whose count, another variable holds."""
    beside = [v for fact in program.facts() if variable in fact.mentions for v in fact.mentions]
    counted = [c.per for c in program.clauses if isinstance(c, Count) and c.output == variable and c.per]
    return [v for v in dict.fromkeys([*beside, *counted]) if v != variable]


def program_facts(program: PyQL, before: PyQL | None, profile: Profile) -> dict[str, Any]:
    """Return facts about a program: `relations` (short ids), and whether it is `unchanged` since `before`."""
    relations = dict.fromkeys(profile.short(fact.relation) for fact in _facts(program.clauses))
    facts: dict[str, Any] = {"relations": list(relations)} if relations else {}
    return {**facts, "unchanged": True} if program == before else facts


def _facts(clauses: Iterable[object]) -> Iterator[Fact]:
    """Return all triple patterns, those inside unions and negations too."""
    for clause in clauses:
        if isinstance(clause, Fact):
            yield clause
        elif isinstance(clause, Not):
            yield from _facts(clause.pattern)
        elif isinstance(clause, Union):
            for pattern in clause.alternatives:
                yield from _facts(pattern)


def hierarchy_facts(program: PyQL, profile: Profile, empty: bool) -> dict[str, Any]:
    """Return what the newest fact has to do with the hierarchy of classes.

    Keys:
        hierarchy: `type` or `subclass`, if its relation is an instance-of or a subclass-of relation.
        class_relations: for a fact that finds nothing, short ids of the relations that lead to classes.
    """
    newest = program.clauses[-1] if program.clauses else None
    if not isinstance(newest, Fact):
        return {}
    facts: dict[str, Any] = {}
    if newest.relation.value in profile.type_predicates:
        facts["hierarchy"] = "type"
    elif newest.relation.value in profile.subclass_predicates:
        facts["hierarchy"] = "subclass"
    if empty:
        leading = (*profile.type_predicates, *profile.subclass_predicates)
        facts["class_relations"] = [profile.short(IRI(p)) for p in leading]
    return facts
