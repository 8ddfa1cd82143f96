"""A query that fails, an endpoint that is dead or hangs, a budget of seconds: no answer rests on what was not
read, and nothing waits longer than it may."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import QueryResultsFormat, Store

from tests.support.sparql_server import Asked, Scripted, SparqlServer
from triplewise.graphs import Answer, Context, State, around, build_graph
from triplewise.graphs.around import ServedGraph
from triplewise.graphs.assistant_tools import AssistantTools
from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.kg import Outcome, Result, open_kg
from triplewise.tools.kg.engine import Deadline, Workers
from triplewise.tools.kg.local import LocalKG

QUESTIONS = (
    "Who wrote Dracula?",
    "Where was Goethe born?",
    "What is the capital of Peru?",
    "Which rivers are in Peru?",
    "Did Bram Stoker write Dracula?",
    "What currency is used in Mexico?",
)


def ask(question: str, **settings: Any) -> Answer:
    answer: Answer = build_graph().invoke({"question": question}, context=Context(**settings))["answer"]
    return answer


@pytest.mark.parametrize("question", ["Who wrote Dracula?", "Which rivers are in Peru?"])
def test_a_query_out_of_time_is_no_empty_one(question: str) -> None:
    answer = ask(question, query_timeout=1e-9)
    assert (answer.status, answer.values) == ("budget_spent", ())
    assert "timeout" in answer.reason


def test_faults_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {question: ask(question).values for question in QUESTIONS}
    draw, run = random.Random(1), LocalKG._run

    def flaky(self: LocalKG, *given: Any) -> Result:
        failed = draw.random() < 0.05
        return Result(Outcome.TIMEOUT, message="504") if failed else run(self, *given)

    monkeypatch.setattr(LocalKG, "_run", flaky)
    endings = set()
    for question in QUESTIONS:
        answer = ask(question)
        endings.add(answer.status)
        spent = answer.status == "budget_spent" and not answer.values and "504" in answer.reason
        assert spent or answer.values == right[question]
    assert "budget_spent" in endings


def test_an_endpoint_that_does_not_answer_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadline, "sleep", lambda self, seconds: None)
    with SparqlServer([Scripted("busy", status=503)]) as server:
        with pytest.raises(KGUnavailableError, match="503"):
            ask("Who wrote Dracula?", kg=server.url, profile="generic")
        assert len(server.asked) <= 25


def test_what_was_not_answered_is_named_where_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadline, "sleep", lambda self, seconds: None)

    store = Store()
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    store.update(f'INSERT DATA {{ <urn:a> a <urn:Film> . <urn:Film> {label} "film" }}')

    class Unbound(SparqlServer):
        """Answers an ASK as it should; of a SELECT all cells are unbound."""

        def next_reply(self, asked: Asked) -> Scripted:
            answer: Any = store.query(asked.parameters["query"][0])
            told = json.loads(answer.serialize(format=QueryResultsFormat.JSON))
            if "results" in told:
                told["results"]["bindings"] = [{} for _ in told["results"]["bindings"]]
            return Scripted(json.dumps(told))

    with Unbound([]) as server:
        answer = ask("How many films are there?", kg=server.url, profile="generic")
    assert answer.status == "not_found"
    assert "(a query was not answered: " in answer.reason


def test_a_run_ends_with_its_seconds() -> None:
    start = time.monotonic()
    answer = ask("Who directed films whose writer was born in Dublin?", plan_hops=100, max_seconds=1)
    assert answer.status in ("budget_spent", "not_found", "unsure")
    with SparqlServer([Scripted(delay=60.0)]) as server:
        answer = ask("Who wrote Dracula?", kg=server.url, profile="generic", max_seconds=1)
        assert answer.status == "budget_spent"
        assert "1 seconds is spent" in answer.reason
        assert time.monotonic() - start < 15
        start = time.monotonic()
        with pytest.raises(KGUnavailableError, match="seconds of the run are over"):
            ServedGraph.open("agent", {"kg": server.url, "max_seconds": 1.0})
        assert time.monotonic() - start < 5


def test_help_after_a_dead_end_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(around, "HELD_SECONDS", 0.5)
    state = State(question="Who wrote Dracula?", answer=Answer("not_found"))
    served = ServedGraph.open("agent", {"kg": "demo"})
    with SparqlServer([Scripted(delay=60.0)]) as server:
        start = time.monotonic()
        replace(served, kg=open_kg(server.url, profile="generic")).held(state)
        assert time.monotonic() - start < 15


def test_a_cancelled_run_frees_its_threads() -> None:
    graph, before = build_graph(), set(threading.enumerate())

    async def cancel_two(url: str) -> Answer:
        context = Context(kg=url, profile="generic")
        runs = [
            asyncio.ensure_future(graph.ainvoke({"question": QUESTIONS[0]}, context=context)) for _ in "ab"
        ]
        await asyncio.sleep(0.5)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        async with asyncio.timeout(20):
            answer: Answer = (await graph.ainvoke({"question": QUESTIONS[0]}, context=Context()))["answer"]
        return answer

    with SparqlServer([Scripted(delay=60.0)]) as server:
        assert asyncio.run(cancel_two(server.url)).labels == ("Bram Stoker",)
        waiting = [t for t in threading.enumerate() if t.name.startswith("AnyIO") and t not in before]
        for thread in waiting:
            thread.join(10)
        assert not any(thread.is_alive() for thread in waiting)


def test_a_child_has_threads_of_its_own() -> None:
    workers, stop = Workers(1), threading.Event()
    with pytest.raises(TimeoutError):
        workers.run(lambda _: stop.wait(), 0.05)
    threading.Thread(target=workers.run, args=(lambda _: stop.wait(), 60.0), daemon=True).start()
    kg = open_kg("demo")
    if (child := os.fork()) == 0:
        try:
            workers.run(lambda _: True, 5.0)
            os._exit(0 if kg.query("ASK { ?s ?p ?o }", timeout=5.0).boolean else 1)
        finally:
            os._exit(2)
    stop.set()
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_found_without_a_silent_source_says_so_and_soon(tmp_path: Path) -> None:
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (tmp_path / "my.nt").write_text(
        f'<http://x/alien> {label} "Alien" .\n<http://x/alien> <http://x/by> "R" .\n'
    )
    start, gone = time.monotonic(), "gone did not answer: "
    tools = AssistantTools({"gone": "http://127.0.0.1:9/sparql", "mine": str(tmp_path / "my.nt")})
    found = tools.search("Alien")
    assert (found.matches[0].id, gone in found.notice) == ("mine:alien", True)
    assert gone in tools.describe("Alien").notice
    for query in ("ASK { ?f <http://x/by> ?x }", "SELECT ?f { ?f <http://x/by> ?x }"):
        assert gone in tools.query(query).notice
    assert time.monotonic() - start < 15
