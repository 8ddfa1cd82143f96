"""Grids: which system is asked which questions with what, as one YAML file laid out like a published table.

```yaml
name: correction-modes                 # names the folder of its logs
title: Ways of correcting              # of the table
published: queryagent-table-3          # key of report/published.yaml, where the grid mirrors a table
metrics: [f1]                          # figures of a cell, the first one first
notes: what a reader of the table has to know
seeds: [1, 2]                          # each cell runs once for each
seed_names: [plan_seed]                # settings and task parameters that take the seed (default SEED_NAMES)
defaults:                              # of every cell
  system: queryagent
  limit: 200
columns:
  - column: GrailQA
    task: grailqa
rows:
  - row: Ours
  - {row: w/o ERASER, phases: {correct: raw}, needs: [model]}
  - {row: our own, own: true, settings: {observe_depth: 2}}   # not in the published table
vary:                                  # every combination of these makes a row of each row
  correct: [eraser, raw]
cells:                                 # overrides of single cells
  - {row: w/o ERASER, column: GrailQA, limit: 50}
```
A cell is what `defaults`, its column, its row and its overrides say, a later one winning over an earlier one.
What each may say: `Part`. `triplewise eval grid FILE` runs it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals.grids.reading import Document, Place, read_yaml
from triplewise.evals.report.published import PublishedTable, published
from triplewise.tools.core.errors import ConfigurationError

SEED_NAMES = ("plan_seed", "observe_seed", "reflect_seed")
"""What a grid's seed sets unless the grid says otherwise: the agent's random draws, not the questions."""

Layout = Literal["cells", "guideline-sources", "guidelines", "error-classes"]
"""What the table of a grid shows: a figure a cell, or what fired, or how questions failed, in its logs."""


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


class Part(_Strict):
    """What a default, a column, a row or an override says of its cells.

    Attributes:
        task: a benchmark. arguments: its own parameters. limit: questions drawn, 0 for all.
        system: a preset or a baseline. phases: swapped phases, or a baseline's own parameters.
        settings: of the `Context`.
        needs: `model` where the embedded default cannot run it. backbone: name of the model that a row is
            about, given by `--model NAME=openai:...`; with another default model the row is skipped.
        thin, learn: what is made before the questions are asked.
        skip: why there is nothing to run. by: the command that makes the figures, where it is not this one.
        note: for the reader.
    """

    task: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    limit: int | None = Field(default=None, ge=0)
    system: str | None = None
    phases: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    needs: list[Literal["model"]] = Field(default_factory=list)
    backbone: str | None = None
    thin: Thin | None = None
    learn: Learn | None = None
    skip: str | None = None
    by: str | None = None
    note: str | None = None


class Column(Part):
    """A column. `metrics`: its own where they differ from the grid's."""

    column: str = Field(min_length=1)
    metrics: list[str] = Field(default_factory=list)


class Row(Part):
    """A row, the heading above it, and whether it is `own`: not in the published table."""

    row: str = Field(min_length=1)
    group: str = ""
    own: bool = False


class Override(Part):
    """What is different for some cells: those whose row and column match these patterns (`*`, `?`)."""

    row: str = "*"
    column: str = "*"


class Grid(_Strict):
    """A grid as its file has it; see the module for what the keys mean."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    published: str = ""
    layout: Layout = "cells"
    metrics: list[str] = Field(default=["f1"], min_length=1)
    notes: str = ""
    seeds: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)
    seed_names: list[str] = Field(default=list(SEED_NAMES))
    defaults: Part = Part()
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(default=[Row(row="all", own=True)], min_length=1)
    vary: dict[str, list[Any]] = Field(default_factory=dict)
    cells: list[Override] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a cell and where it stands in the file; `varied` are values that `vary` gives it."""

    part: Part
    place: Place
    varied: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GridFile:
    """A grid with the file it came from, and the published table that it mirrors."""

    grid: Grid
    document: Document
    table: PublishedTable | None

    def metrics(self, column: Column) -> list[str]:
        """Scores of our logs that a column shows."""
        shown = self.table.column(column.column) if self.table else None
        return column.metrics or [shown.ours.get(m, m) if shown else m for m in self.grid.metrics]


