"""How long it takes to find the paths between two nodes of a large graph with hubs, kept on disk.

Beside the search by whole numbers that `kg load` writes stands the search by SPARQL queries that endpoints
get, on the same store, with the same time and cap on paths. The graph is generated: subjects evenly, objects
and relations by Zipf's law with exponent 1.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.path_queries import find_paths_by_queries
from triplewise.tools.kg.protocol import Deadline, Outcome

SPACE, RELATIONS, FACTS_A_NODE, SEED = "http://skewed.example/", 40, 8, 0
LOW, HUBS = 20, 10_000
"""Most facts of a node that counts as low; one node in so many is a hub: those with the most facts."""
HOPS, LIMIT = 3, 100
"""Longest path, and most paths of one search."""
PATIENCE = 10.0
"""Seconds over its time after which the process of a search is ended: no query of the store can be."""


def paths(
    size: Annotated[int, typer.Option(min=16, help="Triples of the graph.")] = 1_000_000,
    count: Annotated[int, typer.Option(min=1, help="Pairs of each class of degrees.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.01, help="What one search may take.")] = 1.0,
) -> list[dict[str, Any]]:
    """Time and outcome of path searches in a large generated graph on disk, between low nodes and hubs.

    `CPU` is the processor's time, which other work on the machine does not lengthen (medians). `cut` is the
    share of searches cut by time or a cap on edges.
    """
    with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
        folder, degrees = Path(scratch) / "kg", write_graph(Path(scratch) / "graph.nt", size)
        load_kg([Path(scratch) / "graph.nt"], folder)
        rows = []
        for name, drawn in draw_pairs(degrees, count).items():
            for search in SEARCHES:
                outcomes = search_all(folder, search, drawn, seconds)
                cut = sum(o not in ("rows", "empty") and n < LIMIT for _, _, o, n in outcomes) / count
                rows.append({
                    "pairs": name, "search": search,
                    "seconds": statistics.median(o[0] for o in outcomes),
                    "worst": max(o[0] for o in outcomes),
                    "CPU": statistics.median(o[1] for o in outcomes),
                    "cut": cut, "paths": statistics.fmean(o[3] for o in outcomes),
                })  # fmt: skip
    return rows


def write_graph(path: Path, triples: int) -> np.ndarray:
    """Write the graph as N-Triples and return the number of facts of every node."""
    nodes, draw = max(2, triples // FACTS_A_NODE), np.random.default_rng(SEED)

    def zipf(most: int) -> np.ndarray:
        return np.minimum((most + 1.0) ** draw.random(triples) - 1, most - 1).astype(np.int64)

    subjects, relations, objects = draw.integers(0, nodes, triples), zipf(RELATIONS), zipf(nodes)
    with path.open("w", encoding="ascii") as file:
        for s, r, o in zip(subjects.tolist(), relations.tolist(), objects.tolist(), strict=True):
            file.write(f"<{SPACE}n{s}> <{SPACE}r{r}> <{SPACE}n{o}> .\n")
    return np.bincount(subjects, minlength=nodes) + np.bincount(objects, minlength=nodes)


def draw_pairs(degrees: np.ndarray, count: int) -> dict[str, list[tuple[IRI, IRI]]]:
    """Return random pairs of different nodes by degree: low with low, low with hub, hub with hub."""
    hubs = np.argsort(degrees, kind="stable")[-max(3, len(degrees) // HUBS) :].tolist()
    low = np.flatnonzero((degrees > 0) & (degrees <= LOW)).tolist()
    draw, pairs = random.Random(SEED), dict[str, list[tuple[IRI, IRI]]]()
    for name, pools in {"low-low": (low, low), "low-hub": (low, hubs), "hub-hub": (hubs, hubs)}.items():
        pairs[name] = []
        while len(pairs[name]) < count:
            one, other = map(draw.choice, pools)
            if one != other:
                pairs[name].append((IRI(f"{SPACE}n{one}"), IRI(f"{SPACE}n{other}")))
    return pairs


Search = tuple[float, float, Outcome, int]
"""What a search took and gave: seconds, processor seconds, outcome, number of paths."""


def search_all(folder: Path, search: str, pairs: Sequence[tuple[IRI, IRI]], seconds: float) -> list[Search]:
    """Search for all pairs in a process of its own, which is ended where a search hangs."""
    results: list[Search] = []
    pool = None
    for pair in pairs:
        if pool is None:
            pool = get_context("spawn").Pool(1)
            # Brings what is opened late.
            pool.apply(timed, (folder, search, IRI("urn:nobody"), IRI("urn:nowhere"), seconds))
        patience = seconds + PATIENCE
        try:
            results.append(pool.apply_async(timed, (folder, search, *pair, seconds)).get(patience))
        except TimeoutError:
            pool.terminate()
            pool = None
            results.append((patience, patience, Outcome.TIMEOUT, 0))
    if pool is not None:
        pool.terminate()
    return results


def timed(folder: Path, search: str, source: IRI, target: IRI, seconds: float) -> Search:
    """One search and what it took: as in a graph that `kg load` loaded, or as an endpoint is searched.

    That is by queries of joins, a chain for each shape of simple paths.
    """
    kg = open_kg(folder)
    start, busy = time.perf_counter(), time.process_time()
    if search == SEARCHES[0]:
        result = kg.paths(source, target, HOPS, timeout=seconds, limit=LIMIT)
    else:
        result = find_paths_by_queries(kg, source, target, HOPS, Deadline(seconds), LIMIT)
    return time.perf_counter() - start, time.process_time() - busy, result.outcome, len(result.paths)


SEARCHES = ("whole numbers", "SPARQL joins")
