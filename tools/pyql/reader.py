"""SPARQL that PyQL wrote, read back as a program.

The text is read by its lines, which PyQL writes in a fixed form; that nothing was misread is proven by
writing the program again and comparing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from triplewise.tools.core.errors import ActionError, UserError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Variable
from triplewise.tools.core.terms import text as string
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.clauses import (
    MATCHES,
    Clause,
    Count,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    Order,
    Pattern,
    PatternItem,
    TimeWindow,
    Typed,
    Union,
)
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_bare, read_literal

_STRING = r'"(?:[^"\\]|\\.)*"'
_TERM = (
    rf"\?\w+|<[^<>\s]*>|{_STRING}(?:@[\w-]+|\^\^(?:<[^<>\s]*>|\w+:\w+))?"
    r"|true\b|false\b|-?\d+(?:\.\d+)?(?![\w:])|[A-Za-z][\w-]*:[\w-]+"
)
_DOUBLE = r"(?:xsd:double|<http://www\.w3\.org/2001/XMLSchema#double>)"
_KEY = rf"SUBSTR\(STR\(\?\w+\), 1, \d+\)|{_DOUBLE}\((?:STR\(\?\w+\)|{_STRING})\)|STR\(\?\w+\)|{_TERM}"
_TRIPLE = re.compile(rf"({_TERM}) (\S+) ({_TERM}) \.")
_COMPARE = re.compile(rf"FILTER\(({_KEY}) (=|!=|<|>|<=|>=) ({_KEY})\)")
_LOWER = rf"LCASE\(STR\(\?\w+\)\)|{_STRING}"
_MATCH = re.compile(rf"FILTER\(({'|'.join(MATCHES.values())})\(({_LOWER}), ({_LOWER})\)\)")
_OPTIONAL = re.compile(rf"OPTIONAL {{ ({_TERM}) (\S+) (\?\w+) \. }}")
_BOUND = re.compile(
    rf"FILTER\(!BOUND\(\?\w+\) \|\| .+ (<=|>=) (?:SUBSTR\()?({_STRING})(?:, 1, STRLEN\(.+\)\))?\)"
)
_BEST = re.compile(r"SELECT \((MAX|MIN)\((.+)\) AS (\?\w+)\) WHERE \{")
_COUNT = re.compile(r"SELECT (?:(\?\w+) )?\(COUNT\((DISTINCT )?(\?\w+)\) AS (\?\w+)\) WHERE \{")
_GUARD = re.compile(r"FILTER\(BOUND\(.*")
_PREFIX = re.compile(r"PREFIX ([\w-]+): <([^<>\s]*)>")
_ORDER = re.compile(r"ORDER BY (?:DESC\((\?\w+)\)|(\?\w+))")


@dataclass
class Group:
    """A line, with the groups it opens: one, or one for each alternative of a union."""

    line: str
    bodies: list[list[Group]] = field(default_factory=list)


def read_query(sparql: str, profile: Profile) -> PyQL:
    """The program that wrote a query. Raises `UserError` if none did."""
    lines = [line.strip() for line in sparql.split("\n") if line.strip()]
    try:
        program = _program(lines)
        again = program.sparql(profile)
    except (ActionError, ValueError, LookupError) as error:
        raise UserError(f"PyQL did not write this query: {error}") from error
    if [line.strip() for line in again.split("\n") if line.strip()] != lines:
        raise UserError(
            "PyQL did not write this query with this profile: writing it again gives another text"
        )
    return program


def _program(lines: list[str]) -> PyQL:
    """The program in the lines of a query."""
    prefixes = {m[1]: m[2] for m in map(_PREFIX.fullmatch, lines) if m}
    body = iter(line for line in lines if not _PREFIX.fullmatch(line))
    head = Group(next(body, ""))
    head.bodies.append(list(_groups(body)))
    order = None
    for line in body:
        if match := _ORDER.fullmatch(line):
            order = Order(Variable((match[1] or match[2])[1:]), bool(match[1]))
        elif order and line.startswith("LIMIT "):
            order = Order(order.variable, order.descending, int(line[6:]))
    reader = _Reader(prefixes)
    if counted := _COUNT.fullmatch(head.line):
        clauses = reader.counted([], head, counted)
        answer: tuple[Variable, ...] = (Variable(counted[4][1:]),)
    else:
        clauses = reader.clauses(head.bodies[0])
        answer = tuple(Variable(v) for v in re.findall(r"\?(\w+)", head.line))
    return PyQL(tuple(clauses), answer, head.line.startswith("ASK"), order)


def _groups(lines: Iterator[str]) -> Iterator[Group]:
    """The lines up to the closing brace of the group they are in, nested."""
    for line in lines:
        if line.startswith("}"):
            return
        group = Group(line)
        if line.endswith("{"):
            group.bodies = list(_bodies(lines))
        yield group


def _bodies(lines: Iterator[str]) -> Iterator[list[Group]]:
    """The bodies of a braced group: several where it is a union."""
    body: list[str] = []
    depth = 0
    for line in lines:
        if not depth and line.startswith("}"):
            yield list(_groups(iter(body)))
            body = []
            if line != "} UNION {":
                return
            continue
        depth += line.endswith("{") - line.startswith("}")
        body.append(line)


class _Reader:
    """Reads groups into clauses."""

    def __init__(self, prefixes: dict[str, str]) -> None:
        self.prefixes = prefixes

    def clauses(self, groups: Sequence[Group]) -> list[Clause]:
        """The clauses of a group pattern."""
        found: list[Clause] = []
        joins: set[str] = set()
        rest = list(groups)
        while rest:
            group = rest.pop(0)
            if not group.bodies and (first := _OPTIONAL.fullmatch(group.line)):
                found.append(self._window(first, rest))
            elif not group.bodies:
                if group.line not in joins and not _GUARD.fullmatch(group.line):
                    found.append(self._item(group.line))
            elif group.line.startswith("FILTER NOT EXISTS"):
                found.append(Not(self._pattern(group.bodies[0])))
            elif len(group.bodies) > 1:
                found.append(Union(tuple(self._pattern(b) for b in group.bodies)))
            elif group.bodies[0][0].line.startswith("SELECT "):
                found = self._subquery(found, group.bodies[0][0], joins)
            else:
                found = _merged(found, self.clauses(group.bodies[0]))
        return found

    def _pattern(self, groups: Iterable[Group]) -> Pattern:
        """The clauses of a group that is part of another clause."""
        items = self.clauses(list(groups))
        return tuple(item for item in items if self._inner(item))

    def _inner(self, clause: Clause) -> TypeGuard[PatternItem]:
        """Whether a clause may stand inside another. Raises ValueError if not."""
        if isinstance(clause, Fact | Typed | Filter | Extreme | Union):
            return True
        raise ValueError(f"{type(clause).__name__} inside a pattern")

    def _subquery(self, found: list[Clause], query: Group, joins: set[str]) -> list[Clause]:
        """The clauses before a subquery, those inside it that are new, and its own."""
        if counted := _COUNT.fullmatch(query.line):
            return self.counted(found, query, counted)
        best = _BEST.fullmatch(query.line)
        if best is None:
            raise ValueError(query.line)
        variable, kind = self._side(best[2])
        if not isinstance(variable, Variable):
            raise ValueError(query.line)
        joins.add(f"FILTER({best[2]} = {best[3]})")
        inside = self.clauses(query.bodies[0])
        return [*_merged(found, inside), Extreme(variable, best[1] == "MAX", kind)]

    def counted(self, found: list[Clause], query: Group, match: re.Match[str]) -> list[Clause]:
        """The clauses of a COUNT and of what it counts."""
        per, distinct, counted, output = match.groups()
        group = Variable(per[1:]) if per else None
        own = Count(Variable(counted[1:]), Variable(output[1:]), bool(distinct), group)
        return [*_merged(found, self.clauses(query.bodies[0])), own]

    def _window(self, first: re.Match[str], rest: list[Group]) -> TimeWindow:
        """Two optional ends and their conditions."""
        second = _OPTIONAL.fullmatch(rest.pop(0).line)
        if second is None:
            raise ValueError(first[0])
        limits = {"<=": "", ">=": ""}
        while rest and (condition := _BOUND.fullmatch(rest[0].line)):
            limits[condition[1]] = _unquoted(condition[2])
            rest.pop(0)
        mediator, from_relation, to_relation = (
            self._term(first[1]),
            self._term(first[2]),
            self._term(second[2]),
        )
        if not (
            isinstance(mediator, Variable) and isinstance(from_relation, IRI) and isinstance(to_relation, IRI)
        ):
            raise ValueError(first[0])
        return TimeWindow(mediator, from_relation, to_relation, limits[">="], limits["<="])

    def _item(self, line: str) -> PatternItem:
        """A triple, type or filter."""
        if triple := _TRIPLE.fullmatch(line):
            return self._triple(*triple.groups())
        if match := _MATCH.fullmatch(line):
            operator = next(name for name, function in MATCHES.items() if function == match[1])
            return Filter(self._lowered(match[2]), operator, self._lowered(match[3]))
        compare = _COMPARE.fullmatch(line)
        if compare is None:
            raise ValueError(line)
        (left, kind), (right, other) = self._side(compare[1]), self._side(compare[3])
        kind = kind or other
        return Filter(_read_as(left, kind), compare[2], _read_as(right, kind), kind)

    def _triple(self, subject: str, path: str, object: str) -> Fact | Typed:
        start, end = self._term(subject), self._term(object)
        if (
            isinstance(start, Variable)
            and isinstance(end, IRI)
            and re.search(r"[|*]", re.sub(r"<[^>]*>", "", path))
        ):
            return Typed(start, end)
        relation = self._term(path)
        if isinstance(start, Literal) or not isinstance(relation, IRI):
            raise ValueError(path)
        return Fact(start, relation, end)

    def _lowered(self, side: str) -> Node:
        variable = re.fullmatch(r"LCASE\(STR\((\?\w+)\)\)", side)
        return self._term(variable[1] if variable else side)

    def _side(self, key: str) -> tuple[Node, Kind]:
        """What a comparison key stands for, and the kind it shows."""
        if match := re.fullmatch(r"SUBSTR\(STR\((\?\w+)\), 1, \d+\)", key):
            return self._term(match[1]), "date"
        if match := re.fullmatch(rf"{_DOUBLE}\((?:STR\((\?\w+)\)|({_STRING}))\)", key):
            return self._term(match[1] or match[2]), "number"
        if match := re.fullmatch(r"STR\((\?\w+)\)", key):
            return self._term(match[1]), "text"
        return self._term(key), ""

    def _term(self, form: str) -> Node:
        """A term in SPARQL."""
        if form.startswith("?"):
            return Variable(form[1:])
        if form.startswith("<"):
            return IRI(form[1:-1])
        if form.startswith('"'):
            body, mark, datatype = form.rpartition("^^")
            if mark and not datatype.startswith("<") and body.endswith('"'):
                form = f"{body}^^<{self._prefixed(datatype)}>"
            if (literal := read_literal(form)) is not None:
                return literal
        elif (bare := read_bare(form)) is not None:
            return bare
        return IRI(self._prefixed(form))

    def _prefixed(self, form: str) -> str:
        prefix, _, local = form.partition(":")
        return self.prefixes[prefix] + local


def _merged(found: list[Clause], inside: Iterable[Clause]) -> list[Clause]:
    """The clauses so far, and those of a subquery that are not among them."""
    return [*found, *(c for c in inside if c not in found)]


def _unquoted(form: str) -> str:
    literal = read_literal(form)
    return literal.value if literal else ""


def _read_as(node: Node, kind: Kind) -> Node:
    """The constant of a typed comparison, which is written as its text."""
    if kind not in ("date", "number") or not isinstance(node, Literal):
        return node
    if kind == "date" and re.fullmatch(r"-?\d{4}", node.value):
        return Literal(node.value, XSD + "gYear")
    try:
        return read_bare(node.value) or string(node.value)
    except ActionError:
        return string(node.value)
