"""How often each guideline fired, read from states, answers, documents and records."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triplewise.guidelines import SOURCES, guideline_counts, load_guidelines
from triplewise.nodes.state import Answer, Correction, Step
from triplewise.tools.core.call import Feedback


def step(number: int, guideline: str = "") -> Step:
    return Step(number, "", "execute()", Feedback("execute"), "", guideline=guideline)


WRONG = Correction(1, "execute()", "final_empty", "kb", "text")
ANSWER = Answer("answered", corrections=(WRONG,))
STEPS = (step(1, "final_empty"), step(2), step(3, "budget_low"))
STATE: dict[str, Any] = {"steps": STEPS, "answer": ANSWER}


def test_every_form_of_a_run_is_read() -> None:
    document = {"steps": [asdict(s) for s in STEPS], "corrections": [asdict(WRONG)]}
    full: list[Any] = [STATE, SimpleNamespace(steps=list(STEPS)), document]
    for run in full:
        assert guideline_counts([run]).fired == {"final_empty": 1, "budget_low": 1}
    record = {"corrections": ["final_empty"], "notes": ["budget_low"], "steps": 3}
    assert guideline_counts([record]).fired == {"final_empty": 1, "budget_low": 1}
    short: list[Any] = [ANSWER, {"corrections": ["final_empty"], "steps": 3}]
    for run in short:
        assert guideline_counts([run]).fired == {"final_empty": 1}


def test_counts_by_source_cover_every_source() -> None:
    counts = guideline_counts([STATE, ANSWER, {"steps": []}])
    assert (counts.runs, counts.corrected) == (3, 2)
    assert list(counts.fired.items()) == [("final_empty", 2), ("budget_low", 1)]
    assert counts.by_source == {source: {"kb": 2, "memory": 1}.get(source, 0) for source in SOURCES}
    assert sum(counts.written.values()) == len(load_guidelines())


def test_a_guideline_that_is_not_loaded_is_counted_as_such(tmp_path: Path) -> None:
    told = Correction(1, "", "mine", "kb+memory", "")
    assert guideline_counts([{"corrections": [told]}]).by_source["kb+memory"] == 1
    assert guideline_counts([{"corrections": ["mine"]}]).by_source["unknown"] == 1
    path = tmp_path / "mine.yaml"
    path.write_text(
        "- {id: mine, source: memory, when: 'true', guideline: Stop., example: {feedback: {}, expect: Stop}}"
    )
    counts = guideline_counts([{"corrections": ["mine"]}], load_guidelines([path]))
    assert counts.by_source["memory"] == 1
    assert counts.written["memory"] == guideline_counts([]).written["memory"] + 1
