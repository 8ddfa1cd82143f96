"""What every engine does with a query: only one SELECT or ASK passes, with a row cap and a time-out.

A SPARQL text is split into tokens (SPARQL 1.1, section 19.8), so that no forbidden word hides in it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal as OneOf, NamedTuple, TypeVar

T = TypeVar("T")

Form = OneOf["SELECT", "ASK"]

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>\#[^\n]*)
    | (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
    | (?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<variable>[?$]\w+)
    | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    | (?P<name>[\w.\-]*:(?:[\w.\-:]|%[0-9A-Fa-f]{2}|\\[^\w\s])*)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LOOK = 0.1  # seconds after which a wait for room looks whether it was cancelled
_ESCAPED_PAIR = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|.)", re.DOTALL)
_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD")
_REFUSED = {
    "SERVICE": "SERVICE would send the query on to another server",
    **dict.fromkeys(("CONSTRUCT", "DESCRIBE"), "it yields triples, not rows"),
    **dict.fromkeys(_UPDATES, "it would change the knowledge graph"),
    "DEFINE": "engine pragmas may load remote data",
}
PARTS, NESTED = 2_000, 64  # words and signs of a query, and brackets around them, that pyoxigraph is given
_AGGREGATES = {"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"}
_ENGINE_CALL = re.compile(r"<?(?:bif|sql):(?!contains\b)", re.IGNORECASE)


class Refused(ValueError):  # noqa: N818 - it says what happened to the query
    """The query must not reach an engine; the message says why and how to write it."""


class Token(NamedTuple):
    """One token: its kind, its text, where it starts, and how many brackets are open around it."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def keyword(self) -> str:
        """The word in capitals, or "" for anything that is not a bare word."""
        return self.text.upper() if self.kind == "word" else ""


