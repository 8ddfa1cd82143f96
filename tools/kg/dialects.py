"""What engines behind endpoints do in ways of their own, as data: `engines.yaml` and `fulltext.yaml`."""

from __future__ import annotations

import re
from functools import cache

from pydantic import BaseModel

from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import IRI

MATCHES = 200  # labels that full text gives at most: those of about the length of the text
WORDS = 6  # most words of a text in a full-text search, the longest ones
WORD = re.compile(r"[^\W_]+")


class Engine(BaseModel, frozen=True, extra="forbid"):
    """What sets an engine apart; see `engines.yaml`."""

    server: str
    timeout: str = ""
    loses_closures: bool = False
    sort_cap: str = ""


class FullText(BaseModel, frozen=True, extra="forbid"):
    """How an engine (`name`) searches labels by words, by the predicates that its graph has."""

    find: str
    word: str
    all: str
    any: str = ""
    stem: str = ""
    at: str = ""
    name: str = ""
    predicates: tuple[str, ...] = ()

    def pattern(self, name: str, language: str, every: bool) -> str:
        """A group pattern that binds ?node, its ?label and the predicate ?by: each word of a name, or any."""
        words = WORD.findall(name.lower())
        words = sorted([w for w in words if len(w) > 2] or words, key=len, reverse=True)[:WORDS]
        words = words if every or self.any else words[:1]
        # The beginning of a long word, which a slip in its end leaves as it is.
        stems = {w: w[: max(4, len(w) // 2)] for w in words if self.stem and not every and len(w) > 4}
        parts = [self.stem.format(stems[w]) if w in stems else self.word.format(w) for w in words]
        values = {"text": (self.all if every else self.any).join(parts), "every": str(every).lower()}
        values |= {"limit": str(MATCHES), "language": language}
        by = (IRI(p).n3() for p in self.predicates)
        return " UNION ".join(f"{{ {self.find.format(predicate=p, **values)} BIND({p} AS ?by) }}" for p in by)


@cache
def full_texts() -> tuple[FullText, ...]:
    """The engines' ways to search texts, in the order in which they are tried; the last is for any engine."""
    ways = packaged("triplewise.tools.kg", "fulltext.yaml")
    return tuple(FullText(name=name, **way) for name, way in ways.items())


@cache
def _engines() -> tuple[Engine, ...]:
    return tuple(Engine(**ways) for ways in packaged("triplewise.tools.kg", "engines.yaml").values())


def engine_of(server: str) -> Engine | None:
    """The engine that the header `Server` of a reply names; None for one without ways of its own."""
    return next((engine for engine in _engines() if server.startswith(engine.server)), None)


def sort_cap(words: str) -> int:
    """How many rows the engine is able to sort, if an error says so; else 0."""
    found = (re.search(engine.sort_cap, words) for engine in _engines() if engine.sort_cap)
    return next((int(match[1]) for match in found if match), 0)
