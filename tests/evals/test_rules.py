"""The planner against gold paths, and the incomplete graph: on a small graph of MetaQA's shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triplewise.evals import incomplete
from triplewise.evals.data import DATA_VARIABLE
from triplewise.evals.incomplete import Bench, measure, shared_words, templates, write_documents
from triplewise.evals.rules import RELATIONS, gold_path
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.subset.incomplete import DROPPED, ThinOrder, thin_kg

KB = """\
Alien|directed_by|Ridley Scott
Alien|starred_actors|Sigourney Weaver
Black Rain|directed_by|Ridley Scott
Black Rain|starred_actors|Michael Douglas
Aliens|directed_by|James Cameron
Aliens|starred_actors|Sigourney Weaver
Avatar|directed_by|James Cameron
Avatar|starred_actors|Sam Worthington
Titanic|directed_by|James Cameron
Titanic|release_year|1997
"""
DEV = [
    ("who acted in the movies directed by the director of [Aliens]", "Aliens", ["Sam Worthington"]),
    ("who acted in the movies directed by the director of [Titanic]", "Titanic", ["Sam Worthington"]),
]
TEST = [("who acted in the movies directed by the director of [Alien]", "Alien", ["Michael Douglas"])]


@pytest.mark.parametrize(
    ("qtype", "path"),
    [
        ("movie_to_director", [("directed_by", True)]),
        ("tag_to_movie", [("has_tags", False)]),
        ("writer_to_movie_to_year", [("written_by", False), ("release_year", True)]),
        (
            "movie_to_actor_to_movie_to_language",
            [("starred_actors", True), ("starred_actors", False), ("in_language", True)],
        ),
    ],
)
def test_question_types_are_paths(qtype: str, path: list[tuple[str, bool]]) -> None:
    assert gold_path(qtype) == tuple(path)


def test_every_relation_has_sentences_and_none_shares_a_word_with_its_name() -> None:
    profile = load_profile("metaqa")
    assert set(templates(profile)) == set(RELATIONS.values())
    assert shared_words(profile) == set()


def test_shared_words_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incomplete, "templates", lambda profile: {"directed_by": ["{o} directs {s} by day."]})
    assert shared_words(load_profile("metaqa")) == {"direct"}


def questions(path: Path, rows: list[tuple[str, str, list[str]]]) -> Path:
    keys = ("question", "topic_entity", "answers")
    path.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))
    return path


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kb.txt").write_text(KB)
    load_kg([tmp_path / "kb.txt"], tmp_path / "whole", profile="metaqa")
    asked = questions(tmp_path / "test.jsonl", TEST)
    thin_kg(tmp_path / "whole", asked, tmp_path / "kg", ThinOrder(0.4))
    write_documents(tmp_path / "kg", tmp_path / "documents")
    seeds = questions(tmp_path / "dev.jsonl", DEV)
    return Bench(tmp_path / "kg", asked, tmp_path / "documents", str(seeds))


def test_every_dropped_fact_is_told_once(bench: Bench) -> None:
    dropped = (bench.kg / DROPPED).read_text().splitlines()
    told = [f.read_text() for f in sorted(bench.documents.iterdir())]
    assert len(dropped) == 1, "40 % of the three triples of the path"
    assert len(told) == 1
    head, _, said = told[0].partition("\n\n")
    assert head.removeprefix("# ") in ("Alien", "Black Rain")
    assert said.count(".") == 1


def test_all_ways_to_answer_are_scored(bench: Bench) -> None:
    rows = list(measure(bench, steps=12))
    assert [r.name.partition(":")[0] for r in rows][:3] == ["planner only", "executor only", "both"]
    assert all(r.questions == 1 and r.crashed == 0 for r in rows)
    assert rows[0].f1 == 0.0, "the path is broken, and the planner has no documents"


def test_a_question_that_crashes_counts_as_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(incomplete, "make_plan", broken)
    row = next(measure(bench, steps=2))
    assert (row.crashed, row.f1, row.answered) == (1, 0.0, 0.0)


@pytest.mark.skipif(
    "not __import__('os').environ.get('TRIPLEWISE_DATA')", reason=f"{DATA_VARIABLE} is not set"
)
def test_types_of_all_questions_are_known() -> None:
    from triplewise.evals.rules import drawn

    for hops in (1, 2, 3):
        assert {len(gold_path(r["qtype"])) for r in drawn(hops, 20_000, 0)} == {hops}
