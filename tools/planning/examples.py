"""Solved questions as examples for a language model: those most like a question, with their queries.

A file of them is JSON lines: `question` with the actions that answer it (`program`), a `sparql` query, the
`turns` of a trajectory, or else `answers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.taught import right_answers
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, memory_of
from triplewise.tools.planning.seeds import Seed, SeedIndex, masked

QUERIES, LONGEST = ("program", "sparql", "sparql11", "query"), 800  # where a query stands; its characters
_BUILDS = re.compile(r"(add_\w+|set_answer|ask|set_order)\(")
_PREFIX = re.compile(r"(?i)\bPREFIX\s+([\w.-]*):\s*<([^<>]*)>")


def examples_for(source: str, kg: KnowledgeGraph, file: str | None) -> SeedIndex | None:
    """Return the solved questions of a file, else those of a graph that people marked right; None without.

    They are seeds whose one answer is the query. Raises `DataError` where a file has none, or cannot be read.
    """
    if file is None:
        return _indexed(right_answers(source), kg.profile)
    path, kept = Path(file).expanduser(), memory_of(kg, "examples")
    try:
        key = file, path.stat().st_mtime_ns
    except OSError as error:
        raise DataError(f"cannot read examples: {error.strerror or error}", file) from error
    if key not in kept:
        kept[key] = _indexed((record for _, record in json_lines(path)), kg.profile)
    if kept[key] is None:
        needed = f"question and one of {', '.join(QUERIES)}, turns or answers"
        raise DataError(f"no solved question: a line needs {needed}", path)
    found: SeedIndex = kept[key]
    return found


def _indexed(records: Iterable[Mapping[str, Any]], profile: Profile) -> SeedIndex | None:
    groups = dict[str, list[Seed]]()
    for record in records:
        if (seed := _example(record, profile)) is not None:
            groups.setdefault(masked(seed.question, seed.spans), []).append(seed)
    return SeedIndex(groups) if groups else None


def _example(record: Mapping[str, Any], profile: Profile) -> Seed | None:
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
    return Seed(question, names, (solution,))


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
