"""Published figures that ours are compared with: `published.yaml`, read.

>>> published()["queryagent-table-3"].value("w/o ERASER", "GrailQA")
43.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    """A column as printed; our `task` over the same benchmark; `ours`: published metric -> our measure."""

    column: str
    task: str
    ours: dict[str, str] = {}


class PublishedRow(_Strict):
    """A row as printed, unique in its table; `values`: column -> metric -> value, in the table's unit."""

    row: str
    group: str = ""
    model: str
    note: str = ""
    values: dict[str, dict[str, float]]


class PublishedTable(_Strict):
    """A published table or figure, with its columns and rows by name.

    Attributes:
        place: where it stands in the source. model: of most rows. metrics: in the order of printing.
        unit: of the values; `percent` is 0 to 100. note: how it was measured.
    """

    title: str
    source: Source
    place: str
    model: str
    unit: str
    metrics: list[str] = Field(min_length=1)
    note: str
    columns: dict[str, PublishedColumn]
    rows: dict[str, PublishedRow]

    @model_validator(mode="before")
    @classmethod
    def complete(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Fill in what the file leaves out: models of rows, the metric of plain numbers, our measures."""
        metrics = given["metrics"]
        rows = [{"model": given["model"], **row} for row in given["rows"]]
        for row in rows:
            row["values"] = {
                name: v if isinstance(v, dict) else {metrics[0]: v} for name, v in row["values"].items()
            }
        columns = [{**c, "ours": {m: m for m in metrics} | c.get("ours", {})} for c in given["columns"]]
        for name, entries in (("row", rows), ("column", columns)):
            if len({entry[name] for entry in entries}) < len(entries):
                raise ValueError(f"a {name} of {given['title']!r} is there twice")
        return given | {"columns": {c["column"]: c for c in columns}, "rows": {r["row"]: r for r in rows}}

    def value(self, row: str, column: str, metric: str = "") -> float | None:
        """Return one figure (of the first metric unless another is named); None where the table has none."""
        values = self.rows[row].values if row in self.rows else {}
        return values.get(column, {}).get(metric or self.metrics[0])


@cache
def published() -> Mapping[str, PublishedTable]:
    """Return all published tables by key."""
    content = read_data("report/published.yaml")
    return {
        key: PublishedTable.model_validate(table | {"source": content["sources"][table["source"]]})
        for key, table in content["tables"].items()
    }
