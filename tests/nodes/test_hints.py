"""Hints: what a model is shown before it acts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State
from triplewise.nodes import hints
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import prompt_values, reading_lines
from triplewise.nodes.link import link
from triplewise.nodes.observe import relations
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.reasoning import action_context, reasoning_memory
from triplewise.nodes.state import Step
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.taught import keep
from triplewise.tools.parsing import card
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.retrieval.surroundings import within

GRAPH = """
@prefix : <http://data.example/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:City rdfs:label "city" . :SaltHarbourCity rdfs:label "Salt Harbour City" ; a :State .
:Founder rdfs:label "founder" . :Saga71 a :Saga ; rdfs:label "Saga 71" . :Saga rdfs:label "saga" .
:Saga72 a :Saga ; rdfs:label "Saga 72" . :Émile a :Founder ; rdfs:label "Émile Bodin" .
:Rua a :City ; rdfs:label "Rua" ; :inState :Orrin ; :founded "1999-01-01"^^xsd:date ; :walled true .
:Tel a :City ; rdfs:label "Tel" ; :inState :Orrin ; :foundedBy :Ada .
:Ume a :City ; rdfs:label "Ume" ; :inState :Orrin .
:Vik a :City ; rdfs:label "Vik" ; :inState :Orrin . :Wex a :City ; rdfs:label "Wex" ; :inState :Orrin .
:Orrin a :State ; rdfs:label "Orrin" ; :visit [], [] .
:State rdfs:label "state" . :Ada a :Founder ; rdfs:label "Ada" .
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "cities.ttl"
    path.write_text(GRAPH, encoding="utf-8")
    return str(path)


def observed(graph: str, question: str, **settings: Any) -> tuple[State, Environment]:
    """The state of a model's run before it acts."""
    context = Context(kg=graph, model="openai:none", toolset="pyql", prompt="agent", **settings)
    runtime, state = Runtime(context=context), State(question=question)
    for phase in (link, relations):
        state = state.model_copy(update={k: v for k, v in phase(state, runtime).items() if k != "steps"})
    return state, Environment(context)


def shown(graph: str, question: str) -> tuple[list[str], list[str]]:
    """The entities and the relations that a model is shown."""
    values = prompt_values(*observed(graph, question))
    return values["meanings"](), values["around"]()


def test_a_noun_brings_its_class_and_what_members_have(graph: str) -> None:
    meanings, around = shown(graph, "Which cities are walled?")
    assert meanings == ["city: City (class, 5 members)"], "not Salt Harbour City"
    assert around[0] == "Members of city [City] have, all its relations:"
    assert '-> walled, 1 of 5: "true"^^xsd:boolean' in around
    assert '-> founded, 1 of 5: "1999-01-01"^^xsd:date' in around
    assert "-> inState: Orrin (state)" in around


@pytest.mark.parametrize("question", ["Wer ist der Founder von Orrin?", "Orrin 的 Founder 是谁？"])
def test_a_question_in_another_language_gets_classes_and_no_word_of_it_is_called_unknown(
    graph: str, question: str
) -> None:
    values = prompt_values(*observed(graph, question))
    assert "founder: Founder (class, 2 members)" in values["meanings"]()
    assert "Members of founder [Founder] have, all its relations:" in values["around"]()
    assert (values["unnamed"](), values["language"]) == ([], "English")


def test_where_a_question_names_nothing_the_classes_are_named(graph: str) -> None:
    values = prompt_values(*observed(graph, "How many are there?"))
    assert values["meanings"]() == []
    assert "city [City]" in values["classes"]()
    assert "Classes of this graph: " in load_prompt("agent").render("asked", **values)


def test_what_hints_show_of_a_class_may_be_used(graph: str) -> None:
    memory = reasoning_memory(*observed(graph, "Which cities are walled?"))
    assert {"walled", "inState"} <= memory.shown
    assert "City" in memory.seen


def test_the_next_hop_is_shown_where_the_question_needs_it(graph: str) -> None:
    _, around = shown(graph, "What in Orrin is walled?")
    assert any(line.startswith("<- inState: Rua {walled: true}, ") for line in around)
    _, around = shown(graph, "In which state is Tel?")
    assert not any("walled" in line for line in around)


