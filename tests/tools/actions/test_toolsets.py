"""The toolsets on a small KG: what agents see, and what becomes feedback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pyoxigraph as ox
import pytest
from hypothesis import given, settings, strategies as st

from tests.support.calls import parse_call
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback, Toolset, explore
from triplewise.tools.actions.symbolic import Extraction
from triplewise.tools.actions.toolset import Call, ReasoningMemory, action
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile, load_profile

TURTLE = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
wd:Q17 rdfs:label "Japan"@en ; wdt:P36 wd:Q1490 ; wdt:P31 wd:Q3624078 .
wd:Q142 rdfs:label "France"@en ; wdt:P36 wd:Q90 ; wdt:P31 wd:Q6256 .
wd:Q3624078 rdfs:label "sovereign state"@en ; wdt:P279 wd:Q6256 . wd:Q6256 rdfs:label "country"@en .
wd:Q1490 rdfs:label "Tokyo"@en ; wdt:P17 wd:Q17 ; wdt:P1082 14000000 ; wdt:P571 "1457-01-01"^^xsd:date .
wd:Q90 rdfs:label "Paris"@en ; wdt:P17 wd:Q142 ; wdt:P1082 "2100000" ; wdt:P571 "0250"^^xsd:gYear .
wd:P36 rdfs:label "capital"@en . wd:P17 rdfs:label "country"@en .
"""
WD = "http://www.wikidata.org/entity/"
PYQL, EXPLORE, SYMBOLIC = TOOLSETS["pyql"], TOOLSETS["explore"], TOOLSETS["symbolic"]


@pytest.fixture(scope="module")
def kg() -> LocalKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, load_profile("wikidata"), "capitals")


@pytest.fixture
def bench(kg: LocalKG) -> ActionContext:
    return ActionContext(kg, memory=ReasoningMemory(linked={"Q17": "Japan"}, seen=frozenset({"Q1490"})))


def run(bench: ActionContext, *calls: str) -> Feedback:
    """The feedback of the last of several calls, each after the one before."""
    feedback = Feedback()
    for call in calls:
        feedback = PYQL.execute(bench, parse_call(call, PYQL))
        assert not feedback.error or call == calls[-1], feedback.message
        bench = replace(bench, program=feedback.program)
    return feedback


FACT = ExtractedFact(
    Triple(IRI(WD + "Q17"), IRI("http://www.wikidata.org/prop/direct/P36"), IRI(WD + "Q999")),
    {WD + "Q999": "New Tokyo"},
    *("q", "Japan", "japan.txt", "Its capital is New Tokyo.", "2026-01-01T00:00:00Z", "embedded", 0.9),
)
Text = Annotated[str, "text", "any"]
CAPITALS = ("add_fact(?c, P36, ?x)",)


def test_relations_of_an_entity_in_both_directions(bench: ActionContext) -> None:
    feedback = run(bench, "get_relation(Q17)")
    assert feedback.relations == {"forward": ["P31", "P36"], "backward": ["P17"]}
    assert feedback.observation == (
        "{'forward': ['P31: sovereign state', 'P36 (capital): Tokyo'], 'backward': ['P17 (country): Tokyo']}"
    )
    assert feedback.ids == {"get_relation": ["Q3624078", "Q1490", "Q1490"]}, "their names may be written"


