"""Gold SPARQL queries as facts, in an order in which an agent can add them one after the other."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

from rdflib import URIRef, Variable
from rdflib.plugins.sparql import prepareQuery
from rdflib.plugins.sparql.parserutils import CompValue

from triplewise.evals.data import DataFile, locate, read_records
from triplewise.tools.core.files import Record
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.text import write_iri

Fact = tuple[str, str, str]
"""Subject, relation and object as an agent writes them."""

FILES = {
    "demo": (),
    "wikidata_kg": ("qald10/test_en.jsonl.gz", "wikiwebquestions/test.jsonl.gz"),
    "freebase_kg": ("webqsp/test.jsonl.gz",),
}
"""Graph -> question files of the data folder with gold SPARQL; the demo's ship with it."""


class GoldQuestion(NamedTuple):
    """A question with the facts of its gold query, each connected to those before it."""

    question: str
    facts: tuple[Fact, ...]


def gold_questions(name: str, profile: Profile, draw: Random | None = None) -> Iterator[GoldQuestion]:
    """Yield the questions of a graph (a key of `FILES`) whose gold query is one flat group of facts.

    They are drawn before their queries are parsed, which takes a tenth of a second. Raises `DataError` on a
    missing or broken file.
    """
    demo = (files("triplewise.tools.kg.demo") / "questions.jsonl").read_text(encoding="utf-8")
    paths = (question_records(path) for path in FILES[name])
    records: list[Record] = (
        [*itertools.chain(*paths)] if FILES[name] else [*map(json.loads, demo.splitlines())]
    )
    if draw is not None:
        draw.shuffle(records)
    for record in records:
        sparql = str(record.get("sparql11") or record.get("sparql", ""))
        if facts := in_order(facts_of_sparql(sparql, profile)):
            yield GoldQuestion(record["question"], facts)


def question_records(path: str) -> Iterator[Record]:
    """Yield the records of a question file in the data folder. Raises `DataError` as `gold_questions`."""
    yield from read_records(locate(DataFile(path, "", "the benchmark's own site")), "question")


def facts_of_sparql(sparql: str, profile: Profile) -> list[Fact]:
    """Return the facts of a query that is one flat group of variables and IRIs; [] for any other."""
    try:
        algebra = prepareQuery(sparql).algebra
    except Exception:  # noqa: BLE001 - rdflib raises its parser's own errors, and bare ones of its own
        return []
    groups: list[Any] = []
    parts = [algebra]
    while parts:
        part = parts.pop()
        groups += [part] if part.name == "BGP" else []
        parts += [inner for inner in part.values() if isinstance(inner, CompValue)]
    if len(groups) != 1:
        return []

    def form(term: Any, relation: bool = False) -> str:
        if isinstance(term, URIRef):
            return write_iri(IRI(str(term)), profile, relation)
        return term.n3() if isinstance(term, Variable) else ""

    facts = [(form(s), form(p, relation=True), form(o)) for s, p, o in groups[0].triples]
    return facts if all(all(fact) and not fact[1].startswith("?") for fact in facts) else []


def in_order(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the facts in an order in which each starts from a bound node; () if there is none."""
    left, bound, ordered = list(facts), set[str](), list[Fact]()
    while left:
        complete = (f for f in left if not {e for e in (f[0], f[2]) if e.startswith("?")} - bound)
        connected = (f for f in left if any(not e.startswith("?") or e in bound for e in (f[0], f[2])))
        fact = next(complete, None) or next(connected, None)
        if fact is None:
            return ()
        left.remove(fact)
        bound |= {e for e in (fact[0], fact[2]) if e.startswith("?")}
        ordered.append(fact)
    return tuple(ordered)
