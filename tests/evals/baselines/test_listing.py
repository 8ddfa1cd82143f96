"""The registry: every system can be compiled and run by a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log

from triplewise.evals import run
from triplewise.evals.baselines import BASELINES, find_system
from triplewise.evals.evaluation import make_task
from triplewise.graphs import PRESETS, build_graph
from triplewise.tools.core.errors import ConfigurationError

SYSTEMS = [*PRESETS, *BASELINES]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_compiled(name: str) -> None:
    graph = build_graph(find_system(name))
    assert {"question", "answer", "steps", "usage"} <= set(graph.channels)


def test_unknown_names_are_told_with_the_legal_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown preset or baseline 'rag'; choose one of: .*rog"):
        find_system("rag")
    with pytest.raises(ConfigurationError, match="unknown variant of phase link"):
        build_graph(find_system("tog"), link="magic")


@pytest.mark.usefixtures("data")
def test_a_benchmark_runs_with_a_baseline(tmp_path: Path) -> None:
    log = run(make_task("metaqa", {"preset": "react", "n": 4}), log_dir=tmp_path / "logs")
    assert log.status == "success"
    samples = read_eval_log(log.location).samples or []
    assert len(samples) == 4
    assert all(set(s.store["Run:labels"]) == set(s.target) for s in samples)


@pytest.mark.usefixtures("data")
def test_a_baseline_has_phases_and_settings_as_a_preset_has() -> None:
    given = {"preset": "rog", "model": "openai:x", "n": 1, "base_url": "http://127.0.0.1:1/v1"}
    task = make_task("metaqa", {**given, "plan_rules": 2, "link": "given"})
    assert task.metadata is not None
    assert (task.metadata["phases"]["link"], task.metadata["settings"]["plan_rules"]) == ("given", 2)
    with pytest.raises(ConfigurationError, match="setting plan_rules: input should be"):
        make_task("metaqa", {**given, "plan_rules": 0})
    with pytest.raises(ConfigurationError, match="unknown name to set 'plans'"):
        make_task("metaqa", {**given, "plans": 2})
