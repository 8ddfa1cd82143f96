"""The endpoint engine: any SPARQL 1.1 endpoint, through SPARQLWrapper."""

from __future__ import annotations

import http.client
import math
import random
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.engine import ReadQuery, Token, Workers, read_query
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.sparql_results import Reply, Verdict, judge

if TYPE_CHECKING:
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

ATTEMPTS = 4
"""Attempts at most for one query."""
BACK_OFF = 0.4
"""Seconds before the second attempt; doubled before each further one."""
LONGEST_GET = 1_500
"""Characters of a query above which it is sent by POST: servers cut long URLs."""
LEVELS = 20
"""Deepest class hierarchy that is walked."""
CLASSES = 1_000
"""A closure of more classes than this is left to the engine."""
LARGEST_BODY = 256 * 1024 * 1024
"""Bytes of an answer above which it is given up."""
_CHUNK = 1 << 16
_AGENT = "triplewise (SPARQLWrapper)"
_ACCEPT = "application/sparql-results+json, application/sparql-results+xml;q=0.8, application/json;q=0.5"


class EndpointKG(KnowledgeGraph):
    """A KG behind a SPARQL 1.1 endpoint.

    Each call opens its own connection (kept-alive ones stall with some servers). Overload (429, 5xx) and
    cut connections are tried again within the time-out, as `Retry-After` asks; time-outs are not.

    Args:
        url: the query endpoint. A login in it (`http://me:secret@host/sparql`) is sent as basic
            authentication, a query string in it as further parameters.
        profile: how this KG is shaped.
        name: shown to people; the URL without its login by default.
        timeout: seconds a call may take, all attempts included.
        limit: rows a call may return.
        headers: sent with every request, e.g. Authorization; like a login, not sent on after a redirect.
        graph: IRI of the default graph to ask, where the endpoint holds several.
        index: label index, where there is one.

    Raises:
        ConfigurationError: the URL is not one of http or https.
    """

    def __init__(
        self,
        url: str,
        profile: Profile,
        *,
        name: str | None = None,
        timeout: float = 30.0,
        limit: int = 10_000,
        headers: Mapping[str, str] | None = None,
        graph: str | None = None,
        index: LabelIndex | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"not an endpoint URL: {url!r}; write e.g. http://localhost:8890/sparql")
        login = {}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            login["Authorization"] = "Basic " + b64encode(pair.encode()).decode()
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path, "", ""))
        self._parameters = parse_qsl(parts.query)
        super().__init__(profile, name or self.url, timeout=timeout, limit=limit, index=index)
        self._headers = {**login, **(headers or {})}
        if graph:
            self._parameters.append(("default-graph-uri", graph))
        self._workers = Workers(32)
        self._closed = threading.Event()  # shared with sessions
        self._is_virtuoso = False

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def close(self) -> None:
        """Stop asking. Later calls say `unavailable`."""
        self._closed.set()
        super().close()

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        if self.closed:
            message = f"the knowledge graph {self.name!r} was closed: open it again"
            return Result(Outcome.UNAVAILABLE, message=message)
        deadline = Deadline(timeout)
        if self.shared._is_virtuoso:
            query = list_subclasses(query, lambda text: self._try(read_query(text), CLASSES, deadline).result)
        verdict = self._try(query, limit, deadline)
        if verdict.sort_cap and verdict.sort_cap <= limit:
            # The engine sorts fewer rows than were asked for: take what it can sort, and say so.
            verdict = self._try(query, verdict.sort_cap - 1, deadline)
        return verdict.result

    def _try(self, query: ReadQuery, limit: int, deadline: Deadline) -> Verdict:
        """Attempts until one settles the query or time is over."""
        text = query.capped(limit + 1)
        verdict = self._attempt(text, query.form, limit, deadline)
        for retry in range(ATTEMPTS - 1):
            if not verdict.retry:
                break
            wait = max(verdict.wait, BACK_OFF * 2**retry * random.uniform(0.8, 1.2))
            if wait >= deadline.left:
                message = (
                    f"{verdict.result.message} Trying again needs {wait:.1f} s, which the time-out of "
                    f"{deadline.seconds:g} s does not leave."
                )
                return Verdict(Result(verdict.result.outcome, message=message))
            time.sleep(wait)
            verdict = self._attempt(text, query.form, limit, deadline)
        return verdict

    def _attempt(self, text: str, form: str, limit: int, deadline: Deadline) -> Verdict:
        request, seconds = self._request(text, form, deadline.left), math.ceil(max(deadline.left, 1.0))
        try:
            reply = self._workers.run(partial(_exchange, request, seconds), deadline.left)
        except TimeoutError:
            message = (
                f"{self.url} gave no answer within {deadline.seconds:g} s; ask for less, or allow more time"
            )
            return Verdict(Result(Outcome.TIMEOUT, message=message))
        except (OSError, http.client.HTTPException, ValueError) as error:  # no whole HTTP reply came
            cause = getattr(error, "reason", error)
            if isinstance(cause, ConnectionRefusedError):
                remedy = "nothing listens there: start the server, or check host and port"
            elif isinstance(error, URLError):
                remedy = "check the URL and the network"
            else:
                remedy = "the connection was cut: try again, or look into the server's log"
            message = f"{self.url} cannot be reached ({cause or type(error).__name__}); {remedy}"
            result = Result(Outcome.UNAVAILABLE, message=message)
            return Verdict(result, retry=not isinstance(error, ValueError))
        self.shared._is_virtuoso = self.shared._is_virtuoso or reply.headers.get("server", "").startswith(
            "Virtuoso"
        )
        return judge(reply, text, limit)

    def _request(self, text: str, form: str, seconds: float) -> Request:
        from SPARQLWrapper import JSON, POST, SPARQLWrapper

        wrapper = SPARQLWrapper(self.url, returnFormat=JSON, agent=_AGENT)
        wrapper.setOnlyConneg(True)
        # Set directly: setQuery guesses the form with a pattern that comments and IRIs can mislead, and
        # would send what it takes for an update as one.
        wrapper.queryString, wrapper.queryType = text, form
        if len(text) > LONGEST_GET:
            wrapper.setMethod(POST)
        for key, value in self._parameters:
            wrapper.addParameter(key, value)
        if self.shared._is_virtuoso:
            # Virtuoso goes on working for a client that left, unless it is told when to stop.
            wrapper.addParameter("timeout", str(max(1000, int(seconds * 900))))
        request: Request = wrapper._createRequest()
        request.add_header("Accept", _ACCEPT)
        for header, value in self._headers.items():  # urllib would send a login or a key on to any host
            request.remove_header(header.capitalize())
            request.add_unredirected_header(header, value)
        return request


