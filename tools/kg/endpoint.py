"""The endpoint engine: any SPARQL 1.1 endpoint, through SPARQLWrapper."""

from __future__ import annotations

import ast
import http.client
import math
import random
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.bounded import Deadline, Workers
from triplewise.tools.kg.closure import CLASSES, written_out
from triplewise.tools.kg.engine import Engine
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.kg.readonly import ReadQuery, read_query
from triplewise.tools.kg.replies import Reply, Verdict, judge

if TYPE_CHECKING:
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

ATTEMPTS = 4
"""Attempts at most for one query."""
BACK_OFF = 0.4
"""Seconds before the second attempt; doubled before each further one."""
LONGEST_GET = 1_500
"""Characters of a query above which it is sent by POST: servers cut long URLs."""
LARGEST_BODY = 256 * 1024 * 1024
"""Bytes of an answer above which it is given up."""
_CHUNK = 1 << 16
_AGENT = "triplewise (SPARQLWrapper)"
_ACCEPT = "application/sparql-results+json, application/sparql-results+xml;q=0.8, application/json;q=0.5"


class EndpointKG(Engine):
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
        self.url, self._parameters, login = _split(url)
        super().__init__(profile, name or self.url, timeout=timeout, limit=limit, index=index)
        self._headers = {"Accept": _ACCEPT, **login, **(headers or {})}
        if graph:
            self._parameters.append(("default-graph-uri", graph))
        self._workers = Workers(32)
        self._closed = self._is_virtuoso = False

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed or self.shared._closed

    def close(self) -> None:
        """Stop asking. Later calls say `unavailable`."""
        self._closed = True
        if self.shared is self:
            self._workers.close()

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        if self.closed:
            message = f"the knowledge graph {self.name!r} was closed: open it again"
            return Result(Outcome.UNAVAILABLE, message=message)
        deadline = Deadline(timeout)
        if self.shared._is_virtuoso:
            query = written_out(query, lambda text: self._try(read_query(text), CLASSES, deadline).result)
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
                return _given_up(verdict, wait, deadline)
            time.sleep(wait)
            verdict = self._attempt(text, query.form, limit, deadline)
        return verdict

    def _attempt(self, text: str, form: str, limit: int, deadline: Deadline) -> Verdict:
        request = self._request(text, form, deadline.left)

        def job(cancelled: threading.Event) -> Reply:
            return _exchange(request, cancelled)

        try:
            reply = self._workers.run(job, deadline.left)
        except TimeoutError:
            message = (
                f"{self.url} gave no answer within {deadline.seconds:g} s; ask for less, or allow more time"
            )
            return Verdict(Result(Outcome.TIMEOUT, message=message))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return self._unreached(error)
        if reply.headers.get("server", "").startswith("Virtuoso"):
            self.shared._is_virtuoso = True
        return judge(reply, text, limit)

    def _request(self, text: str, form: str, seconds: float) -> Any:
        """A SPARQLWrapper ready to ask."""
        from SPARQLWrapper import JSON, POST

        from triplewise.tools.kg.sparqlwrapper import Wrapper

        wrapper = Wrapper(self.url, returnFormat=JSON, agent=_AGENT)
        wrapper.setOnlyConneg(True)
        # Set directly: setQuery guesses the form with a pattern that comments and IRIs can mislead, and
        # would send what it takes for an update as one.
        wrapper.queryString, wrapper.queryType = text, form
        wrapper.setTimeout(math.ceil(max(seconds, 1.0)))
        if len(text) > LONGEST_GET:
            wrapper.setMethod(POST)
        for key, value in self._parameters:
            wrapper.addParameter(key, value)
        if self.shared._is_virtuoso:
            # Virtuoso goes on working for a client that left, unless it is told when to stop.
            wrapper.addParameter("timeout", str(max(1000, int(seconds * 900))))
        for header, value in self._headers.items():
            wrapper.addCustomHttpHeader(header, value)
        return wrapper

    def _unreached(self, error: Exception) -> Verdict:
        """What to say when no whole HTTP reply came."""
        cause = getattr(error, "reason", error)
        if isinstance(cause, ConnectionRefusedError):
            mend = "nothing listens there: start the server, or check host and port"
        elif isinstance(error, URLError):
            mend = "check the URL and the network"
        else:
            mend = "the connection was cut: try again, or look into the server's log"
        message = f"{self.url} cannot be reached ({cause or type(error).__name__}); {mend}"
        return Verdict(Result(Outcome.UNAVAILABLE, message=message), retry=not isinstance(error, ValueError))


def _split(url: str) -> tuple[str, list[tuple[str, str]], dict[str, str]]:
    """A URL without login and query string, its parameters, and the header that carries its login."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"not an endpoint URL: {url!r}; write e.g. http://localhost:8890/sparql")
    login = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login["Authorization"] = "Basic " + b64encode(pair.encode()).decode()
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path, "", ""))
    return bare, parse_qsl(parts.query), login


def _exchange(request: Any, cancelled: threading.Event) -> Reply:
    """Send one request and read the whole reply. Raises OSError or HTTPException if none comes."""
    from SPARQLWrapper.SPARQLExceptions import SPARQLWrapperException

    try:
        response = request.query().response
    except SPARQLWrapperException as error:
        return _refusal(error)
    except HTTPError as error:
        with error:
            return Reply(error.code, error.read(_CHUNK), _lower(error.headers))
    with response:
        return Reply(response.status, _read(response, cancelled), _lower(response.headers))


def _read(response: http.client.HTTPResponse, cancelled: threading.Event) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while not cancelled.is_set() and (chunk := response.read1(_CHUNK)):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_BODY:
            raise ValueError(f"the answer is larger than {LARGEST_BODY >> 20} MiB")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _refusal(error: Exception) -> Reply:
    """The reply behind an exception of SPARQLWrapper, which keeps the body only inside its message."""
    cause = error.__context__
    _, _, said = str(error).partition("Response:\n")
    body = ast.literal_eval(said) if said.startswith(("b'", 'b"')) else said.encode()
    if isinstance(cause, HTTPError):
        cause.close()
        return Reply(cause.code, body, _lower(cause.headers))
    return Reply(400, body or str(error).encode())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _given_up(verdict: Verdict, wait: float, deadline: Deadline) -> Verdict:
    message = (
        f"{verdict.result.message} Trying again needs {wait:.1f} s, which the time-out of "
        f"{deadline.seconds:g} s does not leave."
    )
    return Verdict(Result(verdict.result.outcome, message=message))
