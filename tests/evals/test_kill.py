"""Evaluations that are killed or interrupted: no finished question is asked twice, none is lost."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from inspect_ai.log import list_eval_logs, read_eval_log

from tests.evals.reported import scores_of
from tests.support import counting_model
from triplewise.evals import Run, scripted_model
from triplewise.graphs.cli.app import run

QUESTIONS, JOBS, LATENCY = 30, 4, 0.03
CALLS = 4 * QUESTIONS
"""The stand-in's script takes four steps."""


@pytest.fixture
def many(data: Path) -> Path:
    """The data folder with as many questions."""
    with gzip.open(data / "metaqa" / "test_1hop.jsonl.gz", "wt", encoding="utf-8") as file:
        for i in range(QUESTIONS):
            record = {"id": f"q{i}", "question": f"number {i}: who directed [Alien]", "topic_entity": "Alien"}
            file.write(json.dumps({**record, "answers": ["Ridley Scott"]}) + "\n")
    return data


@pytest.fixture
def model() -> Iterator[str]:
    """The URL of a stand-in model that counts."""
    with counting_model.running(LATENCY) as url:
        yield url


def arguments(url: str, logs: Path) -> list[str]:
    """An evaluation, as the command line has it."""
    given = ["eval", "metaqa", "--limit", "0", "--system", "queryagent"]
    given += ["--model", scripted_model.MODEL, "--base-url", url]
    given += ["--jobs", str(JOBS), "--log-dir", str(logs)]
    return [*given, "--set", "seeds=false", "--set", "ranking=none"]


def start(url: str, logs: Path) -> subprocess.Popen[str]:
    """An evaluation in a process of its own."""
    command = [sys.executable, "-m", "triplewise.graphs", *arguments(url, logs)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def stop(process: subprocess.Popen[str], url: str, calls: int, how: signal.Signals) -> tuple[str, str]:
    """Send a signal once the model has answered so many calls; what the process printed."""
    while process.poll() is None and counting_model.counts(url)["calls"] < calls:
        time.sleep(0.005)
    process.send_signal(how)
    return process.communicate(timeout=300)


def begun(url: str) -> dict[str, int]:
    """Question id -> how often its first step was asked for."""
    return {f"q{text.split()[1].rstrip(':')}": n for text, n in counting_model.counts(url)["begun"].items()}


def check(logs: Path) -> None:
    """Every question has its answer, once."""
    (info,) = list_eval_logs(str(logs))  # the only one that is left
    log = read_eval_log(info.name)
    assert log.status == "success"
    assert log.samples is not None
    assert sorted(s.id for s in log.samples) == sorted(f"q{i}" for i in range(QUESTIONS))
    runs = [s.store_as(Run) for s in log.samples]
    assert {(r.status, tuple(r.values)) for r in runs} == {("answered", ("Ridley Scott",))}
    assert scores_of(log)["f1.mean"] == 1.0


def test_a_killed_and_interrupted_evaluation_asks_nothing_twice_and_loses_nothing(
    many: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, moments = tmp_path / "logs", random.Random()
    for share, how, code in ((0.3, signal.SIGKILL, -signal.SIGKILL), (0.7, signal.SIGINT, 130)):
        process = start(model, logs)
        _, err = stop(process, model, int(CALLS * share) + moments.randrange(8), how)
        assert process.returncode == code, err
        assert "Traceback" not in err
    message = re.search(rf"(\d+) of {QUESTIONS} questions are done and kept; the same command goes on", err)
    assert message is not None, err
    done = int(message[1])
    assert done >= QUESTIONS * 0.7 - 2 * JOBS
    assert run(arguments(model, logs)) == 0
    err = capsys.readouterr().err
    assert f"goes on with an earlier run: {done} questions are done" in err
    check(logs)
    times = begun(model)
    assert len(times) == QUESTIONS
    assert sum(times.values()) <= QUESTIONS + 2 * JOBS  # only what was in flight is asked again

    assert run(arguments(model, logs)) == 0
    assert "finished" in capsys.readouterr().err
    assert begun(model) == times
    check(logs)
