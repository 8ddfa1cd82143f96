"""What a relational database holds, tables, kinds of cells, keys for joins, and conditions on its columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

from triplewise.tools.core.errors import ActionError, ConfigurationError
from triplewise.tools.core.terms import one_line
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.sql.values import ColumnKind, fold, kind_of, nearest, read_number

if TYPE_CHECKING:  # it takes its time
    from triplewise.tools.sql.engines import Declared, Engine

Cells = dict[tuple[str, ColumnKind], dict[str, tuple[str, set[Any], bool, bool]]]
"""Name and kind of columns -> table -> column, its cells, whether each is unique, whether all were read."""
Aggregation = Literal["", "MAX", "MIN", "COUNT", "SUM", "AVG"]
OPERATORS = ("=", "!=", ">", "<", ">=", "<=")
SAMPLE, SHOWN = 1_000, 40  # rows of a table that are read, and characters of an example that are shown
_SIGNS = {"==": "=", "is": "=", "equals": "=", "<>": "!=", "≠": "!=", "≥": ">=", "=>": ">=", "≤": "<=",
          "=<": "<="}  # fmt: skip
_FUNCTIONS = {"NONE": "", "NULL": "", "AVERAGE": "AVG", "MEAN": "AVG", "MAXIMUM": "MAX", "MINIMUM": "MIN",
              "TOTAL": "SUM", "NUMBER": "COUNT"}  # fmt: skip
_TEXTS = "CHAR VARCHAR CHARACTER NCHAR NVARCHAR BPCHAR CLOB TEXT TINYTEXT MEDIUMTEXT LONGTEXT NAME NULL"
_NUMBERS = """INT INTEGER TINYINT SMALLINT MEDIUMINT BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT
UHUGEINT NUMERIC DECIMAL FLOAT DOUBLE REAL YEAR"""
_KINDS: dict[str, ColumnKind | None] = {
    **dict.fromkeys(_TEXTS.split()),
    **dict.fromkeys(_NUMBERS.split(), "number"),
    **dict.fromkeys(("DATE", "DATETIME", "TIMESTAMP"), "date"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "boolean"),
    "ENUM": "text",
}
"""First word of a declared type -> how its cells compare; None where that has to be seen from the cells."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `kind`: how its values compare, stored like that (`is_native`) or as texts (`as_text`)."""

    table: str
    name: str
    kind: ColumnKind = "text"
    example: str = ""
    is_native: bool = field(default=True, compare=False)
    as_text: bool = field(default=False, compare=False)

    @property
    def id(self) -> str:
        """How actions name it where several tables have a column of this name: `table.column`."""
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view; rows differ in the columns `primary`."""

    name: str
    columns: tuple[Column, ...]
    primary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """A foreign key: a table, the one it refers to, and the columns of both that are equal."""

    source: str
    target: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables that may be queried, with their keys, by names of one line; `stored` has other ones."""

    tables: tuple[Table, ...]
    keys: tuple[Join, ...] = ()
    stored: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of the tables."""
        return tuple(c for t in self.tables for c in t.columns)

    def name_of(self, column: Column) -> str:
        """How a column is written: bare where no other table has its name."""
        same = [c for c in self.columns if fold(c.name) == fold(column.name)]
        return column.name if len(same) == 1 else column.id

    def find_column(self, form: str, near: str = "") -> Column:
        """The column that a form means: by name, or `table.name`; case, accents and spaces do not matter.

        Of columns with one name that of the table `near`. Raises `unknown_column` or `ambiguous_column`.
        """
        given, columns = bare(form), self.columns
        for reading in (str, fold, lambda t: re.sub(r"[\W_]", "", fold(t))):
            fitting = [c for c in columns if reading(given) in (reading(c.id), reading(c.name))]
            fitting = [c for c in fitting if c.id == given] or fitting
            if len(fitting) > 1:
                fitting = [c for c in fitting if c.table == near] or fitting
            if len(fitting) == 1:
                return fitting[0]
            if fitting:
                ids = [c.id for c in fitting]
                message = f"{given} is a column of several tables: {', '.join(ids)}"
                raise ActionError("ambiguous_column", message, options=ids)
        names = nearest(given, [self.name_of(c) for c in columns], 5)
        raise ActionError("unknown_column", f"there is no column {given}", given=given, nearest=names)

    def find_table(self, form: str) -> Table:
        """The table that a form means. Raises `ActionError` with code `unknown_table`."""
        given, tables = bare(form), {t.name: t for t in self.tables}
        if name := next((name for name in tables if fold(name) == fold(given)), ""):
            return tables[name]
        near = nearest(given, list(tables), 5) or list(tables)[:20]
        raise ActionError("unknown_table", f"there is no table {given}", given=given, nearest=near)


class Condition(NamedTuple):
    """`column operator value`."""

    column: Column
    operator: str
    value: str


def bare(form: str) -> str:
    """A form without outer quotes of any kind."""
    text = form.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] + text[-1] in ('""', "''", "``", "[]") else text


def read_aggregation(form: str) -> Aggregation:
    """An aggregation as a model writes it. Raises `ActionError` with code `bad_aggregation`."""
    name, legal = bare(form).upper(), get_args(Aggregation)
    name = _FUNCTIONS.get(name, name)
    if name not in legal:
        message = f"{form} is not an aggregation: {', '.join(legal[1:])}"
        raise ActionError("bad_aggregation", message, given=form, legal=list(legal[1:]))
    return cast(Aggregation, name)


def read_condition(schema: Schema, parts: Sequence[str], near: str = "") -> Condition:
    """`column, operator, value`; commas inside them need no quotes. Raises `bad_operator` or `bad_value`."""
    signs = [_SIGNS.get(bare(part).lower(), bare(part)) for part in parts]
    place = next((i for i, sign in enumerate(signs) if i and sign in OPERATORS), 1)
    column, operator = schema.find_column(", ".join(parts[:place]), near), signs[place]
    if operator not in OPERATORS:
        message = f"{parts[place]} is not an operator: {', '.join(OPERATORS)}"
        raise ActionError("bad_operator", message, given=parts[place], legal=list(OPERATORS))
    value = bare(", ".join(parts[place + 1 :]))
    if operator not in ("=", "!=") and column.kind == "number" and read_number(value) is None:
        message = f"{column.name} holds numbers, and {value} is none"
        raise ActionError("bad_value", message, given=value, column=column.name)
    return Condition(column, operator, value)


def reflect_schema(engine: Engine, timeout: float) -> Schema:
    """Return tables and views with columns and keys; a query a table for a sample, within `timeout` seconds.

    Raises `ConfigurationError` for a database without tables, `QueryError` for one that does not answer.
    """
    from sqlglot import exp

    from triplewise.tools.sql.engines import QueryError

    declared = {name: table for name, table in engine.declared().items() if table.columns}
    if not declared:
        raise ConfigurationError("the database holds no table that can be read")
    shown, stored = _names_of_one_line(declared)
    deadline, tables, held = Deadline(timeout), list[Table](), Cells()
    for name, table in declared.items():
        looked = [c for c, t in table.columns.items() if _is_loose(t, engine) or _declared_kind(t) != "other"]
        rows = list[tuple[Any, ...]]()
        if looked and not deadline.passed:
            cells_of = exp.select(*(exp.column(c, quoted=True) for c in looked))
            sampled = cells_of.from_(exp.table_(name, quoted=True)).limit(SAMPLE)
            with suppress(QueryError):  # then the kinds of the types have to do
                rows = engine.fetch(sampled.sql(engine.dialect), deadline.left).rows
        cells = {c: [row[i] for row in rows if row[i] is not None] for i, c in enumerate(looked)}
        kinds = table.columns.items()
        columns = [_column(shown[name], shown[c], kind, cells.get(c, []), engine) for c, kind in kinds]
        tables.append(Table(shown[name], tuple(columns), tuple(shown[c] for c in table.primary)))
        for own, column in zip(table.columns, columns, strict=True):
            if column.kind in ("text", "number"):
                sample = cells.get(own, [])
                different, same = set(sample), held.setdefault((fold(column.name), column.kind), {})
                same[column.table] = column.name, different, len(different) == len(sample), len(rows) < SAMPLE
    keys = list(_keys(declared, shown))
    return Schema(tuple(tables), (*keys, *_likely_keys(held, keys)), stored)


def _names_of_one_line(declared: Mapping[str, Declared]) -> tuple[dict[str, str], dict[str, str]]:
    """Return names as ones that forge no line of a prompt, and the stored name of each that differs."""
    shown = {n: one_line(n) for name, table in declared.items() for n in (name, *table.columns)}
    stored = dict[str, str]()
    for name, text in shown.items():
        if text != name:
            text = text.strip() or "_"
            while text in shown or text in stored:
                text += "_"
            shown[name], stored[text] = text, name
    return shown, stored


def _column(table: str, name: str, type_: str, cells: Sequence[Any], engine: Engine) -> Column:
    """A column of a declared type, with what a sample of its cells tells beyond that."""
    declared, texts = _declared_kind(type_), [c for c in cells if isinstance(c, str)]
    kind, is_native = _kind(declared, cells, _is_loose(type_, engine)), not texts
    if kind == "text":
        is_native = declared is None and len(texts) == len(cells) and not engine.ignores_case
    written = [t for t in texts if t.strip()]
    example = written[0] if kind in ("text", "date") and written else ""
    example = example if len(example) <= SHOWN else f"{example[:SHOWN]}..."
    own_types = ("text", "date") if engine.dialect == "sqlite" else ("text",)  # SQLite has no type for dates
    as_text = kind not in own_types and 0 < len(written) == len(cells)
    return Column(table, name, kind, example, is_native, as_text)


def _is_loose(type_: str, engine: Engine) -> bool:
    """Whether a type does not say what cells hold: any of SQLite's, and MySQL's truth values."""
    return engine.dialect == "sqlite" or type_ == "TINYINT(1)"


def _declared_kind(declared: str) -> ColumnKind | None:
    """Return how cells of a declared type compare; None where that has to be seen from the cells."""
    if declared == "TINYINT(1)":
        return "boolean"
    word = re.match(r"[A-Z]*", declared.upper())
    return "other" if "[" in declared else _KINDS.get(word[0] if word else "", "other")


def _kind(declared: ColumnKind | None, cells: Sequence[Any], is_loose: bool) -> ColumnKind:
    """Return the kind of a column's cells where they tell more than its type; see `_is_loose`."""
    if any(isinstance(c, bytes | bytearray) for c in cells):
        return "other"
    if declared is None or (is_loose and cells and declared == "text"):
        return kind_of(cells) or "text"
    if not (is_loose and cells):
        return declared
    mostly_numbers = 2 * sum(read_number(c) is not None for c in cells) >= len(cells)
    if (declared == "number" and mostly_numbers) or (declared == "boolean" and set(cells) <= {0, 1}):
        return declared
    return kind_of(cells) or ("text" if declared == "other" else declared)


