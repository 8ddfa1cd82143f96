"""Runs the cells of a grid, one log each; what is done with the same configuration is not done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inspect_ai.log import EvalLog

from triplewise.evals.evaluation import crashes, default_log_dir, find_log, log_path, run, scores_of
from triplewise.evals.grids.cells import Cell
from triplewise.evals.grids.grid import GridFile
from triplewise.evals.grids.prepare import ELSEWHERE, digest_of, prepared_task, task_of
from triplewise.tools.core.errors import TriplewiseError

State = Literal["done", "kept", "skipped", "failed"]
"""`kept`: an earlier run's log is complete."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell.

    Attributes:
        cell: the cell. state: see `State`. why: of a cell that was skipped or failed.
        seconds: that it took now. questions: asked in its log. log: where that is. scores: `score.metric`.
    """

    cell: Cell
    state: State
    why: str = ""
    seconds: float = 0.0
    questions: int = 0
    log: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def crashed(self) -> int:
        """How many questions crashed; they count as wrong."""
        return int(self.scores.get("crashed.total", 0))


def run_grid(
    file: GridFile,
    cells: Sequence[Cell],
    *,
    log_dir: Path | None = None,
    jobs: int = 1,
    notify: Callable[[str], None] = lambda stage: None,
) -> Iterator[Outcome]:
    """Run the cells in their order, an outcome as soon as it is there.

    A cell that fails is listed and the next one is run. An interrupt leaves the logs of all finished cells;
    the one at work goes on where it was when the grid is run again.

    Args:
        file: the grid. cells: of `cells_of`. log_dir: folder of the logs. jobs: questions in flight.
        notify: gets the cell at work and what is made for it.

    Raises:
        KeyboardInterrupt: as soon as a cell was interrupted.
    """
    folder = log_dir or default_log_dir() / "grids" / file.grid.name
    for cell in cells:
        notify(cell.name)
        if cell.why_not:
            yield Outcome(cell, "skipped", cell.why_not)
        else:
            yield run_cell(file, cell, folder, jobs, notify)


def run_cell(file: GridFile, cell: Cell, folder: Path, jobs: int, notify: Callable[[str], None]) -> Outcome:
    """Run one cell, or take its finished log; an error of it is its outcome. See `run_grid`."""
    start = time.perf_counter()
    state: State = "done"
    try:
        base = task_of(cell)
        identity = digest_of(cell, base)
        log = find_log(folder, base, identity)
        finished = log is not None and log.status == "success"
        if log is not None and finished and not _all_crashed(log):
            state, start = "kept", time.perf_counter()
        else:
            task = prepared_task(cell, base, lambda stage, done, total: notify(f"{cell.name}: {stage}"))
            task.metadata = {**(task.metadata or {}), "grid": about(file, cell)}
            log = run(
                task,
                jobs=jobs,
                log_dir=folder,
                identity=identity,
                retry_crashed=finished,  # where every question crashed a server was down: all are asked again
                samples=False,
                notify=lambda line: notify(f"{cell.name}: {line}"),
            )
    except Exception as error:  # noqa: BLE001 - one cell must not end the grid; it is listed with its error
        words = str(error) if isinstance(error, TriplewiseError) else f"{type(error).__name__}: {error}"
        return Outcome(cell, "failed", words, time.perf_counter() - start)
    if log.status == "cancelled":
        raise KeyboardInterrupt
    why = ""
    if log.status != "success":
        why = log.error.message if log.error else f"the evaluation ended with status {log.status}"
    elif _all_crashed(log):
        first = next((message for _, message in crashes(log)), "no question was answered")
        why = f"every question crashed: {first}"
    return Outcome(
        cell,
        "failed" if why else state,
        why,
        time.perf_counter() - start,
        log.results.total_samples if log.results else 0,
        str(log_path(log)),
        scores_of(log),
    )


def _all_crashed(log: EvalLog) -> bool:
    """Whether no question came to an answer."""
    asked = log.results.total_samples if log.results else 0
    return asked > 0 and scores_of(log).get("crashed.total", 0.0) >= asked


def about(file: GridFile, cell: Cell) -> dict[str, Any]:
    """What the log of a cell says of its grid.

    `name`, `title`, `row`, `column`, `seed`, `published` are what reports are made from; the rest says how
    the table is laid out (`layout`, `group`, `order`, `metrics`), and what the cell was.
    """
    rows = [row.row for row in file.grid.rows]
    columns = [column.column for column in file.grid.columns]
    return {
        "name": file.grid.name,
        "title": file.grid.title,
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "published": cell.published,
        "table": file.grid.published,
        "layout": file.grid.layout,
        "notes": file.grid.notes,
        "note": cell.note,
        "group": cell.group,
        "rows": rows if cell.row in rows else [],
        "columns": columns,
        "metrics": list(cell.metrics),
        "system": cell.system,
        "model": cell.model,
        "phases": dict(cell.phases),
        "settings": {n: v for n, v in cell.settings.items() if n not in ELSEWHERE},
    }
