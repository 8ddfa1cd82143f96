"""Cutting subgraphs out of dumps, beside a naive script and walking a store entity by entity.

Two dumps are cut: the Wikidata extract, where TRIPLEWISE_DATA names its folder, and a generated graph whose
degrees follow Zipf's law; seeds are drawn from each: T-REx has few of its entities in the extract. ODA
(section 3.2) needed 54 min 43 s for 4,943 entities on five machines of 48 cores and all of Wikidata: times do
not compare. The alternatives are measured in the same run, on the same dump.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyoxigraph as ox
import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.data import graph, locate
from triplewise.tools.core.errors import TriplewiseError

SEEDS = 4_943
"""Entities that ODA cut its subgraph of T-REx around (table 1)."""
E = "http://graph.example/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_BATCH = 200_000


@dataclass(frozen=True, slots=True)
class Walked:
    """The alternative: a breadth-first walk in a store for each entity, one SPARQL query a node and side.

    Attributes:
        loading: seconds to load the dump into a store, which the walk needs first.
        seeds: how many were walked. seconds: for these. triples: their subgraphs, each counted for itself.
        extrapolated: seconds for all seeds at this rate, without loading; no node is shared between seeds.
    """

    loading: float
    seeds: int
    seconds: float
    triples: int
    extrapolated: float


@dataclass(frozen=True, slots=True)
class Naive:
    """The naive script of three passes (`cut_naive`): seconds, most memory (MB), triples without labels."""

    seconds: float
    memory: int
    triples: int


@dataclass(frozen=True, slots=True)
class Cutting:
    """One cut: seconds by stage, most memory (MB), triples a hop; and the alternatives."""

    dump: str
    staged_triples: int
    seeds: int
    hub_limit: int
    seconds: dict[str, float]
    memory: int
    triples: int
    labels: int
    hops: list[int]
    hubs: int
    naive: Naive | None
    walked: Walked | None


def generate(path: Path, triples: int, seed: int = 0, exponent: float = 1.1) -> None:
    """Write a graph with skewed degrees as N-Triples, without holding it.

    Objects and half of the subjects are drawn by Zipf's law over as many nodes as a fifth of the triples
    (numbered in an order that hides the rank), relations from 500; one fact in ten is a number, one a label.

    Args:
        path: the file to write. triples: lines in it. seed: of the draws. exponent: of the law.
    """
    dice = np.random.default_rng(seed)
    nodes = max(10, triples // 5)
    with path.open("w", encoding="utf-8") as file:
        for done in range(0, triples, _BATCH):
            size = min(_BATCH, triples - done)
            ends = dice.zipf(exponent, (2, size)) % nodes * 2_654_435_761 % nodes
            subjects = np.where(dice.random(size) < 0.5, dice.integers(0, nodes, size), ends[0])
            relations, kinds = dice.zipf(1.5, size) % 500, dice.integers(0, 10, size)
            lines = zip(subjects.tolist(), relations.tolist(), ends[1].tolist(), kinds.tolist(), strict=True)
            file.writelines(_line(*line) for line in lines)


def _line(subject: int, relation: int, value: int, kind: int) -> str:
    if kind == 0:
        return f'<{E}n{subject}> <{LABEL}> "node \\"{subject}\\" of the graph"@en .\n'
    if kind == 1:
        return f'<{E}n{subject}> <{E}size> "{value}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
    return f"<{E}n{subject}> <{E}p{relation}> <{E}n{value}> .\n"


def pick_seeds(path: Path, count: int, seed: int = 0) -> list[str]:
    """Subjects of facts of a dump (plain or packed N-Triples), drawn evenly among the first million facts."""
    from triplewise.tools.kg.sources import numbered_lines, opened

    with opened(path) as stream:
        found = {line.split(b" ", 1)[0].decode() for _, line in islice(numbered_lines(stream), 1_000_000)}
    nodes = sorted(term for term in found if term.startswith("<"))
    return random.Random(seed).sample(nodes, min(count, len(nodes)))


def measure(
    dumps: list[Path], seeds: list[str], hub_limit: int, profile: str, sample: int, folder: Path, memory: str
) -> Cutting:
    """Cut around the seeds in a process of its own, and walk for some of them."""
    (folder / "seeds.txt").write_text("\n".join(seeds), encoding="utf-8")
    order = {"hops": 3, "hub_limit": hub_limit}
    out, into = folder / "out.json", folder / "cut"
    arguments = [folder / "seeds.txt", out, into, profile, memory, json.dumps(order), *dumps]
    command = [sys.executable, "-m", "triplewise.evals.bench.cut", *map(str, arguments)]
    done = _alone(command, folder)
    facts = [d for d in dumps if ".nt" in d.name]
    arguments = [folder / "seeds.txt", out, profile, hub_limit, *facts]
    script = [sys.executable, "-m", "triplewise.evals.bench.cut_naive", *map(str, arguments)]
    naive = Naive(**_alone(script, folder))
    walked = walk(facts, seeds, sample, hub_limit, folder) if sample else None
    title = "+".join(d.name for d in dumps)
    return Cutting(dump=title, hub_limit=hub_limit, naive=naive, walked=walked, **done)


def _alone(command: list[str], folder: Path) -> dict[str, Any]:
    """What a process writes of itself: its memory is that of nothing else."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return found


