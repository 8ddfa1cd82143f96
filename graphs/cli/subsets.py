"""`triplewise kg cut` and `kg thin`: the part of a dump around some entities, and incomplete graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, progress_bars, say

SHOWN = 5

Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder to make.")]
CUT_EXAMPLES = examples(
    "triplewise kg cut --seeds ids.txt --from dump.nt.bz2 --into part --profile wikidata",
    "triplewise kg cut --seeds test.jsonl --from a.nt.gz --from labels.tsv.gz --into part --hops 2",
    "triplewise kg load part --into kg --profile wikidata",
)


def cut(
    seeds: Annotated[
        Path,
        typer.Option(
            "--seeds",
            metavar="FILE",
            help="Entities to cut around: ids or IRIs, one a line, or JSON lines with `entities`, "
            "`topic_entity` or `id`, as data sets have them.",
        ),
    ],
    dumps: Annotated[
        list[Path],
        typer.Option(
            "--from",
            metavar="DUMP",
            help="N-Triples (.nt, also .gz .zst .bz2) of any size, or a table of labels (.tsv). Repeatable.",
        ),
    ],
    into: Into,
    hops: Annotated[int, typer.Option(min=1, help="How far from the seeds.")] = 3,
    profile: o.Profile = None,
    direction: Annotated[
        Literal["both", "out"], typer.Option(help="Follow triples both ways, or from subject to object only.")
    ] = "both",
    hub_limit: Annotated[
        int,
        typer.Option(
            min=0,
            help="A node with more neighbours than this on one side is not expanded on that side "
            "(`United States`: what it is part of, but not all that is in it). 0: no limit.",
        ),
    ] = 10_000,
    hub_sample: Annotated[
        int, typer.Option(min=0, help="Triples of such a node that are taken all the same, by a hash.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Changes which those are.")] = 0,
    language: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Keep labels in this language only. Repeatable.")
    ] = None,
    staged: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the dump here as it was read, so that further cuts need not read it again.",
        ),
    ] = None,
    engine: Annotated[
        Literal["duckdb", "spark"], typer.Option(help="spark: for a cluster, with Spark's own settings.")
    ] = "duckdb",
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="What DuckDB may use; the rest goes to disk.")
    ] = "4GB",
    threads: Annotated[int | None, typer.Option(min=1, help="Of DuckDB. [dim](all cores)[/dim]")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the cut that the folder holds.")
    ] = False,
) -> None:
    """Cut all triples within some hops of given entities out of a dump, with their labels.

    The dump may be larger than memory. What is broken off goes on where it was when the same command is run
    again. DIR then holds triples.nt.gz, labels.nt.gz and cut.json (what was cut, and which hubs were not
    expanded), and `triplewise kg load DIR` takes it as it is.
    """
    from triplewise.tools.kg.subset import SubsetSpec, extract_subset

    spec = SubsetSpec(hops, direction, hub_limit, hub_sample, seed, tuple(language or ()))
    try:
        with progress_bars() as progress:
            report = extract_subset(
                seeds,
                dumps,
                into,
                spec,
                profile=profile or "generic",
                engine=engine,
                memory=memory,
                threads=threads,
                staged=staged,
                overwrite=overwrite,
                progress=progress,
            )
    except KeyboardInterrupt:
        say(f"what is done is kept in {into}: run the same command again to go on", "notice")
        raise
    for source in report.sources:
        if source.bad_lines:
            where = f"{source.path}:{source.first_bad or '?'}"
            say(f"{source.bad_lines:,} lines left out; the first is {where}: {source.message}", "notice")
    if report.unknown_count:
        more = ", ..." if report.unknown_count > SHOWN else ""
        names = ", ".join(report.unknown[:SHOWN])
        say(f"{report.unknown_count:,} seeds are not in the dump: {names}{more}", "notice")
    rows = [
        ("seeds", f"{report.seeds:,} in the dump, {report.unknown_count:,} not"),
        *(
            (f"hop {h.number}", f"{h.nodes:,} nodes, {h.triples:,} new triples, {h.hubs:,} hubs left")
            for h in report.hops
        ),
        ("triples", f"{report.triples:,}"),
        ("labels", f"{report.labels:,}"),
        ("left out", f"{report.left_out:,} triples of relations that the profile leaves out"),
        ("seconds", f"{sum(report.seconds.values()):.1f}"),
        ("use it", f"triplewise kg load {report.path} --into KG{f' --profile {profile}' if profile else ''}"),
    ]
    out().print(pairs(f"Cut {report.path}", rows))


THIN_EXAMPLES = examples(
    "triplewise kg thin --kg films --questions test.jsonl --into films-thin --drop 0.5 --seed 1",
    "triplewise kg thin --kg films.ttl --questions test.jsonl --into thin --drop 1 --every-path",
    'triplewise ask "Who directed Alien?" --kg films-thin --set documents=articles',
)


def thin(
    source: Annotated[
        str,
        typer.Option(
            "--kg",
            metavar="KG",
            help="A folder made by `triplewise kg load`, an RDF file, or demo. Only read.",
        ),
    ],
    questions: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="JSON lines (plain or .gz) with `question`, `answers`, and `topic_entity` or `entities`.",
        ),
    ],
    into: Into,
    drop: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0.0, max=1.0, help="Share of the collected triples that is dropped."
        ),
    ],
    seed: Annotated[int, typer.Option("--seed", help="Of all that is drawn at random.")] = 1,
    hops: Annotated[int, typer.Option("--hops", min=1, help="Longest path that is looked for.")] = 4,
    every_path: Annotated[
        bool, typer.Option("--every-path", help="Collect all shortest paths of an answer, not one of them.")
    ] = False,
    profile: o.Profile = None,
) -> None:
    """Make an incomplete graph: drop triples on the shortest paths from questions to their answers.

    For testing what an agent does where the graph has gaps (SymAgent, algorithm 1). Of all triples on the
    paths a share is drawn and dropped; the rest is a graph that `ask` takes. DIR also holds dropped.nt (what
    was dropped: with it the graph is whole again) and thinned.json (how it was done). The same seed drops the
    same triples. What is interrupted leaves nothing in the way: run it again.
    """
    from triplewise.tools.kg.subset.incomplete import IncompleteSpec, TopicQuestion, make_incomplete
    from triplewise.tools.planning.seeds import read_seeds

    spec = IncompleteSpec(drop, seed, hops, every_path)
    topics = [TopicQuestion(s.question, [t for _, t in s.named], s.answers) for s in read_seeds(questions)]
    with progress_bars() as progress:
        report = make_incomplete(
            source, topics, into, spec, questions_file=questions, profile=profile, progress=progress
        )
    if report.unknown:
        say(f"{report.unknown:,} questions are about something that the graph does not have", "notice")
    if report.unreached:
        say(f"{report.unreached:,} answers are not within {hops} hops of their topic", "notice")
    share = f"{report.dropped / report.collected:.0%}" if report.collected else "none"
    rows = [
        ("triples", f"{report.kept:,} of {report.triples:,}"),
        ("on paths", f"{report.collected:,}, of which {report.dropped:,} dropped ({share})"),
        ("questions", f"{report.questions:,}, of which {report.hit_questions:,} lost part of a path"),
        ("answers", f"{report.answers:,}, of which {report.hit_answers:,} lost part of theirs"),
        ("seconds", f"{report.seconds:.1f}"),
        ("use it", f'triplewise ask "..." --kg {report.path}'),
    ]
    out().print(pairs(f"Thinned {report.path}", rows))
