"""Rules that only documents can complete: where they stand, and what is read for where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.protocol import KnowledgeGraph, metered
from triplewise.tools.linking.linker import LinkedEntity, link
from triplewise.tools.planning.lexical.planner import (
    has_gap,
    make_plan,
    relations_of,
    same_question,
    share_places,
    with_gap,
)
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.planning.seeds import Seed, SeedIndex, group_seeds
from triplewise.tools.retrieval.encoder import open_encoder

TURTLE = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:directedBy rdfs:label "directed by" . ex:bornIn rdfs:label "born in" .
ex:anna rdfs:label "Anna Arden" ; ex:bornIn ex:oslo . ex:oslo rdfs:label "Oslo" .
ex:bert rdfs:label "Bert Boyle" ; ex:bornIn ex:rome . ex:rome rdfs:label "Rome" .
ex:cora rdfs:label "Cora Cline" . ex:emil rdfs:label "Emil Eames" .
ex:f1 rdfs:label "Amber Road" ; ex:directedBy ex:anna .
ex:f2 rdfs:label "Blue Harbour" ; ex:directedBy ex:bert .
ex:f3 rdfs:label "Cold Morning" ; ex:directedBy ex:cora .
ex:f5 rdfs:label "Early Frost" .
"""
EX = "http://example.org/"
DIRECTED = [("Amber Road", "anna"), ("Blue Harbour", "bert"), ("Cold Morning", "cora")]
BORN = [("Anna Arden", "oslo"), ("Bert Boyle", "rome")]
READ = PlanSettings(documents=True)


@pytest.fixture
def kg(tmp_path: Path) -> KnowledgeGraph:
    (tmp_path / "films.ttl").write_text(TURTLE, encoding="utf-8")
    return open_kg(tmp_path / "films.ttl")


def seeds(form: str, rows: Sequence[tuple[str, str]]) -> SeedIndex:
    return SeedIndex(
        group_seeds(Seed(form.format(name), (name,), (f"<{EX}{answer}>",)) for name, answer in rows)
    )


def planned(
    question: str, kg: KnowledgeGraph, index: SeedIndex | None = None, settings: PlanSettings = READ
) -> list[tuple[str, bool, bool]]:
    """Relation and direction of each rule of one relation, and whether it has a gap."""
    encoder = open_encoder("embedded")
    rules = make_plan(question, link(question, kg, encoder=encoder), kg, encoder, index, settings).rules
    return [
        (a.relation.strip("<>").removeprefix(EX), a.forward, has_gap(r)) for r in rules for a in r.body[:1]
    ]


def test_a_rule_of_seeds_that_ask_something_else_stands_behind_what_the_graph_has(kg: KnowledgeGraph) -> None:
    rules = planned("Where was Bert Boyle born?", kg, seeds("Who directed {}?", DIRECTED))
    assert rules[0] == ("bornIn", True, False)
    assert ("directedBy", True, True) in rules[1:], "documents may still complete it"


def test_a_rule_of_seeds_that_ask_the_same_stays_first(kg: KnowledgeGraph) -> None:
    rules = planned("Where was Cora Cline born?", kg, seeds("Where was {} born?", BORN))
    assert rules[0] == ("bornIn", True, True)


def test_what_the_words_ask_stands_before_a_rule_of_seeds_that_ask_something_else(kg: KnowledgeGraph) -> None:
    rules = planned("Where was Cora Cline born?", kg, seeds("Who directed {}?", DIRECTED))
    assert rules[0] == ("bornIn", True, True)


def test_without_documents_seeds_plan_as_before(kg: KnowledgeGraph) -> None:
    rules = planned("Where was Bert Boyle born?", kg, seeds("Who directed {}?", DIRECTED), PlanSettings())
    assert rules[0] == ("bornIn", True, False)
    assert not any(gap for *_, gap in rules)


@pytest.mark.parametrize(
    ("question", "relation"),
    [("Who directed Early Frost?", "directedBy"), ("Where was Emil Eames born?", "bornIn")],
)
def test_an_entity_that_the_graph_has_nothing_about_gets_a_rule_of_the_words(
    kg: KnowledgeGraph, question: str, relation: str
) -> None:
    rules = planned(question, kg)
    assert rules[0] == (relation, True, True)
    assert {r for r, *_ in rules} == {relation}
    assert planned(question, kg, settings=PlanSettings()) == []


@pytest.mark.parametrize(
    "question", ["What does Early Frost weigh?", "Did Emil Eames direct Early Frost?", "Is Early Frost long?"]
)
def test_no_relation_is_guessed_that_no_word_speaks_of(kg: KnowledgeGraph, question: str) -> None:
    assert planned(question, kg) == []


def test_the_demo_plans_for_what_it_lacks() -> None:
    kg, encoder = open_kg("demo"), open_encoder("embedded")
    question = "Who was the wife of Richard Strauss?"
    linked = link(question, kg, encoder=encoder)
    (first, *_) = make_plan(question, linked, kg, encoder, None, READ).rules
    assert ([a.relation for a in first.body], has_gap(first)) == (["P26"], True)
    assert make_plan(question, linked, kg, encoder, None, PlanSettings()).rules == ()


def test_relations_of_a_graph_are_listed_once_and_without_names(kg: KnowledgeGraph) -> None:
    assert {r.strip("<>").removeprefix(EX) for r in relations_of(kg)} == {"directedBy", "bornIn"}
    with metered(kg) as meter:
        relations_of(kg)
    assert meter.queries == 0


@pytest.mark.parametrize(
    ("question", "other", "same"),
    [
        ("where was entity born", "what is the birthplace of entity", True),
        ("who directed entity", "who is the director of entity", True),
        ("where was entity born", "who directed entity", False),
        ("who is entity", "where was entity", False),
        ("who is entity", "who is entity", True),
    ],
)
def test_questions_are_alike_by_what_they_say(question: str, other: str, same: bool) -> None:
    assert same_question(question, other) == same_question(other, question) == same


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 10))
def test_neither_kind_of_rule_takes_the_place_of_the_other(marks: list[bool], limit: int) -> None:
    rules = [Rule(f"e{i}", (), provenance="seeds") for i in range(len(marks))]
    rules = [with_gap(r) if m else r for r, m in zip(rules, marks, strict=True)]
    kept = share_places(rules, limit)
    assert kept == [r for r in rules if r in kept], "in order"
    assert len(kept) == min(limit, len(rules)), "no place is left empty"
    gaps, whole = sum(map(has_gap, kept)), sum(not has_gap(r) for r in kept)
    assert whole >= min(marks.count(False), limit - limit // 2)
    assert gaps >= min(marks.count(True), limit // 2)
    for kind in (True, False):
        own = [r for r in rules if has_gap(r) is kind]
        assert [r for r in kept if has_gap(r) is kind] == own[: gaps if kind else whole], (
            "the first of a kind"
        )


def test_a_linked_entity_is_needed(kg: KnowledgeGraph) -> None:
    nobody: list[LinkedEntity] = []
    assert make_plan("Who directed it?", nobody, kg, open_encoder("embedded"), None, READ).rules == ()
