"""Triples from documents for a run: model or embedded, and nothing that no passage says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cinema import iri, write_cinema
from tests.support.openai_server import OpenAIServer
from triplewise.nodes.context import Context
from triplewise.nodes.extract import asked_for, check, complete, extract, parse_reply
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.reading import Asked

TEXT = "Red Harbor opened in 1987. Eva Stein helmed Red Harbor. Leo Marsh was glad."
PASSAGE = Passage(TEXT, "Films", "films.txt")
QUESTION = "Who directed Red Harbor?"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cinema(tmp_path_factory.mktemp("extract"))


@pytest.fixture(scope="module")
def kg(graph: Path) -> KnowledgeGraph:
    return open_kg(graph)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "films.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def ask(kg: KnowledgeGraph) -> Asked:
    asked = asked_for(kg, "Red Harbor", kg.profile.short(IRI("http://example.org/directedBy")), QUESTION)
    assert asked is not None
    return asked


def settings_of(graph: Path, server: OpenAIServer, folder: Path | None = None) -> Context:
    return Context(
        kg=str(graph), model="openai:scripted", base_url=server.url, documents=str(folder) if folder else None
    )


def test_without_a_model(graph: Path, folder: Path, kg: KnowledgeGraph) -> None:
    relation = kg.profile.short(IRI("http://example.org/directedBy"))
    done = complete("Red Harbor", relation, QUESTION, Context(kg=str(graph), documents=str(folder)))
    (fact,) = done.facts
    assert fact.triple.object == IRI(iri("Eva Stein"))
    assert (fact.sentence, fact.source, fact.reader) == (
        "Eva Stein helmed Red Harbor.",
        "films.txt",
        "embedded",
    )
    assert fact.conflicts == ("(Red Harbor, directed by, Ann Lee)",)
    assert [p.text for p in done.passages] == [TEXT]


def test_the_prompt_and_the_facts_of_a_model(
    graph: Path, folder: Path, kg: KnowledgeGraph, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(
        [('[["Red Harbor", "directed by", "Eva Stein"], ["Red Harbor", "directed by", "Nemo"]]')]
    )
    relation = kg.profile.short(IRI("http://example.org/directedBy"))
    done = complete("Red Harbor", relation, QUESTION, settings_of(graph, server, folder))
    (fact,) = done.facts
    assert (fact.triple.object, fact.reader) == (IRI(iri("Eva Stein")), "openai:scripted")
    assert done.reasons == ("(Red Harbor, directed by, Nemo): no passage has 'Nemo'",)
    prompt = server.requests[0].text
    assert TEXT in prompt
    assert QUESTION in prompt
    assert '[["Red Harbor", "directed by", "object"], ...]' in prompt


def test_nonsense_of_a_model_is_no_triple(
    graph: Path, kg: KnowledgeGraph, openai_server: Callable[..., OpenAIServer]
) -> None:
    relation = kg.profile.short(IRI("http://example.org/directedBy"))
    server = openai_server([("As a language model I cannot read.")])
    assert extract([PASSAGE], "Red Harbor", relation, QUESTION, settings_of(graph, server)) == []
    assert "holds no triple" in check("As a language model", [PASSAGE], ask(kg), kg).reasons[0]
    assert "found no triple" in check("[]", [PASSAGE], ask(kg), kg).reasons[0]


def test_what_is_missing_is_told(graph: Path, folder: Path, kg: KnowledgeGraph) -> None:
    relation = kg.profile.short(IRI("http://example.org/directedBy"))
    bare = Context(kg=str(graph))
    assert complete("Red Harbor", relation, "", bare).reasons == ("no documents are configured",)
    given = Context(kg=str(graph), documents=str(folder))
    assert complete("Blue Lantern", relation, "", given).reasons == ("no document names Blue Lantern",)
    assert "has no relation" in complete("Red Harbor", "<no id>", "", given).reasons[0]
    offline = Context(kg=str(graph), documents="wikipedia:http://127.0.0.1:9/w/api.php")
    assert "cannot be reached" in complete("Red Harbor", relation, "", offline).reasons[0]


@pytest.mark.parametrize(
    ("reply", "triples"),
    [
        ('[["a", "r", "b"]]', [("a", "r", "b")]),
        (
            'Here they are:\n```json\n[["a", "r", "b"], ["a", "r", "c"]]\n```',
            [("a", "r", "b"), ("a", "r", "c")],
        ),
        ("[['a', 'r', \"b's\"]]", [("a", "r", "b's")]),
        ('["a", "r", "b"]', [("a", "r", "b")]),
        ('[["a", "r", ["b", "c"]]]', [("a", "r", "b"), ("a", "r", "c")]),
        ('[{"subject": "a", "relation": "r", "object": "b"}]', [("a", "r", "b")]),
        ("[[a, r, b], [a, r, The Good, the Bad]]", [("a", "r", "b"), ("a", "r", "The Good, the Bad")]),
        ("1. (a, r, Alien (film))\n2. (a, r, c)", [("a", "r", "Alien (film)"), ("a", "r", "c")]),
        ('[["a", "r", 1987]]', [("a", "r", "1987")]),
        ('[["a", "r", "b"], ["a", "r"], 7, "x", []]', [("a", "r", "b")]),
        ('[["a", "r", "object"], ["a", "r", ""], ["a", "r", "..."]]', []),
        ("[]", []),
        ("no idea", []),
        ("[" * 3000, []),
    ],
)
def test_replies_in_many_forms(reply: str, triples: list[tuple[str, str, str]]) -> None:
    assert list(parse_reply(reply)) == triples


def test_only_what_passages_say_counts(kg: KnowledgeGraph) -> None:
    reply = (
        '[["Eva Stein", "directed by", "Red Harbor"], ["Red Harbor", "release year", "1987"],'
        ' ["Ann Lee", "directed by", "Eva Stein"], ["Red Harbor", "directed by", "Leo Marsh"]]'
    )
    reading = check(reply, [PASSAGE], ask(kg), kg)
    turned, year, apart = reading.triples
    short = kg.profile.short(IRI(iri("Red Harbor")))
    assert (turned.subject, turned.object) == ("Eva Stein", short)
    assert turned.sentence == "Eva Stein helmed Red Harbor."
    assert (year.relation, year.object) == ("release year", "1987"), (
        "another relation stays as it was written"
    )
    assert apart.sentence == "Leo Marsh was glad."
    assert apart.confidence < turned.confidence, "its sentence does not name the film"
    assert reading.reasons == ("(Ann Lee, directed by, Eva Stein): it is not about Red Harbor",)


def test_dates_may_be_written_otherwise(kg: KnowledgeGraph) -> None:
    passage = Passage("Red Harbor opened on May 3, 1987.", "", "x")
    (triple,) = check('[["Red Harbor", "release year", "1987-05-03"]]', [passage], ask(kg), kg).triples
    assert triple.sentence == passage.text


@settings(max_examples=80, deadline=None)
@given(
    reply=st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from([*"[](){}\",'", "Red Harbor", "Eva Stein", "r"]), max_size=30).map("".join),
    ),
    text=st.one_of(st.text(max_size=80), st.just(TEXT)),
)
def test_any_reply_and_any_passage(reply: str, text: str, kg: KnowledgeGraph) -> None:
    for triple in check(reply, [Passage(text, "", "x")], ask(kg), kg).triples:
        assert triple.sentence in text
