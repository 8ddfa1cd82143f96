"""Questions over the demo KG, answered without a language model: right, or said not to be known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from triplewise.graphs import Context, build_graph
from triplewise.nodes.state import Answer
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph, open_kg

Ask = Callable[[str], Answer]
CONTEXT = Context(kg="demo", model="embedded")
RIGHT = 79
"""Demo questions that must be answered exactly, of 88."""


@pytest.fixture(scope="module")
def kg() -> KnowledgeGraph:
    return open_kg("demo")


@pytest.fixture(scope="module")
def ask() -> Ask:
    graph = build_graph("agent")

    def answered(question: str) -> Answer:
        answer = graph.invoke({"question": question}, context=CONTEXT)["answer"]
        assert isinstance(answer, Answer)
        return answer

    return answered


def asked() -> list[dict[str, Any]]:
    text = files("triplewise.tools.kg.demo").joinpath("questions.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        pytest.param("Who directed Psycho?", {"Alfred Hitchcock"}, id="1-hop"),
        pytest.param("Where was the author of Dracula born?", {"Clontarf, Dublin"}, id="2-hop"),
        pytest.param("How many countries border Austria?", {"8"}, id="count"),
        pytest.param("Which films did Steven Spielberg direct before 1990?", {"Jaws"}, id="date"),
        pytest.param(
            "Which films did Stanley Kubrick direct later than 1985?",
            {"Eyes Wide Shut", "Full Metal Jacket"},
            id="later than a year",
        ),
        pytest.param(
            "Which rivers are over 1500 but under 3000 kilometres long?",
            {"Danube", "Colorado River", "Zambezi"},
            id="numbers like years",
        ),
        pytest.param("Did Peter Jackson direct Barry Lyndon?", {"false"}, id="no"),
        pytest.param(
            "Which countries border Portugal or Liechtenstein?", {"Spain", "Austria", "Switzerland"}, id="or"
        ),
        pytest.param(
            "Which countries in South America don't border Argentina?",
            {"Colombia", "Ecuador", "Guyana", "Suriname", "Venezuela", "Peru"},
            id="negation",
        ),
        pytest.param("Who was Marie Curie?", {"physicist", "chemist"}, id="who somebody is"),
        pytest.param("What is polonium?", {"chemical element"}, id="what something is"),
        pytest.param("Is polonium named after Poland?", {"true"}, id="a relation with a preposition"),
        pytest.param("What currency is used in Mexico?", {"Mexican peso"}, id="a value without a type"),
    ],
)
def test_new_questions_of_every_kind(ask: Ask, question: str, labels: set[str]) -> None:
    assert question not in {q["question"] for q in asked()}
    answer = ask(question)
    assert (answer.status, set(answer.labels)) == ("answered", labels)


@pytest.mark.parametrize(
    "question",
    [
        "What is the population of Norway?",
        "When was the author of Macbeth born?",
        "Which films did Christopher Nolan direct?",
        "What was the last film directed by Christopher Nolan?",
        "Did Christopher Nolan direct The Shining?",
        "Does Norway border Atlantis?",
    ],
)
def test_what_the_graph_lacks_is_not_found_and_says_why(ask: Ask, question: str) -> None:
    answer = ask(question)
    assert (answer.status, answer.values, answer.labels) == ("not_found", (), ())
    assert len(answer.reason.split()) > 4


def plain(kg: KnowledgeGraph, value: str) -> Term | str:
    """A value as a node, where it is the id of one, else its text without datatype."""
    return kg.profile.expand(value.strip("<>")) or value.partition("^^")[0].strip('"')


def test_nearly_all_demo_questions_are_answered_exactly(ask: Ask, kg: KnowledgeGraph) -> None:
    wrong = []
    for question in asked():
        answer = ask(question["question"])
        gold = {plain(kg, a) for a in question["answers"]}
        if {plain(kg, v) for v in answer.values} != gold:
            wrong.append(f"{question['id']}: {question['question']} -> {answer.labels}")
    assert len(asked()) - len(wrong) >= RIGHT, "\n".join(wrong)


PLAN = """
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.kg import open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.lexical.planner import make_plan
kg, encoder = open_kg("demo"), open_encoder("embedded")
for question in (
    "Which countries border both France and Austria?",
    "Which feature films did Steven Spielberg direct before 1990?",
    "Which computers were designed by Clifford Berry or Tommy Flowers?",
    "Which country in South America borders the most countries?",
    "Does Austria border France?",
):
    for rule in make_plan(question, link(question, kg, encoder=encoder), kg, encoder).rules:
        print(round(rule.score, 4), rule.text(), rule.provenance)
