"""Progress of long work on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bars() -> Iterator[Any]:
    """Progress bars on stderr, one a stage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as progress:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    _complete(progress, earlier)
                tasks[stage] = progress.add_task(stage.replace("[", r"\["), total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield tell
        for task in tasks.values():
            _complete(progress, task)


def _complete(progress: Any, task: Any) -> None:
    """A stage is over: its bar is full, also where its size was unknown."""
    done = progress.tasks[task].completed or 1
    progress.update(task, completed=done, total=done)


@contextmanager
def learning_progress() -> Iterator[Any]:
    """Progress of self-learning on stderr: a bar a phase and iteration, with questions and mean reward."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True, highlight=False))
    tasks: dict[str, Any] = {}

    def tell(told: Any) -> None:
        progress.start()  # Not before there is something to show: an error then stands alone.
        name = f"{told.phase} {told.iteration + (told.phase != 'validated')}"
        note = told.doing if told.reward is None else f"mean reward {told.reward:.3f}"
        if name not in tasks:
            tasks[name] = progress.add_task(name, total=told.total, note=note)
        progress.update(tasks[name], completed=told.done, total=told.total, note=note)

    try:
        yield tell
    finally:
        progress.stop()
