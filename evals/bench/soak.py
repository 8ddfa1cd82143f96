"""Many questions to an endpoint that fails: whether each still gets the answer it gets without faults."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from triplewise.evals import scripted_model
from triplewise.evals.bench.proxy import Proxy
from triplewise.evals.data import benchmark, locate, read_records
from triplewise.graphs import Context, build_graph
from triplewise.graphs.console import relax_collector, say
from triplewise.tools.core.errors import RunError
from triplewise.tools.linking.linker import without_brackets


class Reply(NamedTuple):
    """What a question came to, after how many seconds, and the memory that the process then had, in MiB."""

    status: str
    values: tuple[str, ...]
    reason: str
    seconds: float
    memory: float


def soak(
    endpoint: Annotated[str, typer.Argument(help="URL of an endpoint that holds MetaQA's graph.")],
    count: int = 1_000,
    jobs: int = 100,
    failing: float = 0.1,
    restart: Annotated[str | None, typer.Option(help="Shell command that restarts the endpoint.")] = None,
    model: Annotated[str, typer.Option(help="scripted (on loopback), or embedded.")] = "scripted",
    latency: float = 0.2,
) -> list[dict[str, Any]]:
    """Answers of a failing endpoint against those without faults. Needs TRIPLEWISE_DATA.

    `count` questions of MetaQA's dev files, `jobs` in flight; a share of the requests is `failing`, and
    half-way the endpoint is restarted. A reply of the scripted model takes `latency` seconds. Each run is a
    process of its own. `same`: answers as without faults. `explained`: others that name the failure (an
    error, or a spent budget). `growth`: of memory over the last half of the questions, percent.
    """
    files = [locate(file) for file in benchmark("metaqa").seeds.values()]
    mixed = zip_longest(*(read_records(file, "question", "topic_entity") for file in files))
    records = list(islice((record for hops in mixed for record in hops if record), count))
    rows: list[dict[str, Any]] = []
    expected: Sequence[Reply] = ()
    for rate in (0.0, failing):
        with Proxy(endpoint, failure_rate=rate) as proxy, scripted_model.running(latency) as url:
            served = {"model": scripted_model.MODEL, "base_url": url} if model == "scripted" else {}
            context = {"model": model, **served, "kg": proxy.url, "profile": "metaqa", "seeds": "none"}
            start = time.perf_counter()
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                running = pool.submit(_ask_all, records, "queryagent" if served else "agent", context, jobs)
                while rows and restart and not running.done():
                    if proxy.traffic.requests >= rows[0]["requests"] // 2:
                        subprocess.run(restart, shell=True, check=True, stdout=subprocess.DEVNULL)
                        restart = None
                    time.sleep(0.05)
                replies = running.result()
            seconds, expected = time.perf_counter() - start, expected or replies
            pairs = list(zip(expected, replies, strict=True))
            differing = [(e, r) for e, r in pairs if (e.status, e.values) != (r.status, r.values)]
            became = Counter(f"{e.status} became {r.status}: {r.reason}" for e, r in differing)
            for change, times in became.most_common(10):
                say(f"{times} times {change}")
            last = [r.memory for r in replies[len(replies) // 2 :]]
            median, most, nearly_all = np.quantile([r.seconds for r in replies], [0.5, 0.95, 0.99]).tolist()
            rows.append({
                "failing": rate,
                "questions": len(replies),
                "answered": sum(r.status == "answered" for r in replies),
                "same": len(replies) - len(differing),
                "explained": sum(r.status in ("error", "budget_spent") for _, r in differing),
                "median, s": median, "95 %, s": most, "99 %, s": nearly_all, "in all, s": seconds,
                "MiB": last[-1], "growth": 100 * (max(last) / last[0] - 1),
                **{name: getattr(proxy.traffic, name) for name in ("requests", "failed", "refused")},
            })  # fmt: skip
    return rows


def _ask_all(
    records: Sequence[Mapping[str, Any]], preset: str, context: Mapping[str, Any], jobs: int
) -> list[Reply]:
    """Ask every question, `jobs` at a time."""
    relax_collector()  # as the command line does
    graph = build_graph(preset)

    async def ask(record: Mapping[str, Any], gate: asyncio.Semaphore) -> Reply:
        async with gate:
            question = without_brackets(record["question"])
            given = {"question": question, "entities": {record["topic_entity"]: None}}
            start = time.perf_counter()
            try:
                answer = (await graph.ainvoke(given, context=Context(**context)))["answer"]
                came = answer.status, tuple(sorted(answer.values)), answer.reason
            except RunError as error:
                came = "error", (), str(error)
            resident = int(Path("/proc/self/statm").read_text().split()[1]) / 256  # pages of 4 KiB
            return Reply(*came, time.perf_counter() - start, resident)

    async def every() -> list[Reply]:
        gate = asyncio.Semaphore(jobs)
        return await asyncio.gather(*(ask(record, gate) for record in records))

    return asyncio.run(every())
