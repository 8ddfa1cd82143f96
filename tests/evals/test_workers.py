"""Questions spread over worker processes: the same answers, and crashes with their reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from triplewise.evals import Run, metaqa, run, scripted_model
from triplewise.evals.solver import ask
from triplewise.evals.table import crashes
from triplewise.evals.workers import Job, Workers, workers_for
from triplewise.tools.kg.open import close_all


def settings(data: Path, url: str) -> dict[str, Any]:
    """A model at this address, the tiny graph, and no encoder."""
    kg = str(data / "metaqa" / "kb.txt.gz")
    return {"model": scripted_model.MODEL, "base_url": url, "kg": kg, "profile": "metaqa", "ranking": "none"}


@pytest.mark.usefixtures("leaks_of_inspect")
def test_workers_answer_as_this_process_does_and_a_dead_model_is_a_crash(data: Path, tmp_path: Path) -> None:
    with scripted_model.running() as url:
        job = Job("queryagent", {}, settings(data, url), "who directed Alien", {"Alien": "Alien"})
        task = metaqa(preset="queryagent", seeds=False, settings=settings(data, url))
        workers = Workers(1, 2)
        try:
            told, here = workers.ask(job), ask(job)
        finally:
            workers.close()
            close_all()
        assert told["values"] == here["values"] == ["Ridley Scott"]
        assert told["sparql"] == here["sparql"]
        log = run(task, jobs=2, workers=1, log_dir=tmp_path)
        assert crashes(log) == []
        assert scripted_model.counts(url)["calls"] == 4 * (2 + 4)
    dead = run(task, jobs=2, workers=1, log_dir=tmp_path)
    assert dead.status == "success"
    assert {name for name, _ in crashes(dead)} == {f"test-{i}" for i in range(4)}
    assert all("refuses connections" in message for _, message in crashes(dead))
    assert all(s.store_as(Run).crashed and s.error for s in dead.samples or [])
    again = run(task, jobs=2, workers=0, log_dir=tmp_path, retry_crashed=True)
    assert len(crashes(again)) == 4
    close_all()


def test_a_worker_that_dies_is_told_of(tmp_path: Path) -> None:
    workers = Workers(1, 1)
    workers._workers[0].process.kill()
    workers._workers[0].process.wait()
    with pytest.raises(RuntimeError, match="worker process"):
        workers.ask(Job("queryagent", {}, {}, "who?", {}))
    workers.close()


def test_few_questions_in_flight_need_no_worker() -> None:
    assert (workers_for(1), workers_for(15)) == (0, 0)
    assert workers_for(64) == min(4, os.cpu_count() or 1)