def test_relations_that_are_not_shown_come_with_the_action_that_shows_them(graph: str) -> None:
    kg = Environment(Context(kg=graph)).kg
    shown = ["Around Orrin:", "-> visit: x", "... 3 more relations: get_relation(Orrin)"]
    assert (
        within(kg, {"Orrin": shown[1:2]}, 99, {"Orrin": 4}, calls={"Orrin": "get_relation(Orrin)"}) == shown
    )
    unknown = within(kg, {"Orrin": shown[1:2]}, 99, calls={"Orrin": "get_relation(Orrin)"})
    assert unknown[-1] == "... more relations: get_relation(Orrin)"


def test_a_reading_says_what_its_type_drops(graph: str) -> None:
    program = "add_fact(?x, foundedBy, ?who)\nadd_type(?x, State)\nset_answer(?who)"
    (line,) = reading_lines(Environment(Context(kg=graph)).kg, [Reading(program, "", 0.0, 0.5)])
    assert line.endswith("(50% sure; its type drops 1 of 1 values of ?x: Tel): nothing")


def test_a_class_that_no_reading_uses_is_noise_in_a_large_graph(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "When was what is in Orrin founded?"
    assert shown(graph, asked)[0] == ["founder: Founder (class, 2 members)", "Orrin: Orrin (state)"]
    monkeypatch.setattr(GraphIndex, "whole", lambda *_: None)
    assert shown(graph, asked)[0] == ["Orrin: Orrin (state)"]
    assert shown(graph, "Which cities are walled?")[0] == ["city: City (class, 5 members)"]


def test_a_class_that_took_too_long_is_looked_at_again(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "SECONDS", 0.0)
    around = shown(graph, "Which cities are walled?")[1]
    more = "... more relations: add_type(?x, City), get_relation(?x)"
    assert around in ([], ["Members of city [City] have:", '-> walled: "true"^^xsd:boolean', more])
    monkeypatch.undo()
    assert shown(graph, "Which cities are walled?")[1][0].startswith("Members of city [City] have")


def test_what_is_cut_is_marked_and_what_has_no_name_is_counted(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, around = shown(graph, "What is in Orrin?")
    assert any(line.startswith("<- inState: ") and line.endswith(", ...") for line in around)
    assert any(line.startswith("-> visit: 2 without a name, e.g. ") for line in around)
    assert "Around Orrin, all its relations:" in around
    monkeypatch.setattr(hints, "HINTS", 100)
    _, around = shown(graph, "What is in Orrin?")
    assert around[0] == "Around Orrin, all its relations:"
    assert around[-1].startswith("also ")
    assert around[-1].count(",") == 4 - len(around), "named at least"


def test_facts_that_link_what_is_named_come_first(graph: str) -> None:
    _, around = shown(graph, "Did Ada found Tel?")
    assert around[1] in ("<- foundedBy: Tel", "-> foundedBy: Ada")


def test_what_the_query_uses_stays_in_sight_and_no_relation_goes(
    graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, env = observed(graph, "What is in Orrin?")
    lines = hints.around_lines(state.model_copy(update={"program": "add_fact(Orrin, visit, ?v)"}), env, [])
    assert lines[1].startswith("-> visit")
    state = state.model_copy(update={"steps": (Step(1, "", "", Feedback(), ""),)})
    monkeypatch.setattr(hints, "HINTS", 120)
    heading, *_, last = hints.around_lines(state, env, [])
    assert heading == "Around Orrin, all its relations:"
    assert last.startswith("also ")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Rua city", "entity: Rua: Rua (city)"),
        ("saga 72", "entity: Saga72: Saga 72 (saga)"),
        ("72", "Nothing in the graph is called like '72'; try other words."),
        ("Emile Bodin", "entity: Émile: Émile Bodin (founder)"),
        ("Bodine", "entity: Émile: Émile Bodin (founder)"),
    ],
)
def test_search_gives_what_is_meant_and_no_more(graph: str, text: str, found: str) -> None:
    context = action_context(*observed(graph, "Where?"))
    assert TOOLSETS["pyql"].execute(context, Call("search", (text, "entity"))).observation == found


@pytest.mark.parametrize(
    ("question", "language"),
    [("Welche Städte liegen in Orrin?", "English"), ("鲁亚在哪里？", "English"), ("Where is Rua?", "")],
)
def test_the_language_of_names_is_said_where_the_question_has_another(
    graph: str, question: str, language: str
) -> None:
    state, env = observed(graph, question)
    values = prompt_values(state, env)
    assert values["language"] == language
    assert ("Names in this graph are English." in env.prompt.render("turn", **values)) == bool(language)


SOLVED: list[dict[str, Any]] = [
    {
        "question": "In which state is Rua?",
        "entities": {"Rua": "Rua"},
        "program": "add_fact(Rua, inState, ?s)",
    },
    {
        "question": "In which state does Ume lie?",
        "entities": ["Ume"],
        "sparql": "PREFIX : <http://data.example/> SELECT ?s WHERE { :Ume <http://data.example/inState> ?s }",
    },
    {"question": "In which state is Tel?", "program": "add_fact(Tel, inState, ?s)"},
    {"question": "In which state is Wex?", "f1": 0.5, "turns": [{"call": "add_fact(Wex, visit, ?s)"}]},
    {"question": "In which state is Zor?", "program": "add_fact(Zor, inState, ?s)"},
    {"question": "Who founded Tel?", "turns": [{"call": "add_fact(Tel, foundedBy, ?p)"}], "f1": 1.0},
]


def test_solved_questions_like_this_one_are_shown(graph: str, tmp_path: Path) -> None:
    file = tmp_path / "solved.jsonl"
    file.write_text("\n".join(map(json.dumps, SOLVED)), encoding="utf-8")
    state, env = observed(graph, "in which state is Tel", examples=str(file))
    turn = env.prompt.render("turn", **prompt_values(state, env))
    first, _, rest = turn.partition("Solved questions like this one:\n")[2].partition("\nQuestion: ")
    assert first == "Question: In which state is Rua?\nadd_fact(Rua, inState, ?s)"
    assert rest.startswith("In which state does Ume lie?\nSELECT ?s WHERE { Ume inState ?s }\n")
    assert "add_fact(Tel, inState, ?s)" not in turn, "never the question itself"
    assert "Wex, visit" not in turn, "only what was right"
    assert "Zor" not in turn, "only what the graph has"
    memory = reasoning_memory(state, env)
    assert {"inState", "foundedBy"} <= memory.shown
    assert {"Rua", "Ume"} <= memory.seen


def test_ids_of_solved_questions_have_names(graph: str, tmp_path: Path) -> None:
    solved = {"question": "What did Émile found?", "program": "add_fact(?x, foundedBy, Émile)"}
    (file := tmp_path / "solved.jsonl").write_text(json.dumps(solved), encoding="utf-8")
    state, env = observed(graph, "What did Ada found?", examples=str(file))
    (example,) = prompt_values(state, env)["examples"]()
    assert example.answers[0] == "add_fact(?x, foundedBy, Émile) (Émile: Émile Bodin)"
    assert "Émile" in reasoning_memory(state, env).seen


def test_what_was_marked_right_is_an_example(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asked = "In which state is Rua?"
    assert prompt_values(*observed(graph, asked))["examples"]() == []
    rated = {"program": "add_fact(Tel, inState, ?s)", "rating": "right", "answer": ["Orrin"]}
    keep("ratings", graph, question="In which state is Tel?", entities={"Tel": "Tel"}, **rated)
    assert [e.answers[0] for e in prompt_values(*observed(graph, asked))["examples"]()] == [rated["program"]]
    assert prompt_values(*observed(graph, asked, examples="none"))["examples"]() == []


def test_a_file_without_solved_questions_is_an_error(graph: str, tmp_path: Path) -> None:
    (file := tmp_path / "empty.jsonl").write_text('{"question": "Why?"}\n', encoding="utf-8")
    state, env = observed(graph, "Why?", examples=str(file))
    with pytest.raises(DataError, match="no solved question"):
        prompt_values(state, env)["examples"]()


@pytest.mark.parametrize(
    ("question", "unnamed"),
    [
        ("What is the smoot of it?", ["smoot"]),  # not even English
        ("Which cities like Zorblax are in Orrin?", ["Zorblax"]),
        ("Which cities did Bodine found in May?", []),  # Bodin
        ("Which visitors did Rua have?", []),
        ("List all by GMT", ["GMT"]),
        ("Which Orrinese cities are walled? Nought of them?", []),  # of Orrin, and what begins a sentence
        ("Which Zorbanese cities are walled?", ["Zorbanese"]),
        ("Is there Q&A in Rua on New Year's Day?", []),
        ("Any instalments of it?", []),  # English, though not in the encoder's words
        ("Wo liegt Zorblax?", []),
    ],
)
def test_what_nothing_is_called_need_not_be_searched_for(
    graph: str, question: str, unnamed: list[str]
) -> None:
    state, env = observed(graph, question)
    values = prompt_values(state, env)
    assert values["unnamed"]() == unnamed
    prompt = env.prompt.render("turn", **values)
    assert all(f"No name or value in the graph has: {word}." in prompt for word in unnamed)
    assert ("none was found: search" in prompt) == (not unnamed and not values["meanings"]())
