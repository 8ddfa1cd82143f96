"""What a query's result says beyond its values, as facts that guidelines weigh (`Feedback.detail`).

Everything is read off the program, and off a result and names fetched already. One thing alone is asked of
the KG: what lies beside answers without a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final

from triplewise.tools.actions.action import ReasoningMemory
from triplewise.tools.actions.show import UNNAMED
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.pyql import Count, Extreme, Fact, Not, PyQL, Union
from triplewise.tools.pyql.program import TEMPORAL
from triplewise.tools.pyql.text import NUMERIC

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
    """One of `KINDS`. `name`: as it is shown, None where that was not fetched."""
    if isinstance(term, Literal):
        return _kind_of_literal(term)
    if name is None:
        return "unseen"
    if name == UNNAMED:
        return "unnamed"
    plain = _kind_of_text(name)
    return plain if plain != "text" else "dated" if _TELLS_TIME.search(name) else "entity"


def _kind_of_literal(literal: Literal) -> str:
    if literal.datatype in NUMERIC:
        return "number"
    if literal.datatype in TEMPORAL:
        return "date"
    return "boolean" if literal.datatype == XSD + "boolean" else _kind_of_text(literal.value)


def _kind_of_text(text: str) -> str:
    """The kind of a text that may be a number or a date."""
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
    """Facts about a result with rows, all plain JSON.

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
    kinds = {v: Counter(kind_of_value(t, _name(kg, t, named)) for t in c) for v, c in columns.items()}
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


def _name(kg: KnowledgeGraph, term: Term, named: Mapping[Term, str]) -> str | None:
    """The name of a term, where it is known without a query."""
    known = named.get(term)
    return kg.profile.short(term) if known is None and kg.profile.percent_names else known


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
    """Linked entities that a relation leads away from and straight back to, as answers.

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
    """What a superlative, the newest clause, left several of; {} if one solution stands out."""
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
    """The variables whose value, or whose count, another variable holds."""
    beside = [v for fact in program.facts() if variable in fact.mentions for v in fact.mentions]
    counted = [c.per for c in program.clauses if isinstance(c, Count) and c.output == variable and c.per]
    return [v for v in dict.fromkeys([*beside, *counted]) if v != variable]


def program_facts(program: PyQL, before: PyQL | None, profile: Profile) -> dict[str, Any]:
    """Facts about a program: `relations` (short ids that its facts use), and `unchanged` since `before`."""
    relations = dict.fromkeys(profile.short(fact.relation) for fact in _facts(program.clauses))
    facts: dict[str, Any] = {"relations": list(relations)} if relations else {}
    return {**facts, "unchanged": True} if program == before else facts


def _facts(clauses: Iterable[object]) -> Iterator[Fact]:
    """All triple patterns, those inside unions and negations too."""
    for clause in clauses:
        if isinstance(clause, Fact):
            yield clause
        elif isinstance(clause, Not):
            yield from _facts(clause.pattern)
        elif isinstance(clause, Union):
            for pattern in clause.alternatives:
                yield from _facts(pattern)


def hierarchy_facts(program: PyQL, profile: Profile, empty: bool) -> dict[str, Any]:
    """What the newest fact has to do with the hierarchy of classes.

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