@dataclass(frozen=True)
class ReadQuery:
    """A query that may reach an engine."""

    text: str
    form: Form
    tokens: tuple[Token, ...]

    def capped(self, rows: int) -> str:
        """The same query with at most `rows` solutions, in its own order.

        For Virtuoso's sake an aggregate without GROUP BY, which has one row, gets no LIMIT, and a trailing
        VALUES block moves into the group pattern, unless the query groups (SPARQL 1.1, section 18.2.4).
        """
        if self.form == "ASK" or (self.aggregates and not self._modifier("GROUP")):
            return self.text
        if (values := self._modifier("VALUES")) and not self.aggregates and not self._modifier("GROUP"):
            opens, closes = (self.tokens[i].start for i in self._group)
            group, between = self.text[opens : closes + 1], self.text[closes + 1 : values.start]
            moved = f"{self.text[:opens]}{{ {group}\n{self.text[values.start :]}\n}}{between}"
            return ReadQuery(moved, self.form, tokenize(moved)).capped(rows)
        if limit := self._modifier("LIMIT"):
            number = next(iter(self.tokens[self.tokens.index(limit) + 1 :]), limit)
            if not number.text.isdecimal() or int(number.text) <= rows:
                return self.text
            return f"{self.text[: number.start]}{rows}{self.text[number.start + len(number.text) :]}"
        at = values.start if values else len(self.text)
        return f"{self.text[:at]}\nLIMIT {rows}\n{self.text[at:]}".rstrip()

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of what the SELECT gives, in its order; () for `*`, and for an ASK."""
        head = list(pairwise(self.tokens[: self._group[0]]))
        if self.form == "ASK" or any(t.text == "*" and t.depth == 0 for _, t in head):
            return ()
        named = (t for before, t in head if t.depth == 0 or (t.depth == 1 and before.keyword == "AS"))
        return tuple(dict.fromkeys(t.text[1:] for t in named if t.kind == "variable"))

    @property
    def aggregates(self) -> bool:
        """Whether the outermost SELECT clause or HAVING computes an aggregate."""
        opens, closes = self._group
        outside = (*self.tokens[:opens], *self.tokens[closes + 1 :])
        return any(t.keyword in _AGGREGATES and after.text == "(" for t, after in pairwise(outside))

    @property
    def _group(self) -> tuple[int, int]:
        """Where in the tokens the outermost group pattern opens and closes (the end if it does not)."""
        end = len(self.tokens)
        opens = next((i for i, t in enumerate(self.tokens) if t.text == "{" and t.depth == 0), end)
        return opens, next((i for i, t in enumerate(self.tokens) if t.text == "}" and t.depth == 0), end)

    def _modifier(self, keyword: str) -> Token | None:
        behind = self.tokens[self._group[1] + 1 :]
        return next((t for t in behind if t.keyword == keyword and t.depth == 0), None)


def read_query(sparql: str) -> ReadQuery:
    """Let one SELECT or ASK pass. Raises Refused for everything else."""
    tokens = tokenize(sparql)
    for token in tokens:
        if token.keyword in ("SELECT", "ASK", *_REFUSED):
            break
        if token.keyword not in ("PREFIX", "BASE") and token.kind not in ("iri", "name"):
            start = "a query starts with SELECT or ASK, behind its PREFIX lines"
            raise Refused(f"{start}, not with {token.text!r}.")
    else:
        raise Refused("the query is empty: write one SELECT or ASK query.")
    form: Form = "ASK" if token.keyword == "ASK" else "SELECT"
    for token in tokens:
        if reason := _REFUSED.get(token.keyword):
            raise Refused(f"{token.keyword} is refused: {reason}. Write one SELECT or ASK query.")
        if token.kind in ("iri", "name") and _ENGINE_CALL.match(token.text):
            raise Refused(f"{token.text} is refused: functions of the engine's own may have side effects.")
    return ReadQuery(sparql, form, tokens)


def total_order(sparql: str) -> str:
    """The query with sort keys that can all be compared: by datatype, then by whether there is a time zone.

    pyoxigraph ends the whole process where it sorts what has no one order, such as numbers among dates.
    """
    tokens, pieces, end = tokenize(sparql), list[str](), 0
    i = 1
    while i < len(tokens):
        i += 1
        if (tokens[i - 2].keyword, tokens[i - 1].keyword) != ("ORDER", "BY"):
            continue
        while i < len(tokens) and tokens[i].keyword != "VALUES":
            opens = next((n for n in (i, i + 1) if tokens[n : n + 1] and tokens[n].text == "("), len(tokens))
            closes = (n for n in range(opens, len(tokens)) if tokens[n].text == ")")
            last = next((n for n in closes if tokens[n].depth == tokens[opens].depth), None)
            if tokens[i].kind == "variable":
                opens = last = i
            if last is None:
                break
            way = tokens[i].keyword if tokens[i].keyword in ("ASC", "DESC") else ""
            stop = tokens[last].start + len(tokens[last].text)
            key = sparql[tokens[opens if way else i].start : stop]
            kind = f'IF(isNumeric({key}), "", STR(DATATYPE({key})))'
            pieces += (sparql[end : tokens[i].start], f'{way}({kind}) {way}(TZ({key}) = "") {way}({key})')
            end, i = stop, last + 1
    return "".join((*pieces, sparql[end:]))


def tokenize(sparql: str) -> tuple[Token, ...]:
    """Tokens of a SPARQL text without spaces and comments. Raises Refused on what could hide others."""
    if "\r" in sparql.replace("\r\n", "\n"):
        raise Refused("a lone carriage return is refused: engines disagree whether it ends a line. Use \\n.")
    for match in _ESCAPED_PAIR.finditer(sparql):
        code = match.group(1) or match.group(2)
        if code and int(code, 16) < 0x80:  # an engine that decodes it first would see other tokens
            raise Refused(f"{match.group()} is refused: write the character {chr(int(code, 16))!r} itself.")
    tokens: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(sparql):
        kind, word = str(match.lastgroup), match.group()
        if kind in ("space", "comment"):
            continue
        depth -= word in ("}", ")", "]")
        tokens.append(Token(kind, word, match.start(), depth))
        depth += word in ("{", "(", "[")
    return tuple(tokens)


class Deadline:
    """A time budget in seconds, perhaps `within` another, that calls share; cancelled, it wakes who waits."""

    def __init__(self, seconds: float, within: Deadline | None = None) -> None:
        self._within = within
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []
        self._cancelled = False
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Begin anew. What was cancelled stays so."""
        self.seconds, self._end = seconds, time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        left = 0.0 if self._cancelled else max(0.0, self._end - time.monotonic())
        return left if self._within is None else min(left, self._within.left)

    @property
    def passed(self) -> bool:
        """Whether the budget is spent."""
        return self.left <= 0

    def cancel(self) -> None:
        """End it now."""
        with self._lock:
            self._cancelled = True
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` when the budget is cancelled while the block runs, or was before."""
        if self._within is not None:
            with self._within.waking(wake):
                yield
            return
        with self._lock:
            self._wakers.append(wake)
            cancelled = self._cancelled
        try:
            if cancelled:
                wake()
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)

    def sleep(self, seconds: float) -> None:
        """Wait, until it is cancelled at the longest."""
        woken = threading.Event()
        with self.waking(woken.set):
            woken.wait(seconds)


class Workers:
    """Daemon threads for calls that must return in time, although what they call cannot be interrupted.

    At most `size` jobs run at a time, those included that nobody waits for any longer.
    """

    def __init__(self, size: int = 48) -> None:
        self._size, self._process = size, -1

    def run(self, job: Callable[[threading.Event], T], seconds: float, within: Deadline | None = None) -> T:
        """The job's value or its exception. Raises TimeoutError when `seconds` are over, or `within` is.

        The job gets an event that is set when nobody waits for it any longer.
        """
        if self._process != os.getpid():  # a fork has none of its parent's threads
            self._room, self._process = threading.BoundedSemaphore(self._size), os.getpid()
        deadline, room, late = Deadline(seconds, within), self._room, f"no answer within {seconds:g} s"
        if deadline.passed:
            raise TimeoutError(late)
        while not room.acquire(timeout=min(_LOOK, deadline.left)):
            if deadline.passed:
                raise TimeoutError("earlier queries that ran out of time still occupy the engine")
        answer, over, cancelled = Future[T](), threading.Event(), threading.Event()

        def work() -> None:
            try:
                answer.set_result(job(cancelled))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                answer.set_exception(error)
            finally:
                room.release()
                over.set()

        threading.Thread(target=work, name="triplewise-kg", daemon=True).start()
        with deadline.waking(over.set):
            over.wait(deadline.left)
        if not answer.done():
            cancelled.set()
            raise TimeoutError(late)
        return answer.result()
