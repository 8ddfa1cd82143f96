"""SPARQL over a KG and facts beside it, as SPARQL over the KG alone (SymAgent 4.2.1).

Every triple pattern that such a fact can match becomes a union of itself with the rows of these facts:
`{ ?film <director> ?who } UNION { VALUES (?film ?who) { (<a> <b>) } }`. That is a plain read query, so it
works on any SPARQL 1.1 engine, and nothing is written anywhere. Endpoints get the rows in a subselect, and
patterns inside NOT EXISTS taken apart: Virtuoso 7.2.5 loses rows of a union, or refuses the query, otherwise.
An engine in the process gets them bare: pyoxigraph would read whole relations to join a subselect.
Facts that the KG holds itself must be left out before: then every solution is found once, and counts are
right.

What is not read is a `+`, `?` or negated path over a relation of these facts, a `*` path between two
variables, GRAPH, FROM, BASE, blank nodes and collections. A query with one of them is left as it is, and
`Rewritten.missed` says so: its answer lacks the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.overlay.patterns import (
    Allowed,
    FactIndex,
    Node,
    NotRead,
    Path,
    Pattern,
    TripleReader,
    read_node,
    read_prefixes,
    relations_of,
)
from triplewise.tools.kg.readonly import Token, read_query, variable_names

ROWS = 500
"""Rows that a VALUES block, or a way to meet a NOT EXISTS, holds: Virtuoso's compiler fails on thousands."""
NEGATED = 3
"""Patterns that facts may match in one NOT EXISTS."""

_KEYWORDS = ("FILTER", "OPTIONAL", "MINUS", "BIND", "VALUES", "GRAPH", "SERVICE", "SELECT")

Reach = Callable[[Path, Term, bool], Iterable[Term]]
"""What a `*` path joins with a node only by way of the facts: (path, node, whether the node is its end)."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query that sees the facts too; `missed` says in words why it does not, where that is so."""

    text: str
    missed: str = ""


