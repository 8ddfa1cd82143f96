"""Gold programs of benchmarks as facts, one step after the other, on the graph that each is asked of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from triplewise.evals.data import DataFile, Record, locate, read_records
from triplewise.tools.core.terms import IRI, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.text import write_iri

Ends = tuple[str, str, str]
"""Subject, relation and object of a fact as an agent writes them."""

_BODY = re.compile(r"\{([^{}]*)\}")
_PREFIX = re.compile(r"PREFIX\s+(\S*):\s*<([^>]*)>")
_FILTER = re.compile(r"FILTER\s*\((?:[^()]|\([^()]*\))*\)|BIND\s*\((?:[^()]|\([^()]*\))*\)")
_TERM = re.compile(r"\?\w+|<[^<>\s]+>|[A-Za-z][\w-]*:[\w.-]*\w")
_PYQL = re.compile(r"add_fact\('([^']+)', '([^']+)', '([^']+)'\)")
_MOVIE = "movie"
_METAQA = {
    "director": "directed_by",
    "writer": "written_by",
    "actor": "starred_actors",
    "tags": "has_tags",
    "year": "release_year",
    "genre": "has_genre",
    "language": "in_language",
    "imdbrating": "has_imdb_rating",
    "imdbvotes": "has_imdb_votes",
}


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with the facts of its gold query, in an order in which each hangs on what is known."""

    question: str
    facts: tuple[Ends, ...]


def gold_questions(name: str, profile: Profile) -> Iterator[GoldQuestion]:
    """Questions whose gold query is made of plain facts, in the order of the files.

    Args:
        name: the graph in the catalog: metaqa, wikidata_kg or freebase_kg.
        profile: shape of that graph.

    Raises:
        DataError: a missing or broken file.
    """
    files, read = _SOURCES[name]
    for file in files:
        for record in read_records(locate(DataFile(file, "", "the benchmark's own site")), "question"):
            facts = _in_order(read(record, profile))
            if facts:
                yield GoldQuestion(re.sub(r"[\[\]]", "", record["question"]), facts)


def _from_path(record: Record, profile: Profile) -> list[Ends]:
    """A path of types, `director_to_movie_to_language`, from the topic entity."""
    types = str(record.get("qtype", "")).split("_to_")
    node, facts = write_iri(profile.name_iri(record["topic_entity"]), profile), []
    for place, (one, two) in enumerate(itertools.pairwise(types)):
        end = f"?{two}{place}"
        relation = _METAQA.get(two if one == _MOVIE else one)
        if relation is None or _MOVIE not in (one, two):
            return []
        facts.append((node, relation, end) if one == _MOVIE else (end, relation, node))
        node = end
    return facts


def _from_pyql(record: Record, profile: Profile) -> list[Ends]:
    """The facts of QueryAgent's own programs."""
    facts = _PYQL.findall(record.get("pyql") or "")
    named = [(_form(s), r, _form(o)) for s, r, o in facts]
    return named if all(_is_node(end, profile) for s, _, o in named for end in (s, o)) else []


def _form(end: str) -> str:
    return f"?{end}" if re.fullmatch(r"[a-z]\w*", end) else end


def _is_node(form: str, profile: Profile) -> bool:
    return form.startswith("?") or profile.expand(form) is not None


def _from_sparql(record: Record, profile: Profile) -> list[Ends]:
    """The facts of a query that is one flat group; [] for any other."""
    sparql = str(record.get("sparql", ""))
    prefixes = dict(_PREFIX.findall(sparql))
    bodies = _BODY.findall(sparql)
    if len(bodies) != 1 or sparql.count("{") != 1:
        return []
    facts: list[Ends] = []
    for group in re.split(r"\s\.(?:\s|$)", _FILTER.sub(" ", bodies[0]) + " "):
        subject = ""
        for part in group.split(";"):
            terms = part.split()
            if not terms:
                continue
            if len(terms) == 2 and subject:
                terms = [subject, *terms]
            if len(terms) != 3 or not all(_TERM.fullmatch(t) for t in terms):
                return []
            subject = terms[0]
            written = [_short(t, prefixes, profile, i == 1) for i, t in enumerate(terms)]
            facts.append((written[0], written[1], written[2]))
    return facts if all(all(fact) and not fact[1].startswith("?") for fact in facts) else []


def _short(term: str, prefixes: dict[str, str], profile: Profile, relation: bool) -> str:
    """A term of a query as an agent writes it."""
    if term.startswith("?"):
        return Variable(term[1:]).n3()
    prefix, _, local = term.partition(":")
    iri = IRI(term[1:-1] if term.startswith("<") else prefixes.get(prefix, "") + local)
    return write_iri(iri, profile, relation)


def _in_order(facts: Sequence[Ends]) -> tuple[Ends, ...]:
    """The facts so ordered that each starts from what is known by then; () if they cannot be."""
    left, bound, found = list(facts), set[str](), list[Ends]()
    while left:
        due = (f for f in left if not {e for e in (f[0], f[2]) if e.startswith("?")} - bound)
        hanging = (f for f in left if any(not e.startswith("?") or e in bound for e in (f[0], f[2])))
        fact = next(due, None) or next(hanging, None)
        if fact is None:
            return ()
        left.remove(fact)
        bound |= {e for e in (fact[0], fact[2]) if e.startswith("?")}
        found.append(fact)
    return tuple(found)


_SOURCES: dict[str, tuple[tuple[str, ...], Callable[[Record, Profile], list[Ends]]]] = {
    "metaqa": (tuple(f"metaqa/dev_{hops}hop.jsonl.gz" for hops in (1, 2, 3)), _from_path),
    "wikidata_kg": (("qald10/test_en.jsonl.gz", "wikiwebquestions/test.jsonl.gz"), _from_sparql),
    "freebase_kg": (("webqsp/test.jsonl.gz",), _from_pyql),
}
GRAPHS = tuple(_SOURCES)
"""Graphs in the catalog that have gold programs."""
