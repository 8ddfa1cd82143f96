"""Grids: which system is asked which questions with what, as one YAML file laid out like a published table.

The form of a file is `triplewise eval grid --help`. A cell is what `defaults`, its column, its row and its
overrides say, a later one winning over an earlier one; every name in it is looked up before anything runs.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch, fnmatchcase
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from triplewise.evals.baselines import BASELINES
from triplewise.evals.evaluation import TASKS
from triplewise.evals.report.published import PublishedTable, published
from triplewise.evals.yaml_models import Place, located, read_model, unknown
from triplewise.graphs.presets import FAITHFUL, PRESETS, VARIANTS
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError, UserError
from triplewise.tools.core.yaml_lines import YamlDocument

EMBEDDED = "embedded"
OTHER_KEYS = {
    "preset": "system",
    "model": "needs, backbone and --model",
    "settings": "settings",
    "phases": "phases",
    "n": "limit",
}
"""Parameters of every task that a grid has a key of its own for."""

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
class Cell:
    """One run: what is asked of which system, and where it stands in the table.

    Attributes:
        row, column, group, seed: where. published: key of the table that has this row and column, or "".
        task, arguments, limit, system, phases, settings: see `Part`; the seed is among them.
        model: `embedded` or `openai:NAME`. thin, learn: what is made first.
        metrics: figures that the table shows. why_not: why it is not run, "" if it is.
        note: for the reader.
    """

    row: str
    column: str
    group: str
    seed: int
    published: str
    task: str
    arguments: Mapping[str, Any]
    limit: int | None
    system: str
    phases: Mapping[str, Any]
    settings: Mapping[str, Any]
    model: str
    thin: Thin | None
    learn: Learn | None
    metrics: tuple[str, ...]
    why_not: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        """Row, column and seed, as lists show it."""
        return f"{self.row} / {self.column} (seed {self.seed})"


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person who runs a grid chooses, over what its file says.

    Attributes:
        model: of cells without a backbone. backbones: backbone -> model, `*` for all others.
        limit: most questions of a cell. train: most training questions where a cell learns.
        given: task parameters, phases, settings: those of `--set`.
        only: patterns `row/column`, any of which a cell has to match; none for all.
        seeds: in the place of the grid's; none for those.
    """

    model: str = EMBEDDED
    backbones: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    train: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()
    seeds: Sequence[int] = ()


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
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return _load(path)
    if str(name) not in shipped():
        raise ConfigurationError.unknown("grid (nor is there such a file)", str(name), shipped())
    with as_file(files("triplewise.evals.grids") / f"{name}.yaml") as shipped_path:
        return _load(shipped_path)


def _load(path: Path) -> GridFile:
    """Read a file and check what it says of its rows, columns and overrides."""
    grid, document = read_model(path, Grid)
    if grid.published and grid.published not in published():
        message = unknown("published table", grid.published, published())
        raise located(document, message, ("published",))
    table = published()[grid.published] if grid.published else None
    rows, columns = [row.row for row in grid.rows], [column.column for column in grid.columns]
    for what, names in (("columns", columns), ("rows", rows), ("seeds", list(map(str, grid.seeds)))):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise located(document, f"{name!r} is there twice", (what, i))
    if table is not None and grid.layout == "cells":
        for i, row in enumerate(grid.rows):
            if not row.own and table.row(row.row) is None:
                message = unknown(f"row of {table.key}", row.row, [printed.row for printed in table.rows])
                raise located(document, f"{message}; or say `own: true`", ("rows", i, "row"))
    for i, override in enumerate(grid.cells):
        for key, pattern, names in (("row", override.row, rows), ("column", override.column, columns)):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise located(document, unknown(key, pattern, names), ("cells", i, key))
    return GridFile(grid, document, table)


def cells_of(file: GridFile, choices: Choices | None = None) -> list[Cell]:
    """Return all cells of a grid in the order of its rows, every name in them checked.

    Raises:
        DataError: an unknown task, system, phase, variant, parameter or setting, or a value that cannot be:
            naming file, line and key, with the legal names.
        ConfigurationError: a choice that no cell of the grid has a use for.
    """
    choices, grid = choices or Choices(), file.grid
    cells: list[Cell] = []
    for row, place, varied in _rows(grid):
        for number, column in enumerate(grid.columns):
            draft = _draft(file, place, varied, number, choices)
            _check(file.document, draft)
            cells += [_cell(file, row, column, draft, seed, choices) for seed in choices.seeds or grid.seeds]
    for name in choices.given:
        used = (name in {*c.arguments, *c.phases, *c.settings, "system", "preset"} for c in cells)
        if not any(used):
            tasks = {parameter for cell in cells for parameter in _parameters(cell.task)}
            legal = [*sorted(tasks), *VARIANTS, *Context.__dataclass_fields__, "system"]
            raise ConfigurationError.unknown("name in --set", name, legal)
    chosen = [cell for cell in cells if _is_chosen(cell, choices.only)]
    if not chosen:
        labels = ", ".join(dict.fromkeys(f"{c.row}/{c.column}" for c in cells))
        raise ConfigurationError(f"no cell matches --only {', '.join(choices.only)}; there are: {labels}")
    return chosen


