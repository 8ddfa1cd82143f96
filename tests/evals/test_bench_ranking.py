"""The ranking benchmark: which cases it reads out of gold queries, and what it makes of places."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from triplewise.evals.bench.ranking import Case, cases, measure, orders, scored
from triplewise.tools.kg import open_kg

NS = "http://rdf.freebase.com/ns/"
RELATIONS = ["born", "died", "made", "wrote", "wed", "met"]


@pytest.fixture
def kg_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of one person, and questions about her: one whose answer the graph does not have in full."""
    file = tmp_path / "facts.nt"
    file.write_text("".join(f"<{NS}m.1> <{NS}a.person.{r}> <{NS}m.{r}> .\n" for r in RELATIONS))
    where = f"<{NS}m.1> <{NS}a.person.wed> ?x . FILTER (?x != <{NS}m.1>) ?x <{NS}a.person.age> ?y ."
    sparql = f"SELECT DISTINCT ?x WHERE {{ {where} }}"
    records = [
        {"question": "whom did she wed", "kg_exact": exact, "sparql11": sparql} for exact in (True, False)
    ]
    for name, kept in (("webqsp/test", records), ("grailqa/dev1000", records[1:])):
        path = tmp_path / f"{name}.jsonl.gz"
        path.parent.mkdir()
        with gzip.open(path, "wt") as stream:
            stream.write("".join(json.dumps(r) + "\n" for r in kept))
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return file


def test_a_case_is_an_entity_of_the_gold_query_and_all_its_relations(kg_file: Path) -> None:
    (case,) = cases("freebase_kg", open_kg(kg_file, profile="freebase"))
    assert (case.question, case.entity, case.gold) == ("whom did she wed", "m.1", "a.person.wed")
    assert set(case.relations) == {f"a.person.{r}" for r in RELATIONS}


FOUND = [
    Case("one", "m.1", ("a", "b", "c"), "a"),
    Case("two", "m.2", ("a", "b", "c"), "c"),
    Case("few", "m.3", ("a", "b"), "a"),
]
RANKED = [["a", "b", "c"], ["c", "a", "b"][::-1], ["a", "b"]]


def test_scores_are_of_the_cases_with_enough_relations() -> None:
    score = scored("g", 2, "m", "label", FOUND, RANKED, (2.0, 1.0))
    assert (score.cases, score.first, score.head, score.kept) == (2, 0.5, 1.0, 1.0)
    assert score.mrr == pytest.approx((1 + 1 / 3) / 2)
    assert scored("g", 9, "m", "label", FOUND, RANKED, (2.0, 1.0)).cases == 0


def test_orders_compare_places_in_what_is_shown() -> None:
    best, shuffled = orders("g", 2, FOUND, RANKED)
    assert (best.place, best.shown) == (2.0, 3.0)
    assert 1.5 < shuffled.place < 2.5
    assert RANKED[0] == ["a", "b", "c"]


def test_measures_every_strategy(kg_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kg = open_kg(kg_file, profile="freebase")
    monkeypatch.setattr("triplewise.evals.bench.ranking.open_kg", lambda path: kg)
    monkeypatch.setattr("triplewise.evals.bench.ranking.prepared", lambda _: SimpleNamespace(path=kg_file))
    scores, placed = measure(["freebase_kg"], recipes=["label"])
    assert [s.method for s in scores if s.size == 5] == ["none", "hybrid", "sentence-transformers"]
    assert scores[-2].first == 1.0
    assert all(s.warm >= 0 for s in scores)
    assert len(placed) == 4
