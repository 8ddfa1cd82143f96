"""Subclass closures written out, for engines that answer them wrongly.

Virtuoso 7.2.5 loses rows where `?x p/q* Class` is joined with other patterns. The classes below `Class` are
asked for level by level, with plain queries, and listed in the query instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import Result
from triplewise.tools.kg.readonly import ReadQuery, Token, read_query

Ask = Callable[[str], Result]

LEVELS = 20
"""Deepest hierarchy that is walked."""
CLASSES = 1_000
"""A closure of more classes than this is left to the engine."""


class Closure(NamedTuple):
    """`[step /] below* top` in a query: where it begins and ends, and its parts as written."""

    start: int
    end: int
    step: str
    below: str
    top: str
    subject: str


def find(query: ReadQuery) -> Iterator[Closure]:
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
            yield Closure(subject.start, end, step, tokens[i - 1].text, top.text, subject.text)


def _named(token: Token) -> bool:
    return token.kind in ("iri", "name")


def written_out(query: ReadQuery, ask: Ask) -> ReadQuery:
    """The query with its closures listed; unchanged where it has none or one is too large."""
    text, found = query.text, list(find(query))
    if not found:
        return query
    start = next(t.start for t in query.tokens if t.keyword == query.form)
    for n, closure in reversed(list(enumerate(found, 1))):
        classes = _below(text[:start], closure, ask)
        if not classes:
            return query
        node = f"?kind_{n}_" if closure.step else closure.subject
        link = f"{closure.subject} {closure.step} {node} . " if closure.step else ""
        listed = f"{link}VALUES {node} {{ {' '.join([closure.top, *classes])} }}"
        text = text[: closure.start] + listed + text[closure.end :]
    return read_query(text)


def _below(prologue: str, closure: Closure, ask: Ask) -> list[str]:
    """Classes below one, as IRIs, the class itself included; [] if they cannot all be had."""
    known: dict[str, None] = {}
    level = [closure.top]
    for _ in range(LEVELS):
        values = " ".join(level)
        result = ask(
            f"{prologue}SELECT DISTINCT ?c WHERE {{ VALUES ?t {{ {values} }} ?c {closure.below} ?t }}"
        )
        if not result.outcome.ok or len(known) > CLASSES:
            return []
        nodes = [c.n3() for c in (result.column("c") if result.rows else ()) if isinstance(c, IRI)]
        level = [c for c in nodes if c not in known]
        known.update(dict.fromkeys(level))
        if not level:
            return list(known) or [closure.top]
    return []
