"""Solved questions as examples: those most like a question, with the queries that answer them.

They are shown to a language model. A file of them is JSON lines: `question` with the actions that answer it
(`program`), a `sparql` query, the `turns` of a trajectory, or else `answers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.names import normalise
from triplewise.tools.core.taught import right_answers
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.seeds import Seed, masked, word_pairs
from triplewise.tools.retrieval.ranking import Bm25

QUERIES = ("program", "sparql", "sparql11", "query")
LONGEST = 800  # characters of a query that is shown
_BUILDS = re.compile(r"(add_\w+|set_answer|ask|set_order)\(")
_PREFIX = re.compile(r"(?i)\bPREFIX\s+([\w.-]*):\s*<([^<>]*)>")


class Example(NamedTuple):
    """A solved question, with the query (or else the answers), and its text without its entities."""

    question: str
    solution: str
    text: str


class Examples:
    """Solved questions of a graph, found by BM25 over texts whose entities are masked."""

    def __init__(self, examples: Iterable[Example]) -> None:
        self._examples = list(examples)
        self._index = Bm25([word_pairs(example.text) for example in self._examples])

    def nearest(self, question: str, linked: Sequence[LinkedEntity], most: int) -> list[Example]:
        """Return the examples most like a question, best first; never the question itself."""
        text = masked(question, [(e.start, e.end) for e in linked if e.start >= 0])
        scores, own, found = self._index.scores(word_pairs(text)), normalise(question), dict[str, Example]()
        for i in np.argsort(-scores, kind="stable"):
            example = self._examples[i]
            if scores[i] > 0 and len(found) < most and normalise(example.question) != own:
                found.setdefault(example.solution, example)
        return list(found.values())


def examples_for(source: str, profile: Profile, file: str | None) -> Examples | None:
    """Return the solved questions of a file; else those of a graph that people marked right.

    None without any. Raises `DataError` where the file is missing, a line is broken, or none has a solution.
    """
    if file is not None:
        path = Path(file).expanduser()
        try:
            version = path.stat().st_mtime_ns
        except OSError as error:
            raise DataError(f"cannot read examples: {error.strerror or error}", file) from error
        return _of_file(path, version, profile)
    made = [example for r in right_answers(source) if (example := _example(r, profile)) is not None]
    return Examples(made) if made else None


@lru_cache(maxsize=8)
def _of_file(path: Path, version: int, profile: Profile) -> Examples:
    records = [record for _, record in json_lines(path)]
    made = [example for r in records if (example := _example(r, profile)) is not None]
    if not made:
        needed = f"question and one of {', '.join(QUERIES)}, turns or answers"
        raise DataError(f"no solved question: a line needs {needed}", path)
    return Examples(made)


def _example(record: Mapping[str, Any], profile: Profile) -> Example | None:
    """Return the example of a record; None of one without a solution, or whose attempt was not right."""
    question, turns = record.get("question"), record.get("turns")
    query = next((q for k in QUERIES if isinstance(q := record.get(k), str)), "")
    answers = record.get("answers") or []
    if isinstance(turns, list):  # a trajectory is one where it gave the right answers
        calls = [str(t.get("call", "")) for t in turns if "ERROR_INFO" not in str(t.get("observation"))]
        query = "\n".join(c for c in calls if _BUILDS.match(c)) if record.get("f1") == 1 else ""
    elif not query and isinstance(answers, list):
        query = f"Answer: {', '.join(map(str, answers))}" if answers else ""
    solution = _with_short_ids(query, profile)
    if not isinstance(question, str) or not 0 < len(solution) <= LONGEST:
        return None
    entities = record.get("entities") or record.get("topic_entity") or ()
    names = tuple(map(str, entities)) if isinstance(entities, dict | list) else (str(entities),)
    return Example(question, solution, masked(question, Seed(question, names, ()).spans))


def _with_short_ids(query: str, profile: Profile) -> str:
    """Return a query with ids as actions take them; SPARQL without its prefixes, in a line."""
    prefixes = dict(_PREFIX.findall(query))

    def short(match: re.Match[str]) -> str:
        iri, prefix, local = match.groups()
        if iri is None and prefix not in prefixes:
            return match[0]
        return profile.short(IRI(iri or prefixes[prefix] + local))

    if not re.search(r"(?i)\bselect\b|\bask\b", query) or _BUILDS.match(query):
        return query.strip()
    return " ".join(re.sub(r"<([^<>\s]+)>|([\w-]*):([\w.-]*\w)", short, _PREFIX.sub("", query)).split())
