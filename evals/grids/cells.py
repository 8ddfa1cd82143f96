"""The cells of a grid: what is asked of which system, every name in them looked up before anything runs.

A cell is what `defaults`, its column, its row, its overrides and the command line say, a later one winning
over an earlier one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch, fnmatchcase
from typing import Any

from triplewise.evals.baselines import BASELINES
from triplewise.evals.evaluation import TASKS, names_of, task_arguments
from triplewise.evals.grids.grid import CellSpec, GridFile, Row, error_at, unknown
from triplewise.tools.core.errors import ConfigurationError, UserError
from triplewise.tools.core.files import YamlDocument

EMBEDDED = "embedded"
OTHER_KEYS = {
    "preset": "system",
    "model": "needs, backbone and --model",
    "settings": "set",
    "phases": "set",
    "n": "limit",
}
"""What a grid has a key of its own for, in the place of `set`."""

Place = tuple[str] | tuple[str, int]
"""Where a part of the file stands: `("rows", 2)`."""

SEEDS = ("plan_seed", "observe_seed", "reflect_seed")
"""What a grid's seed sets: the agent's random draws, not the questions."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: what is asked of which system, and where it stands in the table.

    Attributes:
        row, column, seed: where. spec: what is asked of which system; the seed is among what is set.
        model: `embedded` or `openai:NAME`. metrics: figures that the table shows.
        why_not: why it is not run, "" if it is.
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
    """What the person who runs a grid chooses, over what its file says.

    Attributes:
        model: of cells without a backbone. backbones: backbone -> model, `*` for all others.
        limit: most questions of a cell. train: most training questions where a cell learns.
        given: task parameters, phases, settings: those of `--set`, for the cells that have such a name.
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
    for (i, row), (j, column) in itertools.product(enumerate(grid.rows), enumerate(grid.columns)):
        layers: dict[Place, CellSpec] = {
            ("defaults",): grid.defaults,
            ("columns", j): column,
            ("rows", i): row,
        }
        for k, override in enumerate(grid.cells):
            if fnmatchcase(row.row, override.row) and fnmatchcase(column.column, override.column):
                layers["cells", k] = override
        values: dict[str, Any] = {}
        for spec in layers.values():
            for key in spec.model_fields_set & CellSpec.model_fields.keys():
                value = getattr(spec, key)
                values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        spec = CellSpec(**values)
        check(file.document, spec, layers, choices.given)
        model, why_not = _model(spec, choices)
        names = names_of(spec.task, spec.system)
        given = {name: value for name, value in choices.given.items() if name in names}
        limits = [limit for limit in (spec.limit, choices.limit) if limit is not None]
        learn = spec.learn
        if learn and choices.train is not None:
            learn = learn.model_copy(update={"train": min(learn.train or choices.train, choices.train)})
        for seed in choices.seeds or grid.seeds:
            own = spec.model_copy(
                update={
                    "limit": min((limit or max(limits) for limit in limits), default=None),
                    "learn": learn,
                    "set": {**dict.fromkeys(SEEDS, seed), **spec.set, **given},
                }
            )
            metrics = tuple(file.metrics(column))
            cells.append(Cell(row, column.column, seed, own, model, metrics, spec.skip or why_not))
    for name in choices.given:
        if not any(name in cell.spec.set for cell in cells):
            legal = {one for cell in cells for one in names_of(cell.spec.task, cell.spec.system)}
            raise ConfigurationError.unknown("name in --set", name, legal - set(OTHER_KEYS))
    chosen = [cell for cell in cells if not choices.only or any(map(cell.matches, choices.only))]
    if not chosen:
        labels = ", ".join(dict.fromkeys(f"{c.row.row}/{c.column}" for c in cells))
        raise ConfigurationError(f"no cell matches --only {', '.join(choices.only)}; there are: {labels}")
    return chosen


def check(
    document: YamlDocument, spec: CellSpec, layers: dict[Place, CellSpec], given: Mapping[str, Any]
) -> None:
    """Check that every name of a cell is one that there is, and every value one that can be.

    Args:
        document: names the line. spec: the cell. layers: what it was merged from. given: as in `Choices`.

    Raises:
        DataError: at the last place that says it. ConfigurationError: of what `--set` gives.
    """

    def located(message: str, key: str, name: str = "") -> UserError:
        place = next(
            place
            for place, layer in reversed(layers.items())
            if key in layer.model_fields_set and (not name or name in layer.set)
        )
        return error_at(document, message, *place, key, *([name] if name else []))

    if not spec.task:
        raise document.error("a cell without task; give one to the row, the column or `defaults`")
    if spec.task not in TASKS:
        raise located(unknown("task", spec.task, TASKS), "task")
    system = {"preset": spec.system} if spec.system else {}
    try:
        task_arguments(spec.task, system)
    except ConfigurationError as error:
        raise located(str(error), "system") from error
    for name, value in {**spec.set, **given}.items():
        try:
            if name in OTHER_KEYS:
                raise ConfigurationError(f"{name!r} is set by {OTHER_KEYS[name]}")
            if name in spec.set or name in names_of(spec.task, spec.system):
                task_arguments(spec.task, {**system, name: value})
        except ConfigurationError as error:
            if name in given:
                raise ConfigurationError(f"--set {name}: {error}") from error
            raise located(str(error), "set", name) from error


def _model(spec: CellSpec, choices: Choices) -> tuple[str, str]:
    """Return the model that is asked, and why the cell is not run ("" if it is)."""
    backbone, baseline = spec.backbone, BASELINES.get(spec.system)
    reads = spec.thin is not None and (spec.thin.documents or spec.thin.read)
    needs = reads or "model" in spec.needs or (baseline is not None and not baseline.embedded)
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
