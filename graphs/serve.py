"""The web service: a page, its API, and the API of the TEXT2SPARQL challenge, all described in docs/serve.md.

Graph, model and settings are the operator's; a client chooses none. An error is `{"error": "..."}` in words.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from triplewise.graphs.around import ServedGraph as ServedGraph, name_relation
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import csv_text
from triplewise.graphs.examples import example_questions
from triplewise.graphs.page import render_docs, render_service
from triplewise.graphs.trace import DOING, trace_of
from triplewise.nodes.converse import KEPT, Conversation, Exchange, read, turns_of
from triplewise.nodes.state import Answer, State
from triplewise.tools.core.addresses import LOOPBACK, host_of
from triplewise.tools.core.errors import KGUnavailableError, RunError, TriplewiseError
from triplewise.tools.core.files import packaged
from triplewise.tools.core.taught import keep
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.parsing.card import SchemaCard
from triplewise.tools.pyql.raw_sparql import run_query

MOST_CHARACTERS, MOST_BYTES, MOST_ROWS = 2_000, 64_000, 1_000
"""Most characters of a question, bytes of a body, and rows of a query by hand."""
Answering = Callable[[Mapping[str, Any]], Awaitable[Response]]  # From the parameters of a request to a reply
MOST_WAITING, HELD_RUNS = 32, 128
"""Questions that may wait for their turn before the service is busy; runs and conversations remembered."""


class Service:
    """Answers requests about a graph, `jobs` at a time; `app` is the ASGI application.

    `local`: it listens on this machine alone, and answers to no other name. The page offers the `examples`.
    """

    def __init__(self, main: ServedGraph, jobs: int = 4, local: bool = True, examples: Sequence[str] = ()):
        self.main, self._local, self._examples = main, local, examples
        self._model = "no language model" if main.context.offline else str(main.context.model)
        self._schema, self._reads_schema = dict[str, Any](), asyncio.Lock()
        self._saver, self._graph_alone = InMemorySaver(), build_graph(main.preset)
        self._graph: Any = build_graph(main.preset, checkpointer=self._saver)
        self._turns, self._jobs, self._present = asyncio.Semaphore(jobs), jobs, 0
        self._runs: dict[str, Mapping[str, Any]] = {}
        self._talks: dict[str, tuple[Exchange, ...]] = {}
        page = _html(*render_service(main.kg.name, self._model, examples))
        api = packaged("triplewise.graphs.page", "api.yaml")  # OpenAPI 3.1
        api["info"]["version"] = version("triplewise")
        docs, both = _html(*render_docs(api)), ["GET", "POST"]
        self.app = Starlette(
            routes=[
                Route("/", lambda request: page),
                Route("/health", self._health),
                Route("/api/ask", _answering(self._ask), methods=both),
                Route("/api/stream", self._stream, methods=both),
                Route("/api/query", _answering(self._query), methods=both),
                Route("/api/schema", self._about),
                Route("/api/rate", self._rate, methods=["POST"]),
                Route("/api/name", self._name, methods=["POST"]),
                Route("/text2sparql", _answering(self._text2sparql)),
                Route("/openapi.json", lambda request: JSONResponse(api)),
                Route("/docs", lambda request: docs),
            ],
            middleware=[Middleware(SameOrigin, hosts=LOOPBACK if local else ())],
            exception_handlers=dict.fromkeys((TriplewiseError, HTTPException, ClientDisconnect), _failure),
        )

    async def _health(self, request: Request) -> Response:
        await asyncio.to_thread(self.main.probe)
        return JSONResponse({"status": "ok", "graph": self.main.kg.name, "triplewise": version("triplewise")})

    async def _ask(self, given: Mapping[str, Any]) -> Response:
        state, _ = await self._answer(_question(given))
        document = await asyncio.to_thread(self.main.document, state)
        rows = zip(document["answer"], document["iris"], document["labels"], strict=True)
        return _reply(given, document, ("value", "iri", "label"), list(rows))

    async def _about(self, request: Request) -> Response:
        """Return classes and relations of the graph, and questions that it answers; read once."""
        async with self._reads_schema:
            if not self._schema:
                opened = self.main.kg.session(), self.main.encoder
                schema = await asyncio.to_thread(SchemaCard.of, *opened)
                made = list(self._examples) or await asyncio.to_thread(example_questions, *opened)
                self._schema = {**asdict(schema), "questions": made}
        return JSONResponse(self._schema)

    async def _text2sparql(self, given: Mapping[str, Any]) -> Response:
        """Return the query for a question, as the challenge's client expects it; "" where none is known."""
        dataset, question = given.get("dataset", ""), _question(given)
        _, answer = await self._answer(question)
        return JSONResponse({"dataset": dataset, "question": question, "query": answer.sparql})

    async def _stream(self, request: Request) -> Response:
        """Send each phase of a run as it happens, then its trace, and what may be picked if it is unsure."""
        given = await _given(request)
        # An EventSource reads no body of an error: what fails is an event too.
        events = ({"event": name, "data": json.dumps(data)} async for name, data in self._events(given))
        return EventSourceResponse(events)

    async def _query(self, given: Mapping[str, Any]) -> Response:
        sparql = given.get("query")
        if not isinstance(sparql, str) or not sparql.strip():
            raise HTTPException(400, 'no query: send {"query": "SELECT ..."}')
        timeout = self.main.context.query_timeout
        async with self._turn():
            deadline = Deadline(math.inf)
            try:
                kg = self.main.kg.session(deadline=deadline)
                result = await asyncio.to_thread(run_query, kg, sparql, timeout=timeout, limit=MOST_ROWS)
            finally:
                deadline.cancel()  # ends the query of a client that has gone away
        if "boolean" in result:
            return _reply(given, result, ("boolean",), [(str(result["boolean"]).lower(),)])
        names = result["variables"]
        rows = [[(row.get(name) or {}).get("value", "") for name in names] for row in result["rows"]]
        return _reply(given, result, names, rows)

    async def _rate(self, request: Request) -> Response:
        """Keep a person's word on an answer; it teaches where only this machine is listened to."""
        body = await _given(request)
        if (answered := self._runs.get(str(body.get("run")))) is None:
            raise HTTPException(404, "no such run here any more; ask the question again")
        if (rating := body.get("rating")) not in ("right", "wrong"):
            raise HTTPException(400, f'rating: "right" or "wrong", got {rating!r}')
        source = self.main.source if self._local and answered["program"] else None
        about = {"rating": rating, "graph": self.main.kg.name, "model": self._model}
        await asyncio.to_thread(partial(keep, "ratings", source, **about, **answered))
        return JSONResponse({"rating": rating, "teaches": source is not None})

    async def _name(self, request: Request) -> Response:
        """Give a relation of the graph another name, which is kept in its profile."""
        body = await _given(request)
        if not self._local or not self.main.source:
            raise HTTPException(403, "relations are named where the graph is served, by `triplewise kg name`")
        relation, name = (" ".join(str(body.get(key) or "").split()) for key in ("relation", "name"))
        kg, source = self.main.kg.session(), self.main.source
        named, _ = await asyncio.to_thread(name_relation, kg, source, relation, name)
        self._schema = {}
        return JSONResponse({"relation": named, "name": name})

    async def _events(self, given: Mapping[str, Any]) -> AsyncIterator[tuple[str, Any]]:
        """Yield name and data of the events of a new run, or of one that goes on with a picked reading."""
        run = str(given.get("run") or uuid4().hex)
        config: Any = {"configurable": {"thread_id": run}}
        choices = None
        talk = str(given.get("conversation") or "")[:64]
        try:
            if "run" in given:
                if not (await self._graph.aget_state(config)).next:
                    raise HTTPException(404, "this run waits for no choice any more; ask the question again")
                start: Any = Command(resume=str(given.get("pick", "0")))
            else:
                earlier = () if given.get("alone") else self._talks.get(talk, ())
                start = await self._read(_question(given), earlier)
            context = self.main.context.changed(interactive=True, review=False)
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
                held = await asyncio.to_thread(self.main.held, state)
            self._remember(run, talk, state)
            about = {"run": run, "asked": given.get("question", ""), "teaches": self._local}
            held_data = held.model_dump() if held is not None else None
            yield "answer", {**about, "trace": trace, "choices": choices, "held": held_data}
        except (TriplewiseError, HTTPException) as error:
            yield "failed", {"error": getattr(error, "detail", str(error))}
        finally:
            if choices is None:
                self._saver.delete_thread(run)

    def _remember(self, run: str, talk: str, state: State) -> None:
        """Keep what a rating or the next message of a conversation needs of a run."""
        answer, reading = state.answer, state.followed
        assert answer is not None, "a run that ends has an answer"
        is_read = reading is not None and reading.values == answer.values
        self._runs[run] = {
            **{name: getattr(answer, name) for name in ("status", "confidence", "labels", "sparql")},
            "question": state.question,
            "answer": answer.values,
            "program": reading.program if reading is not None and is_read else state.program,
            "entities": {e.mention: e.id for e in state.linked},
        }
        if len(self._runs) > HELD_RUNS:
            oldest = next(iter(self._runs))
            del self._runs[oldest]
            self._saver.delete_thread(oldest)
        if talk:
            exchange = Exchange.of(state.question, answer, reading if is_read else None)
            others = self._talks.pop(talk, ())
            others = others[:-1] if others and others[-1].turn.question == state.question else others
            self._talks[talk] = (*others, exchange)[-KEPT:]
            for oldest in list(self._talks)[:-HELD_RUNS]:
                del self._talks[oldest]

    async def _read(self, text: str, earlier: tuple[Exchange, ...]) -> dict[str, Any]:
        """Return the input of a run: what a message asks, and the questions before it that it may lean on."""
        if not earlier:
            return {"question": text}
        runtime = Runtime(context=self.main.settings)
        message = Conversation(messages=[HumanMessage(text)], exchanges=earlier)
        update: Any = (await asyncio.to_thread(read, message, runtime)).update
        if "question" in update:
            return {"question": update["question"], "turns": update["turns"]}
        if update["unclear"]:
            raise HTTPException(400, update["messages"][0].text)
        # Why, show the query: both are on the page.
        return {"question": earlier[-1].turn.question, "turns": turns_of(earlier[:-1])}

    async def _answer(self, question: str) -> tuple[State, Answer]:
        """Return the state that a question ends in, and its answer."""
        context = self.main.context.changed(interactive=False, review=False)
        async with self._turn():
            ended = await self._graph_alone.ainvoke({"question": question}, context=context)
        state = State.model_validate(ended)
        assert state.answer is not None, "a run that ends has an answer"
        return state, state.answer

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn. Raises `HTTPException` where too many wait already."""
        if (waiting := self._present - self._jobs) >= MOST_WAITING:
            raise HTTPException(503, f"busy: {waiting} others wait already; try again in a minute")
        self._present += 1
        try:
            async with self._turns:
                yield
        finally:
            self._present -= 1


class SameOrigin:
    """Refuses what pages of other sites ask for, which a browser would carry out, hiding only the reply.

    It answers to the names `hosts`, () for any: another site may point a name of its own at this machine.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self.app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it with 403."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        host, origin, message = headers.get("host", ""), headers.get("origin"), ""
        # Browsers name the site of the asking page, though not over plain HTTP from another machine.
        is_own = origin is None or origin.partition("//")[2] == host
        site = headers.get("sec-fetch-site", "same-origin" if is_own else "cross-site")
        is_link = scope["type"] == "http" and (scope["path"], scope["method"]) == ("/", "GET")
        if scope["type"] == "http" and self._hosts and host_of(f"//{host}") not in self._hosts:
            message = f"this server answers to {', '.join(self._hosts)}, not to {host!r}; see --host"
        elif not is_link and site not in ("none", "same-origin"):
            message = "pages of other sites may not ask"
        await (JSONResponse({"error": message}, 403) if message else self.app)(scope, receive, send)