def test_every_relation_is_offered_where_not_all_nodes_are_looked_at(
    bench: ActionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(bench, "add_fact(?z, P31, ?c)", "get_relation(?c)")
    assert whole.relations == {"forward": ["P279"], "backward": ["P279", "P31"]}
    assert "P279, 1 of 2: country" in whole.observation
    monkeypatch.setattr("triplewise.tools.parsing.card.MEMBERS", 1)
    assert run(bench, "add_fact(?z, P31, ?c)", "get_relation(?c)").relations == whole.relations


def test_what_a_list_of_relations_left_out_is_on_the_next_page(bench: ActionContext) -> None:
    narrow = replace(bench, rank=lambda forward, backward: (forward[:1], backward[:1]))
    first = run(narrow, "get_relation(Q17)")
    assert first.observation.endswith("... and 1 more: get_relation(Q17, 2)")
    second = run(narrow, "get_relation(Q17, more)")
    assert second.observation == "{'forward': ['P36 (capital): Tokyo'], 'backward': []}"
    assert second.arguments == ("Q17", "2")
    assert second.relations == {"forward": ["P36", "P31"], "backward": ["P17"]}, (
        "the first page is offered too"
    )
    assert run(narrow, "get_relation(Q17, 3)").observation == "the relations of Q17 end with page 2"
    assert run(narrow, "get_relation(Q17, all of it)").error == "bad_number"
    published = run(replace(narrow, published=True), "get_relation(Q17)")
    assert published.observation == "{'forward': ['P31'], 'backward': ['P17 (country)']}"


def test_a_fact_or_type_that_drops_values_says_how_many_and_which(bench: ActionContext) -> None:
    places = "add_union((?x, P17, ?c), (?x, P279, ?c))"
    lost = "This drops 1 of 3 values of ?x: sovereign state."
    assert run(bench, places, "add_fact(?x, P1082, ?n)").observation.endswith(lost)
    of_type = run(bench, "add_fact(?c, P36, ?x)", "add_type(?c, Q3624078)")
    assert of_type.observation.endswith("This drops 1 of 2 values of ?c: France.")
    for call in ("add_fact(?c, P36, Q90)", "add_fact(?c, P31, ?type)"):  # one is meant to drop, one does not
        assert "drops" not in run(bench, *CAPITALS, call).observation
    wide = replace(bench, preview=0)  # too many to know
    assert "drops" not in run(wide, places, "add_fact(?x, P1082, ?n)").observation
    published = replace(bench, published=True)
    assert "drops" not in run(published, places, "add_fact(?x, P1082, ?n)").observation


def test_bare_true_and_false_are_booleans_in_facts_and_patterns(bench: ActionContext) -> None:
    assert run(bench, "add_fact(?x, P31, true)").program == 'add_fact(?x, P31, "true"^^xsd:boolean)'
    negated = run(bench, *CAPITALS, "add_not(?c, P31, false)")
    assert negated.program.endswith('add_not((?c, P31, "false"^^xsd:boolean))')


def test_values_say_how_many_there_are_and_whether_they_are_a_sample(bench: ActionContext) -> None:
    few = replace(bench, preview=1)
    assert run(few, *CAPITALS).observation == (
        "The value of variable ?c is ['France', ... (2 in all)]. "
        "The value of variable ?x is ['Paris', ... (2 in all)]. "
        "Solutions (?c | ?x): France | Paris; Japan | Tokyo."
    )
    assert "['France', ...]" in run(replace(few, published=True), *CAPITALS).observation
    sample = run(few, *CAPITALS, "add_fact(?a, P31, ?b)", "add_fact(?d, P17, ?e)", "add_fact(?f, P31, ?g)")
    assert "(Seen in the first 10 solutions only: there are more.)" in sample.observation


def test_a_fact_shows_values_ids_and_triples(bench: ActionContext) -> None:
    feedback = run(bench, "add_fact(Q17, P36, ?capital)")
    assert feedback.observation == "The value of variable ?capital is ['Tokyo']."
    assert (feedback.outcome, feedback.values, feedback.ids) == (
        "rows",
        {"capital": ["Tokyo"]},
        {"capital": ["Q1490"]},
    )
    assert [t.object for t in feedback.triples] == [IRI(WD + "Q1490")]
    assert feedback.program == "add_fact(Q17, P36, ?capital)"


def test_values_stored_with_other_datatypes_are_compared_as_what_they_are(bench: ActionContext) -> None:
    most = run(bench, *CAPITALS, "add_fact(?x, P1082, ?n)", "add_max(?n)", "set_answer(?x)", "execute()")
    assert most.answers == ("Q1490",)
    many = run(
        bench,
        *CAPITALS,
        "add_fact(?x, P1082, ?n)",
        "add_filter(?n, >, 2000000)",
        "set_answer(?x)",
        "execute()",
    )
    assert set(many.answers) == {"Q1490", "Q90"}
    old = run(
        bench, *CAPITALS, "add_fact(?x, P571, ?d)", "add_filter(?d, <, 1400)", "set_answer(?x)", "execute()"
    )
    assert old.answers == ("Q90",)


@pytest.mark.parametrize(("best", "answer"), [("add_max", "sun"), ("add_min", "atom")])
def test_numbers_too_long_for_the_engine_are_compared_as_numbers(best: str, answer: str) -> None:
    store = ox.Store()
    store.load(
        b"@prefix : <http://example.org/> . :sun :mass 1988435000000000000000000000000.0 . "
        b":atom :mass 0.00000000000000000000000000166 . :ship :mass 907184740.0 . :person :mass 60 .",
        format=ox.RdfFormat.TURTLE,
    )
    profile = Profile(
        entity_namespaces=("http://example.org/",), relation_namespaces=("http://example.org/",)
    )
    small = ActionContext(LocalKG(store, profile, "masses"))
    heaviest = run(small, "add_fact(?x, mass, ?m)", f"{best}(?m)", "set_answer(?x)", "execute()")
    assert heaviest.answers == (answer,)
    more = run(small, "add_fact(?x, mass, ?m)", "add_filter(?m, >, 1000)", "set_answer(?x)", "execute()")
    assert set(more.answers) == {"sun", "ship"}


def test_names_of_known_entities_are_read_as_their_ids(bench: ActionContext) -> None:
    feedback = run(bench, "add_fact(Japan, P36 (capital), ?x)")
    assert feedback.program == "add_fact(Q17, P36, ?x)"
    assert feedback.arguments == ("Q17", "P36", "?x")
    assert feedback.detail["repaired"] == {"Japan": "Q17"}
    assert run(bench, *CAPITALS, "add_filter(?x, !=, Tokyo)").ids["x"] == ["Q90"]


def test_names_with_commas_are_put_together_again() -> None:
    profile = load_profile("metaqa")
    name = "Crouching Tiger, Hidden Dragon"
    store = ox.Store()
    film, maker = profile.name_iri(name), profile.name_iri("Ang Lee")
    store.load(
        f"{film.n3()} <urn:metaqa:relation:directed_by> {maker.n3()} .".encode(), format=ox.RdfFormat.TURTLE
    )
    bench = ActionContext(LocalKG(store, profile, "films"), memory=ReasoningMemory(linked={name: name}))
    assert run(bench, f"get_relation({name})").relations["forward"] == ["directed_by"]
    assert run(bench, f"add_fact({name}, directed_by, ?x)").ids == {"x": ["Ang Lee"]}
    union = f'add_union(({name}, directed_by, ?x) & (?x, !=, "Nobody, Junior"), (Nobody, directed_by, ?x))'
    assert run(bench, union).ids == {"x": ["Ang Lee"]}


def test_linked_literals_are_found_by_their_text() -> None:
    store = ox.Store()
    ns = "http://rdf.freebase.com/ns/"
    one = '"1.0"^^<http://www.w3.org/2001/XMLSchema#float>'
    store.load(f"<{ns}m.01> <{ns}a.b.frequency> {one} .".encode(), format=ox.RdfFormat.TURTLE)
    memory = ReasoningMemory(linked={'"1.0"^^xsd:float': "1.0"})
    bench = ActionContext(LocalKG(store, load_profile("freebase"), "units"), memory=memory)
    assert run(bench, "get_relation(1.0)").relations == {"forward": [], "backward": ["a.b.frequency"]}
    feedback = run(bench, "add_fact(?f, a.b.frequency, 1.0)")
    assert feedback.values == {"f": ["UnName_Entity"]}


def test_quoted_text_is_no_node_where_any_word_may_be_an_id(tmp_path: Path) -> None:
    lines = (f'e:p{i} e:price {i} ; e:currency "{"EUR" if i % 2 else "USD"}" .' for i in range(9))
    (tmp_path / "prices.ttl").write_text("@prefix e: <http://e/> .\n" + "\n".join(lines))
    kg = open_kg(tmp_path / "prices.ttl")
    memory = ReasoningMemory(seen=frozenset({"EUR", "p3"}))
    bench = ActionContext(kg, memory=memory)
    calls = ("add_fact(?x, currency, ?c)", 'add_filter(?c, =, "EUR")', "set_answer(?x)", "execute()")
    assert set(run(bench, *calls).answers) == {"p1", "p3", "p5", "p7"}
    assert run(bench, 'add_fact("p3", price, ?n)').values == {"n": ["3"]}


def test_yes_and_no(bench: ActionContext) -> None:
    assert run(bench, "ask()").observation == "This is a yes/no question now."
    assert run(bench, "ask()", "add_fact(Q17, P36, Q1490)", "execute()").answers == ("true",)
    assert run(bench, *CAPITALS, "add_filter(?x, =, Q17)", "ask()", "execute()").answers == ("false",)


def test_execute_finishes_with_ids_and_counts(bench: ActionContext) -> None:
    feedback = run(
        bench, *CAPITALS, "add_type(?c, Q6256)", "add_count(?c)", "set_answer(?count)", "execute()"
    )
    assert (feedback.answers, feedback.finished) == (("2",), True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fly(1)", "unknown_action"),
        ("add_fact(?x, ?y)", "arity"),
        ("add_fact(?x, P36, 5)", "bare_number_node"),
        ("get_relation(?nobody)", "unknown_variable"),
        ("get_relation('UnName_Entity')", "unknown_entity"),
        ("add_filter(?x, P36, 5)", "relation_as_operator"),
        ("execute()", "execute_before_answer"),
    ],
)
def test_mistakes_become_feedback_with_the_old_program(bench: ActionContext, call: str, error: str) -> None:
    feedback = run(bench, *CAPITALS, call)
    assert (feedback.error, feedback.program) == (error, "add_fact(?c, P36, ?x)")
    assert feedback.message


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(PYQL.actions)),
    st.lists(st.text(max_size=12) | st.sampled_from(["?x", "P36", "Q17"])),
)
def test_no_text_of_a_model_raises(kg: LocalKG, name: str, arguments: list[str]) -> None:
    feedback = PYQL.execute(ActionContext(kg, program=CAPITALS[0]), Call(name, tuple(arguments)))
    assert feedback.action == name


