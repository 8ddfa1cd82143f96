"""How long it takes to find the paths between two nodes of a large graph with hubs, kept on disk.

Beside the search that meets in the middle stands the plain one: breadth first from the source alone, with the
same store, the same deadline and the same cap on paths.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.bench.skewed import Skewed, node
from triplewise.tools.kg.base import Hop, Outcome, Paths
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.pathsearch import EdgeSource, PathSearch, other_end
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.terms import IRI, Term

if TYPE_CHECKING:
    from triplewise.evals.bench.skewed import Integers
    from triplewise.tools.kg.embedded import EmbeddedKG

LOW = 20
"""Most facts of a node that counts as low."""
HUBS = 10_000
"""One node in so many is a hub: those with the most facts."""

Search: TypeAlias = Callable[[EdgeSource, Term, Term, int, Deadline, int], Paths]
Path_: TypeAlias = tuple[Hop, ...]


def meeting(kg: EdgeSource, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """Triplewise's own search."""
    return PathSearch(kg, deadline, limit).run(source, target, hops)


def one_sided(kg: EdgeSource, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """The obvious alternative: breadth first from the source, every path followed to its end."""
    found: list[Path_] = []
    open_ends: list[tuple[Term, Path_, frozenset[Term]]] = [(source, (), frozenset((source,)))]
    for _ in range(hops):
        edges, outcome, message = kg.edges(list({end for end, _, _ in open_ends}), deadline)
        around: dict[Term, list[tuple[Hop, Term]]] = {}
        for near, triple in edges:
            around.setdefault(near, []).append((Hop(triple, triple.subject == near), other_end(near, triple)))
        following = []
        for end, path, seen in open_ends:
            for hop, far in around.get(end, ()):
                if far == target:
                    found.append((*path, hop))
                elif far not in seen:
                    following.append((far, (*path, hop), seen | {far}))
            if deadline.passed:
                return Paths(Outcome.TIMEOUT, tuple(found[:limit]), "cut by the deadline")
        open_ends = following
        if not outcome.ok or outcome is Outcome.TRUNCATED:
            return Paths(outcome, tuple(found[:limit]), message)
    cut = len(found) > limit
    return Paths(Outcome.TRUNCATED if cut else Outcome.ROWS, tuple(found[:limit]))


SEARCHES: dict[str, Search] = {"meeting in the middle": meeting, "one-sided breadth first": one_sided}


@dataclass(frozen=True, slots=True)
class Timed:
    """One kind of search on the pairs of one class of degrees; times in seconds.

    `late` is the share of searches that were cut by the deadline or by a cap on edges, `full` of those that
    found more paths than were asked for; `found` the mean number of paths.
    """

    search: str
    pairs: str
    count: int
    median: float
    p95: float
    longest: float
    late: float
    full: float
    found: float


def measure(kg: EdgeSource, graph: Skewed, count: int, hops: int, seconds: float, limit: int) -> list[Timed]:
    """Time every kind of search on `count` random pairs of each class, drawn by the graph's seed."""
    done = []
    for name, pairs in classes(graph.degrees(), count, graph.seed).items():
        for search, run in SEARCHES.items():
            times, answers = [], []
            for source, target in pairs:
                start = time.perf_counter()
                answers.append(run(kg, source, target, hops, Deadline(seconds), limit))
                times.append(time.perf_counter() - start)
            done.append(_summary(search, name, times, answers, limit))
    return done


def classes(degrees: Integers, count: int, seed: int) -> dict[str, list[tuple[IRI, IRI]]]:
    """Random pairs of different nodes by degree: low with low, low with hub, hub with hub."""
    import numpy as np

    order = np.argsort(degrees, kind="stable")
    hubs = order[-max(3, len(order) // HUBS) :].tolist()
    low = np.flatnonzero((degrees > 0) & (degrees <= LOW)).tolist()
    draw = random.Random(seed)
    ends = {"low-low": (low, low), "low-hub": (low, hubs), "hub-hub": (hubs, hubs)}
    return {name: [_pair(draw, *pools) for _ in range(count)] for name, pools in ends.items()}


def _pair(draw: random.Random, sources: Sequence[int], targets: Sequence[int]) -> tuple[IRI, IRI]:
    """Two different nodes."""
    while True:
        source, target = draw.choice(sources), draw.choice(targets)
        if source != target:
            return node(source), node(target)


def _summary(search: str, pairs: str, times: Sequence[float], answers: Sequence[Paths], limit: int) -> Timed:
    """The figures of one search on one class."""
    count, ranked = len(times), sorted(times)
    full = sum(a.outcome is Outcome.TRUNCATED and len(a.paths) >= limit for a in answers)
    cut = sum(a.outcome not in (Outcome.ROWS, Outcome.EMPTY) for a in answers)
    return Timed(
        search=search,
        pairs=pairs,
        count=count,
        median=statistics.median(ranked),
        p95=ranked[max(0, -(-count * 95 // 100) - 1)],
        longest=ranked[-1],
        late=(cut - full) / count,
        full=full / count,
        found=sum(len(a.paths) for a in answers) / count,
    )


def open_store(graph: Skewed, folder: Path) -> EmbeddedKG:
    """The graph in a store on disk, made where the folder does not hold it yet."""
    import pyoxigraph as ox

    from triplewise.tools.kg.embedded import EmbeddedKG

    place, mark = (
        folder / f"store-{graph.triples}-{graph.seed}",
        folder / f"done-{graph.triples}-{graph.seed}",
    )
    if not mark.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / "graph.nt"
        graph.write(text)
        store = ox.Store(str(place))
        store.bulk_load(path=str(text), format=ox.RdfFormat.N_TRIPLES)
        store.optimize()
        store.flush()
        del store  # closes it, so that it can be opened again
        text.unlink()
        mark.touch()
    return EmbeddedKG(ox.Store.read_only(str(place)), Profile(), "skewed")


def paths(
    triples: Annotated[int, typer.Option(min=16, help="Triples of the generated graph.")] = 1_000_000,
    count: Annotated[int, typer.Option(min=1, help="Pairs of each class of degrees.")] = 40,
    hops: Annotated[int, typer.Option(min=1, max=4, help="Longest path.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, help="What one search may take.")] = 1.0,
    limit: Annotated[int, typer.Option(min=1, help="Most paths of one search.")] = 100,
    seed: Annotated[int, typer.Option(help="Of graph and pairs.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Keep the store here, to use it again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Paths between two nodes of a large generated graph on disk, beside a search from one side only."""
    graph = Skewed(triples, seed)
    with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
        kg = open_store(graph, folder or Path(scratch))
        found = measure(kg, graph, count, hops, seconds, limit)
        kg.close()
    if as_json:
        typer.echo(json.dumps([asdict(f) for f in found], indent=2))
    else:
        Console().print(_table(found, graph, hops, seconds, limit))


def _table(found: Sequence[Timed], graph: Skewed, hops: int, seconds: float, limit: int) -> Table:
    title = (
        f"Paths of up to {hops} hops, {graph.triples:,} triples on disk, up to {limit} paths and "
        f"{seconds:g} s a search; times in seconds"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("pairs", "search"):
        table.add_column(heading)
    for heading in ("median", "p95", "longest", "cut by time", "more paths than asked", "paths"):
        table.add_column(heading, justify="right")
    for f in found:
        figures = (f"{f.median:.3f}", f"{f.p95:.3f}", f"{f.longest:.3f}")
        table.add_row(f.pairs, f.search, *figures, f"{f.late:.0%}", f"{f.full:.0%}", f"{f.found:.1f}")
    return table
