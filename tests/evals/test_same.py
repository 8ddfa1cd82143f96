"""Two runs of the offline default are the same, whatever the hash seed and the questions in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from inspect_ai.log import list_eval_logs, read_eval_log

from triplewise.evals import Run


def start(kg: Path, logs: Path, hash_seed: int, jobs: int) -> subprocess.Popen[str]:
    """The questions of one hop in a process of its own."""
    command = [sys.executable, "-m", "triplewise.graphs", "eval"]
    command += ["metaqa", "--limit", "0", "--jobs", str(jobs)]
    command += [
        "--log-dir",
        str(logs),
        "--set",
        f"kg={kg}",
        "--set",
        "profile=metaqa",
        "--set",
        "seeds=false",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    environment.pop("XDG_CACHE_HOME")  # the encoder is made ready once, in the user's own cache
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def told(logs: Path) -> list[dict[str, Any]]:
    """What each question's run found, in the log's order, without what it took."""
    (info,) = list_eval_logs(str(logs))
    found = []
    for sample in read_eval_log(info.name).samples or []:
        run = sample.store_as(Run)
        trace = {key: value for key, value in json.loads(run.trace_json).items() if key != "usage"}
        found.append(
            {"id": sample.id, "values": run.values, "sparql": run.sparql, "steps": run.steps, "trace": trace}
        )
    return found


def test_two_runs_of_the_embedded_default_are_the_same(data: Path, tmp_path: Path) -> None:
    runs = []
    for hash_seed, jobs in ((1, 1), (2, 8)):
        logs = tmp_path / f"logs{jobs}"
        runs.append((logs, start(data / "metaqa" / "kb.txt.gz", logs, hash_seed, jobs)))
    for _, process in runs:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    first, second = (told(logs) for logs, _ in runs)
    assert len(first) == 4
    assert any(question["values"] for question in first)
    assert first == second
