"""`triplewise kg thin`: an incomplete graph, made for given questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, say
from triplewise.graphs.cli.progress import progress_bars

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.tools.kg.subset.incomplete import ThinReport

Source = Annotated[
    str,
    typer.Option(
        "--kg", metavar="KG", help="A folder made by `triplewise kg load`, an RDF file, or demo. Only read."
    ),
]
Questions = Annotated[
    Path,
    typer.Option(
        "--questions",
        metavar="FILE",
        help="JSON lines (plain or .gz) with `question`, `answers`, and `topic_entity` or `entities`.",
    ),
]
Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder to make.")]
Drop = Annotated[
    float,
    typer.Option(
        "--drop", metavar="SHARE", min=0.0, max=1.0, help="Share of the collected triples that is dropped."
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Of all that is drawn at random.")]
Hops = Annotated[int, typer.Option("--hops", min=1, help="Longest path that is looked for.")]
EveryPath = Annotated[
    bool, typer.Option("--every-path", help="Collect all shortest paths of an answer, not one of them.")
]


def add_thin(kg: typer.Typer) -> None:
    """Add the command to `triplewise kg`."""
    kg.command(
        epilog=examples(
            "triplewise kg thin --kg films --questions test.jsonl --into films-thin --drop 0.5 --seed 1",
            "triplewise kg thin --kg films.ttl --questions test.jsonl --into thin --drop 1 --every-path",
            'triplewise ask "Who directed Alien?" --kg films-thin --set documents=articles',
        )
    )(thin)


def thin(
    source: Source,
    questions: Questions,
    into: Into,
    drop: Drop,
    seed: Seed = 1,
    hops: Hops = 4,
    every_path: EveryPath = False,
    profile: o.Profile = None,
) -> None:
    """Make an incomplete graph: drop triples on the shortest paths from questions to their answers.

    For testing what an agent does where the graph has gaps (SymAgent, algorithm 1). Of all triples on the
    paths a share is drawn and dropped; the rest is a graph that `ask` takes. DIR also holds dropped.nt (what
    was dropped: with it the graph is whole again) and thinned.json (how it was done). The same seed drops the
    same triples. What is interrupted leaves nothing in the way: run it again.
    """
    from triplewise.tools.kg.subset.incomplete import ThinOrder, thin_kg

    order = ThinOrder(drop, seed, hops, every_path)
    with progress_bars() as tell:
        report = thin_kg(source, questions, into, order, profile=profile, progress=tell)
    if report.unknown:
        say(f"{report.unknown:,} questions are about something that the graph does not have", "notice")
    if report.unreached:
        say(f"{report.unreached:,} answers are not within {hops} hops of their topic", "notice")
    out().print(_table(report))


def _table(report: ThinReport) -> Table:
    """What was done."""
    share = f"{report.dropped / report.collected:.0%}" if report.collected else "none"
    return pairs(
        f"Thinned {report.path}",
        (
            ("triples", f"{report.kept:,} of {report.triples:,}"),
            ("on paths", f"{report.collected:,}, of which {report.dropped:,} dropped ({share})"),
            ("questions", f"{report.questions:,}, of which {report.hit_questions:,} lost part of a path"),
            ("answers", f"{report.answers:,}, of which {report.hit_answers:,} lost part of theirs"),
            ("seconds", f"{report.seconds:.1f}"),
            ("use it", f'triplewise ask "..." --kg {report.path}'),
        ),
    )
