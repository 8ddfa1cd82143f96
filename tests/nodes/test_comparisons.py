"""Questions that compare: yes or no, nodes by their names, values as what they are, steps taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.trajectory import Trajectory
from triplewise.nodes.context import Context
from triplewise.nodes.state import ScoredTriple
from triplewise.tools.core.terms import IRI, Triple

TURTLE = """
@prefix : <http://elements.example/resource/> . @prefix p: <http://elements.example/property/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:Lead p:density 11.3 ; p:price "2.1" ; p:block :block_p ; p:found "1000"^^xsd:gYear ;
    rdfs:label "Lead" .
:Lead p:melted "10:00:00"^^xsd:time . :Iron p:melted "15:30:00"^^xsd:time .
:Mercury p:density 13.534 ; p:price "30" ; p:block :block_d ; rdfs:label "Mercury" .
:Iron p:density 7.874 ; p:price "0.1" ; p:block :block_d ; p:found "1200-01-01"^^xsd:date ;
    rdfs:label "Iron" .
:Lead p:row :row_6 . :Iron p:row :row_4 . :Mercury p:row :row_10 .
:row_6 rdfs:label "Row 6" . :row_4 rdfs:label "Row 4" . :row_10 rdfs:label "Row 10" .
:block_p rdfs:label "p-block"@en . :block_d rdfs:label "d-block"@en ; p:symbol "d" .
"""
DENSER = "Is lead denser than mercury?"
TWO = ("add_fact(Lead, density, ?a)", "add_fact(Mercury, density, ?b)")
BLOCKS = ("add_fact(?e, block, ?block)",)
PRICES = (*BLOCKS, "add_fact(?e, price, ?price)")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elements") / "elements.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return path


def asked(graph: Path, question: str, *calls: str, shown: bool = True) -> Trajectory:
    """The run of some calls none of which is objected to, on relations that hints have shown."""
    linked = {"Lead": "Lead", "Mercury": "Mercury"}
    trajectory = Trajectory(Context(kg=str(graph), ranking="none", max_steps=40), question, linked)
    ends = IRI("http://elements.example/resource/Lead"), IRI("http://elements.example/resource/Iron")
    hints = tuple(
        ScoredTriple(Triple(ends[0], IRI(f"http://elements.example/property/{relation}"), ends[1]), 1.0)
        for relation in ("density", "price", "block", "found", "melted", "row")
    )
    trajectory.state = trajectory.state.model_copy(update={"observation": hints if shown else ()})
    for call in calls:
        verdict = trajectory.call(call)
        assert verdict.status != "error", (call, verdict.text)
    return trajectory


def test_a_comparison_that_does_not_hold_is_the_answer_no(graph: Path) -> None:
    run = asked(graph, DENSER, *TWO, "add_filter(?a, >, ?b)")
    assert "the answer would be no" in run.state.last.observation
    assert "?a holds numbers: 11.3. ?b holds numbers: 13.534." in run.state.last.observation
    assert "ask()" in run.state.last.observation
    run = asked(graph, DENSER, *TWO, "add_filter(?a, >, ?b)", "ask()", "execute()")
    assert run.state.last.feedback.answers == ("false",)
    run = asked(graph, "Is mercury in the d-block?", "add_fact(Mercury, block, block_d)", "execute()")
    assert run.state.last.feedback.answers == ("true",)


@pytest.mark.parametrize(
    ("calls", "variable", "values"),
    [
        ((*BLOCKS, 'add_filter(?block, =, "D-Block")'), "e", {"Mercury", "Iron"}),
        ((*BLOCKS, 'add_filter(?block, !=, "d-block")'), "e", {"Lead"}),
        ((*BLOCKS, "add_filter(?e, starts_with, m)"), "e", {"Mercury"}),
        ((*BLOCKS, 'add_not((?e, block, ?b) & (?b, contains, "d-"))'), "e", {"Lead"}),
        ((*BLOCKS, 'add_union((?e, =, "lead"), (?e, density, ?d) & (?d, <, 10))'), "e", {"Lead", "Iron"}),
        # Numbers that are stored as text are added and compared as numbers.
        ((*PRICES, "add_aggregate(sum, ?price, ?total, ?block)"), "total", {"2.1", "30.1"}),
        # Nodes are ordered by the number in their names.
        (("add_fact(?e, row, ?row)", "add_max(?row)"), "e", {"Mercury"}),
        (("add_fact(?e, row, ?row)", "add_min(?row)"), "e", {"Iron"}),
        ((*BLOCKS, "add_filter(?e, =, Lead)", "undo()"), "e", {"Lead", "Mercury", "Iron"}),
    ],
)
def test_what_a_query_finds(graph: Path, calls: tuple[str, ...], variable: str, values: set[str]) -> None:
    run = asked(graph, "Which elements?", *calls)
    assert set(run.state.last.feedback.values[variable]) == values


def test_an_undone_fact_is_gone_for_good(graph: Path) -> None:
    run = asked(graph, "Which elements?", *TWO[:1], "undo()", "add_fact(Lead, block, ?block)")
    assert run.state.program == "add_fact(Lead, block, ?block)"
    assert run.call("set_answer(?a)").guideline == "answer_unknown"


@pytest.mark.parametrize(
    ("calls", "wrong", "guideline", "says"),
    [
        (BLOCKS, 'add_filter(?block, =, "d blok")', "filter_empty", "nodes nearest to it: d-block"),
        (("add_fact(?e, density, ?d)",), "add_filter(?d, >, 99)", "filter_empty", "numbers: 7.874, 11.3"),
        (("add_fact(Lead, found, ?a)",), "add_fact(Mercury, found, ?b)", "value_missing", "Mercury has no"),
        (BLOCKS, "add_filter(?block, >, 3)", "bad_comparison", "holds entities"),
        (BLOCKS, "add_max(?block)", "bad_comparison", "holds entities"),
        (("add_fact(?e, found, ?d)",), "add_aggregate(sum, ?d, ?n)", "bad_comparison", "?d holds dates"),
    ],
)  # fmt: skip
def test_what_cannot_hold_is_explained(
    graph: Path, calls: tuple[str, ...], wrong: str, guideline: str, says: str
) -> None:
    verdict = asked(graph, "Which elements?", *calls).call(wrong)
    assert (verdict.guideline, says in verdict.text) == (guideline, True), verdict.text


def test_two_new_variables_are_only_objected_to_where_no_relation_was_shown(graph: Path) -> None:
    assert asked(graph, "Which elements?", *BLOCKS).state.program
    blind = asked(graph, "Which elements?", shown=False)
    assert blind.call(BLOCKS[0]).guideline == "two_new_variables_before_lookup"


@pytest.mark.parametrize(("operator", "expected"), [("=", "Lead"), (">", "Iron")])
def test_times_of_day_compare_with_a_plain_text(graph: Path, operator: str, expected: str) -> None:
    filtered = f'add_filter(?time, {operator}, "10:00:00")'
    run = asked(
        graph, "Which elements?", "add_fact(?e, melted, ?time)", filtered, "set_answer(?e)", "execute()"
    )
    assert run.state.last.feedback.answers == (expected,)


def test_a_stray_date_among_numbers_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "elements.ttl"
    stray = ':Tin p:density "8126-01-01"^^xsd:date . :Zinc p:density 7.14 .\n'
    file.write_text(TURTLE + stray, encoding="utf-8")
    densities = "add_fact(?e, density, ?d)"
    run = asked(
        file, DENSER, densities, "add_filter(?d, <, 9000)", "add_max(?d)", "set_answer(?d)", "execute()"
    )
    assert run.state.last.feedback.answers == ("13.534",)
    run = asked(file, DENSER, densities, "add_aggregate(sum, ?d, ?n)", "set_answer(?n)", "execute()")
    assert run.state.last.feedback.answers == ("39.848",)
