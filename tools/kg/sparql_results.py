"""What an HTTP reply of a SPARQL endpoint means: its rows or another outcome, and whether to try again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any

from triplewise.tools.core.files import packaged
from triplewise.tools.core.secrets import redact, redact_data
from triplewise.tools.core.terms import XSD, Literal, Term
from triplewise.tools.kg.dialects import sort_cap
from triplewise.tools.kg.engine import ReadQuery
from triplewise.tools.kg.literals import canonical
from triplewise.tools.kg.protocol import Outcome, Result
from triplewise.tools.kg.rdf import safe_iri

_MESSAGE = 300
_TIME_WORDS = re.compile(
    r"timed[ -]?out|TimeoutException|QueryTimeout|(?:query|gateway|request|transaction|operation|result)s?"
    r"[ -]time-?out|time-?out (?:expired|exceeded|reached|of \d)|estimated execution time|deadline exceeded"
    r"|time limit|Virtuoso S1T|exceeds the limit of \d+ \(sec\)",
    re.IGNORECASE,
)
_QUERY_WORDS = re.compile(
    r"syntax error|SPARQL compiler|MalformedQuery|QueryBadFormed|ParseException|parse error|Lexical error"
    r"|Virtuoso (?:22|37|42|S0)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_UNBINDING = {"OPTIONAL", "UNION", "BIND", "UNDEF", "AS"}  # what may leave a variable without a value
BRANCH = "branch__"  # the column with the number of a query in a union of several
_COUNTED = re.compile(r"\(\s*COUNT\s*\([^()]*\)\s*AS\s*[?$](\w+)\s*\)", re.IGNORECASE)
_WHOLE = re.compile(r"\+?\d+(?:\.0*)?")
_RETRIED = {429, 500, 502, 503, 520, 521, 522, 523}
_TIMED_OUT = {408, 504, 524}


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply. Header names are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def words(self, query: str = "") -> str:
        """The body as a person reads it, in one line, less the echo of a query and its own words."""
        raw = self.body if len(self.body) <= 20_000 else self.body[:10_000] + b" ... " + self.body[-10_000:]
        text = raw.decode("utf-8", "replace")
        if "<html" in text[:2_000].lower():
            text = unescape(_MARKUP.sub(" ", text))
        words = " ".join(text.split())
        for echo in (query, json.dumps(query)[1:-1]) if query else ():
            words = words.replace(" ".join(echo.split()), "").partition("SPARQL query:")[0].strip()
        return words


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one attempt, and whether another may succeed (`retry`), after `wait` seconds at least."""

    result: Result
    retry: bool = False
    wait: float = 0.0
    down: bool = False  # the server seems to be down
    foreign: bool = False  # it may be of another server, e.g. the page of a proxy
    sort_cap: int = 0  # rows that this engine is able to sort, where that was the problem


def judge(reply: Reply, query: ReadQuery, limit: int, has_login: bool = False) -> Verdict:
    """Return what the reply to a query means, which requested up to `limit + 1` rows."""
    reply = replace(reply, body=redact_data(reply.body))
    if reply.status == 200:
        return _judge_results(reply, query, limit)
    words = reply.words(query.text)
    if cap := sort_cap(words):
        return replace(_failed(Outcome.SYNTAX, words), sort_cap=cap)
    if reply.status in _TIMED_OUT or _TIME_WORDS.search(words):
        return _late(words or str(reply.status))
    if reply.status == 400 or (reply.status == 500 and _QUERY_WORDS.search(words)):
        return _failed(Outcome.SYNTAX, f"the endpoint refused the query: {words}")
    if reply.status in _RETRIED:
        what = "too many requests" if reply.status == 429 else "it is overloaded or broken"
        failed = _failed(Outcome.UNAVAILABLE, f"the endpoint answered HTTP {reply.status} ({what}). {words}")
        return replace(failed, retry=True, wait=_retry_after(reply), down=reply.status in (502, 503))
    remedies = packaged("triplewise.tools.kg", "remedies.yaml")
    remedy = remedies.get(reply.status, "check that the URL is a SPARQL query endpoint")
    if reply.status == 401 and has_login:
        remedy = "it does not accept the login that it was sent: check user and password, token or headers"
    failed = _failed(Outcome.UNAVAILABLE, f"the endpoint answered HTTP {reply.status}; {remedy}. {words}")
    return replace(failed, foreign=reply.status < 300 or reply.status in (403, 404))


def _judge_results(reply: Reply, query: ReadQuery, limit: int) -> Verdict:
    if reply.headers.get("x-sql-state", "").startswith("S1T"):
        return _late(reply.headers.get("x-sql-message", "its results are incomplete"))
    try:
        result, remark = parse_answer(reply.body, limit)
        result = _fitted(result, query)
    except NotResultsError as error:
        return _judge_other(reply, error)
    if _TIME_WORDS.search(remark):
        return _late(remark)
    engine_cap = reply.headers.get("x-sparql-maxrows", "")
    if result.outcome is Outcome.ROWS and engine_cap.isdecimal() and len(result.rows) >= int(engine_cap):
        message = f"cut at the endpoint's own limit of {engine_cap} rows"
        result = replace(result, outcome=Outcome.TRUNCATED, message=message)
    return Verdict(result)


