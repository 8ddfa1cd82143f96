"""Gold programs of benchmarks as facts, one step after the other, on the graph that each is asked of."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import NamedTuple

from triplewise.evals.data import DataFile, locate, read_records
from triplewise.nodes.act import ranker
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.tools.actions import TOOLSETS, ActionContext, Call, ReasoningMemory
from triplewise.tools.actions.repair.verify import finds
from triplewise.tools.core.files import Record
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.text import read_iri, write_iri

Fact = tuple[str, str, str]
"""Subject, relation and object as an agent writes them."""

TOOLSET = TOOLSETS["pyql"]
"""The actions that gold programs are written in."""
PREFIX = re.compile(r"PREFIX\s+(\S*?):\s*<([^>]*)>", re.IGNORECASE)
_BODY = re.compile(r"\{([^{}]*)\}")
_FILTER = re.compile(r"FILTER\s*\((?:[^()]|\([^()]*\))*\)|BIND\s*\((?:[^()]|\([^()]*\))*\)")
_TERM = re.compile(r"\?\w+|<[^<>\s]+>|[A-Za-z][\w-]*:[\w.-]*\w")
_PYQL = re.compile(r"add_fact\('([^']+)', '([^']+)', '([^']+)'\)")
METAQA = {
    "director": "directed_by", "writer": "written_by", "actor": "starred_actors", "tags": "has_tags",
    "year": "release_year", "genre": "has_genre", "language": "in_language",
    "imdbrating": "has_imdb_rating", "imdbvotes": "has_imdb_votes",
}  # fmt: skip
"""Type of node in MetaQA's question types -> the relation from films to it."""


class GoldQuestion(NamedTuple):
    """A question with the facts of its gold query, so ordered that each hangs on what is bound by then."""

    question: str
    facts: tuple[Fact, ...]


def gold_questions(name: str, profile: Profile) -> Iterator[GoldQuestion]:
    """Yield questions whose gold query is made of plain facts, in the order of the files.

    `name` is demo, or a graph in the catalog: metaqa, wikidata_kg, freebase_kg; `profile` its shape. Raises
    `DataError` on a missing or broken file.
    """
    records: Iterable[Record]
    read: Callable[[Record, Profile], list[Fact]]
    if name == "demo":
        file = files("triplewise.tools.kg.demo") / "questions.jsonl"
        records, read = map(json.loads, file.read_text(encoding="utf-8").splitlines()), facts_of_sparql
    else:
        paths, read = _SOURCES[name]
        records = itertools.chain.from_iterable(map(question_records, paths))
    for record in records:
        if facts := in_order(read(record, profile)):
            yield GoldQuestion(re.sub(r"[\[\]]", "", record["question"]), facts)


def question_records(path: str) -> Iterator[Record]:
    """Yield the records of a question file in the folder of data. Raises `DataError` as `gold_questions`."""
    yield from read_records(locate(DataFile(path, "", "the benchmark's own site")), "question")


def facts_of_path(record: Record, profile: Profile) -> list[Fact]:
    """A path of types, `director_to_movie_to_language`, from the topic entity."""
    types = str(record.get("qtype", "")).split("_to_")
    node, facts = write_iri(profile.name_iri(record["topic_entity"]), profile), []
    for place, (one, two) in enumerate(itertools.pairwise(types)):
        end = f"?{two}{place}"
        relation = METAQA.get(two if one == "movie" else one)
        if relation is None or "movie" not in (one, two):
            return []
        facts.append((node, relation, end) if one == "movie" else (end, relation, node))
        node = end
    return facts


def facts_of_pyql(record: Record, profile: Profile) -> list[Fact]:
    """The facts of QueryAgent's own programs."""

    def form(end: str) -> str:
        return f"?{end}" if re.fullmatch(r"[a-z]\w*", end) else end

    facts = [(form(s), r, form(o)) for s, r, o in _PYQL.findall(record.get("pyql") or "")]
    ends = {end for s, _, o in facts for end in (s, o)}
    return facts if all(end.startswith("?") or profile.expand(end) for end in ends) else []