def _exchange(request: Request, seconds: float, cancelled: threading.Event) -> Reply:
    """Send one request and read the whole reply. Raises OSError or HTTPException if none comes."""
    try:
        response = urlopen(request, timeout=seconds)
    except HTTPError as error:
        with error:
            return Reply(error.code, error.read(_CHUNK), _lower(error.headers))
    chunks: list[bytes] = []
    size = 0
    with response:
        while not cancelled.is_set() and (chunk := response.read1(_CHUNK)):
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGEST_BODY:
                raise ValueError(f"the answer is larger than {LARGEST_BODY >> 20} MiB")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return Reply(response.status, b"".join(chunks), _lower(response.headers))


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class _Closure(NamedTuple):
    """`[step /] below* top` in a query: where it begins and ends, and its parts as written."""

    start: int
    end: int
    step: str
    below: str
    top: str
    subject: str


def find_closures(query: ReadQuery) -> Iterator[_Closure]:
    """Closures over a named class that end a triple."""
    tokens = query.tokens
    for i in range(2, len(tokens) - 2):
        if tokens[i].text != "*" or not (_named(tokens[i - 1]) and _named(tokens[i + 1])):
            continue
        if tokens[i + 2].text not in (".", "}"):
            continue
        top = tokens[i + 1]
        has_step = tokens[i - 2].text == "/" and i > 3 and _named(tokens[i - 3])
        first = i - 3 if has_step else i - 1
        subject = tokens[first - 1]
        if subject.kind == "variable":
            step = tokens[i - 3].text if has_step else ""
            end = top.start + len(top.text)
            yield _Closure(subject.start, end, step, tokens[i - 1].text, top.text, subject.text)


def _named(token: Token) -> bool:
    return token.kind in ("iri", "name")


def list_subclasses(query: ReadQuery, ask: Callable[[str], Result]) -> ReadQuery:
    """The query with its subclass closures listed; unchanged where it has none or one is too large.

    Virtuoso 7.2.5 loses rows where `?x p/q* Class` is joined with other patterns. The classes below `Class`
    are asked for level by level, with plain queries, and listed in the query instead.
    """
    text, closures = query.text, list(find_closures(query))
    if not closures:
        return query
    start = next(t.start for t in query.tokens if t.keyword == query.form)
    for n, closure in reversed(list(enumerate(closures, 1))):
        classes = _below(text[:start], closure, ask)
        if not classes:
            return query
        node = f"?kind_{n}_" if closure.step else closure.subject
        link = f"{closure.subject} {closure.step} {node} . " if closure.step else ""
        listed = f"{link}VALUES {node} {{ {' '.join([closure.top, *classes])} }}"
        text = text[: closure.start] + listed + text[closure.end :]
    return read_query(text)


def _below(prologue: str, closure: _Closure, ask: Callable[[str], Result]) -> list[str]:
    """Classes below one, as IRIs, the class itself included; [] if they cannot all be had."""
    classes: dict[str, None] = {}
    level = [closure.top]
    for _ in range(LEVELS):
        values = " ".join(level)
        result = ask(
            f"{prologue}SELECT DISTINCT ?c WHERE {{ VALUES ?t {{ {values} }} ?c {closure.below} ?t }}"
        )
        if not result.outcome.ok or len(classes) > CLASSES:
            return []
        nodes = [c.n3() for c in (result.column("c") if result.rows else ()) if isinstance(c, IRI)]
        level = [c for c in nodes if c not in classes]
        classes.update(dict.fromkeys(level))
        if not level:
            return list(classes) or [closure.top]
    return []
