"""Grids: which system is asked which questions with what, as one YAML file laid out like a published table.

The form of a file is in evals/README.md. A cell is what `defaults`, its column, its row, its overrides and
the command line set, a later one winning; every name in it is looked up before anything runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch, fnmatchcase
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals.baselines import BASELINES
from triplewise.evals.evaluation import names_of, task_arguments
from triplewise.evals.report.tables import PublishedTable, published
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import YamlDocument, read_yaml

EMBEDDED = "embedded"
OTHER_KEYS = {
    "preset": "system",
    "model": "needs, backbone and --model",
    "settings": "set",
    "phases": "set",
    "n": "limit",
}
"""What a grid has a key of its own for, in the place of `set`."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Learn(_Strict):
    """Self-learning of the embedded policy before the questions are asked (SymAgent, section 4.3).

    `train` is how many training questions are taken, 0 for all; 0 `iterations` learn nothing.
    """

    benchmark: Literal["webqsp", "wikiwebquestions"]
    iterations: int = Field(default=2, ge=0)
    train: int = Field(default=300, ge=0)


class Thin(_Strict):
    """An incomplete graph: a share of the triples on questions' shortest paths is dropped (SymAgent, A.1).

    With `documents` what was dropped is also written as documents, which the system may read (MetaQA only);
    with `read` it is `symagent` that reads them first, and what it read is laid over the graph (figure 4).
    """

    share: float = Field(default=0.5, gt=0, le=1)
    seed: int = 1
    hops: int = Field(default=4, ge=1)
    documents: bool = False
    read: bool = False


class CellSpec(_Strict):
    """What the defaults, a column, a row or an override set for their cells; evals/README.md has the keys.

    `backbone`: name of the model that a row is about, given by `--model NAME=openai:...`.
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
    """What is different for the cells whose row and column match these patterns (`*`, `?`)."""

    row: str = "*"
    column: str = "*"


class Grid(_Strict):
    """A grid as its file has it.

    `layout`: a figure a cell, the tables of runs outside of grids, or tables of the guidelines that fired.
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


@dataclass(frozen=True, slots=True)
class GridFile:
    """A grid with the file it came from, and the published table that it mirrors."""

    grid: Grid
    document: YamlDocument
    table: PublishedTable | None


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
    grid = document.read_as(Grid)
    if grid.published and grid.published not in published():
        unknown = ConfigurationError.unknown("published table", grid.published, published())
        raise document.error(str(unknown), "published")
    table = published().get(grid.published)
    names = {"rows": [row.row for row in grid.rows], "columns": [column.column for column in grid.columns]}
    for key, given in names.items():
        if twice := [i for i, one in enumerate(given) if one in given[:i]]:
            raise document.error(f"{given[twice[0]]!r} is there twice", key, twice[0])
    for i, row in enumerate(grid.rows):
        if table and grid.layout == "cells" and not row.own and row.row not in table.rows:
            unknown = ConfigurationError.unknown(f"row of {grid.published}", row.row, table.rows)
            raise document.error(f"{unknown}; or say `own: true`", "rows", i)
    for i, override in enumerate(grid.cells):
        for pattern, given in zip((override.row, override.column), names.values(), strict=True):
            if not any(fnmatchcase(one, pattern) for one in given):
                unknown = ConfigurationError.unknown("row or column", pattern, given)
                raise document.error(str(unknown), "cells", i)
    return GridFile(grid, document, table)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a task and a system (`spec`, the seed among its settings), and its place in the table.

    `model` is `embedded` or `openai:NAME`; `why_not` says why it is not run, "" if it is.
    """

    row: Row
    column: str
    seed: int
    spec: CellSpec
    model: str
    metrics: tuple[str, ...]
    why_not: str = ""

    @property
    def name(self) -> str:
        """Row, column and seed, as lists show it."""
        return f"{self.row.row} / {self.column} (seed {self.seed})"

    def matches(self, pattern: str) -> bool:
        """Return whether its row, or `row/column`, matches a pattern, case aside."""
        row, pattern = self.row.row.casefold(), pattern.casefold()
        return fnmatch(row, pattern) or fnmatch(f"{row}/{self.column.casefold()}", pattern)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person who runs a grid chooses, over what its file has: the options of `eval grid`.

    `given`: what `--set` gives, for the cells that have such a name. `backbones`: `*` is for all others.
    """

    model: str = EMBEDDED
    backbones: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()

    def model_of(self, spec: CellSpec) -> tuple[str, str]:
        """Return the model that a cell asks, and why it is not run ("" if it is)."""
        backbone, baseline = spec.backbone, BASELINES.get(spec.system)
        reads = spec.thin is not None and (spec.thin.documents or spec.thin.read)
        needs = reads or "model" in spec.needs or (baseline is not None and not baseline.embedded)
        model = self.model
        if backbone:
            model = self.backbones.get(backbone, self.backbones.get("*", ""))
            if not model and self.model != EMBEDDED:
                return self.model, f"is about the model {backbone}: give it, --model {backbone}=openai:NAME"
            model = model or EMBEDDED
        if needs and model == EMBEDDED:
            name = f"{backbone}=openai:NAME" if backbone else "openai:NAME"
            return model, f"needs a language model: --model {name}"
        return model, ""


