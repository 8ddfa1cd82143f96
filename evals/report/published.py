"""Published figures that ours stand beside: `published.yaml`, read and validated.

>>> published()["queryagent-table-3"].value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from triplewise.tools.core.files import read_yaml


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
    values: dict[str, dict[str, float]]


class PublishedTable(_Strict):
    """A published table or figure.

    Attributes:
        title, source, place: what and where it is. model: of most rows.
        unit: of the values; `percent` is 0 to 100. metrics: in the order of printing.
        note: how it was measured: subset, lenient matching, other knowledge graphs.
    """

    key: str
    title: str
    source: Source
    place: str
    model: str
    unit: str
    metrics: list[str] = Field(min_length=1)
    note: str
    columns: list[PublishedColumn] = Field(min_length=1)
    rows: list[PublishedRow] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, table: dict[str, Any]) -> dict[str, Any]:
        """Write out what the file leaves to be understood: metrics, and the models of the rows."""
        metrics: list[str] = table["metrics"]
        rows: list[dict[str, Any]] = []
        for row in table["rows"]:
            values = {}
            for column, value in row["values"].items():
                if not isinstance(value, dict) and len(metrics) > 1:
                    raise ValueError(f"{row['row']}, {column}: name the metric: {', '.join(metrics)}")
                values[column] = value if isinstance(value, dict) else {metrics[0]: value}
            rows.append({"model": table["model"], **row, "values": values})
        same = {metric: metric for metric in metrics}
        columns = [{**column, "ours": same | column.get("ours", {})} for column in table["columns"]]
        return {**table, "rows": rows, "columns": columns}

    @model_validator(mode="after")
    def _check_names(self) -> PublishedTable:
        """Raise `ValueError` on an unknown column or metric, or a name that is there twice."""
        columns, rows = [column.column for column in self.columns], [row.row for row in self.rows]
        for names in (columns, rows):
            if len(set(names)) < len(names):
                raise ValueError(f"a name is there twice in {names}")
        used = {name for row in self.rows for name in row.values}
        metrics = {metric for row in self.rows for figures in row.values.values() for metric in figures}
        metrics |= {metric for column in self.columns for metric in column.ours}
        if unknown := (used - set(columns)) | (metrics - set(self.metrics)):
            raise ValueError(f"unknown columns or metrics: {', '.join(sorted(unknown))}")
        return self

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
        return figures.get(metric or self.metrics[0])


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    with as_file(files("triplewise.evals.report") / "published.yaml") as path:
        return parse_published(read_yaml(path).value)


def parse_published(content: Mapping[str, Any]) -> Mapping[str, PublishedTable]:
    """Return the tables of a file's content.

    Raises:
        ValidationError: something missing or unknown, a name that is there twice, a value of a column or
            metric that the table does not have. KeyError: a source that is not listed.
    """
    sources = content["sources"]
    return {
        key: PublishedTable.model_validate({**table, "key": key, "source": sources[table["source"]]})
        for key, table in content["tables"].items()
    }
