"""Grids: which system is asked which questions with what, as one YAML file laid out like a published table.

A cell is what `defaults`, its column, its row and the command line set, a later one winning (`needs` add up);
every name is looked up before anything runs. Each cell leaves a log for each model that it is run with.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from inspect_ai.log import EvalLog
from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals import evaluation
from triplewise.evals.baselines import NEED_MODEL
from triplewise.evals.report.tables import NO_TABLE, published
from triplewise.tools.core.errors import ConfigurationError, TriplewiseError
from triplewise.tools.core.files import YamlDocument, read_yaml, state_folder

EMBEDDED = "embedded"
OTHER_KEYS = {"preset": "system", "model": "--model", "settings": "set", "phases": "set", "n": "limit"}
"""What a grid says elsewhere than in `set`."""


class CellSpec(BaseModel):
    """What defaults, a column or a row set for their cells; evals/README.md explains the keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str = ""
    system: str = ""
    limit: int | None = Field(default=None, ge=0)
    set: dict[str, Any] = Field(default_factory=dict)
    needs: list[str] = Field(default_factory=list)
    note: str = ""


class Column(CellSpec):
    """A column, with metrics of its own where they differ."""

    column: str = Field(min_length=1)
    metrics: list[str] = Field(default_factory=list)


class Row(CellSpec):
    """A row; it is shown next to the published one of the same name."""

    row: str = Field(min_length=1)
    group: str = ""


class Grid(BaseModel):
    """A grid as its file has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    published: str = ""
    layout: Literal["cells", "tasks", "guideline-sources", "guidelines"] = "cells"
    metrics: list[str] = Field(default=["f1"], min_length=1)
    notes: str = ""
    defaults: CellSpec = CellSpec()
    columns: list[Column] = Field(min_length=1)
    rows: list[Row] = Field(min_length=1)


GridFile = tuple[Grid, YamlDocument]  # a grid with the file it came from


class Cell(NamedTuple):
    """One run: a task and a system (`spec`), its place in the table, and why it is not run."""

    row: Row
    column: str
    spec: CellSpec
    model: str
    metrics: Sequence[str]
    why_not: str = ""

    @property
    def name(self) -> str:
        """Row and column, as lists show it."""
        return f"{self.row.row} / {self.column}"


class Outcome(NamedTuple):
    """What became of a cell: `why` it was skipped or failed, the seconds it took now, its log's header."""

    cell: Cell
    state: Literal["done", "complete before", "skipped", "failed"]
    why: str = ""
    seconds: float = 0.0
    log: EvalLog | None = None

    def line(self) -> str:
        """Return what became of the cell, in a line."""
        took = f", {self.seconds:.1f} s" * (self.state == "done")
        return f"{self.cell.name}: {self.state}{took}" + (f": {self.why}" if self.why else "")


