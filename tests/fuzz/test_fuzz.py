"""No reply raises, and nothing but a read query that triplewise wrote itself reaches an engine."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.hostile import MARK, PAYLOADS, Hostile
from tests.fuzz.interpreter import SLOW, Report, Seen, by_rdflib, escaped, fuzz, targets_for
from triplewise.tools.actions import TOOLSETS, parse_call, parse_react
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.pyql.text import read_iri, read_literal

TEXTS = 20_000
"""Texts in a run of the suite, shared among the toolsets; `tests.fuzz.interpreter` tries a million."""


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_hostile_replies_do_no_harm(toolset: str) -> None:
    report = fuzz(toolset, TEXTS // len(TOOLSETS), seed=7, check=by_rdflib)
    assert not report.fault_count, "\n".join(report.faults)
    assert report.executed > report.texts / 2
    assert report.queries > report.texts / 50
    assert report.outcomes["rows"], "no text got through to an answer: the generator has lost touch"


@pytest.mark.parametrize("toolset", sorted(set(TOOLSETS) - {"sql"}))
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_stays_a_value_in_every_place(toolset: str, payload: str) -> None:
    seen = Seen(check=by_rdflib, every=1)
    with targets_for(toolset, seen) as targets:
        for target in targets:
            for name in target.toolset.actions:
                parameters = target.toolset.action(name).parameters
                for place in range(len(parameters)):
                    arguments = [target.vocabulary.fitting[p.kind][0] for p in parameters]
                    arguments[place] = payload
                    bench = replace(target.bench, program=target.programs[-1])
                    target.toolset.execute(bench, Call(name, tuple(arguments)))
    assert not seen.escapes, seen.escapes[0]


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_react, parse_call):
        try:
            read(text)
        except ActionError:
            continue


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(TOOLSETS)),
    st.data(),
    st.lists(st.text(st.characters(), max_size=40) | st.sampled_from(PAYLOADS), max_size=5),
)
def test_any_arguments_give_feedback(toolset: str, data: st.DataObject, arguments: list[str]) -> None:
    seen = Seen()
    with targets_for(toolset, seen) as targets:
        target = data.draw(st.sampled_from(targets))
        name = data.draw(st.sampled_from(sorted(target.toolset)))
        feedback = target.toolset.execute(target.bench, Call(name, tuple(arguments)))
    assert isinstance(feedback, Feedback)
    assert not seen.escapes


@given(st.text(st.characters(), max_size=60))
def test_an_iri_or_literal_that_is_read_never_leaves_its_place(text: str) -> None:
    profile = load_profile("wikidata")
    for form in (text, f"<http://example.org/{text}>", f"<urn:{text}>"):
        iri = read_iri(form, profile)
        assert iri is None or not escaped(f"ASK {{ {iri.n3()} ?p ?o }}")
    for form in (f'"{text}"', f'"x"^^<urn:{text}>', f'"x"@{text}', f'"{text}"^^xsd:integer', f"'{text}'"):
        try:
            literal = read_literal(form)
        except ActionError:
            continue
        assert literal is None or not escaped(f"ASK {{ ?s ?p {literal.n3()} }}")


def test_a_datatype_cannot_close_its_bracket() -> None:
    assert read_literal('"5"^^<urn:a>}UNION{?s?p?o>') is None
    assert read_literal('"5"^^<urn:a>') is not None


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy", "add_fact(Q1, \ud83d, ?x)"])
def test_half_characters_are_replaced(text: str) -> None:
    call = parse_call(f"add_fact(Q1, {text}, ?x)")
    call.text().encode("utf-8")
    with targets_for("explore", Seen()) as targets:
        target = targets[0]
        feedback = target.toolset.execute(target.bench, Call("answer", (f"wd:{text}",)))
    assert "\ufffd" in feedback.observation


@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_thousands_of_arguments_take_no_time(toolset: str) -> None:
    with targets_for(toolset, Seen()) as targets:
        for name in targets[0].toolset.actions:
            start = time.perf_counter()
            targets[0].toolset.execute(targets[0].bench, Call(name, ("a",) * 3_000))
            assert time.perf_counter() - start < SLOW, name


def test_the_spy_tells_what_escapes_from_what_does_not() -> None:
    assert not escaped('SELECT DISTINCT ?x WHERE { ?x <urn:p> "} DELETE WHERE {"@en . FILTER(?x > 5) }')
    for wrong in (
        f"SELECT ?x WHERE {{ ?x ?p {MARK} }}",
        "ASK { ?s ?p ?o } ; DROP ALL",
        "ASK { SERVICE <urn:x> { ?s ?p ?o } }",
        'ASK { ?s ?p "a" } } { "b" }',
        'ASK { ?s ?p "a\n" }',
        "ASK { ?s ?p ?o # comment\n }",
        "ASK { ?s ?p ?o ",
    ):
        assert escaped(wrong), wrong
    seen = Seen()
    seen.sql("DELETE FROM film")
    seen.sql(f"SELECT '{MARK}' FROM film")
    seen.sql("SELECT 1; DROP TABLE film")
    seen.sql("SELECT title FROM film WHERE title = :title_1")
    assert len(seen.escapes) == 3


def test_the_same_seed_gives_the_same_texts() -> None:
    with targets_for("pyql", Seen()) as targets:
        first, again = (Hostile(3, targets[0].vocabulary) for _ in range(2))
        assert [first.text() for _ in range(200)] == [again.text() for _ in range(200)]


def test_faults_are_counted_and_the_first_ones_kept() -> None:
    report = Report()
    for number in range(50):
        report.fault("raised", str(number))
    assert report.fault_count == 50
    assert len(report.faults) == 20
