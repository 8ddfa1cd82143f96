"""The endpoint engine: any SPARQL 1.1 endpoint, through SPARQLWrapper."""

from __future__ import annotations

import logging
import math
import os
import random
import re
import threading
import weakref
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlunsplit

import httpx

from triplewise.tools.core.addresses import LOOPBACK, login_headers, split_url, usable_proxies, without_login
from triplewise.tools.core.terms import Term, whole_number
from triplewise.tools.kg.dialects import Engine, engine_of
from triplewise.tools.kg.engine import ReadQuery, Workers, read_query, tokenize
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.sparql_results import BRANCH, Reply, Verdict, judge
from triplewise.tools.kg.waves import Waves

if TYPE_CHECKING:
    from triplewise.tools.kg.profile import Profile

T = TypeVar("T")

CONNECTIONS = 4  # requests at a time to one endpoint, by default: polite to public ones
ATTEMPTS = 5  # attempts at most for one query, not counting those that met a server which is down
BACK_OFF, LONGEST_WAIT = 0.25, 4.0  # seconds before the second attempt, doubled before each further one
EARLY = 0.25  # a gateway that says "time-out" after this share of ours did not wait: another try may do
LONGEST_GET = 1_500  # characters of a query above which it is sent by POST: servers cut long URLs
LARGEST_BODY = 256 * 1024 * 1024  # bytes of an answer, unpacked, above which it is given up
REDIRECTS = 5  # redirects that one request follows at most
_log = logging.getLogger(__name__)
_DECLARED = re.compile(r"PREFIX\s+[^\s:]*:\s*<[^<>]*>", re.IGNORECASE)
_NAME = r"(?:<[^<>\s]+>|[\w.-]*:[\w.-]*[\w-]|\([^()\s]+\))"
_CLOSURE = re.compile(  # `subject [step /] below* top` at the end of a triple
    rf"(\?\w+)\s+(?:({_NAME})\s*/\s*)?({_NAME})\s*\*\s+({_NAME})(?=\s*[.}}])"
)
_ACCEPTED = {"Accept": "application/sparql-results+json, application/json;q=0.5", "Accept-Encoding": "gzip"}