"""


def test_every_process_plans_the_same_rules_in_the_same_order() -> None:
    """Sets and dicts of another hash seed change nothing."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", PLAN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0].count("\n") > 10
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Which ships were built by Clyde Works?", {"Aurora", "Cormorant"}),
        ("How many ships are there?", {"3"}),
        ("How many vessels are there?", {"4"}),
        ("Which ship is the longest?", {"Cormorant"}),
    ],
)
def test_members_of_a_class_are_those_of_its_subclasses(
    tmp_path: Path, question: str, values: set[str]
) -> None:
    (tmp_path / "ships.ttl").write_text(
        """@prefix v: <http://e/vocab#> . @prefix s: <http://e/data/> .
        @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        v:Ferry rdfs:subClassOf v:Ship . v:CargoShip rdfs:subClassOf v:Ship .
        v:Ship rdfs:subClassOf v:Vessel .
        s:Clyde a v:Shipyard ; v:name "Clyde Works" . s:Ansaldo a v:Shipyard ; v:name "Ansaldo Yard" .
        s:Aurora a v:Ferry ; v:name "Aurora" ; v:builtBy s:Clyde ; v:length 80 .
        s:Borealis a v:CargoShip ; v:name "Borealis" ; v:builtBy s:Ansaldo ; v:length 90 .
        s:Cormorant a v:CargoShip ; v:name "Cormorant" ; v:builtBy s:Clyde ; v:length 95 .
        s:Dory a v:Vessel ; v:name "Dory" ; v:length 7 ."""
    )
    context = Context(kg=str(tmp_path / "ships.ttl"), seeds="none")
    answer = build_graph("agent").invoke({"question": question}, context=context)["answer"]
    assert set(answer.values) == values


STAFF = """@prefix e: <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:managerOf rdfs:label "manager of" . e:seatingCapacity rdfs:label "seating capacity" .
e:price rdfs:label "price" . e:locatedIn rdfs:label "located in" . e:partner rdfs:label "partner" .
e:wonAward rdfs:label "won award" . e:birthDate rdfs:label "birth date" .
e:ada a e:Actor ; rdfs:label "Ada Brink" ; e:managerOf e:bo ; e:partner e:bo ; e:birthDate "1978-03-02" .
e:bo a e:Actor ; rdfs:label "Bo Lund" ; e:wonAward e:mask . e:mask a e:Award ; rdfs:label "Golden Mask" .
e:anna1 a e:Actor ; rdfs:label "Anna Berg" ; e:birthDate "1890-04-11" ; e:wonAward e:mask .
e:anna2 a e:Actor ; rdfs:label "Anna Berg" ; e:birthDate "1978-03-02" .
e:bowl a e:Theatre ; rdfs:label "Heron Bowl" ; e:seatingCapacity 2100 ; e:locatedIn e:lane .
e:hall a e:Theatre ; rdfs:label "Lantern Hall" ; e:seatingCapacity 300 ; e:locatedIn e:lane .
e:lane a e:City ; rdfs:label "Norwind" ; e:locatedIn e:arland . e:arland a e:Country ; rdfs:label "Arland" .
e:swift a e:Bike ; rdfs:label "Swift" ; e:price 480.5 . e:ox a e:Bike ; rdfs:label "Thunder" ; e:price 495 .
"""


@pytest.fixture(scope="module")
def staff(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    path = tmp_path_factory.mktemp("staff") / "staff.ttl"
    path.write_text(STAFF)
    graph, context = build_graph("agent"), Context(kg=str(path), seeds="none")

    def answered(question: str) -> Answer:
        answer = graph.invoke({"question": question}, context=context)["answer"]
        assert isinstance(answer, Answer)
        return answer

    return answered


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("Which theatre has the most seats?", {"Heron Bowl"}),  # a number, not a thing to count
        ("Does Ada Brink manage Bo Lund?", {"true"}),
        ("Is Bo Lund managed by Ada Brink?", {"true"}),
        ("Is Swift cheaper than Thunder?", {"true"}),
    ],
)
def test_what_is_sure_is_right(staff: Ask, question: str, labels: set[str]) -> None:
    answer = staff(question)
    assert (answer.status, set(answer.labels)) == ("answered", labels)


@pytest.mark.parametrize(
    "question",
    [
        "Where did Ada Brink live?",  # a partner is no place
        "When was Anna Berg born?",  # there are two
        "Is Heron Bowl in Arland?",  # in a city there
        "Does Bo Lund manage Ada Brink?",
        "Which award did Ada Brink win?",  # her partner did
    ],
)
def test_what_may_be_wrong_is_not_sure(staff: Ask, question: str) -> None:
    answer = staff(question)
    assert answer.status != "answered" or set(answer.values) == {"false"}