def _keys(declared: Mapping[str, Declared], shown: Mapping[str, str]) -> Iterator[Join]:
    """Return declared foreign keys, then those that names imply (`director_id` refers to `director`)."""
    implied = defaultdict[str, list[str]](list)  # what a column that refers to tables may be called
    for other, table in declared.items():
        for form in _key_forms(other.lower(), table.primary[0].lower()) if len(table.primary) == 1 else ():
            implied[form].append(other)
    for name, table in declared.items():
        place = list(table.columns).index
        keys = [Join(name, to, tuple(zip(own, theirs, strict=False))) for own, to, theirs in table.keys]
        keys.sort(key=lambda key: [place(own) for own, _ in key.pairs])
        referring = dict(chain.from_iterable(key.pairs for key in keys))
        for column in (c for c in table.columns if c not in referring and table.primary != (c,)):
            others = (other for other in implied.get(column.lower(), ()) if other != name)
            keys += [Join(name, o, ((column, declared[o].primary[0]),)) for o in islice(others, 1)]
        for join in keys:
            if join.target in declared and all(b in declared[join.target].columns for _, b in join.pairs):
                pairs = tuple((shown[own], shown[theirs]) for own, theirs in join.pairs)
                yield Join(shown[name], shown[join.target], pairs)


def _key_forms(table: str, key: str) -> set[str]:
    """Names of columns that refer to a key of another table: its own too, where it tells enough."""
    forms = {f"{stem}{glue}{key}" for stem in (table, table.removesuffix("s")) for glue in ("", "_")}
    return forms | ({key} if len(key) > 3 else set())


def _likely_keys(held: Cells, keys: Iterable[Join]) -> Iterator[Join]:
    """Return joins of tables without any key: by columns of one name, where values of one identify rows."""
    joined, pairs = {name for key in keys for name in (key.source, key.target)}, set[frozenset[str]]()
    for by_table in held.values():
        keyed = [(t, c, have) for t, (c, have, *is_key) in by_table.items() if all(is_key) and len(have) > 1]
        for source, (own, values, is_unique, _) in by_table.items():
            is_numbering = is_unique and len(own) < 4  # as two `id`s of different things are, and alike
            for target, their, theirs in () if source in joined or is_numbering else keyed:
                pair = frozenset((source, target))
                if len(pair) > 1 and pair not in pairs and 2 * len(values & theirs) >= len(values) > 0:
                    pairs.add(pair)
                    yield Join(source, target, ((own, their),))
