"""Published figures that ours stand beside: `published.yaml`, read.

>>> published()["queryagent-table-3"].value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pydantic import BaseModel, ConfigDict

from triplewise.evals.data import read_data


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(_Strict):
    """Where figures were published. `date`: of the first publication, as year-month."""

    title: str
    venue: str
    date: str
    url: str = ""


class PublishedColumn(_Strict):
    """A column as printed, with our `task` over the same benchmark ("" for none).

    `ours` is published metric -> the score of our logs that stands beside it, all metrics of the table.
    """

    column: str
    task: str
    ours: dict[str, str]


class PublishedRow(_Strict):
    """A row as printed: name (unique in the table), the heading above it, model, note, values.

    `values`: column -> metric -> value, in the table's unit; in the file a number is the only metric's.
    """

    row: str
    group: str = ""
    model: str
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
    metrics: list[str]
    note: str
    columns: list[PublishedColumn]
    rows: list[PublishedRow]

    def row(self, name: str) -> PublishedRow | None:
        """Return a row by its name."""
        return next((row for row in self.rows if row.row == name), None)

    def column(self, name: str) -> PublishedColumn | None:
        """Return a column by its heading."""
        return next((column for column in self.columns if column.column == name), None)

    def value(self, row: str, column: str, metric: str | None = None) -> float | None:
        """Return one figure (of the first metric unless another is named); None where the table has none."""
        printed = self.row(row)
        return printed.values.get(column, {}).get(metric or self.metrics[0]) if printed else None


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    content, tables = read_data("report/published.yaml"), {}
    for key, table in content["tables"].items():
        metrics: list[str] = table["metrics"]
        for row in table["rows"]:
            row.setdefault("model", table["model"])
            row["values"] = {
                c: v if isinstance(v, dict) else {metrics[0]: v} for c, v in row["values"].items()
            }
        for column in table["columns"]:
            column["ours"] = {metric: metric for metric in metrics} | column.get("ours", {})
        source = content["sources"][table["source"]]
        tables[key] = PublishedTable.model_validate({**table, "key": key, "source": source})
    return tables
