"""Readings of questions over the demo graph, near and far."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.oxigraph_server import OxigraphServer
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.engine import Deadline
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.parsing import facts
from triplewise.tools.parsing.confidence import shipped
from triplewise.tools.parsing.reading import Reading, read_question
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import open_encoder

QUESTIONS = (
    "Which countries border Bolivia?",
    "How many moons does Mars have?",
    "Is Berlin the capital of Germany?",
    "Which is the longest river in Europe?",
)


@pytest.fixture(scope="module")
def demo() -> LocalKG:
    kg = open_kg("demo")
    assert isinstance(kg, LocalKG)
    return kg


@pytest.fixture
def endpoint(demo: LocalKG, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointKG]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = ox.Store()
    store.bulk_extend(demo.quads())
    with OxigraphServer(store) as server:
        kg = EndpointKG(server.url, demo.profile)
        yield kg
        kg.close()


def read(question: str, kg: KnowledgeGraph, **options: object) -> tuple[Reading, ...]:
    return read_question(question, kg, open_encoder(), **options)  # type: ignore[arg-type]


def test_a_reading_is_a_program_with_its_answer(demo: LocalKG) -> None:
    best, *others = read("Which countries border Bolivia?", demo)
    program = PyQL.parse(best.program, demo.profile)
    result = demo.query(program.sparql(demo.profile))
    assert {demo.profile.short(t) for t in result.column(result.variables[0])} == set(best.values)
    assert best.text.startswith("Bolivia ")
    assert "shares border with" in best.text
    assert 0 <= best.confidence <= 1
    assert all(set(other.values) != set(best.values) for other in others)


def test_a_frame_changes_nothing(demo: LocalKG) -> None:
    plain, framed = (
        read(q, demo)[0] for q in (QUESTIONS[0], "Could you tell me which countries border Bolivia?")
    )
    assert (framed.program, framed.uncovered) == (plain.program, ())


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("Hi! My aunt knows Ida Brandt. Who reports to her? Thanks!", {"Jon Keita", "Lena Fox"}),
        ("I'll be at the Oslo office - could you tell me which country it is in?", {"Norway"}),
        ("It is for a talk and I would be grateful to know the office of sales.", {"Berlin office"}),
        ("Who works on Kestrel, as I would like to thank them?", {"Tom Wick", "Ida Brandt"}),
    ],
)
def test_the_part_that_asks_is_found_with_what_it_refers_to(text: str, answers: set[str]) -> None:
    kg = open_kg(Path(__file__).with_name("company.ttl"))
    best = read(text, kg)[0]
    labels = kg.labels([iri for value in best.values if (iri := kg.profile.expand(value)) is not None])
    assert set(labels.values()) == answers


def test_a_word_for_the_other_side_of_a_relation_turns_it(tmp_path: Path) -> None:
    path = tmp_path / "staff.ttl"
    path.write_text(
        "@prefix : <http://x.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':Clerk rdfs:label "clerk" . :supervisor rdfs:label "supervisor" .\n'
        ':a a :Clerk ; rdfs:label "Ada Quill" . :b a :Clerk ; rdfs:label "Ben Rook" ; :supervisor :a .\n'
        ':c a :Clerk ; rdfs:label "Cy Dale" ; :supervisor :b .',
        encoding="utf-8",
    )
    kg = open_kg(path)
    for question, answer in (
        ("Who reports to Ben Rook?", "c"),
        ("Who does Ben Rook report to?", "a"),
        ("Who is the supervisor of Ben Rook?", "a"),
        ("Whose supervisor is Ben Rook?", "c"),
    ):
        assert read(question, kg)[0].values == (kg.profile.short(IRI(f"http://x.example/{answer}")),), (
            question
        )


def test_none_of_what_is_counted_is_zero_and_values_of_text_are_counted_by(tmp_path: Path) -> None:
    path = tmp_path / "stations.ttl"
    path.write_text(
        "@prefix : <http://x.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':Station rdfs:label "station" . :points rdfs:label "charging points" . :town rdfs:label "town" .\n'
        ':a a :Station ; rdfs:label "Old Mill" ; :points 0 ; :town "Ulm" .\n'
        ':b a :Station ; rdfs:label "New Mill" ; :points 4 ; :town "Ulm" .\n'
        ':c a :Station ; rdfs:label "Tannery" ; :points 2 ; :town "Jena" .',
        encoding="utf-8",
    )
    kg = open_kg(path)
    best = read("Which stations have no charging points?", kg)[0]
    assert best.values == (kg.profile.short(IRI("http://x.example/a")),)
    assert any(r.values == ("Ulm",) for r in read("Which town has the most stations?", kg))


def test_yes_or_no_names_both_things(demo: LocalKG) -> None:
    best = read("Is Berlin the capital of Germany?", demo)[0]
    assert best.values == ("true",)
    assert best.program.splitlines() == ["add_fact(Q183, P36, Q64)", "ask()"]


@pytest.mark.parametrize(
    ("asked", "exchanged"),
    [
        ("Is Brasília the capital of Brazil?", "Is Brazil the capital of Brasília?"),
        ("Did Bram Stoker write Dracula?", "Did Dracula write Bram Stoker?"),
        ("Was Marie Curie born in Warsaw?", "Was Warsaw born in Marie Curie?"),
        ("Is France in Europe?", "Is Europe in France?"),
    ],
)
def test_names_the_wrong_way_round_are_no_sure_yes(demo: LocalKG, asked: str, exchanged: str) -> None:
    least = shipped().min_confidence
    assert read(asked, demo)[0].confidence >= least
    assert read(exchanged, demo)[0].confidence < least


def test_a_reading_is_kept_as_json(demo: LocalKG) -> None:
    best = read("How many moons does Mars have?", demo)[0]
    again = json.loads(json.dumps(asdict(best)))
    assert tuple(again["values"]) == best.values
    assert Reading(**again).program == best.program


def test_nonsense_has_no_reading(demo: LocalKG) -> None:
    assert read("asdf qwer", demo) == ()


def test_a_missing_fact_is_a_reading_without_values(demo: LocalKG) -> None:
    best = read("Who discovered gold?", demo)[0]
    assert best.values == ()
    assert best.missing == "gold has no discoverer or inventor in the graph"


def test_entities_of_the_caller_are_the_only_ones(demo: LocalKG) -> None:
    best = read("Which countries border it?", demo, linked={"it": "Q750"})[0]
    assert best.text.startswith("Bolivia ")


def test_a_run_that_is_over_has_no_readings(demo: LocalKG) -> None:
    assert read("Which countries border Bolivia?", demo.session(deadline=Deadline(0))) == ()


def test_over_a_part_of_a_large_graph_values_are_the_graph_s_own(
    demo: LocalKG, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ox.Store()
    store.bulk_extend(demo.quads())
    large = LocalKG(store, demo.profile, "large", index=demo.index)
    monkeypatch.setattr(facts, "SMALL", 10)
    for question in ("Which countries border Bolivia?", "When was Franz Kafka born?"):
        best = read(question, large)[0]
        program = PyQL.parse(best.program, demo.profile)
        result = demo.query(program.sparql(demo.profile))
        assert {demo.profile.short(t) for t in result.column(result.variables[0])} == set(best.values)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_endpoint_gives_the_same_readings(demo: LocalKG, endpoint: EndpointKG, question: str) -> None:
    near, far = read(question, demo), read(question, endpoint)
    assert [r.program for r in far[:1]] == [r.program for r in near[:1]]
    assert set(far[0].values) == set(near[0].values)


STAFF = """
@prefix : <http://staff.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:Employee a rdfs:Class ; rdfs:label "employee" . :Shop a rdfs:Class ; rdfs:label "shop" .
:ann a :Employee ; rdfs:label "Ann Poole" ; :fullTime true ; :worksIn :mill ;
  :hiredOn "2010-05-01"^^xsd:date .
