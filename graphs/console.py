"""What every command is run and prints through: exit codes, consoles, notices, tables, progress, examples."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import re
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from triplewise.tools.core.errors import RunError, UserError
from triplewise.tools.core.secrets import redact
from triplewise.tools.core.terms import CONTROLS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_CODES = (
    "Exit codes: 0 answered, 1 not found (or a budget was spent first), 2 something you can fix, "
    "3 the run failed (a service, a disk), 4 not sure (--set min_confidence), 130 interrupted."
)

USER_ERROR, RUN_ERROR, INTERRUPTED = 2, 3, 130
NARROWEST = 30  # Columns that a table is laid out for at least; a narrower terminal breaks its lines
LONGEST_CELL = 2_000  # Characters of a cell of a table that are printed; JSON and CSV have all
_FORMULA = re.compile(r"[=+@＝＋－＠\t\r\n]|-(?!\d[\d.,]*(?:[eE][+-]?\d+)?\Z)")
"""How a cell begins that a spreadsheet would run; a negative number is none."""
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document and nothing else.")]


class Interrupted(Exception):  # noqa: N818 - no error
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
    """Print a value as JSON."""
    echo(json.dumps(value, ensure_ascii=False, indent=2))


def say(message: str, kind: Literal["error", "notice", ""] = "") -> None:
    """Print a line on stderr for the person who runs the command."""
    from rich.text import Text

    prefix = (f"{kind}: ", "bold red" if kind == "error" else "yellow") if kind else ""
    out(stderr=True).print(Text.assemble(prefix, message), soft_wrap=True)


def columns(heads: Sequence[str], rows: Iterable[Any], title: str = "", whole: bool = False) -> Table:
    """Return a table with a heading for each column; names in the first unbroken if `whole`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    table.title = Text(title, "bold") if title else None
    for number, head in enumerate(heads):
        table.add_column(head, overflow="fold", no_wrap=whole and not number)
    for row in rows:
        table.add_row(*(cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "..." for cell in row))
    return table


def pairs(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values."""
    from rich.text import Text

    table = columns(("", ""), [(name, Text(str(value))) for name, value in rows], title, whole=True)
    table.show_header = False
    table.columns[0].style = "dim"
    return table


def summary(title: str, report: Any, use: str) -> Table:
    """Return the numbers of a report (a dataclass) as a table, and how to use what was made."""
    values = [(field.name.replace("_", " "), getattr(report, field.name)) for field in fields(report)]
    rows = [
        (n, f"{v:,}" if isinstance(v, int) else f"{v:.1f}") for n, v in values if isinstance(v, int | float)
    ]
    return pairs(title, [*rows, ("use it", use)])


@contextmanager
def progress_bars(interrupted: str = "") -> Iterator[Callable[..., None]]:
    """Give `report(stage, done, total, note="")`, a bar a stage on stderr; Ctrl-C raises `Interrupted`."""
    from rich import progress as bars

    shown = bars.TextColumn("{task.description}"), bars.BarColumn(bar_width=24), bars.TaskProgressColumn()
    note_column = bars.TextColumn("{task.fields[note]}")
    progress = bars.Progress(*shown, bars.TimeElapsedColumn(), note_column, console=out(stderr=True))
    tasks: dict[str, Any] = {}

    def fill() -> None:
        for task in tasks.values():
            done = progress.tasks[task].completed or 1  # their size may have been unknown
            progress.update(task, completed=done, total=done)

    def report(stage: str, done: int, total: int | None, note: str = "") -> None:
        progress.start()  # nothing shows before, so that an error stands alone
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
        if tasks:
            progress.stop()


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV, with no cell that a spreadsheet would run as a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in (names, *rows):
        writer.writerow(f"'{v}" if isinstance(v, str) and _FORMULA.match(v) else v for v in row)
    return text.getvalue()


def relax_collector() -> None:
    """Look for garbage less often: a twentieth of the time to an answer, a seventh of an evaluation's."""
    gc.set_threshold(50_000, 20, 20)


def run_command(arguments: Sequence[str], commands: typer.Typer, name: str = "triplewise") -> int:
    """Run one command and return its exit code; errors end as one or two lines on stderr."""
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())  # None where it was closed
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A character that the terminal cannot show, or bytes that are not text, must not end the run.
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    width = shutil.get_terminal_size().columns
    if "COLUMNS" in os.environ or width < NARROWEST:
        os.environ["COLUMNS"] = str(max(width, NARROWEST))
    debug = "--debug" in arguments
    for argument in arguments:
        if argument.encode("utf-8", "replace").decode() != argument:
            say(f"the argument {argument!r} is not UTF-8 text: set the terminal's encoding to UTF-8", "error")
            return USER_ERROR
    command = typer.main.get_command(commands)
    try:
        result = command.main([a for a in arguments if a != "--debug"], prog_name=name, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the last place: it is reported, and the exit code says it failed
        if debug:
            echo(redact(traceback.format_exc()), err=True)
        return _explain(error)
    if result == INTERRUPTED:
        say("interrupted", "error")
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Say what went wrong and what to do about it; return the exit code."""
    match error:
        case Interrupted():
            say(f"interrupted{f'; {error}' if str(error) else ''}", "error")
            return INTERRUPTED
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "triplewise"
            if error.format_message():  # empty where the help was printed instead
                say(f"{redact(error.format_message())} (see: {command} --help)", "error")
            return USER_ERROR
        case UserError() | RunError():
            say(str(error), "error")
            return USER_ERROR if isinstance(error, UserError) else RUN_ERROR
        case sqlite3.Error():
            say(f"the checkpoints failed ({error}); they lie in the user's state folder", "error")
            return RUN_ERROR
        case OSError():
            place = error.filename
            try:
                getattr(sys.stdout, "flush", bool)()
            except OSError:  # at the exit Python would try again, and say so
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                place = "standard output"
            say(f"{error.strerror or error}{f': {place}' if place else ''}", "error")
            return RUN_ERROR
    say(f"unexpected {type(error).__name__}: {redact(str(error))}", "error")
    say("This is a bug in triplewise; repeat with --debug for the traceback to report.")
    return RUN_ERROR
