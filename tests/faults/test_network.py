"""Without a language model nothing goes over the network, and nothing is written but what is ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ALONE = ["unshare", "--map-root-user", "--net"]
"""Begins a command that reaches no network, not even its own machine."""


def can_be_alone() -> bool:
    return (
        bool(shutil.which("unshare")) and not subprocess.run([*ALONE, "true"], capture_output=True).returncode
    )


@pytest.mark.skipif(not can_be_alone(), reason="this machine lets nobody make a network namespace")
def test_a_question_is_answered_without_network_and_leaves_no_telemetry(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    for name in ("CACHE", "STATE", "DATA", "CONFIG"):
        environment[f"XDG_{name}_HOME"] = str(tmp_path / name.lower())
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    ask = [sys.executable, "-m", "triplewise.graphs", "ask", "Who wrote Dracula?", "--quiet"]
    done = subprocess.run([*ALONE, *ask], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("Bram Stoker\n", 0), done.stderr
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.suffix == ".onnx" for path in written), "the encoder was not used: this shows nothing"
    assert {path.parts[:2] for path in written} == {("cache", "triplewise"), ("state", "triplewise")}