def _rows(grid: Grid) -> Iterator[tuple[Row, int, Mapping[str, Any]]]:
    """The rows, one for each combination of what `vary` names; where they stand, and their values."""
    for i, row in enumerate(grid.rows):
        for values in itertools.product(*grid.vary.values()):
            varied = dict(zip(grid.vary, values, strict=True))
            words = ", ".join(f"{name}={value}" for name, value in varied.items())
            label = words if words and row.row == "all" else ", ".join(filter(None, (row.row, words)))
            yield row.model_copy(update={"row": label, "own": row.own or bool(words)}), i, varied


@dataclass(slots=True)
class _Draft:
    """The layers of a cell put together; `places`: where each value stands."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple[str, ...], Place] = field(default_factory=dict)

    def add(self, part: Part, place: Place) -> None:
        """Lay a part over what is there; mappings are merged name by name."""
        for key in Part.model_fields:
            value = getattr(part, key)
            if isinstance(value, dict):
                for name, inner in value.items():
                    self.put(key, name, inner, (*place, key, name))
            elif value not in (None, []):
                self.values[key], self.places[key,] = value, (*place, key)

    def put(self, key: str, name: str, value: Any, place: Place) -> None:
        """Set a name of a mapping."""
        self.values.setdefault(key, {})[name] = value
        self.places[key, name] = place

    def assign(self, name: str, value: Any, place: Place) -> None:
        """Set a value by its bare name: of a task, baseline or run, of a phase, or `system`."""
        if name in ("system", "preset"):
            self.values["system"], self.places["system",] = value, place
            return
        task = name in _parameters(self.values.get("task"))
        self.put("arguments" if task else "phases" if name in self.parts else "settings", name, value, place)

    @property
    def parts(self) -> list[str]:
        """Names by which the system is changed: phases, or the parameters of a baseline."""
        system = str(self.values.get("system"))
        names = inspect.signature(BASELINES[system].build).parameters if system in BASELINES else VARIANTS
        return list(names)


def _draft(file: GridFile, row: int, varied: Mapping[str, Any], column: int, choices: Choices) -> _Draft:
    """What a cell is made of: defaults, column, row, `vary`, overrides, `--set`."""
    grid, draft = file.grid, _Draft()
    draft.add(grid.defaults, ("defaults",))
    draft.add(grid.columns[column], ("columns", column))
    draft.add(grid.rows[row], ("rows", row))
    for name, value in varied.items():
        draft.assign(name, value, ("vary", name))
    for i, override in enumerate(grid.cells):
        names = fnmatchcase(grid.rows[row].row, override.row)
        if names and fnmatchcase(grid.columns[column].column, override.column):
            draft.add(override, ("cells", i))
    known = {*_parameters(draft.values.get("task")), *Context.__dataclass_fields__, "system", "preset"}
    for name, value in choices.given.items():
        if name in known or name in draft.parts:
            draft.assign(name, value, ("--set", name))
    return draft


def _parameters(task: Any) -> set[str]:
    """A task's own parameters."""
    return set(inspect.signature(TASKS[task]).parameters) - set(OTHER_KEYS) if task in TASKS else set()


