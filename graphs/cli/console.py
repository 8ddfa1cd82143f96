"""What every command prints through: consoles, notices, and the examples under `--help`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

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
