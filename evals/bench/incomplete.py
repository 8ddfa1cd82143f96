"""`python -m triplewise.evals.bench incomplete`: MetaQA on a thinned graph (SymAgent, table 1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.tools.core.errors import TriplewiseError

if TYPE_CHECKING:
    from triplewise.evals.incomplete import Enriched, Row


def incomplete(
    hops: Annotated[int, typer.Option(min=1, max=3, help="Length of the questions.")] = 3,
    count: Annotated[int, typer.Option(min=1, help="Test questions; the paper has 200.")] = 200,
    drop: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the path triples dropped.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of what is dropped.")] = 1,
    sample: Annotated[int, typer.Option(help="Which test questions are drawn.")] = 0,
    linking: Annotated[str, typer.Option(help="gold: the topic entity is given; own: it is found.")] = "gold",
    steps: Annotated[int, typer.Option(min=1, help="Steps that the executor may take.")] = 30,
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="No seed questions of this graph.")] = False,
    encoder: Annotated[str, typer.Option(help="Another encoder, such as one that has learned.")] = "embedded",
    folder: Annotated[Path | None, typer.Option(help="Keep graph and documents here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """F1 and Hits@1 on a graph made incomplete by algorithm 1: planner, executor, both, with documents.

    Then those of a RoG-style reader before and after the triples read from the documents are added (figure 4;
    left out with --zero-shot, for its paths come from seed questions).

    Needs TRIPLEWISE_DATA. The paper reports Hits@1 57.0 and F1 25.8 with a model of 7 billion parameters.
    """
    from platformdirs import user_cache_path

    from triplewise.evals.incomplete import NOTE, PAPER, build, enrich, measure
    from triplewise.graphs.cli.progress import progress_bars
    from triplewise.tools.kg.subset.incomplete import ThinOrder

    mark = f"{hops}hop-{count}-{drop:g}-{seed}" + (f"-{sample}" if sample else "")
    place = folder or user_cache_path("triplewise") / "evals" / f"incomplete-{mark}"
    try:
        with progress_bars() as tell:
            order = ThinOrder(drop, seed)
            bench = build(place, hops=hops, count=count, sample_seed=sample, order=order, progress=tell)
            rows, added = [], None
            for row in measure(
                bench, tell, linking=linking, steps=steps, encoder=encoder, zero_shot=zero_shot
            ):
                rows.append(row)
                typer.echo(f"{row.name}: F1 {row.f1:.3f}, Hits@1 {row.hits_at_1:.3f}", err=True)
            if not zero_shot:
                added = enrich(bench, linking=linking, encoder=encoder, progress=tell)
                rows += [added.before, added.after]
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    thinned = json.loads((bench.kg / "thinned.json").read_text("utf-8"))
    if as_json:
        told = {"thinned": thinned, "note": NOTE, "paper": PAPER, "rows": [asdict(r) for r in rows]}
        if added is not None:
            told |= {"change": asdict(added.change), "extraction": asdict(added.extraction)}
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    console = Console()
    console.print(_table(rows, hops))
    console.print(
        f"{thinned['dropped']:,} of {thinned['collected']:,} triples on shortest paths dropped (seed "
        f"{seed}): {thinned['hit_questions']:,} of {thinned['questions']:,} questions lost part of a path; "
        f"{NOTE}"
    )
    if added is not None:
        console.print(_changes(added))


def _changes(added: Enriched) -> str:
    """What the extracted triples changed for the RoG-style reader, and how good they are, in sentences."""
    c, e = added.change, added.extraction
    return (
        f"Extracted triples: {e.facts:,}, of which {e.right:,} are among the {e.dropped:,} dropped ones "
        f"(precision {100 * e.precision:.1f}); {e.minted:,} are about nodes that the graph lacks. "
        f"Added for the RoG-style reader, its first answer is right on {c.gained} questions where it was "
        f"not, and wrong on {c.lost} where it was right (right both times: {c.kept}); F1 rises on "
        f"{c.better}, falls on {c.worse}, stays on {c.same}. Right answers gained {c.answers_gained}, lost "
        f"{c.answers_lost}; wrong ones gained {c.wrong_gained}, lost {c.wrong_lost}."
    )


def _table(rows: Sequence[Row], hops: int) -> Table:
    """The scores."""
    from triplewise.evals.incomplete import PAPER

    table = Table(title=f"MetaQA {hops} hops on an incomplete graph, no language model", title_justify="left")
    heads = ("who answers", "questions", "F1", "Hits@1", "precision", "recall", "answered", "seconds")
    for head in heads:
        table.add_column(head, justify="left" if head == "who answers" else "right")
    for r in rows:
        scores = (f"{100 * x:.1f}" for x in (r.f1, r.hits_at_1, r.precision, r.recall, r.answered))
        name = f"{r.name} ({r.crashed} crashed)" if r.crashed else r.name
        table.add_row(name, str(r.questions), *scores, f"{r.seconds:.2f}")
    paper = (f"{100 * PAPER[k]:.1f}" for k in ("f1", "hits_at_1"))
    table.add_row("SymAgent, Qwen2-7B, as published", "200", *paper, "", "", "", "")
    return table
