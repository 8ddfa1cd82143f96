"""The web service: a page, its API, and the API of the TEXT2SPARQL challenge, all told in docs/serve.md.

Graph, model and settings are the operator's. A client gives a question, the number of a reading, a rating or
a read-only query, and chooses nothing else. An error is `{"error": "..."}` in words for the person.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from platformdirs import user_data_path
from pydantic import TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from triplewise.graphs.build import build_graph
from triplewise.graphs.cli.run import DOING
from triplewise.graphs.page import render_service
from triplewise.graphs.presets import find_preset
from triplewise.graphs.trace import trace_of, whole_trace
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import State
from triplewise.tools.core.errors import KGUnavailableError, RunError, TriplewiseError
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.pyql.raw_sparql import run_query

MOST_CHARACTERS, MOST_BYTES, MOST_ROWS = 2_000, 64_000, 1_000
"""Most characters of a question, bytes of a body, and rows of a query by hand."""
MOST_WAITING = 32
"""Questions that may wait for their turn; beyond that the service is busy."""
HELD_RUNS = 128
"""Runs that can still be rated, and gone on with; the oldest is let go first."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class RefusedError(TriplewiseError):
    """A request that is not carried out, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class ServedGraph:
    """A graph that questions are asked of: settings of its runs, preset, and the opened graph."""

    context: Context
    preset: str
    kg: KnowledgeGraph

    @classmethod
    def open(cls, preset: str, settings: Mapping[str, Any]) -> ServedGraph:
        """Open graph and model at once, to fail early.

        Raises:
            ConfigurationError, DataError: a graph or model that cannot be opened.
            KGUnavailableError: an endpoint that does not answer.
        """
        context = Context(**settings)
        opened = Environment(context.resolved(find_preset(preset).settings))
        served = cls(context.changed(interactive=False, review=False), preset, opened.kg)
        served.probe()
        if not opened.context.embedded:
            _ = opened.model
        return served

    def probe(self) -> None:
        """Ask the graph for any triple. Raises `KGUnavailableError` if it does not answer."""
        probe = self.kg.session().query("ASK { ?s ?p ?o }")
        if not probe.outcome.ok:
            raise KGUnavailableError(f"{self.kg.name}: {probe.message}")


class Service:
    """Answers requests; `app` is the ASGI application.

    Args:
        main: the graph of the page and of `/api`.
        datasets: id -> the graph of a TEXT2SPARQL dataset; without any, `main` stands for each.
        jobs: questions and queries that are worked on at a time; others wait.
        local: whether it listens on this machine alone, and answers to no other name.
        examples: questions that the page offers.
    """

    def __init__(
        self,
        main: ServedGraph,
        datasets: Mapping[str, ServedGraph],
        jobs: int = 4,
        local: bool = True,
        examples: Sequence[str] = (),
    ) -> None:
        self.main, self.datasets = main, datasets
        self._model = "no language model" if main.context.embedded else str(main.context.model)
        html, policy = render_service(main.kg.name, self._model, examples)
        self._page = HTMLResponse(html, headers={"Content-Security-Policy": policy})
        self._saver = InMemorySaver()
        self._graph_alone: Any = build_graph(main.preset)
        self._graph: Any = build_graph(main.preset, checkpointer=self._saver)
        self._turns, self._jobs, self._present = asyncio.Semaphore(jobs), jobs, 0
        self._runs: dict[str, Mapping[str, Any]] = {}
        self._ratings = user_data_path("triplewise") / "ratings.jsonl"
        self.app = Starlette(
            routes=[
                Route("/", lambda request: self._page),
                Route("/health", self._health),
                Route("/api/ask", self._ask),
                Route("/api/stream", self._stream),
                Route("/api/query", self._query, methods=["POST"]),
                Route("/api/rate", self._rate, methods=["POST"]),
                Route("/text2sparql", self._text2sparql),
            ],
            middleware=[Middleware(SameOrigin, hosts=LOOPBACK if local else ())],
            exception_handlers={TriplewiseError: _failure, HTTPException: _failure},
        )

    async def _health(self, request: Request) -> Response:
        await asyncio.to_thread(self.main.probe)
        return JSONResponse({"status": "ok", "graph": self.main.kg.name, "triplewise": version("triplewise")})

    async def _ask(self, request: Request) -> Response:
        state = await self._answer(self.main, _question(request))
        return JSONResponse(whole_trace(state))

    async def _text2sparql(self, request: Request) -> Response:
        """Return the query for a question, as the challenge's client expects it; "" where none is known."""
        dataset, question = request.query_params.get("dataset", ""), _question(request)
        served = self.datasets.get(dataset) if self.datasets else self.main
        if served is None:
            known = ", ".join(self.datasets)
            raise RefusedError(404, f"unknown dataset {dataset!r}; this server has: {known}")
        state = await self._answer(served, question)
        query = state.answer.sparql if state.answer else ""
        return JSONResponse({"dataset": dataset, "question": question, "query": query})

    async def _stream(self, request: Request) -> Response:
        """Send each phase of a run as it happens, then its trace, and what may be picked if it is unsure."""
        # An EventSource reads no body of an error: what fails is an event too.
        return EventSourceResponse(
            {"event": event, "data": json.dumps(data)} async for event, data in self._events(request)
        )

    async def _query(self, request: Request) -> Response:
        sparql = (await _body(request)).get("query")
        if not isinstance(sparql, str) or not sparql.strip():
            raise RefusedError(400, 'no query: send {"query": "SELECT ..."}')
        async with self._turn():
            timeout = self.main.context.query_timeout
            run = partial(run_query, self.main.kg.session(), sparql, timeout=timeout, limit=MOST_ROWS)
            result = await asyncio.to_thread(run)
        return JSONResponse(result)

    async def _rate(self, request: Request) -> Response:
        """Keep a person's word on an answer as a line in the user's data folder."""
        body = await _body(request)
        if (answered := self._runs.get(str(body.get("run")))) is None:
            raise RefusedError(404, "no such run here any more; ask the question again")
        if (rating := body.get("rating")) not in ("right", "wrong"):
            raise RefusedError(400, f'rating: "right" or "wrong", got {rating!r}')
        record = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "rating": rating}
        record |= {"graph": self.main.kg.name, "model": self._model, **answered}
        self._ratings.parent.mkdir(parents=True, exist_ok=True)
        with self._ratings.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return JSONResponse({"rating": rating})

    async def _events(self, request: Request) -> AsyncIterator[tuple[str, Any]]:
        """Yield name and data of the events of a new run, or of one that goes on with a picked reading."""
        run = request.query_params.get("run") or uuid4().hex
        config: Any = {"configurable": {"thread_id": run}}
        choices = None
        try:
            if "run" in request.query_params:
                if not (await self._graph.aget_state(config)).next:
                    raise RefusedError(404, "this run waits for no choice any more; ask the question again")
                start: Any = Command(resume=request.query_params.get("pick", "0"))
            else:
                start = {"question": _question(request), "entities": {}}
            context = self.main.context.changed(interactive=True)
            async with self._turn():
                stream = self._graph.astream(start, config, context=context, stream_mode=["tasks", "updates"])
                async for mode, data in stream:
                    if mode == "tasks" and "input" in data:
                        yield "phase", {"phase": data["name"], "doing": DOING[data["name"]]}
                    elif "__interrupt__" in data:
                        choices = data["__interrupt__"][0].value
                    elif mode == "updates":
                        for phase, update in data.items():
                            yield "done", {"phase": phase, "detail": _detail(phase, update or {})}
                state = State.model_validate((await self._graph.aget_state(config)).values).restored()
                trace = await asyncio.to_thread(trace_of, state, self.main.kg.session())
            keys = ("question", "status", "confidence", "answer", "labels", "sparql")
            self._runs[run] = {name: trace[name] for name in keys}
            if len(self._runs) > HELD_RUNS:
                oldest = next(iter(self._runs))
                del self._runs[oldest]
                self._saver.delete_thread(oldest)
            yield "answer", {"run": run, "trace": trace, "choices": choices}
        except TriplewiseError as error:
            yield "failed", {"error": str(error)}
        finally:
            if choices is None:
                self._saver.delete_thread(run)

    async def _answer(self, served: ServedGraph, question: str) -> State:
        """Return the state that a question ends in."""
        async with self._turn():
            run = {"question": question, "entities": {}}
            values = await self._graph_alone.ainvoke(run, context=served.context)
        return State.model_validate(values)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises `RefusedError` where too many wait already."""
        if (waiting := self._present - self._jobs) >= MOST_WAITING:
            raise RefusedError(503, f"busy: {waiting} others wait already; try again in a minute")
        self._present += 1
        try:
            async with self._turns:
                yield
        finally:
            self._present -= 1


def _site(url: str) -> tuple[str | None, str | None]:
    """Return the host of a URL, and host and port; None where it cannot be read."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None, None
    return parts.hostname, parts.netloc


