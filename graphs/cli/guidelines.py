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
from triplewise.graphs.cli.console import columns, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import read_text

PAPER = {
    "kb": (4, 204),
    "interpreter": (15, 862),
    "memory": (9, 4729),
    "kb+memory": (3, 1923),
    "interpreter+memory": (2, 341),
}
"""Number of guidelines and times triggered by source, in QueryAgent's table 8 (GrailQA)."""

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
    from triplewise.guidelines import SOURCES, load_guidelines

    for name in source or ():
        if name not in SOURCES:
            raise ConfigurationError.unknown("source", name, SOURCES)
    guidelines, console = sorted(load_guidelines(file or []), key=lambda g: g.toolset), out()
    for name in source or SOURCES:
        rows = []
        for g in (g for g in guidelines if g.source == name):
            notes = "; ".join(filter(None, (g.severity.replace("error", ""), *g.toolset, g.paper)))
            rows.append((g.id, " ".join(g.when.split()) + (f"  [{notes}]" if notes else "")))
        console.print(pairs(f"{name}: {len(rows)} guidelines", rows))
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
    log: list[Path] = o.argument("LOG...", "Documents of `ask --json` (JSON or JSON lines), or .eval logs."),
    file: Extra = None,
    top: int = o.option("N", "Guidelines in the second table.", 10, min=1),
) -> None:
    """Count how often each guideline fired, by source and by id (QueryAgent, tables 8 and 9).

    Examples:
        triplewise ask "..." --json >> runs.json; triplewise guidelines stats runs.json
        triplewise guidelines stats logs/metaqa.eval --top 20
    """
    from rich.text import Text

    from triplewise.guidelines import SOURCES, load_guidelines

    sources = {g.id: str(g.source) for g in load_guidelines(file or [])}
    fired, runs, corrected = Counter[str](), 0, 0
    for run in (run for path in log for run in runs_of(path)):
        if isinstance(run.get("steps"), list):
            ids = [step["guideline"] for step in run["steps"] if step["guideline"]]
        else:  # a record of an evaluation
            ids = [*run.get("corrections", ()), *run.get("notes", ())]
        fired.update(ids)
        runs, corrected = runs + 1, corrected + bool(ids)
    if not runs:
        raise DataError("no run in it; write one with `triplewise ask --json`", log[0])
    console, total = out(), fired.total()
    share = f"{corrected} of {runs} runs ({corrected / runs:.0%})"
    console.print(f"Guidelines fired {total} times, in {share}.\n")
    written = Counter(sources.values())
    by_source = Counter(sources.get(id, "unknown") for id in fired.elements())
    rows: list[list[str | Text]] = [
        [source, f"{written[source]}", f"{by_source[source]}", *map(str, PAPER.get(source, ("", "")))]
        for source in (*SOURCES, *(["unknown"] if by_source["unknown"] else []))
    ]
    published = [sum(column) for column in zip(*PAPER.values(), strict=True)]
    sums = ("all", written.total(), total, *published)
    rows.append([Text(str(cell), "bold") for cell in sums])
    heads = ("Source", "Guidelines", "Triggered", "In the paper", "Triggered there")
    console.print(columns(heads, rows, "By source", right=True))
    if fired:
        console.print()
        most = fired.most_common(top)
        cells = [(id, f"{times}", f"{times / total:.0%}", sources.get(id, "unknown")) for id, times in most]
        title = f"Most often triggered, {len(most)} of {len(fired)}"
        console.print(columns(("Guideline", "Triggered", "Share", "Source"), cells, title, right=True))


def runs_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the runs of a log, each a mapping with `steps` or `corrections`.

    A log is an `.eval` log of Inspect, or JSON: documents one after another, or lists of them.

    Raises:
        DataError: the file cannot be read, or holds something else; says what, and where.
        ConfigurationError: it is an `.eval` log and Inspect is not installed.
    """
    if path.suffix == ".eval":
        yield from _recorded_runs(path)
        return
    text = read_text(path)
    decoder, document, end = json.JSONDecoder(), re.compile(r"\S"), 0
    while start := document.search(text, end):
        try:
            value, end = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            what = f"is not JSON: {error.msg}; give documents of `triplewise ask --json`, or an .eval log"
            raise DataError(what, path, error.lineno) from error
        for run in value if isinstance(value, list) else [value]:
            if not isinstance(run, dict) or not {"steps", "corrections"} & set(run):
                what = "is no document of `triplewise ask --json`: it has neither 'steps' nor 'corrections'"
                raise DataError(what, path, text.count("\n", 0, end) + 1)
            yield run


def _recorded_runs(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what our solver kept in the store of each sample of an Inspect log, under `Run:`."""
    try:
        from inspect_ai.log import read_eval_log_samples
    except ImportError as error:
        raise ConfigurationError(
            f"{path} is an .eval log: install what reads it with pip install 'triplewise[evals]'"
        ) from error
    unread = {"messages", "events", "attachments"}
    try:
        for sample in read_eval_log_samples(path, False, format="eval", exclude_fields=unread):
            record = {k.removeprefix("Run:"): v for k, v in sample.store.items() if k.startswith("Run:")}
            if "corrections" in record:
                yield record
    except (ValueError, LookupError, EOFError, RuntimeError, OSError) as error:
        raise DataError(f"is no .eval log that can be read: {error}", path) from error
