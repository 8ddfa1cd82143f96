"""How often each guideline fired, read from documents of runs and from records of evaluations."""

from __future__ import annotations

from pathlib import Path

from triplewise.guidelines import SOURCES, guideline_counts, load_guidelines

DOCUMENT = {"steps": [{"guideline": "final_empty"}, {"guideline": ""}, {"guideline": "budget_low"}]}
RECORD = {"corrections": ["final_empty"], "notes": ["budget_low"], "steps": 3}


def test_documents_and_records_are_counted_by_source() -> None:
    counts = guideline_counts([DOCUMENT, RECORD, {"steps": []}])
    assert (counts.runs, counts.corrected) == (3, 2)
    assert counts.fired == {"final_empty": 2, "budget_low": 2}
    assert counts.by_source == {source: {"kb": 2, "memory": 2}.get(source, 0) for source in SOURCES}
    assert sum(counts.written.values()) == len(load_guidelines())


def test_a_guideline_that_is_not_loaded_is_counted_as_such(tmp_path: Path) -> None:
    assert guideline_counts([{"corrections": ["mine"]}]).by_source["unknown"] == 1
    path = tmp_path / "mine.yaml"
    path.write_text(
        "- {id: mine, source: memory, when: 'true', guideline: Stop., example: {feedback: {}, expect: Stop}}"
    )
    counts = guideline_counts([{"corrections": ["mine"]}], load_guidelines([path]))
    assert counts.by_source["memory"] == 1