def _question(given: Mapping[str, Any]) -> str:
    """Return the question of a request. Raises `HTTPException` without one, or if it is too long."""
    question = given.get("question", "")
    question = question.strip() if isinstance(question, str) else ""
    if not question or len(question) > MOST_CHARACTERS:
        message = f"`question` needs 1 to {MOST_CHARACTERS:,} characters, got {len(question):,}"
        raise HTTPException(400, message)
    return question


def _reply(given: Mapping[str, Any], document: Any, names: Sequence[str], rows: Sequence[Any]) -> Response:
    """Return the document as JSON, or its table as CSV where the request wants it."""
    if (form := given.get("format", "json")) not in ("json", "csv"):
        raise HTTPException(400, f"format: json or csv, got {form!r}")
    if form == "json":
        return JSONResponse(document)
    return Response(csv_text(names, rows), media_type="text/csv; charset=utf-8")


def _html(text: str, policy: str) -> Response:
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def _answering(answer: Answering) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers the parameters of a request until its client goes away."""

    async def endpoint(request: Request) -> Response:
        async def leave() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        given = await _given(request)
        answering, leaving = asyncio.ensure_future(answer(given)), asyncio.ensure_future(leave())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientDisconnect
            return answering.result()
        finally:
            answering.cancel()
            leaving.cancel()

    return endpoint


async def _given(request: Request) -> Mapping[str, Any]:
    """Return the parameters of a GET, or the JSON object of a POST. Raises `HTTPException` for others."""
    if request.method != "POST":
        return dict(request.query_params)
    content = bytearray()
    async for chunk in request.stream():  # a body may be sent without its length
        content += chunk
        if len(content) > MOST_BYTES:
            raise HTTPException(400, f"the body is longer than {MOST_BYTES:,} bytes")
    try:
        return TypeAdapter(dict[str, Any]).validate_json(content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise HTTPException(400, f"the body needs to be a JSON object: {reason}") from error


def _failure(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        is_unknown = error.detail in ("Not Found", "Method Not Allowed")
        served = f"{request.method} {request.url.path} is not served; /docs lists what is"
        detail = served if is_unknown else error.detail
        return JSONResponse({"error": detail}, error.status_code, error.headers)
    status = 503 if isinstance(error, KGUnavailableError) else 502 if isinstance(error, RunError) else 400
    return JSONResponse({"error": str(error)}, status)


def _detail(phase: str, update: Mapping[str, Any]) -> str:
    """Return in a few words what a phase came to, "" where there is nothing to say."""
    if phase == "link":
        return ", ".join(f"{e.mention}: {e.label}" for e in update.get("linked", ()))
    if phase == "plan":
        return f"readings: {len(update.get('readings', ()))}, rules: {len(update.get('rules', ()))}"
    return str(update["steps"][-1].call) if phase == "act" and update.get("steps") else ""
