"""`triplewise kg load --vectors`: the vectors of a loaded graph, made ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triplewise.graphs.cli.console import out, pairs

Vectors = Annotated[
    bool, typer.Option("--vectors", help="Also make the vectors of relations and ends: observing is faster.")
]
PairVectors = Annotated[
    bool, typer.Option("--pair-vectors", help="Also those of every relation with its end: slow, but once.")
]


def make(folder: Path, every_pair: bool) -> None:
    """Make and keep the vectors in the graph's folder, and say what was made."""
    from triplewise.graphs.cli.progress import progress_bars
    from triplewise.tools.kg import open_kg
    from triplewise.tools.retrieval.encoder import open_encoder
    from triplewise.tools.retrieval.observation.kg_vectors import make_vectors

    with progress_bars() as tell:
        made = make_vectors(folder, open_kg(folder), open_encoder(), pairs=every_pair, progress=tell)
    rows = [
        ("relations and ends", f"{made.texts:,} texts"),
        ("pairs", f"{made.pairs:,}" if every_pair else "as needed"),
        ("new vectors", f"{made.new:,}"),
        ("seconds", f"{made.seconds:.1f}"),
    ]
    out().print(pairs("\nVectors", rows))
