"""What distance costs: questions to an engine some milliseconds away, and to the same graph in process."""

from __future__ import annotations

import time
from statistics import fmean, median
from typing import Any

import pyoxigraph as ox

from triplewise.evals.bench.proxy import Proxy
from triplewise.evals.question_sets import question_sets
from triplewise.evals.servers import OxigraphServer
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.endpoint import EndpointKG

SETS = ("metaqa", "demo", "cars", "units", "elements")


def latency(
    count: int = 10, delays: tuple[int, int, int] = (0, 50, 250), only: str = "", index: bool = True
) -> list[dict[str, Any]]:
    """Round trips and seconds of a question without a model, by the distance of the endpoint.

    `count` development questions of MetaQA, of the demo and of small graphs each, or of the sets whose names
    begin with `only`. The engine is pyoxigraph behind HTTP, a round trip takes some milliseconds (`delays`),
    and its labels have an `index` as `triplewise kg index` makes it. `sequential` is the longest chain of
    round trips of which each waits for the one before. Needs TRIPLEWISE_DATA.
    """
    rows = list[dict[str, Any]]()
    for asked in question_sets([name for name in SETS if name.startswith(only)]):
        kg, store = asked.open(), ox.Store()
        assert isinstance(kg, EmbeddedKG)
        store.bulk_extend(kg.quads())
        questions = [one.question for one in asked.questions[:count]]
        _ask(kg, questions[0])  # opens the encoder
        here = [(*_ask(kg, question), 0, 0) for question in questions]
        replies = {"embedded": here}
        with OxigraphServer(store) as engine:
            for delay in delays:
                with Proxy(engine.url, delay_ms=delay) as proxy:
                    endpoint = EndpointKG(proxy.url, kg.profile, index=kg.index if index else None)
                    replies[f"{delay} ms"] = distant = []
                    for question in questions:
                        proxy.reset()
                        reply = _ask(endpoint, question)
                        distant.append((*reply, proxy.traffic.requests, proxy.traffic.waves))
                    endpoint.close()
        for name, given in replies.items():
            answers, seconds, trips, waves = zip(*given, strict=True)
            same = [set(a.values) == set(b[0].values) for a, b in zip(answers, here, strict=True)]
            rows.append({
                "questions": asked.name, "engine": name, "asked": len(answers), "same answers": sum(same),
                "trips": fmean(trips), "sequential": fmean(waves), "most sequential": max(waves),
                "first, s": seconds[0], "median, s": median(seconds), "most, s": max(seconds),
            })  # fmt: skip
    return rows


def _ask(kg: KnowledgeGraph, question: str) -> tuple[Answer, float]:
    """Return the answer without a model, and the seconds that it took."""
    start, context = time.perf_counter(), Context(kg=kg, model="embedded", max_seconds=600)
    answer: Answer = build_graph("agent").invoke({"question": question}, context=context)["answer"]
    return answer, time.perf_counter() - start
