"""What every command prints through: consoles, notices, progress, and the examples under `--help`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_CODES = (
    "Exit codes: 0 answered, 1 not found (or a budget was spent first), 2 something you can fix, "
    "3 the run failed (a service, a disk), 130 interrupted."
)

_STYLES = {"error": "bold red", "notice": "yellow"}


def out() -> Console:
    """Standard output: no colours without a terminal or with NO_COLOR, 80 columns where nothing tells."""
    return _console(stderr=False)


def _console(stderr: bool) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(message: str, kind: Literal["error", "notice", ""] = "") -> None:
    """A line on stderr for the person who runs the command."""
    from rich.text import Text

    text = Text()
    if kind:
        text.append(f"{kind}: ", _STYLES[kind])
    _console(stderr=True).print(text.append(message), soft_wrap=True)


def examples(*commands: str) -> str:
    """The examples under a command's `--help`."""
    lines = "\n\n".join(f"  [cyan]{c.replace('[', chr(92) + '[')}[/cyan]" for c in commands)
    return f"Examples:\n\n{lines}"


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """A table of names and values, which wraps instead of cutting."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", title_style="bold", show_header=False, box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


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
