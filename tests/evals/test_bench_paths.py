"""The bench of path searches: a skewed graph made from its seed, and all searches giving the same paths."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triplewise.evals.bench import paths
from triplewise.evals.bench.__main__ import app
from triplewise.evals.bench.path_searches import SEARCHES, make, open_made
from triplewise.evals.bench.paths import LOW, Graph, Searcher, Tell, Terms, Timed, classes, measure
from triplewise.evals.bench.skewed import Skewed, node
from triplewise.tools.kg.protocol import Deadline, Outcome

BENCH = [sys.executable, "-m", "triplewise.evals.bench", "paths"]


def quiet(*_: object) -> None:
    pass


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


def test_all_searches_find_the_same_paths(tmp_path: Path) -> None:
    made = make(Skewed(240, seed=1), tmp_path, quiet)
    assert make(Skewed(240, seed=1), tmp_path, quiet) == made
    kg = open_made(tmp_path)
    for target in range(1, 5):
        answers = {
            name: run(kg, node(0), node(target), 3, Deadline(60), 100_000) for name, run in SEARCHES.items()
        }
        assert {a.outcome for a in answers.values()} <= {Outcome.ROWS, Outcome.EMPTY}
        ours = answers.pop("triplewise, loaded")
        assert ours.paths
        assert answers.pop("triplewise, queries").paths == ours.paths
        assert all(set(a.paths) == set(ours.paths) for a in answers.values())
        assert all(len(a.paths) == len(ours.paths) for a in answers.values())
    kg.close()


def test_figures_of_each_search_and_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    searches = ["triplewise, loaded", "triplewise, queries"]
    monkeypatch.setattr(paths, "SEARCHES", searches)
    graph = Skewed(240, seed=1)
    found = measure(graph, tmp_path, 2, Terms(2, 20.0, 5), lambda stage, *_: stages.append(stage))
    assert [(f.pairs, f.search) for f in found.searches] == [
        (pairs, search) for pairs in ("low-low", "low-hub", "hub-hub") for search in searches
    ]
    for f in found.searches:
        assert f.late == 0
        assert 0 <= f.full <= 1
        assert f.median <= f.p95 <= f.longest
        assert f.memory > 10
        assert f.cpu > 0
    assert "triplewise, queries, hub-hub" in stages


def test_a_search_that_is_cut_does_not_disturb_the_next(tmp_path: Path) -> None:
    make(Skewed(240, seed=1), tmp_path, quiet)
    searcher = Searcher(tmp_path, "triplewise, queries", Terms(3, 0.0, 5))
    try:
        assert [searcher.ask((node(0), node(1)))["outcome"] for _ in range(2)] == ["timeout"] * 2
    finally:
        searcher.close()


@pytest.mark.parametrize("moment", ["writing", "queries"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    size, made = ("3000000", "*/graph.nt") if moment == "writing" else ("400", "*/made.json")
    process = subprocess.Popen([*BENCH, "--size", size, "--count", "100000"], stderr=subprocess.PIPE)
    try:
        wait_for(tmp_path, made, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode not in (0, None)
    assert b"Traceback" not in said
    assert not list(tmp_path.glob("triplewise-bench-*"))


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_command_takes_several_sizes_and_prints_json_or_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(graph: Skewed, folder: Path, count: int, terms: Terms, tell: Tell) -> Graph:
        tell("loading", count, 2)
        assert folder.is_dir()
        figures = Timed("SPARQL joins", "low-hub", count, 0.1, 0.05, 0.2, 0.3, 0.5, 0.25, 7.0, 1234.0, 99)
        return Graph(graph.triples, {"store": 2.0}, {"store": 3}, [figures])

    monkeypatch.setattr(paths, "measure", measured)
    options = ["paths", "--size", "200", "--size", "300", "--count", "2"]
    done = CliRunner().invoke(app, [*options, "--json"])
    assert [g["triples"] for g in json.loads(done.stdout)] == [200, 300]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0
    assert all(text in done.stdout for text in ("200 triples on disk", "300 triples", "0.300", "1,234"))
