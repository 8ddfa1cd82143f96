"""Published figures that ours stand beside: `published.yaml`, read and validated.

>>> table = published_table("queryagent-table-3")
>>> table.value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals.yaml_models import located, read_model, unknown
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.yaml_lines import YamlDocument


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(_Strict):
    """Where figures were published. `date`: of the first publication, as year-month."""

    title: str
    venue: str
    date: str = Field(pattern=r"^\d{4}(-\d\d)?( to \d{4})?$")
    url: str = ""


class PublishedColumn(_Strict):
    """A column as printed.

    Attributes:
        column: its heading. task: our task over the same benchmark, "" for none.
        ours: published metric -> the score of our logs that stands beside it, all metrics of the table.
    """

    column: str = Field(min_length=1)
    task: str
    ours: dict[str, str] = Field(default_factory=dict)


class PublishedRow(_Strict):
    """A row as printed: name (unique in the table), the heading above it, model, note, values.

    `values`: column -> metric -> value, in the table's unit; in the file a number is the only metric's.
    """

    row: str = Field(min_length=1)
    group: str = ""
    model: str = ""
    note: str = ""
    values: dict[str, Any]


class PublishedTable(_Strict):
    """A published table or figure.

    Attributes:
        title, source, place: what and where it is. model: of most rows.
        unit: of the values; `percent` is 0 to 100. metrics: in the order of printing.
        note: how it was measured: subset, lenient matching, other knowledge graphs.
    """

    key: str = ""
    title: str
    source_key: str = Field(alias="source")
    origin: Source | None = None
    place: str
    model: str
    unit: str
    metrics: list[str] = Field(min_length=1)
    note: str
    columns: list[PublishedColumn] = Field(min_length=1)
    rows: list[PublishedRow] = Field(min_length=1)

    @property
    def source(self) -> Source:
        """The paper."""
        assert self.origin is not None, "set when it is read"
        return self.origin

    @property
    def date(self) -> str:
        """When it was published first."""
        return self.source.date

    def row(self, name: str) -> PublishedRow | None:
        """Return a row by its name."""
        return next((row for row in self.rows if row.row == name), None)

    def column(self, name: str) -> PublishedColumn | None:
        """Return a column by its heading."""
        return next((column for column in self.columns if column.column == name), None)

    def value(self, row: str, column: str, metric: str | None = None) -> float | None:
        """Return one figure (of the first metric unless another is named); None where the table has none."""
        printed = self.row(row)
        figures = printed.values.get(column, {}) if printed else {}
        value: float | None = figures.get(metric or self.metrics[0])
        return value


class _File(_Strict):
    sources: dict[str, Source]
    tables: dict[str, PublishedTable]


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    with as_file(files("triplewise.evals.report") / "published.yaml") as path:
        return load_published(path)


def published_table(key: str) -> PublishedTable:
    """Return a table by its key. Raises `ConfigurationError` on an unknown one, with the legal keys."""
    if key not in published():
        raise ConfigurationError.unknown("published table", key, published())
    return published()[key]


def load_published(path: Path) -> Mapping[str, PublishedTable]:
    """Read the published tables of a file.

    Raises:
        DataError: naming file, line and key: something missing or unknown, a name that is there twice, a
            value of a column or metric that the table does not have.
    """
    whole, document = read_model(path, _File)
    return {key: _complete(key, whole, document) for key in whole.tables}


def _complete(key: str, whole: _File, document: YamlDocument) -> PublishedTable:
    """One table with its source, all metrics of its columns and models of its rows; names are checked."""
    table, place = whole.tables[key], ("tables", key)

    def check(what: str, name: str, legal: list[str], *at: object) -> None:
        if name not in legal:
            raise located(document, unknown(what, name, legal), (*place, *at))

    check("source", table.source_key, list(whole.sources), "source")
    columns, rows = [c.column for c in table.columns], [r.row for r in table.rows]
    for what, names in (("columns", columns), ("rows", rows)):
        if repeated := {name for name in names if names.count(name) > 1}:
            raise located(document, f"{repeated.pop()!r} is there twice", (*place, what))
    for i, column in enumerate(table.columns):
        for name in column.ours:
            check("metric", name, table.metrics, "columns", i, "ours")
    completed = []
    for i, row in enumerate(table.rows):
        values: dict[str, dict[str, float]] = {}
        for name, given in row.values.items():
            at = ("rows", i, "values", name)
            check("column", name, columns, *at)
            if not isinstance(given, dict) and len(table.metrics) > 1:
                raise located(document, f"name the metric: {', '.join(table.metrics)}", (*place, *at))
            figures = given if isinstance(given, dict) else {table.metrics[0]: given}
            for metric, value in figures.items():
                check("metric", metric, table.metrics, *at)
                if not isinstance(value, int | float):
                    raise located(document, f"not a number: {value!r}", (*place, *at))
            values[name] = {metric: float(value) for metric, value in figures.items()}
        completed.append(row.model_copy(update={"values": values, "model": row.model or table.model}))
    translated = [
        column.model_copy(update={"ours": {m: column.ours.get(m, m) for m in table.metrics}})
        for column in table.columns
    ]
    source = whole.sources[table.source_key]
    return table.model_copy(update={"key": key, "origin": source, "columns": translated, "rows": completed})
