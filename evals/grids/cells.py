"""The cells of a grid: what is asked of which system, every name in them looked up before anything runs.

A cell is what `defaults`, its column, its row, `vary`, its overrides and the command line say, a later one
winning over an earlier one.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch, fnmatchcase
from typing import Any

from triplewise.evals.baselines import BASELINES
from triplewise.evals.evaluation import TASKS
from triplewise.evals.grids.grid import Column, GridFile, Learn, Part, Place, Row, Thin, located, unknown
from triplewise.graphs.presets import PRESETS, VARIANTS
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError, UserError
from triplewise.tools.core.files import YamlDocument

EMBEDDED = "embedded"
OTHER_KEYS = {
    "preset": "system",
    "model": "needs, backbone and --model",
    "settings": "settings",
    "phases": "phases",
    "n": "limit",
}
"""Parameters of every task that a grid has a key of its own for."""

SEEDS = ("plan_seed", "observe_seed", "reflect_seed")
"""What a grid's seed sets: the agent's random draws, not the questions."""


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

    def matches(self, pattern: str) -> bool:
        """Whether row and column match a pattern `row/column` (either may be left out), case aside.

        A label may itself hold slashes: a pattern is compared with the row, and cut at each of its slashes.
        """
        row, column, pattern = self.row.casefold(), self.column.casefold(), pattern.casefold()
        cuts = [i for i, letter in enumerate(pattern) if letter == "/"]
        return fnmatch(row, pattern) or any(
            fnmatch(row, pattern[:i] or "*") and fnmatch(column, pattern[i + 1 :] or "*") for i in cuts
        )


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


def cells_of(file: GridFile, choices: Choices | None = None) -> list[Cell]:
    """Return all cells of a grid in the order of its rows, every name in them checked.

    Raises:
        DataError: an unknown task, system, phase, variant, parameter or setting, or a value that cannot be:
            naming file, line and key, with the legal names.
        ConfigurationError: a choice that no cell of the grid has a use for.
    """
    choices, grid = choices or Choices(), file.grid
    cells: list[Cell] = []
    for (i, row), values in itertools.product(enumerate(grid.rows), itertools.product(*grid.vary.values())):
        varied = dict(zip(grid.vary, values, strict=True))
        words = ", ".join(f"{name}={value}" for name, value in varied.items())
        label = words if words and row.row == "all" else ", ".join(filter(None, (row.row, words)))
        for j, column in enumerate(grid.columns):
            draft = Draft()
            draft.add(grid.defaults, ("defaults",))
            draft.add(column, ("columns", j))
            draft.add(row, ("rows", i))
            for name, value in varied.items():
                draft.assign(name, value, ("vary", name))
            for k, override in enumerate(grid.cells):
                if fnmatchcase(row.row, override.row) and fnmatchcase(column.column, override.column):
                    draft.add(override, ("cells", k))
            for name, value in choices.given.items():
                if name in {
                    *draft.parameters,
                    *draft.parts,
                    *Context.__dataclass_fields__,
                    "system",
                    "preset",
                }:
                    draft.assign(name, value, ("--set", name))
            draft.check(file.document)
            named = row.model_copy(update={"row": label})
            cells += [draft.cell(file, named, column, seed, choices) for seed in choices.seeds or grid.seeds]
    for name in choices.given:
        if not any(name in {*c.arguments, *c.phases, *c.settings, "system", "preset"} for c in cells):
            tasks = {parameter for cell in cells for parameter in parameters_of(cell.task)}
            legal = [*sorted(tasks), *VARIANTS, *Context.__dataclass_fields__, "system"]
            raise ConfigurationError.unknown("name in --set", name, legal)
    chosen = [cell for cell in cells if not choices.only or any(map(cell.matches, choices.only))]
    if not chosen:
        labels = ", ".join(dict.fromkeys(f"{c.row}/{c.column}" for c in cells))
        raise ConfigurationError(f"no cell matches --only {', '.join(choices.only)}; there are: {labels}")
    return chosen


def parameters_of(task: Any) -> set[str]:
    """Return a task's own parameters; none of an unknown one."""
    return set(inspect.signature(TASKS[task]).parameters) - set(OTHER_KEYS) if task in TASKS else set()


