"""The cells of a grid: every name looked up before anything runs, and what has to be given to run each."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from triplewise.evals.baselines import BASELINES
from triplewise.evals.evaluation import TASKS
from triplewise.evals.grids.model import (
    Column,
    GridFile,
    Layer,
    Learn,
    Part,
    Row,
    Thin,
    layers,
    rows_of,
    unknown,
)
from triplewise.evals.grids.reading import Document, Place
from triplewise.graphs.presets import FAITHFUL, PRESETS
from triplewise.nodes.context import Context
from triplewise.nodes.variants import VARIANTS
from triplewise.tools.core.errors import ConfigurationError, UserError

EMBEDDED = "embedded"
TAKEN = {
    "preset": "system",
    "model": "needs, backbone and --model",
    "settings": "settings",
    "phases": "phases",
    "n": "limit",
}
"""Parameters of every task that a grid has a key of its own for."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: what is asked of which system, and where it stands in the table.

    Attributes:
        row, column, group, seed: where. published: key of the table that has this row and column, or "".
        task, arguments, limit, system, phases, settings: see `Part`; the seed is among them.
        model: `embedded` or `openai:NAME`. thin, learn: what is made first.
        metrics: figures that the table shows. why_not: why it is not run, "" if it is.
        by: the command that makes the figures instead. note: for the reader.
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
    by: str = ""
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


@dataclass(slots=True)
class _Merged:
    """The layers of a cell put together; `places`: where each value stands."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple[str, ...], Place] = field(default_factory=dict)

    def put(self, key: str, value: Any, place: Place) -> None:
        """Set a key."""
        self.values[key] = value
        self.places[key,] = (*place, key)

    def put_in(self, key: str, name: str, value: Any, place: Place) -> None:
        """Set a name of a mapping."""
        self.values.setdefault(key, {})[name] = value
        self.places[key, name] = place

    def place(self, *key: str) -> Place:
        """Where a value stands."""
        return self.places.get(key, ())


def cells_of(file: GridFile, choices: Choices | None = None) -> list[Cell]:
    """All cells of a grid in the order of its rows, every name in them checked.

    Raises:
        DataError: an unknown task, system, phase, variant, parameter or setting, or a value that cannot be:
            naming file, line and key, with the legal names.
        ConfigurationError: a choice that no cell of the grid has a use for.
    """
    choices, grid = choices or Choices(), file.grid
    found: list[Cell] = []
    for row, place, varied in rows_of(grid):
        for number, column in enumerate(grid.columns):
            merged = _merge(layers(grid, row, place, varied, number), choices)
            found += [_cell(file, row, column, merged, seed, choices) for seed in choices.seeds or grid.seeds]
    _check_given(found, choices)
    chosen = [cell for cell in found if _wanted(cell, choices.only)]
    if not chosen:
        labels = ", ".join(dict.fromkeys(f"{c.row}/{c.column}" for c in found))
        raise ConfigurationError(f"no cell matches --only {', '.join(choices.only)}; there are: {labels}")
    return chosen


def _merge(parts: Sequence[Layer], choices: Choices) -> _Merged:
    """Put the layers together; mappings are merged name by name."""
    merged = _Merged()
    for layer in parts:
        for key in Part.model_fields:
            value = getattr(layer.part, key)
            if isinstance(value, dict):
                for name, inner in value.items():
                    merged.put_in(key, name, inner, (*layer.place, key, name))
            elif value not in (None, []):
                merged.put(key, value, layer.place)
        for name, value in layer.varied.items():
            assign(merged, name, value, (*layer.place, name))
    for name, value in choices.given.items():
        if not _is_foreign(merged, name):
            assign(merged, name, value, ("--set", name))
    return merged


def assign(merged: _Merged, name: str, value: Any, place: Place) -> None:
    """Set a value by its bare name: of a task's, baseline's or run's parameters, of a phase, or `system`."""
    if name in ("system", "preset"):
        merged.put("system", value, place)
        merged.places["system",] = place
        return
    own = _parameters(merged.values.get("task"))
    key = "arguments" if name in own else "phases" if _is_part(merged, name) else "settings"
    merged.put_in(key, name, value, place)


def _is_part(merged: _Merged, name: str) -> bool:
    """Whether a name is a phase, or a parameter of the cell's baseline."""
    system = merged.values.get("system")
    return name in (_baseline_parameters(system) if system in BASELINES else VARIANTS)


def _is_foreign(merged: _Merged, name: str) -> bool:
    """Whether the cell has no use for a name that others may have one for."""
    known = {*_parameters(merged.values.get("task")), *Context.__dataclass_fields__, "system", "preset"}
    return name not in known and not _is_part(merged, name)


def _parameters(task: Any) -> set[str]:
    """A task's own parameters."""
    return set(inspect.signature(TASKS[task]).parameters) - set(TAKEN) if task in TASKS else set()


def _baseline_parameters(name: Any) -> list[str]:
    """A baseline's own parameters."""
    return list(inspect.signature(BASELINES[name].build).parameters)


