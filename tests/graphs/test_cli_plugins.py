"""Commands that other packages bring: loaded when they are run, with a clear line where they cannot be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from triplewise.graphs.cli.app import run


class Broken:
    """An entry point whose package is there, but not what it needs."""

    def load(self) -> None:
        raise ModuleNotFoundError("No module named 'inspect_ai'", name="inspect_ai")


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (Broken(), "`triplewise eval` needs inspect_ai, which is not installed"),
        (None, "nothing brings the command `triplewise eval` here"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_fix(
    found: Broken | None, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **named: [found] if found else [])
    assert run(["eval", "metaqa"]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert "pip install 'triplewise[evals]'" in said


def test_help_names_the_command_without_loading_it() -> None:
    code = (
        "import sys; from triplewise.graphs.cli.app import run; run(['--help']); "
        "sys.exit('inspect_ai' in sys.modules or 'triplewise.evals' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "eval" in ended.stdout


def test_help_of_the_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "run", "--help"]) == 0
    assert "--jobs" in capsys.readouterr().out
