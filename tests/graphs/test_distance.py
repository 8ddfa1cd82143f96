"""Questions to an endpoint far away: the same answers, in few round trips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files

import pyoxigraph as ox
import pytest

from tests.support.oxigraph_server import DistantServer
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg import KnowledgeGraph, Result, open_kg
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.local import LocalKG

MOST = 12
"""Round trips of a question of one hop of which each waits for the one before."""
ONE_HOP = {"Which countries border Bolivia?", "When was Franz Kafka born?"}
OTHERS = {
    "Where was the author of War and Peace born?",
    "Which countries border both Germany and Italy?",
    "How many moons does Mars have?",
}


@pytest.fixture(scope="module")
def server() -> Iterator[DistantServer]:
    demo = open_kg("demo")
    assert isinstance(demo, LocalKG)
    store = ox.Store()
    store.bulk_extend(demo.quads())
    with DistantServer(store) as running:
        yield running


@pytest.fixture
def endpoint(server: DistantServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointKG]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    kg = EndpointKG(server.url, open_kg("demo").profile)
    yield kg
    kg.close()


def ask(kg: KnowledgeGraph, question: str, entities: dict[str, str]) -> Answer:
    state = build_graph("agent").invoke(
        {"question": question, "entities": entities}, context=Context(kg=kg, model="embedded")
    )
    answer: Answer = state["answer"]
    return answer


def test_the_same_answers_in_few_round_trips(endpoint: EndpointKG, monkeypatch: pytest.MonkeyPatch) -> None:
    waves: list[int] = []
    send = endpoint._waves._send

    def count(asked: Sequence[object]) -> Sequence[Result]:
        waves.append(len(asked))
        return send(asked)  # type: ignore[arg-type]

    monkeypatch.setattr(endpoint._waves, "_send", count)
    lines = (files("triplewise.tools.kg.demo") / "questions.jsonl").read_text("utf-8").splitlines()
    for record in map(json.loads, lines):
        if (question := record["question"]) not in ONE_HOP | OTHERS:
            continue
        waves.clear()
        answer = ask(endpoint, question, record["entities"])
        embedded = ask(open_kg("demo"), question, record["entities"])
        assert (answer.status, set(answer.values)) == (embedded.status, set(embedded.values)), question
        assert {p.triple for p in answer.proof} == {p.triple for p in embedded.proof}, question
        assert set(answer.labels) == set(embedded.labels)
        assert question not in ONE_HOP or len(waves) <= MOST


def test_an_engine_that_cannot_unite_queries_is_asked_one_by_one(
    server: DistantServer, endpoint: EndpointKG, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [f"SELECT ?o WHERE {{ <http://www.wikidata.org/entity/Q1490> ?p{i} ?o }}" for i in range(9)]
    answer = server.answer

    def ask_all() -> tuple[list[set[object]], int]:
        server.asked.clear()
        results = endpoint.together([partial(endpoint.query, query) for query in queries])
        return [set(result.rows) for result in results], len(server.asked)

    united, trips = ask_all()
    assert trips == endpoint.connections
    monkeypatch.setattr(server, "answer", lambda q: (400, "", b"no") if "UNION" in q else answer(q))
    assert ask_all()[0] == united
