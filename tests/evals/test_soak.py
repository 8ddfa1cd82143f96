"""The bench of faults at a small size: a real engine; model and questions in this process, to be quick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from triplewise.evals import bench, scripted_model
from triplewise.evals.bench import app
from triplewise.evals.data import graph, prepared
from triplewise.evals.servers import OxigraphServer
from triplewise.tools.kg.embedded import EmbeddedKG


@contextmanager
def running(latency: float) -> Iterator[str]:
    """The scripted model, in this process."""
    with scripted_model.OpenAIServer(scripted_model.RuleScript(), latency=latency) as server:
        yield server.url


def in_threads(workers: int, context: Any) -> ThreadPoolExecutor:
    """What stands for a pool of processes."""
    return ThreadPoolExecutor(workers)


def test_answers_of_a_failing_endpoint_are_those_without_faults(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted_model, "running", running)
    monkeypatch.setattr(bench, "ProcessPoolExecutor", in_threads)
    kg = prepared(graph("metaqa")).open()
    assert isinstance(kg, EmbeddedKG)
    store, restarted = ox.Store(), tmp_path / "restarted"
    store.bulk_extend(kg.quads())
    with OxigraphServer(store) as engine:
        options = ["--count", "8", "--jobs", "4", "--latency", "0", "--failing", "0.2"]
        options += ["--restart", f"touch {restarted}"]
        done = CliRunner().invoke(app, ["--json", "soak", engine.url, *options])
    assert done.exit_code == 0, done.output
    calm, faulty = json.loads(done.stdout)
    assert (calm["answered"], calm["failed"], restarted.exists()) == (8, 0, True)
    assert faulty["failed"] > 0
    assert faulty["same"] == faulty["questions"] == 8