def rewrite(sparql: str, facts: FactIndex, reach: Reach, apart: bool = False) -> Rewritten:
    """The query with the facts in it; unchanged where none of them can matter.

    Args:
        sparql: one SELECT or ASK.
        facts: triples that the KG does not hold. reach: asks what `*` paths reach by way of them.
        apart: write rows of facts in subselects.

    Raises:
        Refused: the text is no SELECT or ASK.
    """
    query = read_query(sparql)
    if not len(facts):
        return Rewritten(sparql)
    try:
        edits = _Rewriter(query.tokens, facts, reach, apart, set(variable_names(sparql))).edits()
    except (NotRead, IndexError, ValueError) as error:
        return Rewritten(sparql, f"not read: {error}")
    text = sparql
    for edit in sorted(edits, key=lambda e: -e.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return Rewritten(text)


@dataclass(frozen=True, slots=True)
class _Edit:
    """A stretch of the query and what stands there instead."""

    start: int
    end: int
    text: str


@dataclass
class _Rewriter:
    """Walks the groups of one query."""

    tokens: Sequence[Token]
    facts: FactIndex
    reach: Reach
    apart: bool
    taken: set[str]
    changes: list[_Edit] = field(default_factory=list)

    def edits(self) -> list[_Edit]:
        """All edits of the query."""
        self.reader = TripleReader(self.tokens, read_prefixes(self.tokens))
        self.prefixes = read_prefixes(self.tokens)
        start = next(i for i, t in enumerate(self.tokens) if t.keyword in ("SELECT", "ASK"))
        self._select(start)
        return self.changes

    def _select(self, at: int) -> int:
        """A SELECT or ASK and its group; where its modifiers begin."""
        opens = at
        while self.tokens[opens].text != "{" or self.tokens[opens].depth != self.tokens[at].depth:
            if self.tokens[opens].keyword == "FROM":
                raise NotRead("FROM")
            opens += 1
        before = len(self.taken)
        end = self._group(opens, {})
        if (
            len(self.taken) > before
            and self.tokens[opens - 1 - (self._word(opens - 1) == "WHERE")].text == "*"
        ):
            raise NotRead("SELECT * with a path over facts")
        return end

    def _group(self, at: int, allowed: Allowed) -> int:
        """The group that opens at a token; where the next one is."""
        depth = self.tokens[at].depth
        at += 1
        if self._word(at) == "SELECT":
            at = self._select(at)
            while self.tokens[at].text != "}" or self.tokens[at].depth != depth:
                at += 1  # GROUP BY, ORDER BY, LIMIT
            return at + 1
        allowed = dict(allowed)
        while self.tokens[at].text != "}":
            at = self._item(at, allowed)
        return at + 1

    def _item(self, at: int, allowed: dict[Variable, frozenset[Term]]) -> int:
        """One item of a group; where the next is. What VALUES blocks tell is added to `allowed`."""
        token, word = self.tokens[at], self._word(at)
        if token.text == ".":
            return at + 1
        if token.text == "{":
            return self._group(at, allowed)
        if word in ("UNION", "OPTIONAL", "MINUS"):
            return self._group(at + 1, allowed)
        if word == "FILTER" and (end := self._not_exists(at, allowed)):
            return end
        if word in ("FILTER", "BIND"):
            return self._expression(at + 1, allowed)
        if word == "VALUES":
            return self._values(at + 1, allowed)
        if word in ("GRAPH", "SERVICE"):
            raise NotRead(word)
        patterns, end = self.reader.read(at)
        self._replace(patterns, at, end, allowed)
        return end

    def _not_exists(self, at: int, allowed: Allowed) -> int:
        """FILTER NOT EXISTS of triples alone, each way to meet them apart; 0 where it is anything else."""
        if self._word(at + 1) != "NOT" or self._word(at + 2) != "EXISTS":
            return 0
        patterns, end = [], at + 4
        while (text := self.tokens[end].text) != "}":
            if text == ".":
                end += 1
                continue
            if text in ("{", "(", "[") or self._word(end) in _KEYWORDS:
                return 0
            more, end = self.reader.read(end)
            patterns += more
        outside = {t.text[1:] for t in (*self.tokens[:at], *self.tokens[end:]) if t.kind == "variable"}
        ways = _negations(patterns, self.facts, allowed, {Variable(name) for name in outside})
        if ways is None:
            return 0
        if ways:
            own = f"FILTER NOT EXISTS {{ {' . '.join(p.n3() for p in patterns)} }}"
            stop = self.tokens[end].start + 1
            self.changes.append(_Edit(self.tokens[at].start, stop, " ".join([own, *ways])))
        return end + 1

    def _expression(self, at: int, allowed: Allowed) -> int:
        """An expression in brackets, a function call, or EXISTS with its group."""
        while self.tokens[at].text not in ("(", "{"):
            at += 1
        if self.tokens[at].text == "{":
            return self._group(at, allowed)
        depth = self.tokens[at].depth
        at += 1
        while self.tokens[at].depth > depth:
            at = self._group(at, allowed) if self.tokens[at].text == "{" else at + 1
        return at + 1

    def _values(self, at: int, allowed: dict[Variable, frozenset[Term]]) -> int:
        """A block of values: each variable can have only those of its column."""
        names: list[Variable] = []
        while self.tokens[at].text != "{":
            if self.tokens[at].kind == "variable":
                names.append(Variable(self.tokens[at].text[1:]))
            at += 1
        at += 1
        columns: list[list[Term | None]] = [[] for _ in names]
        place = 0
        while self.tokens[at].text != "}":
            if self.tokens[at].text in ("(", ")"):
                at += 1
                continue
            value, at = read_node(self.tokens, at, self.prefixes)
            columns[place % len(names)].append(value if not isinstance(value, Variable) else None)
            place += 1
        for name, column in zip(names, columns, strict=True):
            if None not in column:
                terms = frozenset(t for t in column if t is not None)
                allowed[name] = allowed[name] & terms if name in allowed else terms
        return at + 1

    def _replace(self, patterns: Sequence[Pattern], at: int, end: int, allowed: Allowed) -> None:
        """Write the patterns anew if the facts can match one of them."""
        written = [self._pattern(p, allowed) for p in patterns]
        if all(text is None for text in written):
            return
        parts = [p.n3() + " ." if text is None else text for p, text in zip(patterns, written, strict=True)]
        last = self.tokens[end - 1]
        # The dot that ended the triples may go on standing there: it may follow a group, but no other dot.
        self.changes.append(
            _Edit(self.tokens[at].start, last.start + len(last.text), " ".join(parts).removesuffix(" ."))
        )

    def _pattern(self, pattern: Pattern, allowed: Allowed) -> str | None:
        """The pattern with the facts in it; None where they cannot match."""
        if isinstance(pattern.predicate, Path):
            return self._path(pattern, pattern.predicate, allowed) if self._touched(pattern) else None
        variables, rows = self.facts.rows(pattern, allowed)
        return union(pattern.n3(), variables, rows, self.apart) if rows else None

    def _touched(self, pattern: Pattern) -> bool:
        """Whether facts can matter to a path; engines end a `*` path only at nodes that they know."""
        if relations_of(pattern.predicate) & self.facts.relations:
            return True
        ends = (pattern.subject, pattern.object)
        repeats = isinstance(pattern.predicate, Path) and pattern.predicate.kind == "star"
        return repeats and any(not isinstance(end, Variable) and self.facts.at(end) for end in ends)

    def _path(self, pattern: Pattern, path: Path, allowed: Allowed) -> str:
        """A path taken apart."""
        subject, end = pattern.subject, pattern.object
        match path.kind:
            case "inverse":
                return self._written(Pattern(end, path.parts[0], subject), allowed)
            case "choice":
                sides = [self._written(Pattern(subject, part, end), allowed) for part in path.parts]
                return " UNION ".join(f"{{ {side} }}" for side in sides)
            case "sequence":
                between = []
                for _ in path.parts[1:]:  # variables that the query does not use
                    number = len(self.taken)
                    while (name := f"via_{number}") in self.taken:
                        number += 1
                    self.taken.add(name)
                    between.append(Variable(name))
                nodes: list[Node] = [subject, *between, end]
                links = (Pattern(nodes[i], part, nodes[i + 1]) for i, part in enumerate(path.parts))
                return " ".join(self._written(link, allowed, dot=True) for link in links)
            case "star":
                return self._star(pattern, path)
        raise NotRead("a path with + or ? over facts")

    def _written(self, pattern: Pattern, allowed: Allowed, dot: bool = False) -> str:
        text = self._pattern(pattern, allowed)
        return pattern.n3() + (" ." if dot else "") if text is None else text

    def _star(self, pattern: Pattern, path: Path) -> str:
        """A `*` path from or to a constant: what it reaches by way of the facts, listed."""
        subject, end = pattern.subject, pattern.object
        if isinstance(subject, Variable) and isinstance(end, Variable):
            raise NotRead("a * path between two variables over facts")
        known, other, backward = (subject, end, False) if isinstance(end, Variable) else (end, subject, True)
        assert not isinstance(known, Variable)
        more = list(self.reach(path, known, backward))
        if not isinstance(other, Variable):
            return "{ }" if other in more else pattern.n3() + " ."
        if not more:
            return pattern.n3() + " ."
        return union(pattern.n3(), (other,), [(term,) for term in more], self.apart)

    def _word(self, at: int) -> str:
        return self.tokens[at].keyword


def union(
    pattern: str, variables: Sequence[Variable], rows: Sequence[Sequence[Term]], apart: bool = False
) -> str:
    """A pattern or one of some rows; the empty group where no variable is left to bind: then it holds."""
    if not variables:
        return "{ }"
    names = " ".join(v.n3() for v in variables)
    branches = []
    for start in range(0, len(rows), ROWS):
        block = " ".join(f"({' '.join(t.n3() for t in row)})" for row in rows[start : start + ROWS])
        values = f"VALUES ({names}) {{ {block} }}"
        branches.append(f"{{ SELECT {names} WHERE {{ {values} }} }}" if apart else f"{{ {values} }}")
    return " UNION ".join([f"{{ {pattern} }}", *branches])


Row: TypeAlias = Mapping[Variable, Term]


def _negations(
    patterns: Sequence[Pattern], facts: FactIndex, allowed: Allowed, outside: Collection[Variable]
) -> list[str] | None:
    """The filters to add to `FILTER NOT EXISTS { patterns }`; [] if no fact can match one of them.

    `{ A . B }` exists if the KG meets both, or the KG one and a fact the other, or facts both. A way with
    facts is a condition on variables, so that no union of rows stands inside EXISTS.

    `outside`: variables that stand elsewhere in the query. None where it cannot be written so.
    """
    if any(isinstance(p.predicate, Path) and relations_of(p.predicate) & facts.relations for p in patterns):
        return None
    rows: list[list[Row]] = []
    for pattern in patterns:
        path = isinstance(pattern.predicate, Path)
        variables, values = ((), []) if path else facts.rows(pattern, allowed)
        rows.append([dict(zip(variables, row, strict=True)) for row in values])
    touched = [i for i, matches in enumerate(rows) if matches]
    if len(touched) > NEGATED:
        return None
    filters = []
    for size in range(1, len(touched) + 1):
        for chosen in combinations(touched, size):
            joined: list[Row] = [{}]  # rows that agree, one of each pattern
            for i in chosen:
                joined = [
                    {**a, **b}
                    for a in joined
                    for b in rows[i]
                    if all(a[v] == b[v] for v in a.keys() & b.keys())
                ]
            if len(joined) > ROWS:
                return None
            others = [p for i, p in enumerate(patterns) if i not in chosen]
            if joined:
                filters.append(_filter(others, joined, outside))
    return filters


def _filter(others: Sequence[Pattern], rows: Sequence[Row], outside: Collection[Variable]) -> str:
    """That no row holds, together with the patterns that are left to the KG."""
    bound = {v for p in others for v in p.variables}
    needed = [{v: t for v, t in row.items() if v in bound or v in outside} for row in rows]
    rows = [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in needed)]
    condition = " || ".join(_row_text(row, bound) for row in rows)
    if not others:
        return f"FILTER(!({condition}))"
    return f"FILTER NOT EXISTS {{ {' . '.join(p.n3() for p in others)} FILTER({condition}) }}"


def _row_text(row: Row, bound: Collection[Variable]) -> str:
    """That the variables have the values of a row; one that is not bound may have any."""
    parts = []
    for variable, term in row.items():
        name = variable.n3()
        equal = f"{name} = {term.n3()}" if isinstance(term, IRI) else f"sameTerm({name}, {term.n3()})"
        parts.append(equal if variable in bound else f"(!BOUND({name}) || {equal})")
    return f"({' && '.join(parts) or 'true'})"