class EndpointKG(KnowledgeGraph):
    """A KG behind a SPARQL 1.1 endpoint.

    Overload (429, 5xx) and cut connections are tried again within the time-out, as `Retry-After` asks;
    time-outs are not. A server that has answered before is waited for as long while it is down. What tasks
    ask that run together (`together`) is sent in as many requests as there are connections.

    Args:
        url: the query endpoint. Its login is looked up (see `triplewise.tools.core.addresses`); a query
            string in it is sent too. Raises `ConfigurationError` for a URL that is not http(s).
    """

    is_remote, connections = True, CONNECTIONS
    indexed = ""  # when its label index was made, where it has one: date and time in UTC

    def __init__(self, url: str, profile: Profile) -> None:
        parts = split_url(url)
        self.url = without_login(urlunsplit(parts._replace(query="", fragment="")))
        self._parameters = parse_qsl(parts.query)
        super().__init__(profile, self.url)
        self.is_local = parts.hostname in LOOPBACK
        self._headers = login_headers(url)
        self._workers = Workers()
        self._closed = threading.Event()  # shared with sessions
        self._engine: Engine | None = None  # sessions look at this and the next ones of `shared`
        self._has_answered = self._is_redirected = False
        # By process, since a fork shares no connection, and the number of connections.
        self._clients: dict[tuple[int, int], httpx.Client] = {}
        weakref.finalize(self, _close, self._clients)
        self._waves: Waves[_Query, Result] = Waves(self._answer_all)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Stop asking. Later calls say `unavailable`."""
        self._closed.set()
        _close(self._clients)
        super().close()

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run tasks side by side; what they ask travels together."""
        return self._waves.run(tasks)

    def query_own(self, sparql: str) -> Result:
        """Run a SELECT that triplewise wrote itself: no other may name a service of the engine's own."""
        self.meter.add()
        return self._run(ReadQuery(sparql, "SELECT", tokenize(sparql)), self.timeout, self.limit)

    def _run(self, query: ReadQuery, timeout: float, limit: int, foreign: bool = False) -> Result:
        return self._waves.ask(_Query(query, timeout, limit, self.deadline))

    def _answer_all(self, requests: Sequence[_Query]) -> list[Result]:
        """Answer queries at the same time, each once, in no more requests than there are connections."""
        distinct = list({(a.query.text, a.limit): a for a in requests}.values())
        groups = [distinct[i :: self.connections] for i in range(min(self.connections, len(distinct)))]
        if len(groups) == 1:  # no thread for a single group
            results = [self._answer_group(groups[0])]
        else:
            with ThreadPoolExecutor(self.connections, "triplewise-kg") as pool:
                results = list(pool.map(self._answer_group, groups))
        pairs = zip(chain(*groups), chain(*results), strict=True)
        answers = {(a.query.text, a.limit): result for a, result in pairs}
        return [answers[a.query.text, a.limit] for a in requests]

    def _answer_group(self, requests: Sequence[_Query]) -> list[Result]:
        """Answer queries by the union of them; each by itself where that is too much for the engine."""
        pairs = [(a.query, a.limit) for a in requests]
        if len(requests) > 1 and (query := unite(pairs)) is not None:
            most = sum(a.limit + 1 for a in requests)
            whole = self._answer(_Query(query, max(a.timeout for a in requests), most, requests[0].within))
            if whole.outcome in (Outcome.ROWS, Outcome.EMPTY):
                return split(whole, pairs)
            if whole.outcome is Outcome.UNAVAILABLE:
                return [whole] * len(requests)
        return list(map(self._answer, requests))

    def _answer(self, request: _Query) -> Result:
        """Answer one query, in as many attempts as it takes, until it is settled or time is over."""
        if self.closed:
            return self.closed_result()
        query, limit, deadline = request.query, request.limit, Deadline(request.timeout, request.within)
        if self.shared._engine is not None and self.shared._engine.loses_closures:
            query = spell_out_closures(query)
        failures = 0
        for attempt in count():
            verdict = self._attempt(replace(query, text=query.capped(limit + 1)), limit, deadline)
            if 0 < verdict.sort_cap <= limit:
                # The engine sorts fewer rows than requested: take what it can sort, as a truncated result.
                limit = verdict.sort_cap - 1
                continue
            # One that has answered before is waited for while it is down: it may be starting anew.
            failures += not (verdict.down and self.shared._has_answered)
            if not verdict.retry or failures >= ATTEMPTS:
                break
            back_off = min(BACK_OFF * 2**attempt, LONGEST_WAIT) * random.uniform(0.8, 1.2)
            if (wait := max(verdict.wait, back_off)) >= deadline.left:
                left = f"{wait:.1f} s, which the time-out of {deadline.seconds:g} s does not leave."
                message = f"{verdict.result.message.rstrip('.')}. Trying again needs {left}"
                return Result(verdict.result.outcome, message=message)
            deadline.sleep(wait)
        return verdict.result

    def _attempt(self, query: ReadQuery, limit: int, deadline: Deadline) -> Verdict:
        left = deadline.left
        request, seconds = self._request(query.text, query.form, left), math.ceil(max(left, 1.0))
        try:
            reply = self._workers.run(partial(self._exchange, request, seconds), left, deadline)
        except (TimeoutError, httpx.TimeoutException):
            late = f"{self.url} gave no answer within {deadline.seconds:g} s"
            return Verdict(Result(Outcome.TIMEOUT, message=f"{late}; ask for less, or allow more time"))
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError, ValueError, zlib.error) as error:
            remedy = "the connection was cut: try again, or look into the server's log"
            if "refused" in str(error):
                remedy = "nothing listens there: start the server, or check host and port"
            elif isinstance(error, httpx.ConnectError):
                remedy = "check the URL and the network"
            message = f"{self.url} cannot be reached ({error or type(error).__name__}); {remedy}"
            retry = isinstance(error, httpx.TransportError | httpx.DecodingError | zlib.error)
            down = isinstance(error, httpx.ConnectError)  # for good, where it has never answered
            result = Result(Outcome.UNAVAILABLE, message=message)
            return Verdict(result, retry=retry and (self.shared._has_answered or not down), down=down)
        self.shared._engine = self.shared._engine or engine_of(reply.headers.get("server", ""))
        verdict = judge(reply, query, limit, bool(self._headers))
        self.shared._has_answered |= verdict.result.outcome.ok
        early = reply.status == 504 and left - deadline.left < EARLY * deadline.seconds
        # One that has answered before may send the page of a proxy or nothing in between.
        passing = verdict.foreign and self.shared._has_answered
        return replace(verdict, retry=True) if early or passing else verdict

    def _request(self, text: str, form: str, seconds: float) -> httpx.Request:
        from SPARQLWrapper import JSON, POST, SPARQLWrapper

        wrapper = SPARQLWrapper(self.url, returnFormat=JSON, agent="triplewise (SPARQLWrapper)")
        wrapper.setOnlyConneg(True)
        # Set directly: setQuery guesses the form with a pattern that comments and IRIs can mislead, and
        # would send what it takes for an update as one.
        wrapper.queryString, wrapper.queryType = text, form
        if len(text) > LONGEST_GET:
            wrapper.setMethod(POST)
        for key, value in self._parameters:
            wrapper.addParameter(key, value)
        if (engine := self.shared._engine) is not None and engine.timeout:
            wrapper.addParameter(engine.timeout, str(max(1000, int(seconds * 900))))
        made: Any = wrapper._createRequest()
        headers = {**dict(made.header_items()), **_ACCEPTED, **self._headers}
        return httpx.Request(made.get_method(), made.full_url, headers=headers, content=made.data)

    def _exchange(self, request: httpx.Request, seconds: float, cancelled: threading.Event) -> Reply:
        """Send one request and read the whole reply. Raises httpx.HTTPError if none comes."""
        key = os.getpid(), self.connections
        if (client := self._clients.get(key)) is None:
            limits = httpx.Limits(max_connections=self.connections)
            with usable_proxies():
                client = self._clients.setdefault(key, httpx.Client(limits=limits))
        for _ in range(REDIRECTS):
            request.extensions["timeout"] = httpx.Timeout(seconds).as_dict()
            response, body = client.send(request, stream=True), bytearray()
            with closing(response):
                if response.next_request is None:
                    for piece in response.iter_bytes():
                        body += piece
                        if cancelled.is_set():
                            break
                        if len(body) > LARGEST_BODY:
                            raise ValueError(f"the answer is larger than {LARGEST_BODY >> 20} MiB")
                    return Reply(response.status_code, bytes(body), dict(response.headers))
                here, there = (r.url.netloc.decode() for r in (request, response.next_request))
                if here != there and not self.shared._is_redirected:
                    self.shared._is_redirected = True
                    message = "%s sends queries on to another server, %s; no login goes there"
                    _log.warning(message, here, there)
                request = response.next_request
                for header in self._headers:  # a login or a key goes to no other host
                    request.headers.pop(header, None)
        raise httpx.TooManyRedirects("it redirects in a circle", request=request)


