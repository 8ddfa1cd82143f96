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
from triplewise.graphs.cli.app import run


def arguments(kg: Path, logs: Path, jobs: int) -> list[str]:
    """The questions of one hop, as the command line has them."""
    given = ["eval", "metaqa", "--limit", "0", "--jobs", str(jobs), "--log-dir", str(logs)]
    for setting in (f"kg={kg}", "profile=metaqa", "seeds=false"):
        given += ["--set", setting]
    return given


def told(logs: Path) -> list[dict[str, Any]]:
    """What each question's run found, in the log's order, without what it took."""
    (info,) = list_eval_logs(str(logs))
    found = []
    for sample in read_eval_log(info.name).samples or []:
        one = sample.store_as(Run)
        trace = {key: value for key, value in json.loads(one.trace_json).items() if key != "usage"}
        found.append(
            {"id": sample.id, "values": one.values, "sparql": one.sparql, "steps": one.steps, "trace": trace}
        )
    return found


def test_two_runs_of_the_embedded_default_are_the_same(data: Path, tmp_path: Path) -> None:
    kg, logs = data / "metaqa" / "kb.txt.gz", [tmp_path / "one", tmp_path / "other"]
    command = [sys.executable, "-m", "triplewise.graphs", *arguments(kg, logs[0], jobs=8)]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # it is another one in this process
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert run(arguments(kg, logs[1], jobs=1)) == 0
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    first, second = map(told, logs)
    assert len(first) == 4
    assert any(question["values"] for question in first)
    assert first == second