def _cell(file: GridFile, row: Row, column: Column, merged: _Merged, seed: int, choices: Choices) -> Cell:
    """One cell, checked."""
    _check(file.document, merged)
    values = merged.values
    table = file.table
    shown = table is not None and (
        file.grid.layout != "cells" or bool(table.row(row.row) and table.column(column.column))
    )
    model, why_not = _model(values, choices)
    limit = values.get("limit")
    if choices.limit is not None:
        limit = min(limit or choices.limit, choices.limit)
    learn: Learn | None = values.get("learn")
    if learn and choices.train is not None:
        learn = learn.model_copy(update={"train": min(learn.train or choices.train, choices.train)})
    cell = Cell(
        row=row.row,
        column=column.column,
        group=row.group,
        seed=seed,
        published=file.grid.published if shown else "",
        task=values["task"],
        arguments=values.get("arguments", {}),
        limit=limit,
        system=values["system"],
        phases=values.get("phases", {}),
        settings=values.get("settings", {}),
        model=model,
        thin=values.get("thin"),
        learn=learn,
        metrics=tuple(file.metrics(column)),
        why_not=str(values.get("skip") or (f"made by: {values['by']}" if "by" in values else why_not)),
        by=values.get("by", ""),
        note=values.get("note", ""),
    )
    return _seeded(cell, file.grid.seed_names, merged)


def _seeded(cell: Cell, names: Sequence[str], merged: _Merged) -> Cell:
    """The cell with its seed in the settings and task parameters that take it and do not have a value."""
    arguments, settings = dict(cell.arguments), dict(cell.settings)
    for name in names:
        if name in _parameters(cell.task):
            arguments.setdefault(name, cell.seed)
        elif name in Context.__dataclass_fields__:
            settings.setdefault(name, cell.seed)
    return replace(cell, arguments=arguments, settings=settings)


def _model(values: Mapping[str, Any], choices: Choices) -> tuple[str, str]:
    """The model of a cell, and why it is not run ("" if it is)."""
    backbone, needs = values.get("backbone"), "model" in values.get("needs", ())
    system = values["system"]
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


def _check(document: Document, merged: _Merged) -> None:
    """Every name of a cell is one that there is. Raises `DataError` with its line."""
    values = merged.values
    for key, legal in (("task", TASKS), ("system", None)):
        if key not in values:
            raise document.error(f"a cell without {key}; give one to the row, the column or `defaults`")
        if legal is not None and values[key] not in legal:
            raise _refused(document, key, values[key], legal, merged.place(key))
    system, task = values["system"], values["task"]
    if system not in _systems(task):
        raise _refused(document, "system", system, _systems(task), merged.place("system"))
    _check_phases(document, merged, system)
    for name in values.get("arguments", {}):
        place = merged.place("arguments", name)
        if name in TAKEN:
            raise document.error(f"parameter {name!r} of a task is set by {TAKEN[name]}", place)
        if name not in _parameters(task):
            raise _refused(document, f"parameter of {task}", name, sorted(_parameters(task)), place)
    _check_settings(document, merged)


def _check_settings(document: Document, merged: _Merged) -> None:
    """Settings that there are, with values that can work."""
    given = merged.values.get("settings", {})
    settable = sorted(set(Context.__dataclass_fields__) - {"model"})  # that is for --model to say
    for name in given:
        if name not in settable:
            raise _refused(document, "setting", name, settable, merged.place("settings", name))
    try:
        Context(**given)
    except ConfigurationError as error:
        blamed = next((name for name in given if name in str(error).split()), next(iter(given)))
        raise document.error(str(error), merged.place("settings", blamed)) from error


def _systems(task: str) -> list[str]:
    """What can be asked."""
    return [*PRESETS, *(f"{name}-faithful" for name in FAITHFUL), *BASELINES]


def _check_phases(document: Document, merged: _Merged, system: str) -> None:
    """Phases and variants of a preset, parameters of a baseline."""
    phases = merged.values.get("phases", {})
    legal = _baseline_parameters(system) if system in BASELINES else list(VARIANTS)
    for name, variant in phases.items():
        place = merged.place("phases", name)
        if name not in legal:
            what = f"parameter of baseline {system}" if system in BASELINES else "phase"
            raise _refused(document, what, name, legal, place)
        if system not in BASELINES and variant not in VARIANTS[name]:
            raise _refused(document, f"variant of phase {name}", variant, VARIANTS[name], place)


def _refused(document: Document, what: str, given: object, legal: Iterable[str], place: Place) -> UserError:
    """The error about an unknown name, whether it stands in the file or on the command line."""
    if place[:1] == ("--set",):
        return ConfigurationError(f"--set {place[-1]}: {unknown(what, given, legal)}")
    return document.error(unknown(what, given, legal), place)


def _check_given(cells: Sequence[Cell], choices: Choices) -> None:
    """Every name of `--set` has reached some cell."""
    for name in choices.given:
        reached = (
            name in {*c.arguments, *c.phases, *c.settings} or name in ("system", "preset") for c in cells
        )
        if not any(reached):
            tasks = {p for c in cells for p in _parameters(c.task)}
            legal = [*sorted(tasks), *VARIANTS, *Context.__dataclass_fields__, "system"]
            raise ConfigurationError.unknown("name in --set", name, legal)


def _wanted(cell: Cell, only: Sequence[str]) -> bool:
    """Whether a cell matches one of the patterns `row/column` (either may be left out), case aside.

    A label may itself hold slashes: the pattern is also compared with the row alone and with all of it.
    """
    row, column = cell.row.casefold(), cell.column.casefold()
    for pattern in (p.casefold() for p in only):
        if fnmatch(row, pattern) or fnmatch(f"{row}/{column}", pattern):
            return True
        for i, letter in enumerate(pattern):
            if (
                letter == "/"
                and fnmatch(row, pattern[:i] or "*")
                and fnmatch(column, pattern[i + 1 :] or "*")
            ):
                return True
    return not only
