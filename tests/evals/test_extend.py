"""Parts of one's own, named where ours are; docs/extend.md has them as objects."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evals.reported import scores_of
from triplewise.evals.evaluation import make_task, run
from triplewise.graphs import Context, build_graph
from triplewise.tools.core.errors import ConfigurationError

PAGE = Path(__file__).parent.parent.parent / "docs" / "extend.md"
QUESTION = {"question": "Who wrote Dracula?"}
GUIDELINE = """
- id: no_person
  source: kb
  severity: {severity}
  when: feedback.finished and feedback.answers|length == 1
  guideline: That is one answer only. {{% include "again" %}}
  example: {{feedback: {{action: execute, outcome: rows, answers: [Q1], finished: true}}, expect: one answer}}
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the working folder, made of the page's last part and a preset."""
    code = PAGE.read_text(encoding="utf-8").split("```python\n")[-1].partition("```")[0]
    code += "QUICK = Preset('one rule', PRESETS['agent'].phases, {'toolset': 'pyql', 'prompt': 'agent'})\n"
    (tmp_path / "parts_of_mine.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield "parts_of_mine"
    sys.modules.pop("parts_of_mine", None)


def test_own_parts_are_named_by_module_and_name(mine: str, tmp_path: Path) -> None:
    state = build_graph(f"{mine}:QUICK").invoke(QUESTION, context=Context())
    assert state["answer"].labels == ("Bram Stoker",)
    with pytest.raises(ConfigurationError, match=r"unknown preset 'nope'.*module:name"):
        build_graph("nope")
    with pytest.raises(ConfigurationError, match="no attribute 'SLOW'"):
        build_graph(f"{mine}:SLOW")
    with pytest.raises(ConfigurationError, match="is not a preset"):
        build_graph(f"{mine}:capitals")
    log = run(make_task(f"{mine}:capitals", {"preset": f"{mine}:QUICK"}), log_dir=tmp_path)
    assert scores_of(log)["f1.mean"] == 1.0


@pytest.mark.parametrize("severity", ["note", "error"])
def test_an_own_guideline_takes_no_right_answer_away(severity: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GUIDELINE.format(severity=severity), encoding="utf-8")
    state = build_graph().invoke(QUESTION, context=Context(guidelines=[str(path)]))
    answer = state["answer"]
    assert answer.labels == ("Bram Stoker",)
    assert answer.note.startswith("That is one answer only.")
    assert "one answer only" in state["steps"][-1].observation
    if severity == "error":
        assert "Thought" not in answer.note
