"""Published figures that ours are compared with: `published.yaml`, read.

>>> published()["queryagent-table-3"].value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from triplewise.evals.data import read_data


class PublishedRow(NamedTuple):
    """A row as printed, unique in its table; `values`: column -> metric -> value, in the table's unit."""

    row: str
    model: str
    values: Mapping[str, Mapping[str, float]]
    group: str = ""
    note: str = ""


class PublishedTable(NamedTuple):
    """A published table or figure.

    Attributes:
        source: title, venue, date (year-month of the first publication), url. place: where it stands there.
        model: of most rows. metrics: in the order of printing. unit: of the values; `percent` is 0 to 100.
        note: how it was measured. rows: by name, as `columns`, which have the `task` of ours over the same
            benchmark and `ours`: published metric -> our measure.
    """

    title: str
    source: Mapping[str, str]
    place: str
    model: str
    unit: str
    metrics: Sequence[str]
    note: str
    columns: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, PublishedRow]

    def value(self, row: str, column: str, metric: str = "") -> float | None:
        """Return one figure (of the first metric unless another is named); None where the table has none."""
        values = self.rows[row].values if row in self.rows else {}
        return values.get(column, {}).get(metric or self.metrics[0])


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    content, tables = read_data("report/published.yaml"), {}
    for key, table in content["tables"].items():
        metrics = table["metrics"]
        rows = {}
        for row in table["rows"]:
            plain = {c: v if isinstance(v, dict) else {metrics[0]: v} for c, v in row["values"].items()}
            rows[row["row"]] = PublishedRow(**{"model": table["model"], **row, "values": plain})
        columns = {
            c["column"]: {**c, "ours": {m: m for m in metrics} | c.get("ours", {})} for c in table["columns"]
        }
        source = content["sources"][table["source"]]
        tables[key] = PublishedTable(**{**table, "source": source, "columns": columns, "rows": rows})
    return tables
