"""CREAK, T-REx, Zero-Shot RE and WikiWebQuestions: records, gold linking, scores, and runs on the demo."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task

from triplewise.evals import creak, run, trex, wikiwebquestions, zeroshot_re
from triplewise.evals.command import make_task
from triplewise.evals.scorers import is_accepted
from triplewise.evals.table import crashes, scores_of
from triplewise.evals.training import entities_of
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.open import close_all

DEMO: dict[str, Any] = {"settings": {"kg": "demo"}}
SLOTS = [
    # (input, ids, answer, aliases, whether the graph has the fact, edges of the topic)
    ("Peru [SEP] capital", {"Q419": "Peru"}, "Ciudad de los Reyes", ["Lima", "lima"], True, 9),
    ("Peru [SEP] continent", {"Q419": "Peru"}, "Asia", None, True, 9),
    ("Peru [SEP] place of birth", {"Q419": "Peru"}, "Lima", [], False, 9),
    ("Nobody [SEP] occupation", {"Q999999999": "Nobody"}, "writer", [], False, 0),
    ("Unlinked [SEP] occupation", {"UnknownQID": "Unlinked"}, "writer", [], False, 0),
]
CLAIMS = [
    ("The capital of Peru is Lima.", {"Q419": "Peru"}, "true", 9),
    ("The capital of Peru is Brasília.", {"Q419": "Peru"}, "false", 9),
    ("Everything in Peru is good.", {"Q419": "Peru (country)"}, "true", 9),
    ("Somebody is perfect.", {"Q999999999": "Somebody"}, "true", 0),
]
QUESTIONS = [
    ("what is the capital of peru?", "SELECT ?x WHERE { wd:Q419 wdt:P36 ?x . }", ["Q2868"], True),
    ("which planet is it?", "SELECT ?x { ?x wdt:P31 wd:Q634 ; wdt:P397 wd:Q525 }", ["Q2"], False),
]


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaks_of_inspect: None) -> Iterator[Path]:
    """The four sets with a few records each."""
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keys = ("input", "topic_entity", "answer", "alias", "kg_has_fact", "kg_topic_degree")
    slots = [{"id": f"s{i}", **dict(zip(keys, slot, strict=True))} for i, slot in enumerate(SLOTS)]
    write(tmp_path / "trex" / "test.jsonl.gz", slots)
    write(tmp_path / "zeroshot_re" / "test.jsonl.gz", slots[:2])
    keys = ("sentence", "topic_entity", "label", "kg_topic_degree")
    claims = [{"id": f"c{i}", **dict(zip(keys, claim, strict=True))} for i, claim in enumerate(CLAIMS)]
    write(tmp_path / "creak" / "dev.jsonl.gz", claims)
    keys = ("question", "sparql", "answers", "kg_exact")
    asked = [
        {"id": f"w{i}", **dict(zip(keys, q, strict=True)), "kg_exact_no_gold": False}
        for i, q in enumerate(QUESTIONS)
    ]
    write(tmp_path / "wikiwebquestions" / "test.jsonl.gz", asked)
    yield tmp_path
    close_all()


def figures(task: Task, folder: Path) -> dict[str, float]:
    log = run(task, log_dir=folder / "logs")
    assert crashes(log) == []
    return scores_of(log)


def test_slots_are_scored_over_all_and_over_the_answerable(sets: Path) -> None:
    scores = figures(trex(phases={"observe": "none"}, **DEMO), sets)
    assert (scores["hits_at_1.count"], scores["hits_at_1.mean"]) == (5, 0.2)
    assert (scores["answerable_hits_at_1.count"], scores["answerable_hits_at_1.mean"]) == (2, 0.5)
    assert (scores["not_found.mean"], scores["crashed.total"]) == (0.6, 0.0)


def test_slot_records_become_samples(sets: Path) -> None:
    by_id = {s.id: s for s in trex(**DEMO).dataset}
    assert list(by_id["s0"].target) == ["Ciudad de los Reyes", "Lima", "lima"]
    assert (by_id["s0"].metadata or {})["entities"] == {"Peru": "Q419"}
    assert (by_id["s4"].metadata or {})["entities"] == {}
    assert {s.id for s in trex(asked="answerable", **DEMO).dataset} == {"s0", "s1"}
    assert {s.id for s in trex(asked="topic", **DEMO).dataset} == {"s0", "s1", "s2"}
    assert all(not (s.metadata or {})["entities"] for s in trex(linking="own", **DEMO).dataset)
    about = trex(n=2, **DEMO).metadata or {}
    assert (about["answerable"], about["asked"], about["drawn"]) == (2, 5, 2)
    assert "any fact of the subject for 3 of 5 slots" in about["note"]
    assert len(zeroshot_re(**DEMO).dataset) == 2
    with pytest.raises(
        ConfigurationError, match="unknown asked 'some'; choose one of: all, answerable, topic"
    ):
        trex(asked="some", **DEMO)


@pytest.mark.parametrize(
    ("answer", "accepted", "right"),
    [
        (("Q2868", "Lima"), ["lima"], True),
        (("Q2868", "Lima"), ["Lima Province"], False),
        (("Q2868", "Lima Province"), ["Lima"], False),
        (("1977-05-02T00:00:00Z", "2 May 1977"), ["1977"], True),
        (("1977-05-02T00:00:00Z", "2 May 1977"), ["2 May 1977"], True),
        (("1977-05-02T00:00:00Z", "2 May 1977"), ["+1978-00-00T00:00:00Z"], False),
        (("12", "12"), ["12.0"], True),
    ],
)
def test_an_accepted_value_is_the_name_or_the_same_date(
    answer: tuple[str, str], accepted: list[str], right: bool
) -> None:
    assert is_accepted(answer, accepted) is right


def test_claims_are_scored_with_what_is_assumed_told_apart(sets: Path) -> None:
    scores = figures(creak(phases={"observe": "none"}, **DEMO), sets)
    assert scores["accuracy.mean"] == 0.5  # what is not proven is assumed to be false
    assert (scores["proven.mean"], scores["proven_accuracy.mean"]) == (0.5, 1.0)
    assert (scores["proven_accuracy.count"], scores["majority.mean"]) == (2, 0.75)
    assert (scores["answerable_accuracy.count"], scores["answerable_accuracy.mean"]) == (
        3,
        pytest.approx(2 / 3),
    )
    scores = figures(creak(closed_world=False, answerable=True, phases={"observe": "none"}, **DEMO), sets)
    assert (scores["accuracy.mean"], scores["not_found.mean"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_claim_records_become_samples(sets: Path) -> None:
    by_id = {s.id: s for s in creak(**DEMO).dataset}
    assert (by_id["c2"].metadata or {})["entities"] == {"Peru": "Q419"}  # as the claim writes it
    about = creak(**DEMO).metadata or {}
    assert (about["answerable"], about["asked"]) == (3, 4)
    assert 'always saying "true" is right for 75.0% of all claims' in about["note"]
    assert about["licence"] == "MIT"


def test_questions_are_linked_by_the_gold_query(sets: Path) -> None:
    by_id = {s.id: s for s in wikiwebquestions(**DEMO).dataset}
    assert (by_id["w0"].metadata or {}) == {
        "entities": {"Peru": "Q419"},
        "answerable": True,
        "tags": {"relations": "1"},
    }
    assert "Q525" in (by_id["w1"].metadata or {})["entities"].values()
    assert [s.id for s in wikiwebquestions(kg_exact=True, **DEMO).dataset] == ["w0"]
    scores = figures(wikiwebquestions(preset="oda", phases={"observe": "none"}, **DEMO), sets)
    assert (scores["f1.count"], scores["answerable_f1.count"]) == (2, 1)
    assert (scores["answerable_f1.mean"], scores["answerable_hits_at_1.mean"]) == (1.0, 1.0)


def test_the_classes_of_a_gold_query_are_no_topics() -> None:
    assert entities_of("SELECT ?x { ?x wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 }") == ("Q30",)
    assert entities_of("SELECT ?x { ?x wdt:P31/wdt:P279* wd:Q515 }") == ("Q515",)
    assert entities_of("SELECT ?x { wd:Q1 wdt:P1 wd:Q2 . wd:Q1 wdt:P2 ?x }") == ("Q1", "Q2")


VARIANTS = [
    *({"observe": v} for v in ("oda", "one-hop", "none")),
    *({"reflect": v} for v in ("oda", "similarity", "random", "generated", "none")),
]


@pytest.mark.parametrize("phases", VARIANTS, ids=lambda p: "-".join(*p.items()))
def test_every_variant_runs_on_every_set(sets: Path, phases: dict[str, str]) -> None:
    for name in ("trex", "creak", "wikiwebquestions"):
        task = make_task(name, {"preset": "oda", "kg": "demo", "plan_beam": 4, **phases})
        assert figures(task, sets)["crashed.total"] == 0


@pytest.mark.parametrize("task", [creak, trex, zeroshot_re, wikiwebquestions])
def test_a_missing_file_says_where_it_is_published(
    task: Callable[..., Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"missing; get it \(https://github.com/"):
        task(**DEMO)


def test_the_files_are_those_of_the_catalog(tmp_path: Path) -> None:
    if not os.environ.get("TRIPLEWISE_DATA"):
        pytest.skip("TRIPLEWISE_DATA is not set: no benchmark to look at")
    sizes = {}
    for task in (creak, trex, zeroshot_re, wikiwebquestions):
        about = task(**DEMO).metadata or {}
        assert about["changed_files"] == []
        sizes[task.__name__] = (about["answerable"], about["asked"])
    assert sizes == {
        "creak": (518, 1165),
        "trex": (63, 4249),
        "zeroshot_re": (19, 3165),
        "wikiwebquestions": (833, 1217),
    }
