"""A model's reply read: in many forms, and only what passages say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.cinema import iri, write_cinema
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.terms import IRI
from triplewise.tools.extraction.triples import FactRequest, fact_request, parse_reply, supported_triples
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.retrieval.encoder import open_encoder

TEXT = "Red Harbor opened in 1987. Eva Stein helmed Red Harbor. Leo Marsh was glad."
PASSAGE = Passage(TEXT, "Films", "films.txt")


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    return open_kg(write_cinema(tmp_path_factory.mktemp("reply")))


def request_of(kg: KnowledgeGraph, name: str = "directedBy") -> FactRequest:
    relation = kg.profile.short(IRI(f"http://example.org/{name}"))
    request = fact_request(kg, "Red Harbor", relation)
    assert request is not None
    return request


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
    (turned, apart), reasons = supported_triples(reply, [PASSAGE], request_of(kg), kg, open_encoder())
    assert (turned.subject, turned.object) == ("Eva Stein", kg.profile.short(IRI(iri("Red Harbor"))))
    assert turned.sentence == "Eva Stein helmed Red Harbor."
    assert turned.relation == apart.relation == kg.profile.short(IRI("http://example.org/directedBy"))
    assert apart.sentence == "Leo Marsh was glad."
    assert apart.confidence < turned.confidence, "its sentence does not name the film"
    assert reasons == [
        "(Red Harbor, release year, 1987): it is not about directed by",
        "(Ann Lee, directed by, Eva Stein): it is not about Red Harbor",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Red Harbor opened on May 3, 1987.", "Red Harbor opened on May 3, 1987."),
        (
            "In May. Mr. J. Doe of St. Ives saw it on 3 May 1987! Why?",
            "Mr. J. Doe of St. Ives saw it on 3 May 1987!",
        ),
    ],
)
def test_dates_may_be_written_otherwise_and_sentences_end_where_they_end(
    text: str, sentence: str, kg: KnowledgeGraph
) -> None:
    reply = '[["Red Harbor", "release year", "1987-05-03"]]'
    asked = request_of(kg, "releaseYear")
    (triple,), _ = supported_triples(reply, [Passage(text, "", "x")], asked, kg, open_encoder())
    assert triple.sentence == sentence


@settings(max_examples=80, deadline=None)
@given(
    reply=st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from([*"[](){}\",'", "Red Harbor", "Eva Stein", "r"]), max_size=30).map("".join),
    ),
    text=st.one_of(st.text(max_size=80), st.just(TEXT)),
)
def test_any_reply_and_any_passage(reply: str, text: str, kg: KnowledgeGraph) -> None:
    for triple in supported_triples(reply, [Passage(text, "", "x")], request_of(kg), kg, open_encoder())[0]:
        assert triple.sentence in text