def _cell(file: GridFile, row: Row, column: Column, draft: _Draft, seed: int, choices: Choices) -> Cell:
    """One cell, with its seed in the settings and parameters that take it and have no value."""
    values, table = draft.values, file.table
    in_table = table and (file.grid.layout != "cells" or (table.row(row.row) and table.column(column.column)))
    model, why_not = _model(values, choices)
    limits = [limit for limit in (values.get("limit"), choices.limit) if limit is not None]
    learn: Learn | None = values.get("learn")
    if learn and choices.train is not None:
        learn = learn.model_copy(update={"train": min(learn.train or choices.train, choices.train)})
    arguments, settings = dict(values.get("arguments", {})), dict(values.get("settings", {}))
    for name in file.grid.seed_names:
        if name in _parameters(values["task"]):
            arguments.setdefault(name, seed)
        elif name in Context.__dataclass_fields__:
            settings.setdefault(name, seed)
    return Cell(
        row=row.row,
        column=column.column,
        group=row.group,
        seed=seed,
        published=file.grid.published if in_table else "",
        task=values["task"],
        arguments=arguments,
        limit=min((limit or max(limits) for limit in limits), default=None),
        system=values["system"],
        phases=values.get("phases", {}),
        settings=settings,
        model=model,
        thin=values.get("thin"),
        learn=learn,
        metrics=tuple(file.metrics(column)),
        why_not=str(values.get("skip") or (f"made by: {values['by']}" if "by" in values else why_not)),
        note=values.get("note", ""),
    )


def _model(values: Mapping[str, Any], choices: Choices) -> tuple[str, str]:
    """The model of a cell, and why it is not run ("" if it is)."""
    backbone, system = values.get("backbone"), values["system"]
    thin: Thin | None = values.get("thin")
    reads = thin is not None and (thin.documents or thin.read)  # only a language model reads documents
    needs = reads or "model" in values.get("needs", ())
    needs = needs or (system in BASELINES and not BASELINES[system].embedded)
    model = choices.model
    if backbone:
        model = choices.backbones.get(backbone, choices.backbones.get("*", ""))
        if not model and choices.model != EMBEDDED:
            return choices.model, f"is about the model {backbone}: give it, --model {backbone}=openai:NAME"
        model = model or EMBEDDED
    if needs and model == EMBEDDED:
        name = f"{backbone}=openai:NAME" if backbone else "openai:NAME"
        return model, f"needs a language model: --model {name}"
    return model, ""


def _check(document: YamlDocument, draft: _Draft) -> None:
    """Check that every name of a cell is one that there is. Raises `DataError` with its line."""
    values = draft.values

    def refuse(message: str, *key: str) -> UserError:
        place = draft.places.get(key, ())
        if place[:1] == ("--set",):
            return ConfigurationError(f"--set {place[-1]}: {message}")
        return located(document, message, place)

    for key in ("task", "system"):
        if key not in values:
            message = f"a cell without {key}; give one to the row, the column or `defaults`"
            raise located(document, message)
    task, system = values["task"], values["system"]
    if task not in TASKS:
        raise refuse(unknown("task", task, TASKS), "task")
    systems = [*PRESETS, *(f"{name}-faithful" for name in FAITHFUL), *BASELINES]
    if system not in systems:
        raise refuse(unknown("system", system, systems), "system")
    for name, variant in values.get("phases", {}).items():
        if name not in draft.parts:
            what = f"parameter of baseline {system}" if system in BASELINES else "phase"
            raise refuse(unknown(what, name, draft.parts), "phases", name)
        if system not in BASELINES and variant not in VARIANTS[name]:
            raise refuse(unknown(f"variant of phase {name}", variant, VARIANTS[name]), "phases", name)
    for name in values.get("arguments", {}):
        if name in OTHER_KEYS:
            raise refuse(f"parameter {name!r} of a task is set by {OTHER_KEYS[name]}", "arguments", name)
        if name not in _parameters(task):
            message = unknown(f"parameter of {task}", name, sorted(_parameters(task)))
            raise refuse(message, "arguments", name)
    settings = values.get("settings", {})
    settable = sorted(set(Context.__dataclass_fields__) - {"model"})  # that is for --model to say
    for name in settings:
        if name not in settable:
            raise refuse(unknown("setting", name, settable), "settings", name)
    try:
        Context(**settings)
    except ConfigurationError as error:
        blamed = next((name for name in settings if name in str(error).split()), next(iter(settings)))
        raise refuse(str(error), "settings", blamed) from error


def _is_chosen(cell: Cell, only: Sequence[str]) -> bool:
    """Whether a cell matches one of the patterns `row/column` (either may be left out), case aside.

    A label may itself hold slashes: a pattern is compared with the row, and cut at each of its slashes.
    """
    row, column = cell.row.casefold(), cell.column.casefold()
    for pattern in (text.casefold() for text in only):
        cuts = [i for i, letter in enumerate(pattern) if letter == "/"]
        if fnmatch(row, pattern) or any(
            fnmatch(row, pattern[:i] or "*") and fnmatch(column, pattern[i + 1 :] or "*") for i in cuts
        ):
            return True
    return not only