def shipped() -> list[str]:
    """Names of the grids that come with the package."""
    found = files("triplewise.evals.grids").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in found if f.name.endswith(".yaml"))


def load_grid(name: str | Path) -> GridFile:
    """A grid from a file, or a shipped one by its name.

    Raises:
        ConfigurationError: neither; lists the shipped ones. DataError: naming file, line and key.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _load(path)
    if str(name) not in shipped():
        raise ConfigurationError.unknown("grid (nor is there such a file)", str(name), shipped())
    with as_file(files("triplewise.evals.grids") / f"{name}.yaml") as shipped_path:
        return _load(shipped_path)


def _load(path: Path) -> GridFile:
    """Read and check what the file says of itself; `cells_of` checks the cells."""
    document = read_yaml(path)
    grid = document.read(Grid)
    if grid.published and grid.published not in published():
        raise document.error(unknown("published table", grid.published, published()), ("published",))
    table = published()[grid.published] if grid.published else None
    for what, names in (
        ("columns", [c.column for c in grid.columns]),
        ("rows", [r.row for r in grid.rows]),
        ("seeds", [str(seed) for seed in grid.seeds]),
    ):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise document.error(f"{name!r} is there twice", (what, i))
    if table is not None and grid.layout == "cells":
        _check_labels(grid, table, document)
    _check_overrides(grid, document)
    return GridFile(grid, document, table)


def _check_labels(grid: Grid, table: PublishedTable, document: Document) -> None:
    """A row is one of the published table's, or says that it is `own`."""
    for i, row in enumerate(grid.rows):
        if not row.own and table.row(row.row) is None:
            legal = (r.row for r in table.rows)
            said = unknown(f"row of {table.key}", row.row, legal)
            raise document.error(f"{said}; or say `own: true`", ("rows", i, "row"))


def _check_overrides(grid: Grid, document: Document) -> None:
    """An override names rows and columns that there are."""
    for i, override in enumerate(grid.cells):
        for key, given, legal in (
            ("row", override.row, [r.row for r in grid.rows]),
            ("column", override.column, [c.column for c in grid.columns]),
        ):
            if not any(fnmatchcase(name, given) for name in legal):
                raise document.error(unknown(key, given, legal), ("cells", i, key))


def rows_of(grid: Grid) -> list[tuple[Row, Place, Mapping[str, Any]]]:
    """The rows, one for each combination of what `vary` names; where they stand, and their values."""
    found: list[tuple[Row, Place, Mapping[str, Any]]] = []
    for i, row in enumerate(grid.rows):
        for values in itertools.product(*grid.vary.values()):
            varied = dict(zip(grid.vary, values, strict=True))
            words = ", ".join(f"{name}={value}" for name, value in varied.items())
            label = words if words and row.row == "all" else ", ".join(filter(None, (row.row, words)))
            own = row.own or bool(words)
            found.append((row.model_copy(update={"row": label, "own": own}), ("rows", i), varied))
    return found


def layers(grid: Grid, row: Row, place: Place, varied: Mapping[str, Any], column: int) -> list[Layer]:
    """What a cell is made of, the last winning."""
    own = Layer(row, place, {})
    values = Layer(Part(), ("vary",), varied)
    label = grid.rows[place[1]].row if isinstance(place[1], int) else row.row
    head = grid.columns[column]
    special = [
        Layer(o, ("cells", i), {})
        for i, o in enumerate(grid.cells)
        if fnmatchcase(label, o.row) and fnmatchcase(head.column, o.column)
    ]
    return [
        Layer(grid.defaults, ("defaults",), {}),
        Layer(head, ("columns", column), {}),
        own,
        values,
        *special,
    ]


def unknown(what: str, given: object, legal: Sequence[str] | Any) -> str:
    """The words of an error about an unknown name."""
    return f"unknown {what} {given!r}; choose one of: {', '.join(map(str, legal))}"