def facts_of_sparql(record: Record, profile: Profile) -> list[Fact]:
    """Return the facts of a gold query that is one flat group; [] for any other."""
    sparql = str(record.get("sparql", ""))
    prefixes, bodies = dict(PREFIX.findall(sparql)), _BODY.findall(sparql)
    if len(bodies) != 1 or sparql.count("{") != 1:
        return []
    facts: list[Fact] = []
    for group in re.split(r"\s\.(?:\s|$)", _FILTER.sub(" ", bodies[0]) + " "):
        subject = ""
        for part in filter(None, map(str.split, group.split(";"))):
            terms = [subject, *part] if len(part) == 2 and subject else part
            if len(terms) != 3 or not all(_TERM.fullmatch(t) for t in terms):
                return []
            subject = terms[0]
            iris = [query_iri(t, prefixes) for t in terms]
            forms = [t if n is None else write_iri(n, profile) for t, n in zip(terms, iris, strict=True)]
            if iris[1] is not None:
                forms[1] = write_iri(iris[1], profile, True)
            facts.append((forms[0], forms[1], forms[2]))
    return facts if all(all(fact) and not fact[1].startswith("?") for fact in facts) else []


def query_iri(term: str, prefixes: Mapping[str, str]) -> IRI | None:
    """Return the IRI that a term of a query stands for; None for a variable."""
    if term.startswith("?"):
        return None
    prefix, _, local = term.partition(":")
    return IRI(term[1:-1] if term.startswith("<") else prefixes.get(prefix, "") + local)


def in_order(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the facts so ordered that each starts from what is bound by then; () if they cannot be."""
    left, bound, ordered = list(facts), set[str](), list[Fact]()
    while left:
        complete = (f for f in left if not {e for e in (f[0], f[2]) if e.startswith("?")} - bound)
        hanging = (f for f in left if any(not e.startswith("?") or e in bound for e in (f[0], f[2])))
        fact = next(complete, None) or next(hanging, None)
        if fact is None:
            return ()
        left.remove(fact)
        bound |= {e for e in (fact[0], fact[2]) if e.startswith("?")}
        ordered.append(fact)
    return tuple(ordered)


def gold_steps(question: GoldQuestion, context: Context) -> Iterator[tuple[ActionContext, Fact]]:
    """Yield each gold fact that finds something, with what is known before it, after a look at its start."""
    kg = environment(context).kg
    forms = dict.fromkeys(e for s, _, o in question.facts for e in (s, o) if not e.startswith("?"))
    iris = {form: iri for form in forms if (iri := read_iri(form, kg.profile)) is not None}
    labels = kg.labels(iris.values())
    memory = ReasoningMemory(linked={kg.profile.short(iri): labels.get(iri, f) for f, iri in iris.items()})
    rank = ranker(question.question, kg, context)
    known = ActionContext(kg, question.question, memory=memory, rank=rank)
    for fact in question.facts:
        memory = known.memory
        anchor = next(e for e in (fact[0], fact[2]) if not e.startswith("?") or e in memory.bound)
        relations = TOOLSET.execute(known, Call("get_relation", (anchor,))).relations
        memory = replace(memory, looked_up={**memory.looked_up, anchor: relations})
        known = replace(known, memory=memory)
        feedback = TOOLSET.execute(known, Call("add_fact", fact))
        if not finds(feedback) or not any(fact[1] in side for side in relations.values()):
            return
        yield known, fact
        bound = tuple(dict.fromkeys((*memory.bound, *(f"?{v}" for v in feedback.values))))
        seen = memory.seen | {i for ids in feedback.ids.values() for i in ids}
        known = replace(known, program=feedback.program, memory=replace(memory, bound=bound, seen=seen))


_SOURCES: dict[str, tuple[tuple[str, ...], Callable[[Record, Profile], list[Fact]]]] = {
    "metaqa": (tuple(f"metaqa/dev_{hops}hop.jsonl.gz" for hops in (1, 2, 3)), facts_of_path),
    "wikidata_kg": (("qald10/test_en.jsonl.gz", "wikiwebquestions/test.jsonl.gz"), facts_of_sparql),
    "freebase_kg": (("webqsp/test.jsonl.gz",), facts_of_pyql),
}
GRAPHS = tuple(_SOURCES)
"""Graphs in the catalog that have gold programs."""
