"""What is counted and remembered of a knowledge graph: queries, answers, and what is worked out about it."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from triplewise.tools.kg.results import Outcome, Result

if TYPE_CHECKING:
    from triplewise.tools.kg.protocol import KnowledgeGraph

K = TypeVar("K")
V = TypeVar("V")

MEMORY = 50_000  # what is remembered of a KG under one topic, at most
ANSWERS, ANSWER_ROWS = 200, 2_000  # most answers that a cache keeps, and most rows of one
# A query whose answers are the distinct values of some variables of a pattern, and nothing else.
_SELECT = re.compile(
    r"(?P<prologue>.*?)SELECT\s+DISTINCT\s+(?P<names>(?:\?\w+\s+)+)WHERE\s+(?P<body>\{.*\})"
    r"(?:\s+LIMIT\s+(?P<cut>\d+))?\s*",
    re.DOTALL,
)


class Meter:
    """Counts queries that reach a KG or a database, their outcomes and seconds. Safe to share."""

    def __init__(self) -> None:
        self.queries = 0
        self.seconds = 0.0
        self.outcomes: dict[str, int] = {}
        self._blocks: list[Meter] = []
        self._lock = Lock()

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Count one query that reached the store."""
        with self._lock:
            self.queries += 1
            self.seconds += seconds
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            for block in self._blocks:
                block.add(outcome, seconds)

    @contextmanager
    def block(self) -> Iterator[Meter]:
        """Count what is asked inside the block, besides counting it here."""
        inner = Meter()
        with self._lock:
            self._blocks.append(inner)
        try:
            yield inner
        finally:
            with self._lock:
                self._blocks.remove(inner)


class LRUCache(MutableMapping[K, V]):
    """Values by key; the least recently used leave first once there are more than `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, key: K) -> V:
        with self._lock:
            self._items.move_to_end(key)
            return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def __delitem__(self, key: K) -> None:
        with self._lock:
            self._items.pop(key, None)  # another thread may have been quicker

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)


class AnswerCache:
    """Answers of one KG by query, for one question: a KG may change. Safe to use from several threads.

    Failures are never kept. A result that no limit cut answers for any limit, and for fewer variables of the
    same pattern: their distinct values are those among the distinct values of more variables.
    """

    def __init__(self) -> None:
        # By query and the limit that cut the answer, None for none.
        self._answers: LRUCache[tuple[str, int | None], Result] = LRUCache(ANSWERS)

    def find(self, sparql: str, limit: int) -> Result | None:
        """Return what the KG answered to a query, with at most `limit` rows; None if that is not here."""
        if (answer := self._answers.get((sparql, limit))) is not None:
            return answer
        if (answer := self._answers.get((sparql, None))) is None:
            if (select := _SELECT.fullmatch(sparql)) is None:
                return None
            whole = self._answers.get((select["prologue"] + select["body"], None))
            names = tuple(name[1:] for name in select["names"].split())
            if whole is None or not set(names) <= set(whole.variables):
                return None
            places = [whole.variables.index(name) for name in names]
            rows = tuple(dict.fromkeys(tuple(row[i] for i in places) for row in whole.rows))
            rows = rows[: int(select["cut"])] if select["cut"] else rows
            answer = replace(whole, variables=names, _rows=rows)
        if len(answer.rows) <= limit:
            return answer
        return replace(Result.capped(answer.variables, answer.rows, limit), seconds=answer.seconds)

    def keep(self, sparql: str, limit: int, result: Result) -> None:
        """Remember an answer. Failures and very long results are asked for again."""
        if not result.outcome.ok or len(result._rows) > ANSWER_ROWS:
            return
        is_cut = result.outcome is Outcome.TRUNCATED
        self._answers[sparql, limit if is_cut else None] = result
        select = None if is_cut else _SELECT.fullmatch(sparql)
        if select is not None and (select["cut"] is None or len(result._rows) < int(select["cut"])):
            key = (select["prologue"] + select["body"], None)  # no query itself
            whole = self._answers.get(key)
            if whole is None or len(whole.variables) <= len(result.variables):
                self._answers[key] = result


_memories: WeakKeyDictionary[KnowledgeGraph, dict[str, LRUCache[Any, Any]]] = WeakKeyDictionary()
_lock = Lock()


def memory_of(kg: KnowledgeGraph, topic: str) -> LRUCache[Any, Any]:
    """A cache for what is found out about a KG, kept as long as it is; the values must not hold the KG."""
    with _lock:
        return _memories.setdefault(kg.shared, {}).setdefault(topic, LRUCache(MEMORY))
