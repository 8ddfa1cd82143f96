"""The clauses of a PyQL program: what each action adds to the query (QueryAgent 3.2, table 10).

A program is read in order: every clause works on the solutions of the clauses before it, which is what the
agent has seen at that step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Literal, Node, Variable

Kind = OneOf["", "number", "date", "text"]
"""How values are compared: "" as the engine does, else as numbers, dates or text whatever their datatype."""

KINDS: tuple[Kind, ...] = ("", "number", "date", "text")
COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")
MATCHES = {"contains": "CONTAINS", "starts_with": "STRSTARTS", "ends_with": "STRENDS"}
OPERATORS = (*COMPARISONS, *MATCHES)


def _variables(nodes: Iterable[object]) -> tuple[Variable, ...]:
    """The variables among some nodes, each once, in order."""
    return tuple(dict.fromkeys(n for n in nodes if isinstance(n, Variable)))


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple pattern."""

    subject: IRI | Variable
    relation: IRI
    object: Node

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return _variables((self.subject, self.object))

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return self.mentions


@dataclass(frozen=True, slots=True)
class Typed:
    """The variable is an instance of a type, or of a subclass of it where the profile knows subclasses."""

    variable: Variable
    type: IRI

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return (self.variable,)

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return (self.variable,)


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison of two values, at least one of them a variable."""

    left: Node
    operator: str
    right: Node
    kind: Kind = ""

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return _variables((self.left, self.right))

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return ()


@dataclass(frozen=True, slots=True)
class Extreme:
    """Keep the solutions with the largest (or smallest) value of a variable: all of them, if several tie."""

    variable: Variable
    largest: bool
    kind: Kind = ""

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return (self.variable,)

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return ()


@dataclass(frozen=True, slots=True)
class Count:
    """Number of (distinct) values of a variable, over all solutions connected with it, or for each `per`."""

    counted: Variable
    output: Variable
    distinct: bool = True
    per: Variable | None = None

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return _variables((self.counted, self.per, self.output))

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return (self.output,)


@dataclass(frozen=True, slots=True)
class Union:
    """At least one of several patterns holds. A superlative inside one is that of its own pattern."""

    alternatives: tuple[Pattern, ...]

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return _variables(v for pattern in self.alternatives for item in pattern for v in item.mentions)

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return _variables(v for pattern in self.alternatives for item in pattern for v in item.binds)


PatternItem: TypeAlias = Fact | Typed | Filter | Extreme | Union
Pattern: TypeAlias = tuple[PatternItem, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """A pattern that must not hold. Its new variables live only inside."""

    pattern: Pattern

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return _variables(v for item in self.pattern for v in item.mentions)

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return ()


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A mediator's own period overlaps with a given one; ends that are missing are open.

    `start` and `end` are `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, or "" for an open end.
    """

    mediator: Variable
    from_relation: IRI
    to_relation: IRI
    start: str = ""
    end: str = ""

    @property
    def mentions(self) -> tuple[Variable, ...]:
        """Variables the clause names."""
        return (self.mediator,)

    @property
    def binds(self) -> tuple[Variable, ...]:
        """Variables the clause makes visible to later clauses."""
        return ()


Clause: TypeAlias = Fact | Typed | Filter | Extreme | Count | Union | Not | TimeWindow


def subjects(clause: Clause) -> set[Variable]:
    """Variables that a clause uses as entities."""
    match clause:
        case Fact(subject=Variable() as subject):
            return {subject}
        case Typed(variable=variable) | TimeWindow(mediator=variable):
            return {variable}
        case Union(alternatives=patterns):
            return {v for pattern in patterns for item in pattern for v in subjects(item)}
        case Not(pattern=pattern):
            return {v for item in pattern for v in subjects(item)}
    return set()


def measured(clause: Clause) -> set[Variable]:
    """Variables that a clause uses as numbers, dates or text."""
    match clause:
        case Count(output=output):
            return {output}
        case Filter(operator="<" | ">" | "<=" | ">="):
            return set(clause.mentions)
        case Filter(left=left, right=right) if isinstance(left, Literal) or isinstance(right, Literal):
            return set(clause.mentions)
        case Union(alternatives=patterns):
            return {v for pattern in patterns for item in pattern for v in measured(item)}
        case Not(pattern=pattern):
            return {v for item in pattern for v in measured(item)}
    return set()


@dataclass(frozen=True, slots=True)
class Order:
    """How the answers are ordered, and how many are kept (0: all)."""

    variable: Variable
    descending: bool = True
    limit: int = 0
