"""What the three engines have in common: how they are read, and what they make of a statement.

Only a SELECT built by `tools/sql/statements.py` passes, in a transaction that cannot write. Identifiers
come from reflection and are quoted by SQLAlchemy; values are bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Double, Numeric, Select, Text, cast, literal
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.elements import ColumnElement

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.base import ColumnKind

Expression: TypeAlias = ColumnElement[Any]
Statement: TypeAlias = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column as the engine declares it; `kind` None where only its cells can tell."""

    name: str
    kind: ColumnKind | None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class RawKey:
    """A foreign key as the engine declares it: own columns, the table referred to, and its columns."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table or view as the engine declares it."""

    name: str
    columns: tuple[RawColumn, ...]
    primary: tuple[str, ...] = ()
    keys: tuple[RawKey, ...] = ()
    doc: str = ""


class QueryError(Exception):
    """A query that gave no rows, with what happened to it in the words of outcomes."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        self.outcome, self.message = outcome, message
        super().__init__(message)


class Engine(ABC):
    """A database that can be read.

    `name` is sqlite, postgresql or duckdb. `reserved`: words that SQLAlchemy does not know to quote here.
    """

    name: str
    reserved: frozenset[str] = frozenset()

    @abstractmethod
    def tables(self) -> list[RawTable]:
        """All tables and views of the default schema. Raises `QueryError`."""

    @abstractmethod
    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows of a statement. Raises `QueryError`; a spent time-out, in seconds, is one."""

    @abstractmethod
    def close(self) -> None:
        """Free what is held. Safe to call twice."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """How statements are written for people."""

    def text(self, statement: Statement) -> str:
        """A statement with its values written out, for people: it is never run."""
        compiled = statement.compile(dialect=self.dialect, compile_kwargs={"literal_binds": True})
        return "\n".join(line.rstrip() for line in str(compiled).splitlines())

    @abstractmethod
    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A cell as a number, NULL where it is none.

        `native`: the column is declared as a number. `shown`: the expression is for people.
        """

    @abstractmethod
    def iso(self, cell: Expression) -> Expression:
        """A date as ISO text."""

    @abstractmethod
    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """A text without case, accents, and outer or repeated spaces."""

    def written(self, cell: Expression) -> Expression:
        """Any cell as text."""
        return cast(cell, Text())


def bound(value: str | int | float) -> Expression:
    """A value as a bound parameter, of a type that every engine compares with columns of its kind."""
    if isinstance(value, str):
        return literal(value, Text())
    whole = abs(value) < 10**15 and value == int(value)
    return literal(int(value), Numeric(asdecimal=False)) if whole else literal(float(value), Double())
