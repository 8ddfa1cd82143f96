"""A RoG-style reader: the same plans on two graphs, and what changed between them is counted right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evals.test_rules import DEV, KB, TEST, questions
from triplewise.evals.incomplete import Bench, enrich, measure
from triplewise.evals.rog import Change, changed, judged, plans, retrieved
from triplewise.nodes.context import Context
from triplewise.nodes.resources import kg_of
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.overlay.store import FactStore
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.subset.incomplete import DROPPED
from triplewise.tools.planning.indexing import index_seeds

MISSING = "Black Rain|starred_actors|Michael Douglas\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A graph without one triple of the path of the question."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kb.txt").write_text(KB.replace(MISSING, "Black Rain|release_year|1989\n"))
    load_kg([tmp_path / "kb.txt"], tmp_path / "kg", profile="metaqa")
    made = Bench(
        tmp_path / "kg",
        questions(tmp_path / "test.jsonl", TEST),
        tmp_path / "documents",
        str(questions(tmp_path / "dev.jsonl", DEV)),
    )
    context = Context(kg=str(made.kg))
    index_seeds(made.seeds, str(made.kg), kg_of(context))
    return made


def fact(kg: KnowledgeGraph, subject: str, relation: str, value: str, **labels: str) -> ExtractedFact:
    name = kg.profile.name_iri
    iri = kg.profile.expand(relation, relation=True)
    assert iri is not None
    triple = Triple(name(subject), iri, name(value))
    return ExtractedFact(triple, labels, "q", "d", "d.md", "s", "2026-01-01T00:00:00Z", "embedded", 1.0)


def test_the_missing_triple_gives_the_answer_that_was_missed(bench: Bench) -> None:
    kg = kg_of(Context(kg=str(bench.kg)))
    right = fact(kg, "Black Rain", "starred_actors", "Michael Douglas")
    wrong = fact(kg, "Titanic", "directed_by", "Ridley Scott")
    (bench.kg / DROPPED).write_text(right.triple.n3() + "\n")
    FactStore(bench.facts).add([right, wrong])
    found = enrich(bench)
    assert (found.before.f1, found.after.f1) == (0.0, 1.0)
    assert (found.before.crashed, found.after.crashed) == (0, 0)
    assert found.change == Change(gained=1, better=1, answers_gained=1)
    assert (found.extraction.facts, found.extraction.right, found.extraction.precision) == (2, 1, 0.5)


def test_triples_of_an_earlier_run_are_not_judged(bench: Bench) -> None:
    (bench.kg / DROPPED).write_text("")
    kg = kg_of(Context(kg=str(bench.kg)))
    FactStore(bench.facts).add([fact(kg, "Titanic", "directed_by", "Ridley Scott")])
    next(measure(bench))
    assert enrich(bench).extraction.facts == 0


def test_without_facts_nothing_changes(bench: Bench) -> None:
    (bench.kg / DROPPED).write_text("")
    found = enrich(bench)
    assert found.change == Change(same=1)
    assert found.extraction.precision == 0.0


def test_plans_do_not_ask_whether_they_lead_anywhere(bench: Bench) -> None:
    context = Context(kg=str(bench.kg), seeds=bench.seeds)
    kg = kg_of(context)
    topic = kg.profile.short(kg.profile.name_iri("Alien"))
    asked = "who acted in the movies directed by the director of Alien"
    planned = plans(asked, {"Alien": topic}, kg, context)
    assert [a.relation for a in planned[0].body] == ["directed_by", "directed_by", "starred_actors"]
    assert retrieved(kg, planned) == []
    assert plans(asked, {"Alien": topic}, kg, Context(kg=str(bench.kg), seeds="none")) == []


def test_an_end_of_weak_plans_only_is_no_answer(bench: Bench) -> None:
    context = Context(kg=str(bench.kg), seeds=bench.seeds)
    kg = kg_of(context)
    (strong, *_) = plans("who acted in the movies directed by the director of Aliens", {}, kg, context)
    weak = Rule(strong.anchor, strong.body[:1], score=0.2 * strong.score)
    names = kg.labels(retrieved(kg, [weak, strong])).values()
    assert set(names) == {"Sam Worthington"}
    assert set(kg.labels(retrieved(kg, [weak])).values()) == {"James Cameron"}


def test_extracted_triples_are_compared_as_triples(tmp_path: Path) -> None:
    a, r, b = (IRI(f"http://example.org/{n}") for n in "arb")
    file = tmp_path / "dropped.nt"
    file.write_text(Triple(a, r, b).n3() + "\n" + Triple(b, r, a).n3() + "\n")
    kept = ExtractedFact(Triple(a, r, b), {}, "q", "d", "d", "s", "t", "r", 1.0)
    minted = ExtractedFact(Triple(a, r, r), {r.value: "new"}, "q", "d", "d", "s", "t", "r", 1.0)
    found = judged([kept, kept, minted], file)
    assert (found.facts, found.right, found.dropped, found.minted) == (2, 1, 2, 1)


NAMES = st.lists(st.sampled_from("abcde"), max_size=4, unique=True)
GOLD = st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True)


@given(st.lists(st.tuples(NAMES, NAMES, GOLD), max_size=6))
def test_changes_add_up_and_turn_around(asked: list[tuple[list[str], list[str], list[str]]]) -> None:
    before, after, gold = ([row[i] for row in asked] for i in range(3))
    there, back = changed(before, after, gold), changed(after, before, gold)
    assert there.better + there.worse + there.same == len(asked)
    assert (there.gained, there.better, there.answers_gained) == (back.lost, back.worse, back.answers_lost)
    assert there.wrong_gained == back.wrong_lost
    first = [
        sum(bool(said) and said[0] in g for said, g in zip(s, gold, strict=True)) for s in (before, after)
    ]
    assert first[1] - first[0] == there.gained - there.lost
    assert there.kept + there.lost == first[0]