def _close(clients: dict[tuple[int, int], httpx.Client]) -> None:
    """Close the connections of this process."""
    for key in [key for key in clients if key[0] == os.getpid()]:
        clients.pop(key).close()


class _Query(NamedTuple):
    """A query with its time-out in seconds, its limit in rows, and the deadline of the run."""

    query: ReadQuery
    timeout: float
    limit: int
    within: Deadline | None


def unite(queries: Sequence[tuple[ReadQuery, int]]) -> ReadQuery | None:
    """Return one query for several, each with its limit in rows; None where they cannot be united.

    Its solutions are those of each query, marked with the query's number. An ASK becomes a row or none.
    """
    declared, names, branches = dict[str, None](), dict[str, None](), list[str]()
    for number, (query, limit) in enumerate(queries):
        form = next(t for t in query.tokens if t.keyword == query.form)
        prologue = query.text[: form.start]
        declared.update(dict.fromkeys(_DECLARED.findall(prologue)))
        if _DECLARED.sub("", prologue).strip() or not (query.variables or query.form == "ASK"):
            return None
        names.update(dict.fromkeys(query.variables))
        text = query.capped(limit + 1)[form.start :]
        if query.form == "ASK":
            text = f"SELECT (1 AS ?{BRANCH}ask) {text[len(form.text) :]} LIMIT 1"
        branches.append(f"{{ {{ {text} }} BIND({number} AS ?{BRANCH}) }}")
    columns = " ".join(f"?{name}" for name in (BRANCH, *names))
    united = f"{' '.join(declared)} SELECT {columns} WHERE {{ {' UNION '.join(branches)} }}"
    return ReadQuery(united, "SELECT", tokenize(united))


def split(whole: Result, queries: Sequence[tuple[ReadQuery, int]]) -> list[Result]:
    """Return the result of each query from that of their union."""
    rows: list[list[tuple[Term | None, ...]]] = [[] for _ in queries]
    for mark, *cells in whole.rows:
        if (number := whole_number(mark, len(queries))) is not None:
            rows[number].append(tuple(cells))
    results = []
    for (query, limit), own in zip(queries, rows, strict=True):
        if query.form == "ASK":
            results.append(Result.ask(bool(own)))
            continue
        places = [whole.variables.index(name) - 1 for name in query.variables]
        results.append(Result.capped(query.variables, [tuple(row[i] for i in places) for row in own], limit))
    return results


def spell_out_closures(query: ReadQuery) -> ReadQuery:
    """The query with `?x p/q* Class` as the alternatives `?x p Class` and `?x p/q+ Class`.

    Virtuoso 7.2.5 drops rows where a path of length zero is joined with other patterns.
    """
    quoted = [range(t.start, t.start + len(t.text)) for t in query.tokens if t.kind == "string"]

    def spelt(match: re.Match[str]) -> str:
        subject, step, below, top = match.groups()
        if any(match.start() in place for place in quoted):
            return match[0]
        itself = f"{subject} {step} {top}" if step else f"BIND({top} AS {subject})"
        return f"{{ {subject} {f'{step}/' if step else ''}{below}+ {top} }} UNION {{ {itself} }}"

    text = _CLOSURE.sub(spelt, query.text)
    return query if text == query.text else read_query(text)
