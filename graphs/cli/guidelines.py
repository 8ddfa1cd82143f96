"""`triplewise guidelines`: what they are, and whether a file of them is sound."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError

_OWN = "Your own guidelines, which come first. Repeatable."
Extra = Annotated[list[Path] | None, typer.Option("--file", metavar="FILE", help=_OWN)]

commands = typer.Typer(
    help="ERASER's guidelines: what can go wrong, and what to do then.", no_args_is_help=True
)


@o.command(commands, "list")
def list_guidelines(file: Extra = None) -> None:
    """List the guidelines by source: those for every toolset first, each group in the order it is tried."""
    from triplewise.guidelines import SOURCES, load_guidelines

    guidelines = sorted(load_guidelines(file or []), key=lambda g: g.toolset)
    for source in SOURCES:
        rows = []
        for g in (g for g in guidelines if g.source == source):
            note = "; ".join(filter(None, (g.severity.replace("error", ""), *g.toolset, g.paper)))
            rows.append((g.id, " ".join(g.when.split()) + (f"  [{note}]" if note else "")))
        out().print(pairs(f"{source}: {len(rows)} guidelines", rows), "")
    out().print("The first that matches wins, errors before notes.")


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
    if id not in (known := [g.id for g in guidelines]):
        raise ConfigurationError.unknown("guideline", id, known)
    g = guidelines[id]
    match = guidelines.match(g.example.feedback, g.example.memory, **g.given)
    feedback = [f"{name}: {value}" for name, value in asdict(g.example.feedback).items() if value]
    says = match.text if match else "nothing: the example does not trigger it"
    paper, when = g.paper or "not from a paper", " ".join(g.when.split())
    rows = {"file": f"{g.path}:{g.line}", "reads": g.source, "severity": g.severity, "paper": paper}
    rows |= {"when": when, "guideline": g.guideline, "example": "; ".join(feedback), "says": says}
    out().print(pairs(g.id, rows.items()))


@o.command(commands, "check")
def check_guidelines(file: Path = o.argument("FILE", "A YAML file of guidelines.")) -> None:
    """Check a file: its form, its expressions, and that every example triggers its own guideline.

    Examples:
        triplewise guidelines check mine.yaml
        triplewise ask "..." --set guidelines=mine.yaml
    """
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines([file])
    if problems := [p for p in guidelines.check() if p.startswith(f"{file}:")]:
        raise DataError("\n".join(problems))
    mine = sum(g.path == str(file) for g in guidelines)
    say(f"{file}: {mine} guideline{'' if mine == 1 else 's'}, every example triggers its own")