def test_every_documented_example_is_a_legal_call() -> None:
    for toolset in TOOLSETS.values():
        for number, declared in enumerate(toolset.actions.values(), 1):
            call = parse_call(declared.example, toolset)
            assert call.name == declared.name
            assert len(call.arguments) >= sum(p.required for p in declared.parameters)
            assert f"{number}. {declared.signature}" in toolset.document()


def test_schemas_are_strict_and_calls_come_back_in_order() -> None:
    by_name = {s["function"]["name"]: s["function"] for s in (action.schema() for action in PYQL.declared)}
    assert by_name.keys() == PYQL.actions.keys()
    for function in by_name.values():
        assert function["strict"]
        assert set(function["parameters"]["required"]) == set(function["parameters"]["properties"])
    args = {"tail": "?x", "head": "Q17", "relation": "P36"}
    assert PYQL.from_tool_call("add_fact", args) == Call("add_fact", ("Q17", "P36", "?x"))
    assert PYQL.from_tool_call("set_answer", {"answer": ["?x", "?y"]}).arguments == ("?x", "?y")
    assert PYQL.from_tool_call("add_count", {"counted": "?x", "count": None}).arguments == ("?x",)


@pytest.mark.parametrize(
    ("toolset", "name", "args", "arguments"),
    [
        (EXPLORE, "get_neighbors", {"entity": "Q17", "relation": None, "page": 2}, ("Q17", "", "2")),
        (EXPLORE, "get_neighbors", {"page": "", "entity": "Q17", "relation": ""}, ("Q17",)),
        (PYQL, "add_order", {"variable": "?n", "number": 1}, ("?n", "", "1")),
    ],
)
def test_a_parameter_left_out_of_a_tool_call_shifts_no_other(
    toolset: Toolset, name: str, args: dict[str, object], arguments: tuple[str, ...], bench: ActionContext
) -> None:
    call = toolset.from_tool_call(name, args)
    assert call.arguments == arguments
    assert parse_call(call.text(), toolset) == call
    program = "add_fact(?x, P1082, ?n)\nset_answer(?x)"
    assert not toolset.execute(replace(bench, program=program), call).error


