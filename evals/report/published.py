"""Published figures that ours stand beside: `published.yaml`, read and validated.

>>> table = published_table("queryagent-table-3")
>>> table.value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals.grids.reading import Document, read_yaml
from triplewise.tools.core.errors import ConfigurationError

Figures = Mapping[str, float]
"""Metric -> value, in the table's unit."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures were published. `date`: of the first publication, as year-month."""

    key: str
    title: str
    venue: str
    date: str
    url: str


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column as printed.

    Attributes:
        column: its heading. task: our task over the same benchmark, "" for none.
        ours: published metric -> the score of our logs that stands beside it.
    """

    column: str
    task: str
    ours: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row as printed: name (unique in the table), the heading above it, model, note, values by column."""

    row: str
    group: str
    model: str
    note: str
    values: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table or figure.

    Attributes:
        key: by which grids name it. title, source, place: what and where it is. model: of most rows.
        unit: of the values; `percent` is 0 to 100. metrics: in the order of printing.
        note: how it was measured: subset, lenient matching, other knowledge graphs.
    """

    key: str
    title: str
    source: Source
    place: str
    model: str
    unit: str
    metrics: tuple[str, ...]
    note: str
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]
    _by_name: Mapping[str, PublishedRow] = field(default_factory=dict, repr=False)

    @property
    def date(self) -> str:
        """When it was published first."""
        return self.source.date

    def row(self, name: str) -> PublishedRow | None:
        """A row by its name."""
        return self._by_name.get(name)

    def column(self, name: str) -> PublishedColumn | None:
        """A column by its heading."""
        return next((c for c in self.columns if c.column == name), None)

    def value(self, row: str, column: str, metric: str | None = None) -> float | None:
        """One figure (of the first metric unless another is named); None where the table has none."""
        found = self.row(row)
        figures = found.values.get(column, {}) if found else {}
        return figures.get(metric or self.metrics[0])


def published() -> Mapping[str, PublishedTable]:
    """All published tables by key."""
    return _shipped()


def published_table(key: str) -> PublishedTable:
    """A table by its key. Raises `ConfigurationError` on an unknown one, with the legal keys."""
    if key not in _shipped():
        raise ConfigurationError.unknown("published table", key, _shipped())
    return _shipped()[key]


def load_published(path: Path) -> Mapping[str, PublishedTable]:
    """Published tables of a file.

    Raises:
        DataError: naming file, line and key: something missing or unknown, a name that is there twice, a
            value of a column or metric that the table does not have.
    """
    document = read_yaml(path)
    whole = document.read(_File)
    return MappingProxyType({key: _table(key, whole, document) for key in whole.tables})


@cache
def _shipped() -> Mapping[str, PublishedTable]:
    with as_file(files("triplewise.evals.report") / "published.yaml") as path:
        return load_published(path)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Source(_Strict):
    title: str
    venue: str
    date: str = Field(pattern=r"^\d{4}(-\d\d)?( to \d{4})?$")
    url: str = ""


class _Column(_Strict):
    column: str = Field(min_length=1)
    task: str
    ours: dict[str, str] = Field(default_factory=dict)


class _Row(_Strict):
    row: str = Field(min_length=1)
    group: str = ""
    model: str = ""
    note: str = ""
    values: dict[str, float | int | dict[str, float | int]]


class _Table(_Strict):
    title: str
    source: str
    place: str
    model: str
    unit: str
    metrics: list[str] = Field(min_length=1)
    note: str
    columns: list[_Column] = Field(min_length=1)
    rows: list[_Row] = Field(min_length=1)


class _File(_Strict):
    sources: dict[str, _Source]
    tables: dict[str, _Table]


def _table(key: str, whole: _File, document: Document) -> PublishedTable:
    """One table, its names checked against each other."""
    read, place = whole.tables[key], ("tables", key)
    if read.source not in whole.sources:
        raise document.error(f"unknown source {read.source!r}", (*place, "source"))
    columns = tuple(_column(c, read, document, (*place, "columns", i)) for i, c in enumerate(read.columns))
    rows = tuple(_row(r, read, document, (*place, "rows", i)) for i, r in enumerate(read.rows))
    for what, names in (("columns", [c.column for c in columns]), ("rows", [r.row for r in rows])):
        if repeated := {n for n in names if names.count(n) > 1}:
            raise document.error(f"{repeated.pop()!r} is there twice", (*place, what))
    return PublishedTable(
        key=key,
        title=read.title,
        source=Source(key=read.source, **whole.sources[read.source].model_dump()),
        place=read.place,
        model=read.model,
        unit=read.unit,
        metrics=tuple(read.metrics),
        note=read.note,
        columns=columns,
        rows=rows,
        _by_name={row.row: row for row in rows},
    )


def _column(
    read: _Column, table: _Table, document: Document, place: tuple[str | int, ...]
) -> PublishedColumn:
    """A column; metrics that it does not translate keep their names."""
    for name in read.ours:
        if name not in table.metrics:
            raise document.error(_unknown("metric", name, table.metrics), (*place, "ours"))
    return PublishedColumn(read.column, read.task, {m: read.ours.get(m, m) for m in table.metrics})


def _row(read: _Row, table: _Table, document: Document, place: tuple[str | int, ...]) -> PublishedRow:
    """A row; a bare number is a value of the table's only metric."""
    known, values = [c.column for c in table.columns], {}
    for column, given in read.values.items():
        if column not in known:
            raise document.error(_unknown("column", column, known), (*place, "values", column))
        if not isinstance(given, dict) and len(table.metrics) > 1:
            raise document.error(f"name the metric: {', '.join(table.metrics)}", (*place, "values", column))
        figures = given if isinstance(given, dict) else {table.metrics[0]: given}
        for metric in figures:
            if metric not in table.metrics:
                raise document.error(_unknown("metric", metric, table.metrics), (*place, "values", column))
        values[column] = {m: float(v) for m, v in figures.items()}
    return PublishedRow(read.row, read.group, read.model or table.model, read.note, values)


def _unknown(what: str, name: str, legal: list[str]) -> str:
    return f"unknown {what} {name!r}; choose one of: {', '.join(legal)}"
