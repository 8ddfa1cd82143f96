"""Grounding: what the spans of a question may mean, over a small graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.derivation import Category, Derivation, Operator
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.query import Nodes, Number
from triplewise.tools.parsing.question import Question
from triplewise.tools.retrieval.encoder import open_encoder

TURTLE = """
@prefix : <http://x.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:City rdfs:label "city" . :River rdfs:label "river" .
:Person rdfs:label "person" . :Country rdfs:label "country" .
:slc a :City ; rdfs:label "Salt Lake City" ; :population 200000 ; :founded "1847-07-24"^^xsd:date ; :in :usa .
:sf a :City ; rdfs:label "San Félix" ; :population 5000 ; :founded "1901-01-02"^^xsd:date ; :in :usa .
:usa a :Country ; rdfs:label "United States" , "United States of America" .
:miss a :River ; rdfs:label "Mississippi River" ; :length 3700 ; :flowsThrough :usa .
:moor a :River ; rdfs:label "The Very Long and Winding Brook of Saint Mary on the Moor" ; :length 4 .
:kobe a :Person ; rdfs:label "Kobe Bryant" ; :bornIn :sf ; :symbol "Kb" ; :retired true .
:ada a :Person ; rdfs:label "Ada Quill" ; :bornIn :slc ; :symbol "Aq" ; :retired false .
:bornIn rdfs:label "born in" . :in rdfs:label "located in" . :flowsThrough rdfs:label "flows through" .
:population rdfs:label "population" . :length rdfs:label "length" . :founded rdfs:label "founded" .
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> GraphIndex:
    path = tmp_path_factory.mktemp("places") / "places.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return index_for(open_kg(str(path)), open_encoder(), "", tuple)


@pytest.fixture(scope="module")
def asked(index: GraphIndex) -> Callable[[str], Question]:
    return lambda text: ground(text, index)


def spans(question: Question, kind: str, feature: str = "") -> dict[str, set[str]]:
    """What is grounded as a kind: words of the question -> labels of what they may mean."""
    found = dict[str, set[str]]()
    for anchor in question.of_kind(kind):
        if not feature or feature in dict(anchor.features):
            text = " ".join(question.raw[anchor.start : anchor.end])
            found.setdefault(text, set()).update(_labels(question.index, anchor))
    return found


def _labels(index: GraphIndex, anchor: Derivation) -> set[str]:
    if anchor.kind == "class":
        return {index.classes[anchor.meaning].names[0]}
    if anchor.kind == "relation":
        return {index.rels[anchor.meaning].names[0]}
    assert isinstance(anchor.query, Nodes)
    return {index.label(node) for node in anchor.query.nodes}


Asked = Callable[[str], Question]


@pytest.mark.parametrize(
    ("text", "span", "label", "feature"),
    [
        ("Who was born in Salt Lake City?", "Salt Lake City", "Salt Lake City", "ent_exact"),
        ("who was born in san felix", "san felix", "San Félix", "ent_exact"),
        ("San Felixs population", "San Felixs", "San Félix", "ent_norm"),
        ("Where was Kobe Bean Bryant born?", "Kobe Bean Bryant", "Kobe Bryant", "ent_bag"),
        ("Where was Bryant born?", "Bryant", "Kobe Bryant", "ent_part"),
        ("How long is the Mississippi?", "Mississippi", "Mississippi River", "ent_part"),
        (
            "How long is The Very Long and Winding Brook of Saint Mary on the Moor?",
            "The Very Long and Winding Brook of Saint Mary on the Moor",
            "The Very Long and Winding Brook of Saint Mary on the Moor",
            "ent_exact",
        ),
        ("the population of San Felixx", "San Felixx", "San Félix", "ent_fuzzy"),
        ('Who is "Ada Quill"?', "Ada Quill", "Ada Quill", "ent_marked"),
        ("Who is [Ada Quill]?", "Ada Quill", "Ada Quill", "ent_marked"),
        ("Who has the symbol Kb?", "Kb", "Kb", "ent_literal"),
    ],
)
def test_names_are_found(asked: Asked, text: str, span: str, label: str, feature: str) -> None:
    kind = "literal" if feature == "ent_literal" else "entity"
    assert label in spans(asked(text), kind, feature).get(span, set())


def test_a_class_comes_before_an_entity_with_the_word_in_its_name(asked: Asked) -> None:
    question = asked("Which city has the largest population?")
    assert spans(question, "class", "cls_exact")["city"] == {"city"}
    assert "city" not in spans(question, "entity")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("more than 5,000", Number(5000)),
        ("two hundred people", Number(200, unit="people")),
        ("twenty five cities", Number(25)),
        ("1.5 million", Number(1_500_000)),
        ("before 1945", Number(1945, "date", "1945")),
        ("1500 dollars", Number(1500, unit="usd")),
        ("60 km/h", Number(60, unit="kmh")),
        ("on 2 January 1901", Number(1901 + 1 / 372, "date", "1901-01-02")),
        ("on January 2nd, 1901", Number(1901 + 1 / 372, "date", "1901-01-02")),
        ("at 10:30 am", Number(10.5, "time", "10:30")),
        ("at 3pm", Number(15, "time", "15:00")),
    ],
)
def test_values(asked: Asked, text: str, number: Number) -> None:
    assert number in [anchor.meaning for anchor in asked(text).of_kind("value")]


