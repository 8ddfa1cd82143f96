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
from triplewise.tools.pyql import Count, Extreme, Fact, Filter, Kind, Not, PyQL, Union
from triplewise.tools.pyql.program import MATCHES, TEMPORAL
from triplewise.tools.pyql.text import NUMERIC, read_iri

SAMPLE = 200
_SAMPLE_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_SAMPLE_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}


def compared(kg: KnowledgeGraph, before: PyQL, after: PyQL) -> PyQL:
    """The program `after` a filter or superlative was added, with values compared as what they are.

    Args:
        kg: asked for a sample of the values, with one query, only where datatypes matter.
        before: the program without the clause.
        after: the program with it.

    Raises:
        ActionError: `bad_comparison` if entities are to be ordered.
    """
    clause = after.clauses[-1] if len(after.clauses) == len(before.clauses) + 1 else None
    if not isinstance(clause, Filter | Extreme) or clause.kind or not _matters(clause):
        return after
    counts = {c.output for c in before.clauses if isinstance(c, Count)}
    variables = [v for v in clause.mentions if v not in counts]
    if not variables:
        return after
    values = _sample(kg, before, variables)
    if isinstance(clause, Extreme):
        _refuse_entities(kg, clause, values)
    if isinstance(clause, Filter):
        clause = _named(kg, clause, values)
        values += [side for side in (clause.left, clause.right) if isinstance(side, Literal)]
    fitted = replace(clause, kind=kind_of(values))
    return replace(after, clauses=(*before.clauses, fitted))


def _refuse_entities(kg: KnowledgeGraph, clause: Extreme, values: Sequence[Term]) -> None:
    """Raise `bad_comparison` for a superlative of entities: engines order their ids, which means nothing.

    Where names are ids, a year is an entity too.
    """
    if values and not kg.profile.percent_names and not any(isinstance(v, Literal) for v in values):
        form = clause.variable.n3()
        raise ActionError(
            "bad_comparison",
            f"{form} holds entities, which have no order: bind a number or date of them with add_fact",
            given=form,
        )


def _matters(clause: Filter | Extreme) -> bool:
    """Whether datatypes decide what a comparison means: not for entities, nor for text matches."""
    if isinstance(clause, Extreme):
        return True
    return clause.operator not in MATCHES and all(
        isinstance(side, Literal | Variable) for side in (clause.left, clause.right)
    )


def _sample(kg: KnowledgeGraph, program: PyQL, variables: Iterable[Variable]) -> list[Term]:
    """Some values of the variables; none if the engine could not tell."""
    asked = replace(program, answer=tuple(variables), boolean=False, order=None)
    result = kg.query(asked.preview_sparql(kg.profile, SAMPLE))
    return [value for row in result.rows for value in row if value is not None] if result.outcome.ok else []


def _named(kg: KnowledgeGraph, clause: Filter, values: list[Term]) -> Filter:
    """A filter whose literal names an entity, where all values are entities with their names as ids."""
    if not values or any(isinstance(v, Literal) for v in values) or clause.operator not in ("=", "!="):
        return clause
    sides = [
        (read_iri(side.value, kg.profile) or side) if isinstance(side, Literal) and kg.profile.percent_names
        else side
        for side in (clause.left, clause.right)
    ]  # fmt: skip
    return replace(clause, left=sides[0], right=sides[1])


def kind_of(values: Iterable[Term]) -> Kind:
    """How to compare values that are all to be compared with each other."""
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
    """What a literal is as far as comparing goes."""
    if literal.datatype in NUMERIC:
        return "number"
    if literal.datatype in TEMPORAL:
        return literal.datatype
    if literal.language:
        return "tagged"
    if _SAMPLE_DATE.fullmatch(literal.value):
        return "date"
    return "digits" if _SAMPLE_NUMBER.fullmatch(literal.value) else "text"


def rebound(before: PyQL, after: PyQL) -> tuple[PyQL, Variable, Fact] | None:
    """What a program becomes if its newest fact replaces an earlier one (QueryAgent, figure 7, step 7).

    Args:
        before: the program without the fact.
        after: the program with it.

    Returns:
        the program with the earlier fact left out, the variable that both facts bind, and the earlier fact;
        None unless both join the same known node with that variable, at the same ends, and nothing else
        hangs on the variable.
    """
    newest = after.clauses[-1]
    if not isinstance(newest, Fact) or len(newest.mentions) != 1:
        return None
    variable = newest.mentions[0]
    hanging = [clause for clause in before.clauses if variable in clause.mentions]
    if len(hanging) != 1 or not isinstance(hanging[0], Fact):
        return None
    earlier = hanging[0]
    if (earlier.subject, earlier.object) != (newest.subject, newest.object):
        return None
    kept = tuple(clause for clause in after.clauses if clause != earlier)
    return replace(after, clauses=kept), variable, earlier


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
