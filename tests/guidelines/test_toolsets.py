"""Guidelines for one toolset are passed over where another is in use; all others serve every toolset."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.guidelines import load_guidelines
from triplewise.guidelines.guideline import TOOLSETS as KNOWN
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import ReasoningMemory
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import DataError

OWN = """\
- id: mine
  source: kb
  when: feedback.action == "fly"
  guideline: Do not fly.
  example: {feedback: {action: fly}, expect: Do not fly}
"""
FLIGHT, NOTHING = Feedback("fly"), ReasoningMemory()


def loaded(folder: Path, toolset: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(OWN + toolset, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("written", "serves"),
    [
        ("", set(KNOWN)),
        ("  toolset: sql\n", {"sql"}),
        ("  toolset: [pyql, agentbench]\n", {"pyql", "agentbench"}),
    ],
)
def test_a_guideline_fires_for_its_toolsets_only(tmp_path: Path, written: str, serves: set[str]) -> None:
    guidelines = load_guidelines([loaded(tmp_path, written)], instead=True)
    fired = {name for name in KNOWN if guidelines.match(FLIGHT, NOTHING, toolset=name)}
    assert fired == serves
    assert {name for name in KNOWN if guidelines.triggered(FLIGHT, NOTHING, toolset=name)} == serves
    assert guidelines.check() == ()


@pytest.mark.parametrize("written", ["  toolset: pigql\n", "  toolset: []\n", "  toolset: 7\n"])
def test_an_unknown_toolset_is_refused_with_its_line(tmp_path: Path, written: str) -> None:
    with pytest.raises(DataError, match=r"mine\.yaml:6: toolset"):
        load_guidelines([loaded(tmp_path, written)])


def test_every_toolset_may_have_guidelines_of_its_own() -> None:
    assert set(TOOLSETS) <= set(KNOWN)