def test_a_day_without_a_year_is_that_day_of_every_year(asked: Asked) -> None:
    (value,) = asked("cities founded on January 2").of_kind("value")
    assert spans(asked("cities founded on January 2"), "value") == {"January 2": {"1901-01-02"}}
    assert value.end == 5


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("How many cities are there?", Operator("count")),
        ("the second longest river", Operator("ordinal", 2)),
        ("the most populous city", Operator("superlative", 1)),
        ("the smallest city", Operator("superlative", -1)),
        ("older than Ada", Operator("comparison", -1, "lt")),
        ("at least two", Operator("comparison", 1, "ge")),
        ("two or more", Operator("comparison_after", 1, "ge")),
        ("founded after 1900", Operator("comparison", 1, "gt")),
        ("between 10 and 20", Operator("between")),
        ("population per country", Operator("each")),
    ],
)
def test_operators(asked: Asked, text: str, operator: Operator) -> None:
    found = [a.meaning for a in asked(text).anchors if isinstance(a.meaning, Operator)]
    expected = (operator.name, operator.sign, operator.comparison)
    assert expected in [(o.name, o.sign, o.comparison) for o in found]


@pytest.mark.parametrize(
    ("text", "span", "relation"),
    [
        ("Where was Kobe Bryant born?", "born", "born in"),
        ("How long is the Mississippi River?", "How long", "length"),
        ("What is the size of San Félix?", "size", "population"),
        ("When was Salt Lake City founded?", "When", "founded"),
        ("How many residents does San Félix have?", "residents", "population"),  # a word of the same meaning
    ],
)
def test_relations(asked: Asked, text: str, span: str, relation: str) -> None:
    assert relation in spans(asked(text), "relation").get(span, set())


def test_what_the_graph_does_not_have_is_noticed(asked: Asked) -> None:
    question = asked("Who founded Foobar Inc?")
    assert not question.of_kind("entity")
    uncovered = question.uncovered(next(a for a in question.anchors if a.kind == "relation"))
    assert "Foobar" in [question.raw[i] for i in uncovered]
    assert question.nearest([question.raw.index("founded")])[0] == "founded"


def test_entities_that_the_caller_gives_are_the_only_ones(index: GraphIndex) -> None:
    kobe = index.profile.short(IRI("http://x.example/kobe"))
    entity = LinkedEntity("Bryant", 10, 16, kobe, "Kobe Bryant", 1.0)
    question = ground("Where was Bryant born, in Salt Lake City?", index, linked=[entity])
    assert spans(question, "entity") == {"Bryant": {"Kobe Bryant"}}
    elsewhere = LinkedEntity("he", -1, -1, kobe, "Kobe Bryant", 1.0)
    assert spans(ground("Where was he born?", index, linked=[elsewhere]), "entity") == {"he": {"Kobe Bryant"}}


def test_where_counts_less_beside_a_relation_that_leads_there(asked: Asked) -> None:
    def beside(text: str) -> float:
        found = [dict(a.features) for a in asked(text).of_kind("relation")]
        return max(f.get("rel_wh_beside", 0.0) for f in found if "rel_wh" in f)

    assert beside("Where was Kobe Bryant born?") > beside("Where is San Félix?") == 0


def test_a_word_that_is_a_part_of_a_name_costs_more_to_leave_out(asked: Asked) -> None:
    question = asked("how long is the lovely mississippi?")
    assert question.skip[4:] == ["skip_content", "skip_part"]


def test_words_that_nothing_knows_are_no_relations(asked: Asked) -> None:
    assert asked("asdf qwer zxcv").anchors == []


def test_what_is_true_of_things_is_grounded_as_a_set(asked: Asked) -> None:
    (found,) = {a.denotation for a in asked("Which retired person is there?").of_kind("boolean")}
    assert isinstance(found, frozenset)
    assert len(found) == 1


@settings(deadline=None, max_examples=50)
@given(text=st.text(max_size=60))
def test_no_question_breaks_grounding(index: GraphIndex, text: str) -> None:
    question = ground(text, index)
    assert len(question.skip) == question.n == len(question.hard) - 1
    assert all(0 <= a.start < a.end <= question.n for a in question.anchors)


def test_a_preposition_of_place_compares_only_with_a_number(asked: Callable[[str], Question]) -> None:
    assert not asked("cities over the Mississippi River").operators
    assert asked("cities with over 5000 people").operators == {2}


def test_a_unit_may_be_left_out_and_so_may_people_who(asked: Callable[[str], Question]) -> None:
    question = asked("Mississippi River length km, by people who know its mother of pearl")
    costs = dict(zip(question.words, question.skip, strict=True))
    assert (costs["km"], costs["people"], costs["mother"]) == ("skip_unit", None, "skip_noun")


@pytest.mark.parametrize(
    "text", ["rivers 30 to 60 km", "rivers with a length of 30-60 km", "rivers, 30 – 60"]
)
def test_an_interval_needs_no_between(asked: Callable[[str], Question], text: str) -> None:
    (interval,) = [a for a in asked(text).anchors if a.category is Category.COMPARISON]
    assert (interval.meaning.value.value, interval.meaning.upper.value) == (30, 60)
