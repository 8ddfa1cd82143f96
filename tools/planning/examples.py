"""Solved questions as examples for a language model: those most like a question, with their queries.

A file of them is JSON lines: `question` with the actions that answer it (`program`), a `sparql` query, the
`turns` of a trajectory, or else `answers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ActionError, DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.taught import right_answers
from triplewise.tools.core.terms import IRI, XSD
from triplewise.tools.kg.profile import Profile, split_words
from triplewise.tools.kg.protocol import KnowledgeGraph, memory_of, terms_n3
from triplewise.tools.planning.seeds import Seed, SeedIndex, masked
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.words import describe

QUERIES, LONGEST = ("program", "sparql", "sparql11", "query"), 800  # where a query stands; its characters
_BUILDS = re.compile(r"(add_\w+|set_answer|ask|set_order)\(")
_PREFIX = re.compile(r"(?i)\bPREFIX\s+([\w.-]*):\s*<([^<>]*)>")


def examples_for(source: str, kg: KnowledgeGraph, file: str | None) -> SeedIndex | None:
    """Return the solved questions of a file, else those of a graph that people marked right; None without.

    They are seeds whose answers are the query and its IRIs. Raises `DataError`: a file without any, or none.
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


def usable(kg: KnowledgeGraph, seeds: Iterable[Seed], most: int) -> list[Seed]:
    """Return the first examples whose query has no id that a graph lacks, with what its ids are called."""
    iris = {seed: [IRI(value) for value in seed.answers[1:]] for seed in seeds}
    every = {iri for of in iris.values() for iri in of}
    is_used = " || ".join(f"EXISTS {{ {place} }}" for place in ("?x ?p ?o", "?s ?x ?o", "?s ?p ?x"))
    result = kg.query(f"SELECT ?x WHERE {{ VALUES ?x {{ {terms_n3(every)} }} FILTER({is_used}) }}")
    unknown = every.difference(result.column("x")) if result.outcome.ok else set[IRI]()
    found = [seed for seed, of in iris.items() if unknown.isdisjoint(of)][:most]
    labels, shown = kg.labels(iri for seed in found for iri in iris[seed]), list[Seed]()
    for seed in found:
        ids = {kg.profile.short(iri): labels.get(iri, "") for iri in iris[seed]}
        called = [f"{i}: {label}" for i, label in ids.items() if label.lower() not in split_words(i).lower()]
        query = f"{seed.answers[0]} ({'; '.join(called)})" if called else seed.answers[0]
        shown.append(seed._replace(answers=(query, *seed.answers[1:])))
    return shown


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
    solution, iris = _with_short_ids(query, profile)
    if not isinstance(question, str) or not 0 < len(solution) <= LONGEST:
        return None
    entities = record.get("entities") or record.get("topic_entity") or ()
    names = tuple(map(str, entities)) if isinstance(entities, dict | list) else (str(entities),)
    return Seed(question, names, (solution, *(iri.value for iri in iris)))


def _with_short_ids(query: str, profile: Profile) -> tuple[str, dict[IRI, str]]:
    """Return a query with ids as actions take them, and its IRIs; SPARQL without its prefixes, in a line."""
    prefixes, iris = dict(_PREFIX.findall(query)), dict[IRI, str]()

    def short(match: re.Match[str]) -> str:
        iri, prefix, local = match.groups()
        if iri is None and prefix not in prefixes:
            return match[0]
        return iris.setdefault(term := IRI(iri or prefixes[prefix] + local), profile.short(term))

    if not re.search(r"(?i)\bselect\b|\bask\b", query) or _BUILDS.match(query):
        with suppress(ActionError):
            describe(PyQL.parse(query, profile), lambda iri: iris.setdefault(iri, ""))
        return query.strip(), iris
    text = re.sub(r"<([^<>\s]+)>|([\w-]*):([\w.-]*\w)", short, _PREFIX.sub("", query))
    return " ".join(text.split()), {iri: id for iri, id in iris.items() if not iri.value.startswith(XSD)}
