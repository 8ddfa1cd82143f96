"""The bench of path searches: a skewed graph made from its seed, and both searches giving the same paths."""

from __future__ import annotations

from pathlib import Path

from triplewise.evals.bench.paths import LOW, classes, measure, meeting, one_sided, open_store
from triplewise.evals.bench.skewed import Skewed, node
from triplewise.tools.kg.base import Outcome
from triplewise.tools.kg.bounded import Deadline


def test_the_graph_is_skewed_and_always_the_same() -> None:
    graph = Skewed(20_000, seed=3)
    degrees = graph.degrees()
    assert degrees.sum() == 40_000
    assert degrees.max() > 40 * degrees.mean()
    assert (degrees == Skewed(20_000, seed=3).degrees()).all()
    assert (degrees != Skewed(20_000, seed=4).degrees()).any()


def test_pairs_are_of_the_degrees_they_are_named_by() -> None:
    degrees = Skewed(20_000).degrees()
    hubs = sorted(degrees)[-3]
    found = classes(degrees, 5, 0)
    of = {
        name: [[degrees[int(n.value.rpartition("n")[2])] for n in pair] for pair in found[name]]
        for name in found
    }
    assert all(max(pair) <= LOW for pair in of["low-low"])
    assert all(low <= LOW < hub for low, hub in of["low-hub"])
    assert all(min(pair) >= hubs for pair in of["hub-hub"])


def test_both_searches_find_the_same_paths(tmp_path: Path) -> None:
    graph = Skewed(400, seed=1)
    kg = open_store(graph, tmp_path)
    for target in range(1, 6):
        answers = [run(kg, node(0), node(target), 3, Deadline(20), 100_000) for run in (meeting, one_sided)]
        assert {a.outcome for a in answers} <= {Outcome.ROWS, Outcome.EMPTY}
        assert len({frozenset(a.paths) for a in answers}) == 1
    figures = measure(kg, graph, 2, 2, 20.0, 5)
    assert [f.pairs for f in figures[::2]] == ["low-low", "low-hub", "hub-hub"]
    assert all(f.late == 0 and 0 <= f.full <= 1 and f.median <= f.p95 <= f.longest for f in figures)