:bob a :Employee ; rdfs:label "Bob Dane" ; :fullTime false ; :worksIn :quay ;
  :hiredOn "2015-05-01"^^xsd:date .
:mill a :Shop ; rdfs:label "Mill Street" ; :openOnSunday true ; :paidRent false ; :openedIn 1999 .
:quay a :Shop ; rdfs:label "Quay Road" ; :openOnSunday false ; :paidRent true ; :openedIn 2005 .
"""


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("staff") / "staff.ttl"
    path.write_text(STAFF)
    return open_kg(path)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which employees work part time?", "bob"),
        ("Which shop is closed on Sundays?", "quay"),
        ("Which shop is open on Sunday?", "mill"),
        ("Which shop has unpaid rent?", "mill"),
        ("When was Quay Road opened?", "2005"),
    ],
)
def test_an_opposite_is_where_the_relation_is_false_and_years_say_when(
    staff: KnowledgeGraph, question: str, answer: str
) -> None:
    assert [v.rpartition("/")[2] for v in read(question, staff)[0].values] == [answer]


@pytest.mark.parametrize("question", ["When did Ann Poole die?", "When was Bob Dane fired?"])
def test_a_verb_that_the_graph_lacks_is_no_sure_date(staff: KnowledgeGraph, question: str) -> None:
    assert all(r.confidence < shipped().min_confidence for r in read(question, staff))
