"""Grids: which system is asked which questions with what, as one YAML file laid out like a published table.

The form of a file is in evals/README.md; `cells` makes the cells of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from triplewise.evals.report.published import PublishedTable, published
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import YamlDocument, read_yaml


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Learn(_Strict):
    """Self-learning of the embedded policy before the questions are asked (SymAgent 4.3).

    Attributes:
        benchmark: whose training questions. recipe: full, no-refine, no-merge (table 4).
        iterations: of exploring and training; 0 learns nothing. train: training questions, 0 for all.
    """

    benchmark: Literal["webqsp", "wikiwebquestions"]
    recipe: Literal["full", "no-refine", "no-merge"] = "full"
    iterations: int = Field(default=2, ge=0)
    train: int = Field(default=300, ge=0)


class Thin(_Strict):
    """An incomplete graph: triples on the shortest paths of the asked questions are dropped (SymAgent, A.1).

    Attributes:
        share: of those triples that is dropped. seed, hops: see `triplewise kg thin`.
        documents: also write what was dropped as documents, which the system may read (MetaQA only).
        read: have `symagent` read these documents first, and lay what it read over the graph (figure 4).
    """

    share: float = Field(default=0.5, gt=0, le=1)
    seed: int = 1
    hops: int = Field(default=4, ge=1)
    documents: bool = False
    read: bool = False


class CellSpec(_Strict):
    """What the defaults, a column, a row or an override say of their cells.

    Attributes:
        task: a benchmark. system: a preset or a baseline, by default the task's own.
        limit: questions drawn, 0 for all.
        set: parameters of the task, phases, parameters of a baseline, settings, as `--set` takes them.
        needs: `model` where the embedded default cannot run it. backbone: name of the model that a row is
            about, given by `--model NAME=openai:...`; with another default model the row is skipped.
        thin, learn: what is made before the questions are asked.
        skip: why there is nothing to run. note: for the reader.
    """

    task: str = ""
    system: str = ""
    limit: int | None = Field(default=None, ge=0)
    set: dict[str, Any] = Field(default_factory=dict)
    needs: list[Literal["model"]] = Field(default_factory=list)
    backbone: str | None = None
    thin: Thin | None = None
    learn: Learn | None = None
    skip: str = ""
    note: str = ""


class Column(CellSpec):
    """A column. `metrics`: its own where they differ from the grid's."""

    column: str = Field(min_length=1)
    metrics: list[str] = Field(default_factory=list)


class Row(CellSpec):
    """A row, the heading above it, and whether it is `own`: not in the published table."""

    row: str = Field(min_length=1)
    group: str = ""
    own: bool = False


class Override(CellSpec):
    """What is different for some cells: those whose row and column match these patterns (`*`, `?`)."""

    row: str = "*"
    column: str = "*"


class Grid(_Strict):
    """A grid as its file has it.

    `layout` is `cells` (a figure a cell), `tasks` (the tables of runs that are in no grid), or one of two
    tables of the guidelines that fired in the logs.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    published: str = ""
    layout: Literal["cells", "tasks", "guideline-sources", "guidelines"] = "cells"
    metrics: list[str] = Field(default=["f1"], min_length=1)
    notes: str = ""
    seeds: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)
    defaults: CellSpec = CellSpec()
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)
    cells: list[Override] = Field(default_factory=list)


_MODELS: Mapping[str, type[BaseModel]] = {
    "defaults": CellSpec,
    "columns": Column,
    "rows": Row,
    "cells": Override,
    "learn": Learn,
    "thin": Thin,
}
"""Key of a file -> what stands under it."""


@dataclass(frozen=True, slots=True)
class GridFile:
    """A grid with the file it came from, and the published table that it mirrors."""

    grid: Grid
    document: YamlDocument
    table: PublishedTable | None

    def metrics(self, column: Column) -> list[str]:
        """Return the scores of our logs that a column shows."""
        shown = self.table.column(column.column) if self.table else None
        return column.metrics or [shown.ours.get(m, m) if shown else m for m in self.grid.metrics]


def shipped() -> list[str]:
    """Return the names of the grids that come with the package."""
    names = (file.name for file in files("triplewise.evals.grids").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def load_grid(name: str | Path) -> GridFile:
    """Return a grid from a file, or a shipped one by its name; `cells_of` checks its cells.

    Raises:
        ConfigurationError: neither; lists the shipped ones. DataError: naming file, line and key.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") and not path.is_file():
        if str(name) not in shipped():
            raise ConfigurationError.unknown("grid (nor is there such a file)", str(name), shipped())
        with as_file(files("triplewise.evals.grids") / f"{name}.yaml") as shipped_path:
            return load_grid(shipped_path)
    document = read_yaml(path)
    try:
        grid = Grid.model_validate(document.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
        if first["type"] == "extra_forbidden":
            parents = [str(key) for key in first["loc"][:-1] if str(key) in _MODELS]
            legal = _MODELS[parents[-1]] if parents else Grid
            message = f"unknown key; choose one of: {', '.join(sorted(legal.model_fields))}"
        elif first["type"] != "missing":
            message = f"{message}, got {first['input']!r}"
        raise error_at(document, message, *first["loc"]) from error
    table = published().get(grid.published)
    if grid.published and table is None:
        raise error_at(document, unknown("published table", grid.published, published()), "published")
    rows, columns = [row.row for row in grid.rows], [column.column for column in grid.columns]
    for what, names in (("columns", columns), ("rows", rows)):
        for i, label in enumerate(names):
            if label in names[:i]:
                raise error_at(document, f"{label!r} is there twice", what, i)
    if table is not None and grid.layout == "cells":
        for i, row in enumerate(grid.rows):
            if not row.own and table.row(row.row) is None:
                message = unknown(f"row of {table.key}", row.row, [printed.row for printed in table.rows])
                raise error_at(document, f"{message}; or say `own: true`", "rows", i, "row")
    for i, override in enumerate(grid.cells):
        for key, pattern, names in (("row", override.row, rows), ("column", override.column, columns)):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise error_at(document, unknown(key, pattern, names), "cells", i, key)
    return GridFile(grid, document, table)


def error_at(document: YamlDocument, message: str, *place: object) -> DataError:
    """Return an error about a place of the file: keys and positions that lead to a value."""
    return document.error(f"{'.'.join(map(str, place))}: {message}", *place)


def unknown(what: str, given: str, legal: Iterable[str]) -> str:
    """Return the words of an error about an unknown name."""
    return str(ConfigurationError.unknown(what, given, legal))