def test_the_default_of_a_parameter_left_out_is_given() -> None:
    @action("hop(Q17)")
    def hop(context: ActionContext, node: Text, way: Text = "out", steps: Text = "1") -> Feedback:
        return Feedback(observation=f"{node} {way} {steps}")

    own = Toolset("own", (hop,))
    assert own.from_tool_call("hop", {"node": "Q17", "steps": 2}).arguments == ("Q17", "out", "2")


def test_a_sum_for_each_without_a_name_is_one_for_each(bench: ActionContext) -> None:
    args = {"function": "sum", "variable": "?n", "result": None, "per": "?x"}
    call = PYQL.from_tool_call("add_aggregate", args)
    feedback = PYQL.execute(replace(bench, program="add_fact(?x, P1082, ?n)"), call)
    assert feedback.program.endswith("add_aggregate(sum, ?n, ?sum_n, ?x, number)")


def test_exploring(bench: ActionContext) -> None:
    around = EXPLORE.execute(bench, parse_call('GetNeighbor("Japan")', EXPLORE))
    assert (around.action, around.outcome, len(around.triples)) == ("get_neighbors", "rows", 3)
    assert around.observation.splitlines() == [
        "Around Japan [Q17]:",
        "-> P31: sovereign state [Q3624078]",
        "-> P36 (capital): Tokyo [Q1490]",
        "<- P17 (country): Tokyo [Q1490]",
    ]
    path = EXPLORE.execute(bench, Call("GetPath", ("Q17", "Q6256")))
    assert [t.object.value.rpartition("/")[2] for t in path.triples] == ["Q3624078", "Q6256"]
    assert EXPLORE.execute(bench, Call("get_path", ("Q17", "Q17"))).error == "same_entity"
    done = EXPLORE.execute(bench, Call("Answer", ("Tokyo", "1457")))
    assert (done.answers, done.finished) == (("Q1490", "1457"), True)


