"""Random PyQL programs and small random graphs, and an evaluation of programs that knows no SPARQL.

Variables are typed by their names, so that comparisons make sense: `e*` entities, `n*` numbers, `t*` dates,
`k*` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import assume, strategies as st

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Triple, Variable, text
from triplewise.tools.kg.literals import NUMERIC
from triplewise.tools.pyql.program import (
    Aggregate,
    AnyOf,
    Extreme,
    Fact,
    Filter,
    Not,
    Pattern,
    PyQL,
    Typed,
    Union,
    owners,
)

EX = "http://example.org/"
TYPE = IRI("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
SUBCLASS = IRI("http://www.w3.org/2000/01/rdf-schema#subClassOf")
ENTITIES = [IRI(f"{EX}a{i}") for i in range(5)]
RELATIONS = [IRI(f"{EX}r{i}") for i in range(3)]
NUMBER, DATE = IRI(EX + "num"), IRI(EX + "date")
TYPES = [IRI(f"{EX}C{i}") for i in range(3)]
_NUMBERS = (("1", "integer"), ("2", "integer"), ("10", "integer"), ("2.5", "decimal"))
NUMBERS = [Literal(value, XSD + datatype) for value, datatype in _NUMBERS]
DATES = [Literal(v, XSD + "date") for v in ("1999-12-31", "2005-06-01", "2014-07-31")]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}

MOST_PAIRS = 200_000
"""Pairs of rows that an evaluation joins at most; programs that need more are left out."""

Step = Callable[[PyQL], PyQL]
Row = dict[Variable, Term]


def _variables(letter: str, n: int = 3) -> st.SearchStrategy[Variable]:
    return st.sampled_from([Variable(f"{letter}{i}") for i in range(n)])


def _facts() -> st.SearchStrategy[Fact]:
    """Triple patterns whose ends have the types that their relation gives them."""
    entity = _variables("e") | st.sampled_from(ENTITIES)
    return st.one_of(
        st.builds(Fact, entity, st.sampled_from(RELATIONS), entity),
        st.builds(Fact, entity, st.just(NUMBER), _variables("n", 2)),
        st.builds(Fact, entity, st.just(DATE), _variables("t", 2)),
    )


def _filters() -> st.SearchStrategy[Filter]:
    operator = st.sampled_from(sorted(COMPARE))
    return st.one_of(
        st.builds(Filter, _variables("n", 2), operator, st.sampled_from(NUMBERS) | _variables("n", 2)),
        st.builds(Filter, _variables("t", 2), operator, st.sampled_from(DATES)),
        st.builds(Filter, _variables("k", 2), operator, st.sampled_from(NUMBERS[:2]) | _variables("k", 2)),
        st.builds(
            Filter, _variables("e"), st.sampled_from(["=", "!="]), st.sampled_from(ENTITIES) | _variables("e")
        ),
    )


def _patterns() -> st.SearchStrategy[Pattern]:
    items = st.one_of(_facts(), st.builds(Typed, _variables("e"), st.sampled_from(TYPES)))
    return st.lists(items, min_size=1, max_size=2).map(tuple)


def _branches() -> st.SearchStrategy[Pattern]:
    """Alternatives of a union: patterns, some with a superlative or a union of their own."""
    best = st.builds(Extreme, _variables("n", 2) | _variables("t", 2), st.booleans())
    pairs = st.lists(_patterns(), min_size=2, max_size=2, unique=True)
    nested = pairs.map(lambda p: Union(tuple(p)))
    return st.one_of(
        _patterns(),
        st.tuples(_patterns(), best).map(lambda a: (*a[0], a[1])),
        st.tuples(nested, _patterns()).map(lambda a: (a[0], *a[1])),
        # What compares variables of the solutions before the union.
        st.lists(_filters(), min_size=1, max_size=2).map(tuple),
        st.tuples(_patterns(), _filters()).map(lambda a: (*a[0], a[1])),
    )


def steps() -> st.SearchStrategy[Step]:
    """One construct action, which may or may not be valid for a program."""
    anything = _variables("e") | _variables("n", 2) | _variables("t", 2)
    return st.one_of(
        _facts().map(lambda f: lambda p: p.add_fact(f.subject, f.relation, f.object)),
        _facts().map(lambda f: lambda p: p.add_fact(f.subject, f.relation, f.object)),
        _filters().map(lambda f: lambda p: p.add_filter(f.left, f.operator, f.right)),
        st.tuples(_variables("e"), st.sampled_from(TYPES)).map(lambda a: lambda p: p.add_type(*a)),
        (_variables("n", 2) | _variables("t", 2) | _variables("k", 2)).map(
            lambda v: lambda p: p.add_extreme(v, True)
        ),
        (_variables("n", 2) | _variables("t", 2)).map(lambda v: lambda p: p.add_extreme(v, False)),
        st.tuples(anything, _variables("k", 2)).map(lambda a: lambda p: p.add_count(*a)),
        st.tuples(anything, _variables("e"), _variables("k", 2)).map(lambda a: lambda p: p.add_group(*a)),
        st.tuples(anything, _variables("e")).map(lambda a: lambda p: p.add_most(*a)),
        st.lists(_branches(), min_size=2, max_size=3).map(lambda a: lambda p: p.add_union(*a)),
        _patterns().map(lambda a: lambda p: p.add_not(a)),
        st.tuples(
            st.sampled_from(["sum", "average"]),
            _variables("n", 2) | _variables("k", 2),
            _variables("k", 2),
            st.none() | _variables("e"),
        ).map(lambda a: lambda p: p.add_aggregate(*a)),
        st.just(lambda p: p.undo()),
    )


def _wild_nodes() -> st.SearchStrategy[Node]:
    """Literals with any text, and IRIs with signs that prefixed names cannot hold."""
    return st.one_of(
        st.text(max_size=12).map(text),
        st.text(max_size=5).map(lambda s: text(s, "en-GB")),
        st.from_regex(r"[a-z0-9.,()'&;_%-]{1,12}", fullmatch=True).map(
            lambda s: IRI(EX + s.replace("%", "%25"))
        ),
        st.sampled_from(NUMBERS + DATES),
        st.integers().map(lambda i: Literal(str(i), XSD + "integer")),
        st.decimals(allow_nan=False, allow_infinity=False, places=2).map(
            lambda d: Literal(f"{d:f}", XSD + "decimal")
        ),
    )


def wild_steps() -> st.SearchStrategy[Step]:
    """Actions with values of every kind: these are written and parsed, not evaluated."""
    node = _wild_nodes()
    kinds = st.sampled_from(["", "number", "date", "text", "name"])
    values = st.sampled_from([*NUMBERS, *DATES, text("1999"), text("x y"), Literal("2001", XSD + "gYear")])
    any_variable = _variables("e") | _variables("n", 2) | _variables("t", 2)
    operators = st.sampled_from([*COMPARE, "contains", "starts_with", "ends_with"])
    return st.one_of(
        st.tuples(_variables("e"), st.sampled_from(RELATIONS), node).map(lambda a: lambda p: p.add_fact(*a)),
        st.tuples(any_variable, operators, node).map(lambda a: lambda p: p.add_filter(*a)),
        st.tuples(any_variable, st.sampled_from(sorted(COMPARE)), values, kinds).map(
            lambda a: lambda p: p.add_filter(*a)
        ),
        st.tuples(any_variable, kinds).map(lambda a: lambda p: p.add_extreme(a[0], True, a[1])),
        st.tuples(any_variable, kinds).map(lambda a: lambda p: p.add_extreme(a[0], False, a[1])),
        st.tuples(any_variable, _variables("k", 2)).map(lambda a: lambda p: p.add_count(*a)),
        st.tuples(any_variable, st.booleans(), st.integers(0, 5)).map(lambda a: lambda p: p.add_order(*a)),
        st.just(lambda p: p.ask()),
    )


def build(actions: Iterable[Step]) -> PyQL:
    """The program that the valid ones of some actions build."""
    program = PyQL()
    for action in actions:
        try:
            program = action(program)
        except ActionError:
            continue
    return program


START: list[Step] = [
    lambda p: p.add_fact(Variable("e0"), RELATIONS[0], Variable("e1")),
    lambda p: p.add_fact(Variable("e0"), NUMBER, Variable("n0")),
    lambda p: p.add_fact(Variable("e1"), DATE, Variable("t0")),
]


@st.composite
def programs(draw: st.DrawFn, wild: bool = False) -> PyQL:
    """A program of up to seven clauses, with an answer set more often than not."""
    step = steps() | wild_steps() if wild else steps()
    start = START[: draw(st.integers(0, len(START)))]
    program = build([*start, *draw(st.lists(step, min_size=1, max_size=6))])
    answered = draw(st.integers(0, 3)) > 0
    if program.variables and answered:
        answer = draw(st.lists(st.sampled_from(program.variables), min_size=1, max_size=2, unique=True))
        program = program.set_answer(*answer)
    return program


def graph_of(seed: int) -> set[Triple]:
    """A small graph over the same entities and relations, dense enough for most patterns to match."""
    random = Random(seed)
    edges = [Triple(a, r, b) for a in ENTITIES for r in RELATIONS for b in ENTITIES]
    values = [Triple(a, NUMBER, n) for a in ENTITIES for n in NUMBERS]
    values += [Triple(a, DATE, d) for a in ENTITIES for d in DATES]
    types = [Triple(a, TYPE, c) for a in ENTITIES for c in TYPES]
    types += [Triple(a, SUBCLASS, b) for a in TYPES for b in TYPES if a.value > b.value]
    return {*random.sample(edges, 22), *random.sample(values, 12), *random.sample(types, 7)}


def graphs() -> st.SearchStrategy[set[Triple]]:
    """Small random graphs."""
    return st.integers(0, 10_000).map(graph_of)


class Evaluation:
    """Evaluates a program over a set of triples by joining tables, one for each connected part of it."""

    def __init__(self, graph: set[Triple]) -> None:
        self.graph = graph
        self.parts: list[tuple[frozenset[Variable], list[Row]]] = []

    def run(self, program: PyQL) -> set[tuple[Term | None, ...]]:
        """Rows of the answer variables; for ASK one empty row, or none."""
        ordered = {program.order.variable} if program.order else set()
        for i, clause in enumerate(program.clauses):
            later = {v for c in program.clauses[i + 1 :] for v in c.mentions} | {*program.answer, *ordered}
            self._add(clause, later, replace(program, clauses=program.clauses[:i]))
        rows: list[Row] = [{}] if program.clauses else []
        for _, part in self.parts:
            rows = _join(rows, part)
        return {tuple(row.get(v) for v in program.answer) for row in rows}

    def _add(self, clause: Any, later: set[Variable], program: PyQL) -> None:
        if isinstance(clause, Extreme):
            self._merge({clause.variable}, lambda rows: _best(rows, clause))
        elif isinstance(clause, Aggregate):
            self._aggregate(clause, later, program)
        elif isinstance(clause, Filter):
            self._merge(set(clause.mentions), lambda rows: [r for r in rows if holds(clause, r)])
        elif isinstance(clause, Not):
            shared = {v for v in clause.mentions if any(v in names for names, _ in self.parts)}
            self._merge(shared, lambda rows: [r for r in rows if not self._pattern(clause.pattern, [r])])
        elif isinstance(clause, Union):
            self._merge(
                set(clause.mentions),
                lambda rows: [row for pattern in clause.alternatives for row in self._branch(pattern, rows)],
            )
        else:
            self._merge(set(clause.mentions), lambda rows: self._pattern((clause,), rows))

    def _merge(self, variables: set[Variable], change: Callable[[list[Row]], list[Row]]) -> None:
        """Join the parts that hold some variables into one, and change its rows."""
        rows: list[Row] = [{}]
        names = frozenset(variables)
        for part in [p for p in self.parts if p[0] & variables]:
            names, rows = names | part[0], _join(rows, part[1])
            self.parts.remove(part)
        self.parts.append((names, change(rows)))

    def _branch(self, pattern: Pattern, rows: list[Row]) -> list[Row]:
        """Solutions that meet a pattern of a union, whose filters may compare what they bind already."""
        own = {v for item in pattern for v in item.binds}
        inner = [i for i in pattern if not isinstance(i, Filter) or own.issuperset(i.mentions)]
        rows = _join(rows, self._pattern(inner, [{}]))
        return self._pattern([i for i in pattern if i not in inner], rows)

    def _aggregate(self, clause: Aggregate, later: set[Variable], program: PyQL) -> None:
        self._merge({clause.of} | ({clause.per} if clause.per else set()), lambda rows: rows)
        names, rows = self.parts.pop()
        groups: dict[Term | None, set[Any]] = {} if clause.per else {None: set()}
        having = owners(program, clause.of) if clause.function != "count" else []
        for row in rows:
            key = row.get(clause.per) if clause.per else None
            if clause.function == "count" or clause.of in row:
                groups.setdefault(key, set())
            if clause.of in row:
                groups[key].add((*(row.get(v) for v in having), row[clause.of]))
        table = []
        for key, members in groups.items():
            result = Decimal(len(members))
            if clause.function != "count":
                result = sum((_number(m[-1]) for m in members), Decimal(0))
            if clause.function == "average":
                result = result / len(members) if members else Decimal(0)
            table.append(
                {**({clause.per: key} if clause.per and key else {}), clause.output: _literal(result)}
            )
        kept = {clause.output} | ({clause.per} if clause.per else set())
        if (names - kept) & later:
            table = _join(rows, table)
            kept |= names
        self.parts.append((frozenset(kept), table))

    def _pattern(self, pattern: Iterable[Any], rows: list[Row]) -> list[Row]:
        for item in pattern:
            if isinstance(item, Filter):
                rows = [r for r in rows if holds(item, r)]
            elif isinstance(item, Typed):
                found: list[Row] = [{item.variable: s} for s in self._instances(item.type)]
                rows = _join(rows, found)
            elif isinstance(item, AnyOf):
                rows = _join(rows, [{item.variable: node} for node in item.nodes])
            elif isinstance(item, Extreme):
                rows = _best(rows, item)
            elif isinstance(item, Union):
                rows = _join(rows, [r for p in item.alternatives for r in self._pattern(p, [{}])])
            else:
                rows = _join(rows, self._matches(item))
        return rows

    def _matches(self, fact: Fact) -> list[Row]:
        rows = []
        for triple in self.graph:
            if triple.relation != fact.relation:
                continue
            row: Row | None = {}
            for pattern, value in ((fact.subject, triple.subject), (fact.object, triple.object)):
                if row is None or (not isinstance(pattern, Variable) and pattern != value):
                    row = None
                elif isinstance(pattern, Variable):
                    row = None if row.get(pattern, value) != value else {**row, pattern: value}
            if row is not None:
                rows.append(row)
        return rows

    def _instances(self, wanted: IRI) -> set[IRI]:
        types = {wanted}
        while more := {t.subject for t in self.graph if t.relation == SUBCLASS and t.object in types} - types:
            types |= more
        return {t.subject for t in self.graph if t.relation == TYPE and t.object in types}


def _literal(value: Decimal) -> Literal:
    whole = value == value.to_integral_value()
    return Literal(str(int(value)), XSD + "integer") if whole else Literal(f"{value:f}", XSD + "decimal")


def _number(term: Term) -> Decimal:
    return Decimal(term.value)


def _join(left: list[Row], right: list[Row]) -> list[Row]:
    # A program of many unconnected patterns would fill the memory, here and in an engine.
    assume(len(left) * len(right) <= MOST_PAIRS)
    return [{**a, **b} for a in left for b in right if all(a[k] == b[k] for k in a.keys() & b.keys())]


def _value(term: Term) -> Any:
    if isinstance(term, Literal) and term.datatype in NUMERIC:
        return float(term.value)
    return term.value


def holds(clause: Filter, row: Row) -> bool:
    """Whether a filter is true; an unbound variable makes it false."""
    sides = [row.get(s) if isinstance(s, Variable) else s for s in (clause.left, clause.right)]
    return None not in sides and COMPARE[clause.operator](*(_value(s) for s in sides if s is not None))


def _best(rows: list[Row], clause: Extreme) -> list[Row]:
    values = [_value(r[clause.variable]) for r in rows if clause.variable in r]
    if not values:
        return []
    best = max(values) if clause.largest else min(values)
    return [r for r in rows if clause.variable in r and _value(r[clause.variable]) == best]