def _fitted(result: Result, query: ReadQuery) -> Result:
    """The result with the columns that the query selects, in its order. Raises NotResultsError without."""
    if (query.form == "ASK") != (result.boolean is not None):
        raise NotResultsError(f"they answer another form of query than {query.form}")
    may_be_unbound = any(token.keyword in _UNBINDING for token in query.tokens)
    if result.rows and not may_be_unbound and not any(map(any, result.rows)):
        raise NotResultsError("no cell of any row has a value")
    always = {*_COUNTED.findall(query.text.partition("{")[0]), BRANCH}  # these have a value in each row
    for name in {*_COUNTED.findall(query.text), BRANCH}.intersection(result.variables):
        for row in result.rows:
            cell = row[result.variables.index(name)]
            if name in always if cell is None else not _WHOLE.fullmatch(cell.value):
                raise NotResultsError(f"a count is {cell and cell.value!r:.80}")
    names = query.variables
    if not names or names == result.variables:
        return result
    # Some servers name no columns where there is no row.
    if (result.rows or result.variables) and (missing := set(names) - set(result.variables)):
        raise NotResultsError(f"they lack what was selected: {', '.join(sorted(missing))}")
    places = [result.variables.index(name) for name in names] if result.rows else []
    rows = tuple(tuple(row[i] for i in places) for row in result.rows)
    return replace(result, variables=names, _rows=rows)


def _judge_other(reply: Reply, error: NotResultsError) -> Verdict:
    """A 200 that holds no (whole) results."""
    words, tail = reply.words(), " ".join(reply.body[-4_000:].decode("utf-8", "replace").split())
    # Words inside rows do not count: what stands behind the last row of cut results does.
    behind_rows = tail[max(tail.rfind('"}'), tail.rfind('" }')) + 1 :]
    if _TIME_WORDS.search(behind_rows if error.cut else words):
        return _late(tail[-_MESSAGE:])
    if error.cut:
        message = f"the endpoint's answer was cut off: {error}; try again, or ask for fewer rows"
        return replace(_failed(Outcome.UNAVAILABLE, message), retry=True)
    kind = reply.headers.get("content-type", "no content type").split(";")[0]
    message = f"the URL answered with {kind}, not SPARQL results ({error}): check that it is a query endpoint"
    return replace(_failed(Outcome.UNAVAILABLE, f"{message}. {words}"), foreign=True)


def _retry_after(reply: Reply) -> float:
    """Seconds to wait, from a number or a date (RFC 9110, section 10.2.3); 0 if it does not say."""
    value = reply.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _late(why: str) -> Verdict:
    return _failed(Outcome.TIMEOUT, f"the endpoint ran out of time: {why}")


def _failed(outcome: Outcome, message: str) -> Verdict:
    message, most = redact(message.strip()), 2 * _MESSAGE
    return Verdict(Result(outcome, message=message if len(message) <= most else f"{message[:most]} ..."))


class NotResultsError(ValueError):
    """A body that is not a SPARQL result. `cut`: it begins like one and ends in the middle."""

    def __init__(self, message: str, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


def parse_answer(body: bytes, limit: int) -> tuple[Result, str]:
    """Results in JSON, of up to `limit + 1` rows, and the engine's remarks. Raises NotResultsError."""
    try:
        data = json.loads(body)
        others = {k: v for k, v in data.items() if k not in ("head", "results", "boolean")}
        remark = json.dumps(others) if others else ""  # engines put time-outs and errors there
        if "boolean" in data:
            if not isinstance(data["boolean"], bool):
                raise TypeError(f"the boolean is {data['boolean']!r:.40}, neither true nor false")
            return Result.ask(data["boolean"]), remark
        names, bindings = data["head"]["vars"], data["results"]["bindings"]
        are_lists = isinstance(names, list) and isinstance(bindings, list)
        if not (are_lists and all(isinstance(name, str) for name in names)):
            raise TypeError("columns and rows are no lists, or names of columns no text")
        rows = [tuple(_json_term(row[n]) if n in row else None for n in names) for row in bindings]
    except RecursionError:
        raise NotResultsError("the JSON is nested too deeply") from None
    except ValueError as error:
        is_cut = body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        what = f"the JSON results end in the middle ({error})" if is_cut else "the body is not JSON"
        raise NotResultsError(what, cut=is_cut) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise NotResultsError(f"the JSON holds no SPARQL results ({error!r})") from None
    return Result.capped(tuple(names), rows, limit), remark


def _json_term(cell: Mapping[str, Any]) -> Term:
    kind, value = cell["type"], cell["value"]
    if kind != "triple" and not isinstance(value, str):
        raise TypeError(f"a {kind} whose value is {value!r}")
    if kind == "uri":
        return safe_iri(value)
    if kind == "bnode":
        return safe_iri(value if ":" in value else f"_:{value}")
    if kind in ("literal", "typed-literal"):
        return canonical(value, cell.get("datatype", XSD + "string"), cell.get("xml:lang", ""))
    if kind != "triple":
        raise TypeError(f"a cell of the type {kind!r:.40}")
    return Literal(json.dumps(value), XSD + "string")