@dataclass(slots=True)
class Draft:
    """The layers of a cell put together.

    Attributes:
        values: keys of `Part` that have a value. places: key, and name of a mapping -> where it stands.
    """

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple[str, ...], Place] = field(default_factory=dict)

    @property
    def parameters(self) -> set[str]:
        """The task's own parameters."""
        return parameters_of(self.values.get("task"))

    @property
    def parts(self) -> list[str]:
        """Names by which the system is changed: phases, or the parameters of a baseline."""
        system = str(self.values.get("system"))
        return list(
            inspect.signature(BASELINES[system].build).parameters if system in BASELINES else VARIANTS
        )

    def add(self, part: Part, place: Place) -> None:
        """Lay a part over what is there; mappings are merged name by name."""
        for key in Part.model_fields:
            value = getattr(part, key)
            if isinstance(value, dict):
                self.values[key] = {**self.values.get(key, {}), **value}
                self.places |= {(key, name): (*place, key, name) for name in value}
            elif value not in (None, []):
                self.values[key], self.places[key,] = value, (*place, key)

    def assign(self, name: str, value: Any, place: Place) -> None:
        """Set a value by its bare name: of a task, baseline or run, of a phase, or `system`."""
        if name in ("system", "preset"):
            self.values["system"], self.places["system",] = value, place
            return
        key = "arguments" if name in self.parameters else "phases" if name in self.parts else "settings"
        self.values[key] = {**self.values.get(key, {}), name: value}
        self.places[key, name] = place

    def check(self, document: YamlDocument) -> None:
        """Check that every name is one that there is. Raises `DataError` with its line."""
        values = self.values

        def refuse(message: str, *key: str) -> UserError:
            place = self.places.get(key, ())
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
        systems = [*PRESETS, *BASELINES]
        if system not in systems:
            raise refuse(unknown("system", system, systems), "system")
        for name, variant in values.get("phases", {}).items():
            if name not in self.parts:
                what = f"parameter of baseline {system}" if system in BASELINES else "phase"
                raise refuse(unknown(what, name, self.parts), "phases", name)
            if system not in BASELINES and variant not in VARIANTS[name]:
                raise refuse(unknown(f"variant of phase {name}", variant, VARIANTS[name]), "phases", name)
        for name in values.get("arguments", {}):
            if name in OTHER_KEYS:
                raise refuse(f"parameter {name!r} of a task is set by {OTHER_KEYS[name]}", "arguments", name)
            if name not in self.parameters:
                message = unknown(f"parameter of {task}", name, sorted(self.parameters))
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

    def cell(self, file: GridFile, row: Row, column: Column, seed: int, choices: Choices) -> Cell:
        """Return a cell, with its seed in the settings that take it and have no value."""
        values, table = self.values, file.table
        names = table and (
            file.grid.layout != "cells" or (table.row(row.row) and table.column(column.column))
        )
        limits = [limit for limit in (values.get("limit"), choices.limit) if limit is not None]
        learn: Learn | None = values.get("learn")
        if learn and choices.train is not None:
            learn = learn.model_copy(update={"train": min(learn.train or choices.train, choices.train)})
        model, why_not = self.model(choices)
        return Cell(
            row=row.row,
            column=column.column,
            group=row.group,
            seed=seed,
            published=file.grid.published if names else "",
            task=values["task"],
            arguments=values.get("arguments", {}),
            limit=min((limit or max(limits) for limit in limits), default=None),
            system=values["system"],
            phases=values.get("phases", {}),
            settings={**dict.fromkeys(SEEDS, seed), **values.get("settings", {})},
            model=model,
            thin=values.get("thin"),
            learn=learn,
            metrics=tuple(file.metrics(column)),
            why_not=str(values.get("skip") or why_not),
            note=values.get("note", ""),
        )

    def model(self, choices: Choices) -> tuple[str, str]:
        """Return the model that is asked, and why the cell is not run ("" if it is)."""
        values, backbone = self.values, self.values.get("backbone")
        thin: Thin | None = values.get("thin")
        reads = thin is not None and (thin.documents or thin.read)  # only a language model reads documents
        needs = reads or "model" in values.get("needs", ())
        needs = needs or ((baseline := BASELINES.get(values["system"])) is not None and not baseline.embedded)
        model = choices.model
        if backbone:
            model = choices.backbones.get(backbone, choices.backbones.get("*", ""))
            if not model and choices.model != EMBEDDED:
                return (
                    choices.model,
                    f"is about the model {backbone}: give it, --model {backbone}=openai:NAME",
                )
            model = model or EMBEDDED
        if needs and model == EMBEDDED:
            name = f"{backbone}=openai:NAME" if backbone else "openai:NAME"
            return model, f"needs a language model: --model {name}"
        return model, ""
