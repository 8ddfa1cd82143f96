"""The registry: every system can be compiled and run by a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from triplewise.evals import run
from triplewise.evals.baselines import BASELINES, build_system
from triplewise.evals.evaluation import make_task
from triplewise.graphs import PRESETS
from triplewise.tools.core.errors import ConfigurationError

SYSTEMS = [*PRESETS, *BASELINES]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_compiled(name: str) -> None:
    graph = build_system(name)
    assert {"question", "answer", "steps", "usage"} <= set(graph.channels)


@pytest.mark.parametrize(
    ("name", "parts", "words"),
    [
        ("self-consistency", {"samples": 0}, "samples .*: input should be"),
        ("self-consistency", {"samples": 2.5}, "samples .*: input should be"),
        ("self-consistency", {"temperature": 0}, "temperature .*: input should be greater than 0"),
        *(("rog", {"plans": plans}, "plans .*: input should be") for plans in (0, -1, "many")),
        *(("documents", {"passages": n}, "passages .*: input should be") for n in (0, 1.5)),
        *(("tog", {name: 0}, f"{name} .*: input should be greater than 0") for name in ("width", "depth")),
        *(
            ("kb-binder", {name: 0}, f"{name} .*: input should be greater than 0")
            for name in ("drafts", "beam")
        ),
        ("kb-binder", {"shots": -1}, "shots .*: input should be greater than or equal to 0"),
        *((name, {"link": "magic"}, "unknown variant of phase link") for name in ("tog", "kb-binder")),
        ("tog", {"beams": 3}, "unknown parameter of baseline tog 'beams'.*width"),
    ],
)
def test_parameters_that_cannot_work_are_refused(name: str, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        build_system(name, **parts)


def test_unknown_names_are_told_with_the_legal_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown preset or baseline 'rag'; choose one of: .*rog"):
        build_system("rag")
    with pytest.raises(ConfigurationError, match=r"unknown parameter of baseline rog 'beam'.*link, plans"):
        build_system("rog", beam=2)


@pytest.mark.usefixtures("leaks_of_inspect", "data")
def test_a_benchmark_runs_with_a_baseline(tmp_path: Path) -> None:
    log = run(make_task("metaqa", {"preset": "react", "n": 4}), log_dir=tmp_path / "logs")
    assert log.status == "success"
    samples = read_eval_log(log.location).samples or []
    assert len(samples) == 4
    assert all(set(s.store["Run:labels"]) == set(s.target) for s in samples)


@pytest.mark.usefixtures("data")
def test_parameters_of_a_baseline_are_set_by_name() -> None:
    given = {"preset": "rog", "plans": 2, "model": "openai:x", "n": 1}
    task = make_task("metaqa", {**given, "base_url": "http://127.0.0.1:1/v1"})
    assert task.solver is not None
    with pytest.raises(ConfigurationError, match=r"plans .*: input should be"):
        make_task("metaqa", {**given, "plans": 0})
    with pytest.raises(ConfigurationError, match="unknown name to set 'plans'"):
        make_task("metaqa", {"plans": 2})
    with pytest.raises(ConfigurationError, match="unknown name to set 'reflect'"):
        make_task("metaqa", {**given, "reflect": "none"})
