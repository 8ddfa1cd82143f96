"""`triplewise guidelines`: what they are, whether a file of them is sound, and how often each fired."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import columns, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import read_text

Extra = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="FILE", help="Your own guidelines, which come first. Repeatable."),
]

commands = typer.Typer(
    help="ERASER's guidelines: what can go wrong, and what to do then.", no_args_is_help=True
)


@o.command(commands, "list")
def list_guidelines(
    file: Extra = None,
    source: list[str] | None = o.option("SOURCE", "Only those of this source, e.g. kb+memory. Repeatable."),
) -> None:
    """List the guidelines by source: those for every toolset first, each group in the order it is tried.

    Examples:
        triplewise guidelines list
        triplewise guidelines list --source kb+memory
    """
    from rich.padding import Padding
    from rich.text import Text

    from triplewise.guidelines import SOURCES, load_guidelines

    for name in source or ():
        if name not in SOURCES:
            raise ConfigurationError.unknown("source", name, SOURCES)
    guidelines, console = sorted(load_guidelines(file or []), key=lambda g: g.toolset), out()
    for name in source or SOURCES:
        group = [g for g in guidelines if g.source == name]
        console.print(f"{name}: {len(group)} guidelines", style="bold")
        for g in group:
            notes = "; ".join(filter(None, (g.severity.replace("error", ""), *g.toolset, g.paper)))
            console.print(Text.assemble(g.id, (f"  [{notes}]" if notes else "", "dim")))
            console.print(Padding(Text(" ".join(g.when.split()), "dim"), (0, 0, 0, 4)))
        console.print()
    console.print("The first that matches wins, errors before notes.")


@o.command(commands, "show")
def show_guideline(
    id: str = o.argument("ID", "As `triplewise guidelines list` shows it."), file: Extra = None
) -> None:
    """Show one guideline, with its example and the text that this example gets.

    Examples:
        triplewise guidelines show fact_empty
    """
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines(file or [])
    try:
        guideline = guidelines[id]
    except KeyError:
        raise ConfigurationError.unknown("guideline", id, (g.id for g in guidelines)) from None
    example = guideline.example
    match = guidelines.match(example.feedback, example.memory, **guideline.given)
    feedback = {name: value for name, value in asdict(example.feedback).items() if value}
    rows = [
        ("file", f"{guideline.path}:{guideline.line}"),
        ("reads", guideline.source),
        ("severity", guideline.severity),
        ("paper", guideline.paper or "not from a paper"),
        ("when", " ".join(guideline.when.split())),
        ("guideline", guideline.guideline),
        ("example", "; ".join(f"{name}: {value}" for name, value in feedback.items())),
        ("says", match.text if match else "nothing: the example does not trigger it"),
    ]
    out().print(pairs(guideline.id, rows))


@o.command(commands, "check")
def check_guidelines(file: Path = o.argument("FILE", "A YAML file of guidelines.")) -> None:
    """Check a file: its form, its expressions, and that every example triggers its own guideline.

    Examples:
        triplewise guidelines check mine.yaml
        triplewise ask "..." --set guidelines=mine.yaml
    """
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines([file])
    problems = [p for p in guidelines.check() if p.startswith(f"{file}:")]
    if problems:
        raise DataError("\n".join(problems))
    mine = sum(g.path == str(file) for g in guidelines)
    say(f"{file}: {mine} guideline{'' if mine == 1 else 's'}, every example triggers its own")


@o.command(commands, "stats")
def count_guidelines(
    log: list[Path] = o.argument("LOG...", "Documents of `ask --json`: JSON or JSON lines."),
    file: Extra = None,
    top: int = o.option("N", "Guidelines in the second table.", 10, min=1),
) -> None:
    """Count how often each guideline fired, by source and by id.

    The report of an evaluation (`triplewise eval report`) has the same beside the paper's figures.

    Examples:
        triplewise ask "..." --json >> runs.json; triplewise guidelines stats runs.json
    """
    from rich.text import Text

    from triplewise.guidelines import SOURCES, load_guidelines

    sources = {g.id: str(g.source) for g in load_guidelines(file or [])}
    runs = [
        [step["guideline"] for step in run["steps"] if step["guideline"]]
        for path in log
        for run in _runs(path)
    ]
    if not runs:
        raise DataError("no run in it; write one with `triplewise ask --json`", log[0])
    fired = Counter(id for ids in runs for id in ids)
    console, total, corrected = out(), fired.total(), sum(map(bool, runs))
    share = f"{corrected} of {len(runs)} runs ({corrected / len(runs):.0%})"
    console.print(f"Guidelines fired {total} times, in {share}.\n")
    written = Counter(sources.values())
    by_source = Counter(sources.get(id, "unknown") for id in fired.elements())
    rows: list[list[str | Text]] = [
        [source, f"{written[source]}", f"{by_source[source]}"]
        for source in (*SOURCES, *(["unknown"] if by_source["unknown"] else []))
    ]
    rows.append([Text(str(cell), "bold") for cell in ("all", written.total(), total)])
    console.print(columns(("Source", "Guidelines", "Triggered"), rows, "By source", right=True))
    if fired:
        console.print()
        most = fired.most_common(top)
        cells = [(id, f"{times}", f"{times / total:.0%}", sources.get(id, "unknown")) for id, times in most]
        title = f"Most often triggered, {len(most)} of {len(fired)}"
        console.print(columns(("Guideline", "Triggered", "Share", "Source"), cells, title, right=True))


def _runs(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents in a file: one after another, or lists of them. Raises `DataError` on others."""
    text = read_text(path)
    decoder, document, end = json.JSONDecoder(), re.compile(r"\S"), 0
    while start := document.search(text, end):
        try:
            value, end = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            what = f"is not JSON: {error.msg}; give documents of `triplewise ask --json`"
            raise DataError(what, path, error.lineno) from error
        for run in value if isinstance(value, list) else [value]:
            if not isinstance(run, dict) or "steps" not in run:
                what = "is no document of `triplewise ask --json`: it has no 'steps'"
                raise DataError(what, path, text.count("\n", 0, end) + 1)
            yield run
