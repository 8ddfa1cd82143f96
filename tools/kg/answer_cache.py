"""Nothing is asked twice: answers of a KG that are used again while one question is worked on.

Steps repeat queries: choosing the answer shows the same values again, executing asks for what the last step
showed, and the proof begins with the executed query. Answers are kept for the time of one question only, so
that a KG that changes is never answered for from an old one, and failures (time-outs, ...) are never kept.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import replace

from triplewise.tools.kg.protocol import Outcome, Result

KEPT, KEPT_ROWS = 200, 2_000
"""Most answers kept, and most rows of one."""

_SELECT = re.compile(
    r"(?P<prologue>.*?)SELECT\s+DISTINCT\s+(?P<names>(?:\?\w+\s+)+)WHERE\s+(?P<body>\{.*\})"
    r"(?:\s+LIMIT\s+(?P<cut>\d+))?\s*",
    re.DOTALL,
)
"""A query whose answers are the distinct values of some variables of a pattern, and nothing else."""

_Key = tuple[str, int]


class AnswerCache:
    """Answers of one KG by query, for one question. Safe to use from several threads.

    A result that no LIMIT cut also answers for fewer variables of the same pattern: distinct values of some
    variables are what is distinct among the distinct values of more of them.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[_Key, Result] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, sparql: str, limit: int) -> Result | None:
        """What the KG answered to the query; None if that is not known. `limit`: rows a result may have."""
        with self._lock:
            known = self._known.get((sparql, limit))
            select = None if known is not None else _SELECT.fullmatch(sparql)
            if select is None:
                return known
            return _projected(self._known.get((_pattern(select), limit)), select)

    def keep(self, sparql: str, limit: int, result: Result) -> None:
        """Remember an answer. Failures and cut or very long results are asked for again."""
        if result.outcome not in (Outcome.ROWS, Outcome.EMPTY) or len(result.rows) > KEPT_ROWS:
            return
        with self._lock:
            self._known[sparql, limit] = result
            select = _SELECT.fullmatch(sparql)
            if select is not None and (select["cut"] is None or len(result.rows) < int(select["cut"])):
                key = (_pattern(select), limit)
                if key not in self._known or len(self._known[key].variables) <= len(result.variables):
                    self._known[key] = result
            while len(self._known) > KEPT:
                self._known.popitem(last=False)


def _pattern(select: re.Match[str]) -> str:
    """The pattern of a query, as a key that is no query itself."""
    return f"{select['prologue']}{select['body']}"


def _projected(whole: Result | None, select: re.Match[str]) -> Result | None:
    """The rows of a query from those of its pattern for more variables; None where these are not known."""
    names = tuple(name[1:] for name in select["names"].split())
    if whole is None or not set(names) <= set(whole.variables):
        return None
    places = [whole.variables.index(name) for name in names]
    rows = tuple(dict.fromkeys(tuple(row[i] for i in places) for row in whole.rows))
    return replace(whole, variables=names, rows=rows[: int(select["cut"])] if select["cut"] else rows)