HUB = "http://www.wikidata.org/entity/Q1"


@pytest.fixture(scope="module")
def crowd() -> ActionContext:
    """An entity with 120 values of one relation, 60 that point to it, and 300 relations of one value."""
    node, relation = ("http://www.wikidata.org/entity/Q{}", "http://www.wikidata.org/prop/direct/P{}")
    facts = [(HUB, relation.format(1), node.format(1000 + i)) for i in range(120)]
    facts += [(node.format(2000 + i), relation.format(1), HUB) for i in range(60)]
    facts += [(HUB, relation.format(100 + i), node.format(3000 + i)) for i in range(300)]
    store = ox.Store()
    store.load("".join(f"<{s}> <{r}> <{o}> .\n" for s, r, o in facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    memory = ReasoningMemory(linked={"Q1": "hub"})
    return ActionContext(LocalKG(store, load_profile("wikidata"), "crowd"), memory=memory)


def test_many_neighbors_are_grouped_bounded_and_can_all_be_seen(crowd: ActionContext) -> None:
    last = replace(
        crowd, rank=lambda forward, backward: (sorted(forward, key=lambda r: r != "P399"), backward)
    )
    around = EXPLORE.execute(last, Call("get_neighbors", ("Q1",)))
    lines = around.observation.splitlines()
    assert lines[1] == "-> P399: Q3299", "the relation that fits best comes first"
    assert any(line.startswith("-> P1: Q1000, ") and line.endswith("... (120 in all)") for line in lines)
    assert lines[-1].endswith("more relations: get_neighbors(Q1, RELATION) shows one relation")
    assert len(around.observation) < 6_000
    assert len(around.triples) == 480


@pytest.mark.parametrize(("toolset", "name"), [(EXPLORE, "get_neighbors"), (SYMBOLIC, "search_neighbor")])
def test_one_relation_is_paged_and_walked_either_way(
    crowd: ActionContext, toolset: Toolset, name: str
) -> None:
    def ask(*arguments: str) -> Feedback:
        return toolset.execute(crowd, Call(name, ("Q1", *arguments)))

    first, last = ask("P1"), ask("P1", "4")
    assert first.observation.endswith(f"(180 in all: {name}(Q1, P1, 2) shows more).")
    assert first.observation.count("Q") == 51
    assert (last.arguments, last.observation.count("Q")) == (("Q1", "P1", "4"), 30)
    assert ask("P1", "5").observation == "There are no more than 180."
    back = ask("^P1")
    assert (back.arguments, len(back.triples)) == (("Q1", "^P1"), 60)
    assert ask("^P101").outcome == "empty"
    assert ask("P1", "some").error == "bad_number"


@pytest.mark.parametrize(("toolset", "name"), [(EXPLORE, "answer"), (SYMBOLIC, "finish")])
def test_all_values_of_a_relation_are_the_answer(
    bench: ActionContext, crowd: ActionContext, toolset: Toolset, name: str
) -> None:
    def ask(context: ActionContext, *arguments: str) -> Feedback:
        return toolset.execute(context, Call(name, arguments))

    every = ask(crowd, "Q1", "P1", "all")
    assert (every.finished, len(every.answers), len(every.triples)) == (True, 120, 120), "none that arrive"
    assert len(ask(crowd, "Q1", "^P1", "all").answers) == 60
    assert ask(bench, "Tokyo", "P1082", "ALL").answers == ("14000000",)
    assert ask(bench, "Q1490", "P36", "all").answers == ("Q17",), "only what arrives"
    nothing = ask(bench, "Q1490", "P279", "all")
    assert (nothing.error, nothing.message) == ("no_answer", "Q1490 has no values of P279")
    assert ask(bench, "Q1490", "Q17", "P36").answers == ("Q1490", "Q17", "P36")


def test_paths_are_as_long_and_as_many_as_allowed(
    bench: ActionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call("get_path", ("Q17", "Q142"))
    far = EXPLORE.execute(bench, call)
    assert (far.outcome, len(far.triples)) == ("rows", 3)
    monkeypatch.setattr("triplewise.tools.kg.path_queries.HERE", 0.0)
    late = EXPLORE.execute(bench, call)
    assert (late.outcome, late.triples) == ("timeout", ())
    monkeypatch.undo()
    monkeypatch.setattr(explore, "HOPS", 2)
    assert EXPLORE.execute(bench, call).observation == "No path of up to 2 hops joins the two."
    monkeypatch.setattr(explore, "PATHS", 1)
    cut = EXPLORE.execute(bench, Call("get_path", ("Q17", "Q1490")))
    assert (cut.outcome, len(cut.triples)) == ("truncated", 1)
    assert "There may be more: cut at the limit of 1 paths" in cut.observation


def test_following_rules(bench: ActionContext) -> None:
    served = replace(
        bench,
        services={
            "rules": lambda question: [f"path for {question}"],
            "extract": lambda entity, relation: Extraction((f"{entity} has a {relation}.",), (FACT,)),
        },
    )
    rules = SYMBOLIC.execute(served, parse_call("getReasoningPath(Viggo Mortensen, played in)", SYMBOLIC))
    assert "path for Viggo Mortensen, played in" in rules.observation
    assert SYMBOLIC.execute(bench, Call("get_rules", ("x",))).outcome == "empty"
    tokyo = SYMBOLIC.execute(bench, Call("searchNeighbor", ("Japan", "P36")))
    assert (tokyo.observation, len(tokyo.triples)) == ("Tokyo [Q1490].", 1)
    nothing = SYMBOLIC.execute(bench, Call("searchNeighbor", ("Japan", "P999")))
    assert nothing.outcome == "empty"
    assert nothing.observation.startswith("No entity found under this relation")
    assert "wiki_search" not in nothing.observation
    assert "your knowledge" not in nothing.observation
    assert nothing.observation.endswith("Its relations are P31, P36 (capital), ^P17 (country).")
    read = SYMBOLIC.execute(served, Call("wikiSearch", ("Q17", "P36")))
    assert read.observation == (
        "By searching, Japan's relevant documents are Q17 has a P36. You should extract relevant factual "
        "triples about Japan to answer the question. The triples extracted are "
        "(Japan [Q17], capital, New Tokyo [Q999])."
    )
    assert (read.facts, read.triples) == ((FACT,), (FACT.triple,))
    assert "No documents" in SYMBOLIC.execute(bench, Call("wiki_search", ("Q17", "P36"))).observation
    assert SYMBOLIC.execute(bench, Call("finish", ("Tokyo", "Aragorn"))).answers == ("Q1490", "Aragorn")


def test_a_union_of_nodes_binds_a_new_variable(bench: ActionContext) -> None:
    one_of = "add_union((?c, =, Q17), (?c, =, Q142))"
    feedback = run(bench, one_of, "add_fact(?c, P36, ?capital)", "set_answer(?capital)", "execute()")
    assert set(feedback.values["capital"]) == {"Tokyo", "Paris"}
    assert feedback.program.splitlines()[0] == one_of
    assert run(bench, "add_union((?c, =, Q17), (?d, =, Q142))").error == "unknown_variable"
