"""Many questions in flight to an endpoint that fails: a real engine, and a scripted model over HTTP."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from tests.support.oxigraph_server import OxigraphServer
from triplewise.evals.data import catalog, prepared
from triplewise.evals.scripted_model import MODEL, OpenAIServer, RuleScript
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg.local import LocalKG

from .conftest import QUESTIONS


class Failing(OxigraphServer):
    """An engine that is overloaded now and then."""

    def __init__(self, store: ox.Store, rate: float) -> None:
        super().__init__(store)
        self.rate, self.failed, self.draws = rate, 0, random.Random(1)

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        if self.draws.random() < self.rate:
            self.failed += 1
            return 503, "text/plain", b"overloaded"
        return super().answer(sparql)


def ask_all(endpoint: str, model: str) -> list[Answer]:
    """The answers of twelve questions, all in flight at once."""
    system = build_graph("queryagent")
    context = Context(model=MODEL, base_url=model, kg=endpoint, profile="metaqa", seeds="none")

    async def every() -> list[dict[str, Any]]:
        asked = [
            {"question": question.replace("[", "").replace("]", ""), "entities": {topic: None}}
            for question, topic, _ in QUESTIONS * 3
        ]
        states = await asyncio.gather(*(system.ainvoke(one, context=context) for one in asked))
        return list(states)

    return [state["answer"] for state in asyncio.run(every())]


def test_answers_of_a_failing_endpoint_are_those_without_faults(data: Path) -> None:
    kg, store = prepared(catalog().graphs["metaqa"]).open(), ox.Store()
    assert isinstance(kg, LocalKG)
    store.bulk_extend(kg.quads())
    found = []
    with OpenAIServer(RuleScript()) as model:
        for rate in (0.0, 0.2):
            with Failing(store, rate) as engine:
                found.append([(one.status, set(one.values)) for one in ask_all(engine.url, model.url)])
                assert (engine.failed > 0) == (rate > 0)
    assert {status for status, _ in found[0]} == {"answered"}
    assert found[0] == found[1]