def cut_alone(seeds: str, out: str, into: str, profile: str, memory: str, order: str, *dumps: str) -> None:
    """Cut, and write what it took to a file of JSON."""
    from triplewise.tools.kg.subset import CutOrder, cut_kg

    report = cut_kg(seeds, dumps, into, CutOrder(**json.loads(order)), profile=profile, memory=memory)
    facts = {
        "staged_triples": sum(source.triples for source in report.sources),
        "seeds": report.seeds,
        "seconds": report.seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "triples": report.triples,
        "labels": report.labels,
        "hops": [hop.triples for hop in report.hops],
        "hubs": report.hub_count,
    }
    Path(out).write_text(json.dumps(facts), encoding="utf-8")


def walk(dumps: list[Path], seeds: list[str], sample: int, hub_limit: int, folder: Path) -> Walked:
    """The alternative, on as many of the seeds as `sample`."""
    start = time.perf_counter()
    store = ox.Store(str(folder / "store"))
    for dump in dumps:
        store.bulk_extend(_quads(dump))
    loading = time.perf_counter() - start
    start = time.perf_counter()
    chosen = random.Random(1).sample(seeds, min(sample, len(seeds)))
    triples = sum(_walked(store, seed, hub_limit) for seed in chosen)
    seconds = time.perf_counter() - start
    return Walked(loading, len(chosen), seconds, triples, seconds / len(chosen) * len(seeds))


def _quads(path: Path) -> Iterator[ox.Quad]:
    from triplewise.tools.kg.sources import Feed

    return Feed(on_error="skip").facts([path], None)


def _walked(store: ox.Store, seed: str, hub_limit: int) -> int:
    """Size of the subgraph within three hops of one seed."""
    triples: set[Any] = set()
    queue, seen = deque([(seed, 0)]), {seed}
    while queue:
        node, hop = queue.popleft()
        for pattern in (f"{node} ?p ?o", f"?s ?p {node}"):
            cap = f" LIMIT {hub_limit + 1}" if hub_limit and hop else ""
            found: Any = store.query(f"SELECT * WHERE {{ {pattern} }}{cap}")
            rows = list(found)
            if cap and len(rows) > hub_limit:
                continue
            for row in rows:
                other = row["o"] if pattern.startswith(node) else row["s"]
                triples.add((node, pattern[0], str(row["p"]), str(other)))
                if isinstance(other, ox.NamedNode) and hop < 2 and str(other) not in seen:
                    seen.add(str(other))
                    queue.append((str(other), hop + 1))
    return len(triples)


def cut(
    triples: Annotated[int, typer.Option(min=1000, help="Size of the generated graph.")] = 10_000_000,
    seeds: Annotated[int, typer.Option(min=1, help="Entities to cut around.")] = SEEDS,
    hub_limit: Annotated[int, typer.Option(min=0, help="As for `triplewise kg cut`.")] = 1_000,
    sample: Annotated[int, typer.Option(min=0, help="Seeds that the alternative walks; 0: none.")] = 20,
    memory: Annotated[str, typer.Option(help="What DuckDB may use.")] = "2GB",
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Seconds, memory and triples of `kg cut`, on the Wikidata extract and on a generated graph.

    Beside it: a naive script of one pass a hop with all in memory, and a walk through a store entity by
    entity, measured on some seeds and extrapolated to all.
    """
    try:
        found = list(_measured(triples, seeds, hub_limit, sample, memory))
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps([asdict(c) for c in found], indent=2))
        return
    for cutting in found:
        Console().print(_table(cutting))


def _measured(triples: int, seeds: int, hub_limit: int, sample: int, memory: str) -> Iterator[Cutting]:
    if dumps := _extract():
        with tempfile.TemporaryDirectory() as name:
            chosen = pick_seeds(dumps[0], seeds)
            yield measure(dumps, chosen, hub_limit, "wikidata", sample, Path(name), memory)
    with tempfile.TemporaryDirectory() as name:
        dump = Path(name) / "generated.nt"
        generate(dump, triples)
        yield measure([dump], pick_seeds(dump, seeds), hub_limit, "generic", sample, Path(name), memory)


def _extract() -> list[Path]:
    """The files of the Wikidata extract, the most facts first; none where TRIPLEWISE_DATA is not set."""
    known = graph("wikidata_kg")
    try:
        facts = [locate(file) for files in known.facts.values() for file in files]
        return sorted(facts, key=lambda path: -path.stat().st_size) + [locate(f) for f in known.labels]
    except TriplewiseError:
        return []


def _table(c: Cutting) -> Table:
    title = f"{c.dump}: {c.staged_triples:,} triples, {c.seeds:,} seeds, hub limit {c.hub_limit:,}"
    table = Table(title=title, title_justify="left")
    for heading in ("", "seconds", "triples"):
        table.add_column(heading, justify="right" if heading else "left")
    hops = {f"hop {n}": size for n, size in enumerate(c.hops, 1)}
    for stage, seconds in c.seconds.items():
        table.add_row(stage, f"{seconds:.1f}", f"{hops[stage]:,}" if stage in hops else "")
    total = sum(c.seconds.values())
    table.add_row(f"kg cut in all (at most {c.memory:,} MB)", f"{total:.1f}", f"{c.triples:,} + {c.labels:,}")
    if c.naive is not None:
        what = f"naive script, three passes (at most {c.naive.memory:,} MB)"
        table.add_row(what, f"{c.naive.seconds:.1f}", f"{c.naive.triples:,}")
    if c.walked is not None:
        w = c.walked
        table.add_row("walk: loading a store", f"{w.loading:.1f}", "")
        table.add_row(f"walk: {w.seeds} seeds one by one", f"{w.seconds:.1f}", f"{w.triples:,}")
        table.add_row("walk: all seeds, extrapolated", f"{w.loading + w.extrapolated:.0f}", "")
    return table


if __name__ == "__main__":
    cut_alone(*sys.argv[1:])
