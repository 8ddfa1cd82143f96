"""`triplewise guidelines`: what they are, whether a file of them is sound, and how often each fired."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triplewise.graphs.cli.console import examples, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.guidelines import Counts, Guideline, Guidelines

PAPER = {
    "kb": (4, 204),
    "interpreter": (15, 862),
    "memory": (9, 4729),
    "kb+memory": (3, 1923),
    "interpreter+memory": (2, 341),
}
"""Number of guidelines and times triggered by source, in QueryAgent's table 8 (GrailQA)."""

Id = Annotated[str, typer.Argument(metavar="ID", help="As `triplewise guidelines list` shows it.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file of guidelines.")]
Extra = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="FILE", help="Your own guidelines, which come first. Repeatable."),
]
From = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="SOURCE", help="Only those of this source, e.g. kb+memory. Repeatable."),
]
With = Annotated[
    str | None,
    typer.Option(
        "--toolset", metavar="TOOLSET", help="Only those that serve this toolset, e.g. pyql or sql."
    ),
]
Logs = Annotated[
    list[Path],
    typer.Argument(metavar="LOG...", help="Documents of `ask --json` (JSON or JSON lines), or .eval logs."),
]
Top = Annotated[int, typer.Option("--top", metavar="N", min=1, help="Guidelines in the second table.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    commands = typer.Typer(
        help="ERASER's guidelines: what can go wrong, and what to do then.", no_args_is_help=True
    )
    commands.command(
        "list",
        epilog=examples(
            "triplewise guidelines list --source kb+memory", "triplewise guidelines list --toolset sql"
        ),
    )(list_guidelines)
    commands.command("show", epilog=examples("triplewise guidelines show fact_empty"))(show_guideline)
    commands.command(
        "check",
        epilog=examples(
            "triplewise guidelines check mine.yaml", 'triplewise ask "..." --set guidelines=mine.yaml'
        ),
    )(check_guidelines)
    commands.command(
        "stats",
        epilog=examples(
            'triplewise ask "..." --json >> runs.json; triplewise guidelines stats runs.json',
            "triplewise guidelines stats logs/metaqa.eval --top 20",
        ),
    )(count_guidelines)
    app.add_typer(commands, name="guidelines")


def list_guidelines(file: Extra = None, source: From = None, toolset: With = None) -> None:
    """List the guidelines by source: those for every toolset first, each group in the order it is tried."""
    from triplewise.guidelines import SOURCES, load_guidelines
    from triplewise.guidelines.match import TOOLSETS

    for name in source or ():
        if name not in SOURCES:
            raise ConfigurationError.unknown("source", name, SOURCES)
    if toolset is not None and toolset not in TOOLSETS:
        raise ConfigurationError.unknown("toolset", toolset, TOOLSETS)
    served = [g for g in load_guidelines(file or []) if toolset is None or g.serves(toolset)]
    console, guidelines = out(), sorted(served, key=lambda g: g.toolsets)
    for name in source or SOURCES:
        rows = [(g.id, _summary(g)) for g in guidelines if g.source == name]
        console.print(pairs(f"{name}: {len(rows)} guidelines", rows))
        console.print()
    console.print("The first that matches wins, errors before notes.")


def _summary(g: Guideline) -> str:
    """When a guideline fires, and what else there is to know of it."""
    notes = [*([g.severity] if g.severity != "error" else []), *g.toolsets, *([g.paper] if g.paper else [])]
    return " ".join(g.when.split()) + (f"  [{'; '.join(notes)}]" if notes else "")


def show_guideline(id: Id, file: Extra = None) -> None:
    """Show one guideline, with its example and the text that this example gets."""
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines(file or [])
    try:
        found = guidelines[id]
    except KeyError:
        raise ConfigurationError.unknown("guideline", id, (g.id for g in guidelines)) from None
    out().print(pairs(found.id, _details(guidelines, found)))


def _details(guidelines: Guidelines, found: Guideline) -> list[tuple[str, str]]:
    """Everything about a guideline, by name."""
    example = found.example
    match = guidelines.match(example.feedback, example.memory, **example.given)
    fields = {k: v for k, v in asdict(example.feedback).items() if v}
    return [
        ("file", f"{found.path}:{found.line}"),
        ("reads", found.source),
        ("severity", found.severity),
        ("paper", found.paper or "not from a paper"),
        ("when", " ".join(found.when.split())),
        ("guideline", found.guideline),
        ("example", "; ".join(f"{k}: {v}" for k, v in fields.items())),
        ("says", match.text if match else "nothing: the example does not trigger it"),
    ]


def check_guidelines(file: File) -> None:
    """Check a file: its form, its expressions, and that every example triggers its own guideline."""
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines([file])
    problems = [p for p in guidelines.check() if p.startswith(f"{file}:")]
    if problems:
        raise DataError("\n".join(problems))
    mine = sum(g.path == str(file) for g in guidelines)
    say(f"{file}: {mine} guideline{'' if mine == 1 else 's'}, every example triggers its own")


def count_guidelines(log: Logs, file: Extra = None, top: Top = 10) -> None:
    """Count how often each guideline fired, by source and by id (QueryAgent, tables 8 and 9)."""
    from triplewise.guidelines import guideline_counts, load_guidelines

    guidelines = load_guidelines(file or [])
    counts = guideline_counts((run for path in log for run in runs_of(path)), guidelines)
    console, total = out(), sum(counts.fired.values())
    if not counts.runs:
        raise DataError("no run in it; write one with `triplewise ask --json`", log[0])
    share = f"{counts.corrected} of {counts.runs} runs ({counts.corrected / counts.runs:.0%})"
    console.print(f"Guidelines fired {total} times, in {share}.\n")
    console.print(_by_source(counts))
    if counts.fired:
        console.print()
        console.print(_by_id(counts, top))


def _table(title: str, *heads: str) -> Table:
    """A plain table: names to the left, numbers to the right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", overflow="fold")
    return table


def _by_source(counts: Counts) -> Table:
    """The paper's table 8 with our figures."""
    heads = ("Source", "Guidelines", "Triggered", "In the paper", "Triggered there")
    table = _table("By source", *heads)
    rows: Sequence[tuple[str, int]] = list(counts.by_source.items())
    for source, times in rows:
        paper = PAPER.get(source, ("", ""))
        table.add_row(source, f"{counts.written.get(source, 0)}", f"{times}", *map(str, paper))
    sums = [sum(column) for column in zip(*PAPER.values(), strict=True)]
    written, times = sum(counts.written.values()), sum(counts.fired.values())
    table.add_row("all", f"{written}", f"{times}", *map(str, sums), style="bold")
    return table


def _by_id(counts: Counts, top: int) -> Table:
    """The paper's table 9 with our figures."""
    total = sum(counts.fired.values())
    table = _table(f"Most often triggered, {min(top, len(counts.fired))} of {len(counts.fired)}", *_HEADS)
    for id, times in list(counts.fired.items())[:top]:
        table.add_row(id, f"{times}", f"{times / total:.0%}", counts.sources[id])
    return table


_HEADS = ("Guideline", "Triggered", "Share", "Source")


_ZIP = b"PK\x03\x04"
_RECORD = "Run:"
"""What our own record of a run is kept under in the store of an Inspect sample."""
_LEFT_OUT = {"messages", "events", "attachments"}


def runs_of(path: Path) -> Iterator[dict[str, Any]]:
    """The runs of a log, each a mapping with `steps` or `corrections`.

    Raises:
        DataError: the file cannot be read, or holds something else; says what, and where.
        ConfigurationError: it is an `.eval` log and Inspect is not installed.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == _ZIP
        yield from _samples(path) if is_zip else _documents(path, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"is neither JSON nor an .eval log: no UTF-8 at byte {error.start}", path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def _documents(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """JSON documents one after the other, or one list of them."""
    decoder, at = json.JSONDecoder(), 0
    while (at := _skip(text, at)) < len(text):
        try:
            found, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            what = f"is not JSON: {error.msg}; give documents of `triplewise ask --json`, or an .eval log"
            raise DataError(what, path, error.lineno) from error
        line = text.count("\n", 0, at) + 1
        for document in found if isinstance(found, list) else [found]:
            if not isinstance(document, dict) or not {"steps", "corrections"} & set(document):
                what = "is no document of `triplewise ask --json`: it has neither 'steps' nor 'corrections'"
                raise DataError(what, path, line)
            yield document


def _skip(text: str, at: int) -> int:
    """The place of the next character that is no space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    """The record of each sample of an Inspect log."""
    try:
        from inspect_ai.log import read_eval_log_samples
    except ImportError as error:
        raise ConfigurationError(
            f"{path} is an .eval log: install what reads it with pip install 'triplewise[evals]'"
        ) from error
    try:
        samples = read_eval_log_samples(path, False, format="eval", exclude_fields=_LEFT_OUT)
        for sample in samples:
            record = {k[len(_RECORD) :]: v for k, v in sample.store.items() if k.startswith(_RECORD)}
            if "corrections" in record:
                yield record
    except (ValueError, LookupError, EOFError, RuntimeError) as error:
        raise DataError(f"is no .eval log that can be read: {error}", path) from error