def cells_of(file: GridFile, choices: Choices | None = None) -> list[Cell]:
    """Return all cells of a grid in the order of its rows, every name in them checked.

    Raises:
        DataError: an unknown task, system, phase, variant, parameter or setting, or a value that cannot be:
            naming the file, the line of the row, the cell, and the legal names.
        ConfigurationError: a choice that no cell of the grid has a use for, or that cannot be.
    """
    choices, grid = choices or Choices(), file.grid
    cells: list[Cell] = []
    legal: set[str] = set()
    for (i, row), column in itertools.product(enumerate(grid.rows), grid.columns):
        layers: list[CellSpec] = [grid.defaults, column, row]
        for override in grid.cells:
            if fnmatchcase(row.row, override.row) and fnmatchcase(column.column, override.column):
                layers.append(override)
        values: dict[str, Any] = {}
        for layer in layers:
            for key in layer.model_fields_set & CellSpec.model_fields.keys():
                value = getattr(layer, key)
                values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        spec = CellSpec(**values)
        system = {"preset": spec.system} if spec.system else {}
        place = f"cell {row.row} / {column.column}"
        if not spec.task:
            raise file.document.error(f"{place} has no task: give one to row, column or defaults", "rows", i)
        try:
            for name in spec.set.keys() & OTHER_KEYS.keys():
                raise ConfigurationError(f"{name!r} is set by {OTHER_KEYS[name]}")
            task_arguments(spec.task, system | spec.set)
        except ConfigurationError as error:
            raise file.document.error(f"{place}: {error}", "rows", i) from error
        names = set(names_of(spec.task, spec.system)) - OTHER_KEYS.keys()
        given = {name: value for name, value in choices.given.items() if name in names}
        legal |= names
        try:
            task_arguments(spec.task, system | given)
        except ConfigurationError as error:
            raise ConfigurationError(f"--set: {error}") from error
        model, why_not = choices.model_of(spec)
        limits = [limit for limit in (spec.limit, choices.limit) if limit is not None]
        limit = min((limit or max(limits) for limit in limits), default=None)  # 0 is all
        ours = file.table.columns.get(column.column, {}).get("ours", {}) if file.table else {}
        metrics = tuple(column.metrics or [ours.get(metric, metric) for metric in grid.metrics])
        for seed in grid.seeds:
            settings = {"draw_seed": seed, **spec.set, **given}
            own = spec.model_copy(update={"limit": limit, "set": settings})
            cells.append(Cell(row, column.column, seed, own, model, metrics, spec.skip or why_not))
    for name in choices.given.keys() - legal:
        raise ConfigurationError.unknown("name in --set", name, legal)
    chosen = [cell for cell in cells if not choices.only or any(map(cell.matches, choices.only))]
    if not chosen:
        labels = ", ".join(dict.fromkeys(f"{c.row.row}/{c.column}" for c in cells))
        raise ConfigurationError(f"no cell matches --only {', '.join(choices.only)}; there are: {labels}")
    return chosen
