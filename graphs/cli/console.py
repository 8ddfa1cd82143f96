"""What every command prints through: consoles, notices, tables, progress, and the examples under `--help`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import typer

from triplewise.tools.core.terms import CONTROLS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table
    from rich.text import Text

EXIT_CODES = (
    "Exit codes: 0 answered, 1 not found (or a budget was spent first), 2 something you can fix, "
    "3 the run failed (a service, a disk), 4 not sure (--set min_confidence), 130 interrupted."
)


class Interrupted(Exception):  # noqa: N818 - no error, and no one else's to catch
    """A person pressed Ctrl-C; says how to go on, "" where there is nothing to."""


def out(stderr: bool = False) -> Console:
    """Return standard output: no colours without a terminal or with NO_COLOR, 80 columns if nothing tells."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """Shows characters that would steer the terminal by their codes, whatever text they stand in."""

        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **options):
                yield Segment(text if control else escape_controls(text), style, control)

    return SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False)


def escape_controls(text: str) -> str:
    """Return a text whose control characters, but line ends and tabs, are `\\uXXXX`, as in JSON."""
    return CONTROLS.sub(lambda c: c[0] if c[0] in "\n\t" else f"\\u{ord(c[0]):04x}", text)


def echo(text: str, **options: Any) -> None:
    """Print a text on standard output as it is, but for control characters: see `escape_controls`."""
    typer.echo(escape_controls(text), **options)


def echo_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    echo(json.dumps(value, ensure_ascii=False, indent=2))


def say(message: str, kind: Literal["error", "notice", ""] = "") -> None:
    """Print a line on stderr for the person who runs the command."""
    from rich.text import Text

    prefix = (f"{kind}: ", "bold red" if kind == "error" else "yellow") if kind else ""
    out(stderr=True).print(Text.assemble(prefix, message), soft_wrap=True)


def examples(*commands: str) -> str:
    """Return the examples under a command's `--help`; one too long for a line goes on as a shell has it."""
    lines = []
    for command in commands:
        unbroken = re.sub(r'"[^"]*"|--[\w-]+ ', lambda part: part[0].replace(" ", "\0"), command)
        parts = textwrap.wrap(unbroken, 72, break_long_words=False, break_on_hyphens=False)
        lines.append(" \\\n      ".join(parts).replace("\0", " ").replace("[", r"\["))
    return "Examples:\n\n[cyan]  " + "\n  ".join(lines) + "[/cyan]" if lines else ""


def columns(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    title: str = "",
    right: bool = False,
    whole: bool = False,
) -> Table:
    """Return a table with a heading for each column, which wraps between words instead of cutting.

    Args:
        right: set all columns but the first to the right, for numbers.
        whole: break no line of the first column.
    """
    from rich.table import Table
    from rich.text import Text

    lines = [tuple(heads), *map(tuple, rows)]

    class WordTable(Table):
        """Shrinks no column below its longest word, where there is room."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
            texts = [[str(line[i]) for line in lines] for i in range(len(heads))]
            full = [max(len(part) for text in cells for part in text.split("\n")) for cells in texts]
            words = [max(len(word) for text in cells for word in ("", *text.split())) for cells in texts]
            words[0] = full[0] if whole else words[0]
            free = options.max_width - 2 * (len(heads) - 1)
            if sum(words) <= free < sum(full):
                while sum(full) > free:  # the widest gives first
                    at = max((i for i in range(len(heads)) if full[i] > words[i]), key=full.__getitem__)
                    full[at] -= 1
                for column, width in zip(self.columns, full, strict=True):
                    column.width = width
            yield from super().__rich_console__(console, options)

    table = WordTable(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", title_justify="left"
    )
    table.title = Text(title, "bold") if title else None
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", justify="right" if right and number else "left")
    table.columns[0].no_wrap = whole
    for row in lines[1:]:
        table.add_row(*row)
    return table


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and values, which wraps instead of cutting."""
    from rich.text import Text

    table = columns(("", ""), [(name, Text(value)) for name, value in rows], title, whole=True)
    table.show_header = False
    table.columns[0].style = "dim"
    return table


@contextmanager
def progress_bars(interrupted: str = "") -> Iterator[Callable[..., None]]:
    """Show progress on stderr, one bar a stage.

    Gives `report(stage, done, total, note="")`, where total is None if it is not known. Nothing
    shows before the first report, so that an error then stands alone.

    Args:
        interrupted: said after Ctrl-C, which then raises `Interrupted`.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=out(stderr=True),
    )
    tasks: dict[str, Any] = {}

    def fill() -> None:
        """Fill the bars of stages that are over, also where their size was unknown."""
        for task in tasks.values():
            done = progress.tasks[task].completed or 1
            progress.update(task, completed=done, total=done)

    def report(stage: str, done: int, total: int | None, note: str = "") -> None:
        progress.start()
        if stage not in tasks:
            fill()
            tasks[stage] = progress.add_task(stage.replace("[", r"\["), total=total, note=note)
        progress.update(tasks[stage], completed=done, total=total, note=note)

    try:
        yield report
        fill()
    except KeyboardInterrupt:
        if interrupted:
            raise Interrupted(interrupted) from None
        raise
    finally:
        progress.stop()
