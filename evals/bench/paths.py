"""How long it takes to find the paths between two nodes of a large graph with hubs, kept on disk.

Beside Triplewise's two searches (of a graph that it loaded, and of any other) stand a search from one side
only and SPARQL joins without properties, on the same store, with the same time and the same cap on paths.
"""

from __future__ import annotations

import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.bench.path_searches import SEARCHES
from triplewise.evals.bench.skewed import Skewed, node
from triplewise.tools.core.terms import IRI

if TYPE_CHECKING:
    from triplewise.evals.bench.skewed import Integers

LOW = 20
"""Most facts of a node that counts as low."""
HUBS = 10_000
"""One node in so many is a hub: those with the most facts."""
PATIENCE = 60.0
"""Seconds over its time after which a search is ended from outside."""

Pair: TypeAlias = tuple[IRI, IRI]
Tell: TypeAlias = Callable[[str, int, "int | None"], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """What each search is given: longest path, seconds, and most paths."""

    hops: int
    seconds: float
    limit: int


@dataclass(frozen=True, slots=True)
class Timed:
    """One kind of search on the pairs of one class of degrees; times in seconds, memory in MB.

    `cpu` is the median of the processor's time, which other work on the machine does not lengthen.
    `late` is the share of searches that were cut by the deadline or by a cap on edges, `full` of those that
    found more paths than were asked for; `paths` and `rows` (taken from the store) are means; `memory` is the
    most that the search's own process had, the files mapped into it included.
    """

    search: str
    pairs: str
    count: int
    median: float
    cpu: float
    p95: float
    longest: float
    late: float
    full: float
    paths: float
    rows: float
    memory: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A generated graph, what its store and adjacency took (seconds, MB), and the searches in it."""

    triples: int
    seconds: dict[str, float]
    megabytes: dict[str, int]
    searches: list[Timed]


class Searcher:
    """A process that runs one kind of search on a graph; started anew where a search leaves it busy."""

    def __init__(self, folder: Path, search: str, terms: Terms) -> None:
        self._order = {"folder": str(folder), "search": search, **asdict(terms)}
        self._patience = terms.seconds + PATIENCE
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, pair: Pair) -> dict[str, Any]:
        """Seconds, outcome, paths, rows and memory of a search."""
        process = self._process = self._process or self._started()
        if process.stdin is None:
            raise RuntimeError("a process without stdin")
        process.stdin.write(json.dumps([end.value for end in pair]).encode() + b"\n")
        process.stdin.flush()
        answer = self._answer(process)
        if answer["busy"]:
            self.close()
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        process = _process(self._order)
        self._process = process
        self._answer(process)
        return process

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The next line of the process; a time-out if it has none within its patience."""
        if process.stdout is None or not select.select([process.stdout], [], [], self._patience)[0]:
            return {
                "seconds": self._patience,
                "cpu": 0.0,
                "outcome": "timeout",
                "paths": 0,
                "rows": 0,
                "memory": 0,
                "busy": True,
            }
        if not (line := process.stdout.readline()):
            raise RuntimeError("the process of a search ended by itself: see what it wrote to stderr")
        found: dict[str, Any] = json.loads(line)
        return found


def _process(order: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "triplewise.evals.bench.path_searches", json.dumps(order)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
    )


def measure(graph: Skewed, folder: Path, count: int, terms: Terms, tell: Tell) -> Graph:
    """Time every kind of search on `count` random pairs of each class, drawn by the graph's seed."""
    made = _made(graph, folder, tell)
    pairs = classes(graph.degrees(), count, graph.seed)
    found = [t for search in SEARCHES for t in _timed(search, folder, pairs, terms, tell)]
    found.sort(key=lambda t: list(pairs).index(t.pairs))
    return Graph(made["triples"], made["seconds"], made["megabytes"], found)


def _made(graph: Skewed, folder: Path, tell: Tell) -> dict[str, Any]:
    """Make the store in a process of its own: loading cannot be interrupted, a process can."""
    with _process({"folder": str(folder), **asdict(graph)}) as process:
        try:
            for line in process.stdout or ():
                told = json.loads(line)
                if "made" in told:
                    made: dict[str, Any] = told["made"]
                    return made
                tell(*told["step"])
        except BaseException:
            process.kill()
            raise
    raise RuntimeError("the graph could not be made: see what its process wrote to stderr")


def _timed(
    search: str, folder: Path, pairs: Mapping[str, Sequence[Pair]], terms: Terms, tell: Tell
) -> Iterator[Timed]:
    """The figures of one kind of search, class by class; memory starts anew with each."""
    for name, drawn in pairs.items():
        searcher, stage, answers = Searcher(folder, search, terms), f"{search}, {name}", []
        try:
            tell(stage, 0, len(drawn))
            for pair in drawn:
                answers.append(searcher.ask(pair))
                tell(stage, len(answers), len(drawn))
        finally:
            searcher.close()
        yield _summary(search, name, answers, terms.limit)


def classes(degrees: Integers, count: int, seed: int) -> dict[str, list[Pair]]:
    """Random pairs of different nodes by degree: low with low, low with hub, hub with hub."""
    import numpy as np

    order = np.argsort(degrees, kind="stable")
    hubs = order[-max(3, len(order) // HUBS) :].tolist()
    low = np.flatnonzero((degrees > 0) & (degrees <= LOW)).tolist()
    draw = random.Random(seed)
    ends = {"low-low": (low, low), "low-hub": (low, hubs), "hub-hub": (hubs, hubs)}
    return {name: [_pair(draw, *pools) for _ in range(count)] for name, pools in ends.items()}


def _pair(draw: random.Random, sources: Sequence[int], targets: Sequence[int]) -> Pair:
    """Two different nodes."""
    while True:
        source, target = draw.choice(sources), draw.choice(targets)
        if source != target:
            return node(source), node(target)


def _summary(search: str, pairs: str, answers: Sequence[Mapping[str, Any]], limit: int) -> Timed:
    """The figures of one search on one class."""
    count, ranked = len(answers), sorted(a["seconds"] for a in answers)
    full = sum(a["outcome"] == "truncated" and a["paths"] >= limit for a in answers)
    cut = sum(a["outcome"] not in ("rows", "empty") for a in answers)
    return Timed(
        search=search,
        pairs=pairs,
        count=count,
        median=statistics.median(ranked),
        cpu=statistics.median(a["cpu"] for a in answers),
        p95=ranked[max(0, -(-count * 95 // 100) - 1)],
        longest=ranked[-1],
        late=(cut - full) / count,
        full=full / count,
        paths=sum(a["paths"] for a in answers) / count,
        rows=sum(a["rows"] for a in answers) / count,
        memory=max(a["memory"] for a in answers),
    )


@contextmanager
def _place(graph: Skewed, keep: Path | None) -> Iterator[Path]:
    """Where the graph lies: a folder that goes again, or one of its own within the one that is kept."""
    if keep is not None:
        folder = keep / f"skewed-{graph.triples}-{graph.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
        yield Path(scratch)


def paths(
    size: Annotated[list[int] | None, typer.Option(min=16, help="Triples of a graph. Repeatable.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Pairs of each class of degrees.")] = 40,
    hops: Annotated[int, typer.Option(min=1, max=4, help="Longest path.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, help="What one search may take.")] = 1.0,
    limit: Annotated[int, typer.Option(min=1, help="Most paths of one search.")] = 100,
    seed: Annotated[int, typer.Option(help="Of graph and pairs.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Keep the stores here, to use them again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time, rows and memory of path searches in large generated graphs on disk.

    Beside them: a search from one side only, and SPARQL joins without properties. A million triples, where no
    --size is named.
    """
    from triplewise.graphs.cli.console import progress_bars

    found = []
    terms = Terms(hops, seconds, limit)
    with progress_bars() as tell:
        for triples in size or [1_000_000]:
            graph = Skewed(triples, seed)
            with _place(graph, folder) as place:
                said = _naming(tell, f"{triples:,} triples: ")
                found.append(measure(graph, place, count, terms, said))
    if as_json:
        typer.echo(json.dumps([asdict(f) for f in found], indent=2))
        return
    for measured in found:
        Console().print(_table(measured, terms))


def _naming(tell: Tell, prefix: str) -> Tell:
    return lambda stage, done, total: tell(prefix + stage, done, total)


def _table(graph: Graph, terms: Terms) -> Table:
    took = ", ".join(
        f"{part} {graph.seconds[part]:.0f} s and {graph.megabytes[part]} MB" for part in graph.seconds
    )
    title = (
        f"Paths of up to {terms.hops} hops, {graph.triples:,} triples on disk ({took}), up to {terms.limit} "
        f"paths and {terms.seconds:g} s a search; times in seconds, CPU its median. "
        "Cut: by time or a cap on edges; full: more paths than asked for."
    )
    table = Table(title=title, title_justify="left", padding=(0, 0))
    for heading in ("pairs", "search"):
        table.add_column(heading, no_wrap=True)
    for heading in ("median", "CPU", "worst", "cut", "full", "paths", "rows", "MB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for f in graph.searches:
        times = (f"{seconds:.3f}" for seconds in (f.median, f.cpu, f.longest))
        shares = (f"{f.late:.0%}", f"{f.full:.0%}")
        counts = (f"{f.paths:.0f}", f"{f.rows:,.0f}", f"{f.memory:,}")
        table.add_row(f.pairs, f.search, *times, *shares, *counts)
    return table
