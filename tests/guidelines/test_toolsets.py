"""Guidelines for one toolset are passed over where another is in use; all others serve every toolset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from triplewise.guidelines import load_guidelines
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory
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
        ("", set(TOOLSETS)),
        ("  toolset: sql\n", {"sql"}),
        ("  toolset: [pyql, agentbench]\n", {"pyql", "agentbench"}),
    ],
)
def test_a_guideline_fires_for_its_toolsets_only(tmp_path: Path, written: str, serves: set[str]) -> None:
    guidelines = load_guidelines([loaded(tmp_path, written)], instead=True)
    fired = {name for name in TOOLSETS if guidelines.match(FLIGHT, NOTHING, toolset=name)}
    assert fired == serves
    assert {name for name in TOOLSETS if guidelines.triggered(FLIGHT, NOTHING, toolset=name)} == serves
    assert guidelines.check() == ()


def test_a_guideline_may_serve_a_toolset_of_ones_own(tmp_path: Path) -> None:
    guidelines = load_guidelines([loaded(tmp_path, "  toolset: flights\n")], instead=True)
    assert guidelines.match(FLIGHT, NOTHING, toolset="flights") is not None
    assert guidelines.match(FLIGHT, NOTHING, toolset="pyql") is None


@pytest.mark.parametrize("written", ["  toolset: pigql\n", "  toolset: []\n", "  toolset: 7\n"])
def test_an_unknown_toolset_is_refused_with_its_line(tmp_path: Path, written: str) -> None:
    with pytest.raises(DataError, match=r"mine\.yaml:6: toolset"):
        load_guidelines([loaded(tmp_path, written)])


MISTAKES = [
    ("fly", ("Q1",), {"error": "unknown_action", "message": "fly is not an action"}),
    ("", (), {"error": "no_action", "message": "no action"}),
    ("search_neighbor", ("Q1", "the capital"), {"error": "bad_relation", "detail": {"given": "the capital"}}),
    ("search_neighbor", ("Tokio", "P36"), {"error": "unknown_entity", "detail": {"given": "Tokio"}}),
    ("search_neighbor", ("Q1",), {"error": "arity", "detail": {"due": 3, "least": 2}}),
    ("get_neighbors", ("Q1",), {"outcome": "empty"}),
    ("get_neighbors", ("Q1",), {"outcome": "timeout"}),
    ("get_neighbors", ("Q1",), {"outcome": "truncated"}),
    ("get_path", ("Q1", "Q1"), {"error": "same_entity", "message": "both ends"}),
    ("answer", (), {"error": "no_answer", "message": "give the answer in brackets"}),
]


@pytest.mark.parametrize("name", ["explore", "symbolic"])
@pytest.mark.parametrize(("action", "arguments", "feedback"), MISTAKES)
def test_no_guideline_names_an_action_that_there_is_not(
    name: str, action: str, arguments: tuple[str, ...], feedback: dict[str, Any]
) -> None:
    toolset, call = TOOLSETS[name], f"{action}({', '.join(arguments)})"
    others = {a for other in TOOLSETS.values() for a in other.actions} - set(toolset.actions)
    memory = ReasoningMemory({"Q1": "Tokyo"}, steps=4, budget=7, calls=(call, "search(x)", call, "search(x)"))
    match = load_guidelines().match(
        Feedback(action, arguments, **feedback),
        memory,
        toolset=name,
        question="What is the capital of Japan?",
        actions=[a.signature for a in toolset.actions.values()],
    )
    assert match is not None
    named = set(re.findall(r"\w+", match.text.replace(call, "").replace(action, "")))
    assert not named & {a for a in others if "_" in a or a == "execute"}, match.text