def shipped() -> list[str]:
    """Return the names of the grids that come with the package."""
    names = (file.name for file in files("triplewise.evals.grids").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def load_grid(name: str | Path) -> GridFile:
    """Return a grid from a file, or a shipped one by its name; `cells_of` checks its cells.

    Raises `ConfigurationError` where it is neither, `DataError` that names file, line and key.
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
    names = {"rows": [row.row for row in grid.rows], "columns": [column.column for column in grid.columns]}
    for key, given in names.items():
        if twice := [i for i, one in enumerate(given) if one in given[:i]]:
            raise document.error(f"{given[twice[0]]!r} is there twice", key, twice[0])
    return grid, document


def spec_of(*layers: CellSpec) -> CellSpec:
    """Return what defaults, a column and a row set together; the last one wins, `needs` add up."""
    joined: dict[str, Any] = {"set": {}, "needs": []}
    for layer in layers:
        own = {key: getattr(layer, key) for key in layer.model_fields_set & CellSpec.model_fields.keys()}
        joined |= own | {"set": joined["set"] | layer.set, "needs": [*joined["needs"], *layer.needs]}
    return CellSpec(**joined)


def names_of(spec: CellSpec) -> set[str]:
    """Return what may be set in a cell. Raises `ConfigurationError` on a wrong name or value in it."""
    if not spec.task:
        raise ConfigurationError("no task: give one to row, column or defaults")
    for name in spec.set.keys() & OTHER_KEYS.keys():
        raise ConfigurationError(f"{name!r} is set by {OTHER_KEYS[name]}")
    evaluation.task_arguments(spec.task, {"preset": spec.system, **spec.set})
    names = {*evaluation.names_of(spec.task)} - OTHER_KEYS.keys()
    for name in {*spec.needs} - names - {"model"}:
        raise ConfigurationError.unknown("name in needs", name, names)
    return names


def cells_of(
    file: GridFile,
    model: str = EMBEDDED,
    *,
    limit: int | None = None,
    given: Mapping[str, Any] = {},
    only: Sequence[str] = (),
) -> list[Cell]:
    """Return the cells of a grid in the order of its rows, every name in them checked.

    `limit` goes before the grid's own (0 asks all questions), `given` is set where a cell has such a name,
    `only` are patterns of rows, or of row/column. Raises `DataError` with file and line on a wrong name or
    value, `ConfigurationError` on a choice that no cell has a use for.
    """
    (grid, document), cells, legal = file, list[Cell](), set[str]()
    columns = published().get(grid.published, NO_TABLE).columns
    for (i, row), column in itertools.product(enumerate(grid.rows), grid.columns):
        spec = spec_of(grid.defaults, column, row)
        try:
            names = names_of(spec)
        except ConfigurationError as error:
            raise document.error(f"cell {row.row} / {column.column}: {error}", "rows", i) from error
        legal |= names
        own = {name: value for name, value in given.items() if name in names}
        try:
            evaluation.task_arguments(spec.task, {"preset": spec.system, **own})
        except ConfigurationError as error:
            raise ConfigurationError(f"--set: {error}") from error
        missing = [name for name in spec.needs if name not in {"model", *spec.set, *given}]
        why_not = f"needs --set {missing[0]}=..." if missing else ""
        if model == EMBEDDED and ("model" in spec.needs or spec.system in NEED_MODEL):
            why_not = "needs a language model: --model openai:NAME"
        ours = columns.get(column.column, {}).get("ours", {})
        metrics = column.metrics or [ours.get(metric, metric) for metric in grid.metrics]
        changed = {"set": {**spec.set, **own}, "limit": spec.limit if limit is None else limit}
        cells.append(Cell(row, column.column, spec.model_copy(update=changed), model, metrics, why_not))
    for name in given.keys() - legal:
        raise ConfigurationError.unknown("name in --set", name, legal)
    return _chosen(cells, only)


def _chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """Return the cells that a pattern of `only` matches; without any pattern all."""
    labels = [f"{cell.row.row}/{cell.column}" for cell in cells]
    patterns = [p.casefold() for pattern in only for p in (pattern, f"{pattern}/*")] or ["*"]
    matches = [any(fnmatchcase(label.casefold(), p) for p in patterns) for label in labels]
    if not any(matches):
        raise ConfigurationError(f"no cell matches --only {', '.join(only)}; there are: {', '.join(labels)}")
    return list(itertools.compress(cells, matches))


def run_grid(
    grid: Grid,
    cells: Sequence[Cell],
    *,
    log_dir: Path | None = None,
    jobs: int = 1,
    notify: Callable[[str], None] = lambda stage: None,
) -> Iterator[Outcome]:
    """Run the cells in their order, an outcome as soon as it is there; `jobs` questions are in flight.

    A cell that fails is listed and the next one is run. An interrupt (KeyboardInterrupt) leaves all logs.
    """
    folder = log_dir or state_folder() / "evals" / "grids" / grid.name
    about = {key: getattr(grid, key) for key in ("name", "title", "layout", "notes")}
    about |= {"table": grid.published, "rows": [row.row for row in grid.rows]}
    about["columns"] = [column.column for column in grid.columns]
    for cell in cells:
        if cell.why_not:
            yield Outcome(cell, "skipped", cell.why_not)
            continue
        start, spec = time.perf_counter(), cell.spec
        try:
            given = {"preset": spec.system or None, "n": spec.limit, "model": cell.model}
            given = {name: value for name, value in given.items() if value is not None}
            task = evaluation.make_task(spec.task, {**given, **spec.set})
            place: dict[str, Any] = {"note": spec.note, "group": cell.row.group, "row": cell.row.row}
            place |= {"column": cell.column, "metrics": list(cell.metrics)}
            task.metadata = {**(task.metadata or {}), "grid": {**about, **place}}
            earlier = evaluation.latest_log(evaluation.folder_of(folder, task))
            finished = bool(earlier and earlier.status == "success" and not evaluation.crashes(earlier))
            told: Any = (lambda line: None) if finished else notify
            log = evaluation.run(task, jobs=jobs, log_dir=folder, notify=told)
        except Exception as error:  # noqa: BLE001 - one cell must not end the grid; it is listed with its error
            words = str(error) if isinstance(error, TriplewiseError) else f"{type(error).__name__}: {error}"
            yield Outcome(cell, "failed", words)
            continue
        why, seconds = _why_failed(log), time.perf_counter() - start
        yield Outcome(cell, "failed" if why else "complete before" if finished else "done", why, seconds, log)


def _why_failed(log: EvalLog) -> str:
    """Why an evaluation has no figures, "" if it has."""
    if log.status != "success":
        return log.error.message if log.error else f"the evaluation ended with status {log.status}"
    failed = evaluation.crashes(log)
    if log.results and log.results.total_samples > len(failed):
        return ""
    return f"every question crashed: {failed[0][1] if failed else 'no question was answered'}"