class SameOrigin:
    """Refuses what pages of other sites ask for, which a browser would carry out and only hide the reply of.

    Args:
        hosts: the names that the server answers to; () for any. It keeps a name that another site points
            at this machine from passing for the server's own.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self.app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it with 403."""
        if scope["type"] == "http" and (message := self._objection(scope)):
            await JSONResponse({"error": message}, 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _objection(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts and _site(f"//{host}")[0] not in self._hosts:
            return f"this server answers to {', '.join(self._hosts)}, not to {host!r}; see --host"
        # Browsers name the site of the asking page, though not over plain HTTP from another machine.
        is_own = origin is None or _site(origin)[1] == host
        site = headers.get("sec-fetch-site", "same-origin" if is_own else "cross-site")
        is_link = scope["path"] == "/" and scope["method"] == "GET"
        return "" if is_link or site in ("none", "same-origin") else "pages of other sites may not ask"


def _question(request: Request) -> str:
    """Return the question of a request. Raises `RefusedError` without one, or if it is too long."""
    question = request.query_params.get("question", "").strip()
    if not question or len(question) > MOST_CHARACTERS:
        message = f"`question` needs 1 to {MOST_CHARACTERS:,} characters, got {len(question):,}"
        raise RefusedError(400, message)
    return question


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request. Raises `RefusedError` for anything else."""
    # A reader of its own, for a body may be sent without its length.
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BYTES:
            raise RefusedError(400, f"the body is longer than {MOST_BYTES:,} bytes")
    try:
        return TypeAdapter(dict[str, Any]).validate_json(content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise RefusedError(400, f"the body needs to be a JSON object: {reason}") from error


def _failure(request: Request, error: Exception) -> Response:
    """Return an error in its own words."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    status = 503 if isinstance(error, KGUnavailableError) else 502 if isinstance(error, RunError) else 400
    return JSONResponse({"error": str(error)}, getattr(error, "status", status))


def _detail(phase: str, update: Mapping[str, Any]) -> str:
    """Return in a few words what a phase came to, "" where there is nothing to say."""
    if phase == "link":
        return ", ".join(f"{e.mention}: {e.label}" for e in update.get("linked", ()))
    if phase == "plan":
        return f"readings: {len(update.get('readings', ()))}, rules: {len(update.get('rules', ()))}"
    return str(update["steps"][-1].call) if phase == "act" and update.get("steps") else ""
