"""`triplewise guidelines`: what they are, and whether a file of them is sound."""

from __future__ import annotations

from pathlib import Path

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import out, pairs
from triplewise.tools.core.errors import DataError

commands = typer.Typer(help="ERASER's guidelines: what can go wrong, what to do then.", no_args_is_help=True)


@o.command(commands, "list")
def list_guidelines() -> None:
    """List the guidelines by source: those for every toolset first, each group in the order it is tried.

    Your own (`--set guidelines=mine.yaml`) come before them.
    """
    from triplewise.guidelines import SOURCES, load_guidelines

    guidelines = sorted(load_guidelines(), key=lambda g: g.toolset)
    for source in SOURCES:
        rows = []
        for g in (g for g in guidelines if g.source == source):
            note = "; ".join(filter(None, (g.severity.replace("error", ""), *g.toolset, g.paper)))
            rows.append((g.id, " ".join(g.when.split()) + (f"  [{note}]" if note else "")))
        out().print(pairs(f"{source}: {len(rows)} guidelines", rows), "")
    out().print("The first that matches wins, errors before notes.")


@o.command(commands, "check")
def check_guidelines(file: Path = o.argument("FILE", "A YAML file of guidelines.")) -> None:
    """Check a file: that every example triggers its own guideline; show what the agent reads then.

    Examples:
        triplewise guidelines check mine.yaml
        triplewise ask "..." --set guidelines=mine.yaml
    """
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines([file])
    if problems := [p for p in guidelines.check() if p.startswith(f"{file}:")]:
        raise DataError("\n".join(problems))
    mine = [g for g in guidelines if g.path == str(file)]
    matches = [(g.id, guidelines.match(g.example.feedback, g.example.memory, **g.given)) for g in mine]
    out().print(pairs("Every example triggers its own", [(id, m.text if m else "") for id, m in matches]))
