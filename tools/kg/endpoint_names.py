"""The names of a KG without a label index: looked up as exact labels, and by the engine's full-text search.

Engines have full text in dialects of their own (`fulltext.yaml`). Which one an endpoint understands is found
by asking for a label that is known to be there, once; the answer is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.files import kept_json
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal, text, whole_number
from triplewise.tools.kg.dialects import MATCHES, WORD, FullText, full_texts
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.labels import Entry
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result, base_of, batches, facts_by, terms_n3
from triplewise.tools.kg.vocabulary import remembered

MOST_NAMES = 120  # names that are looked for at once, at most
FEW_LABELS = 500_000  # labels up to which any engine may look through all of them
LETTERS, FULL_TEXT = "letters", "search.json"
DAYS = 30.0  # days for which is kept what an endpoint understands
SLOW = (
    "give the question's entities yourself (mention and id), allow more time (query_timeout), or make a "
    "label index once (triplewise kg index)"
)


def full_text_of(kg: KnowledgeGraph) -> FullText | None:
    """Return how to search the labels of a graph by words; None where that is not possible."""
    base = base_of(kg)

    def find() -> list[str]:  # [] where that is not possible
        folders = () if base.is_local else base.cache_dirs
        return kept_json(folders, FULL_TEXT, DAYS, list[str], partial(_find_full_text, base)) or []

    name, *predicates = remembered(base, "full text", "", find) or [""]
    way = next((way for way in full_texts() if way.name == name), None)
    return way and way.model_copy(update={"predicates": tuple(predicates)})


def _find_full_text(kg: KnowledgeGraph) -> list[str] | None:
    """The name of the first dialect that finds a label, and its predicates; a failed query raises."""
    named = [IRI(p) for p in (*kg.profile.label_predicates, *kg.profile.alias_predicates)]
    sample = "{{ SELECT ?by ?label WHERE {{ VALUES ?by {{ {} }} ?node ?by ?label }} LIMIT 20 }}"
    samples = " UNION ".join(sample.format(predicate.n3()) for predicate in named)
    result = kg.query(f"SELECT ?by ?label WHERE {{ {samples} }}")
    present = tuple(p.value for p in named if p in result.column("by"))
    labels = [label.value for _, label in result.rows if isinstance(label, Literal)]
    if not (labels and present):
        return None
    known = max(labels, key=lambda label: (label.isascii(), max(map(len, WORD.findall(label)), default=0)))

    def understood(way: FullText) -> FullText | None:
        if way.at and not re.search(way.at, kg.name):
            return None
        way = way.model_copy(update={"predicates": present})
        if way.name == LETTERS:
            many = f"SELECT ?node WHERE {{ ?node <{present[0]}> ?label }} OFFSET {FEW_LABELS} LIMIT 1"
            return way if kg.query(many).outcome is Outcome.EMPTY else None
        pattern = way.pattern(known, kg.profile.language, every=True)
        answer = _ask(kg, f"SELECT ?label WHERE {{ {pattern} }} LIMIT {MATCHES}")
        is_known = answer.outcome.ok and any(label and label.value == known for (label,) in answer.rows)
        return way if is_known else None

    for ways in batches(full_texts(), kg.connections):
        if answers := list(filter(None, kg.together([partial(understood, way) for way in ways]))):
            return [answers[0].name, *present]
    return None


def _ask(kg: KnowledgeGraph, sparql: str) -> Result:
    """Run a query of this module; an endpoint's may name a service of the engine's own."""
    return kg.query_own(sparql) if isinstance(kg, EndpointKG) and "SERVICE" in sparql else kg.query(sparql)


class EndpointNames:
    """The names of a KG, looked up on demand and cached. Raises `QueryFailedError` without an answer."""

    most_words = 8

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg
        self._exact: dict[str, list[Entry]] = {}
        self._similar: dict[tuple[str, bool], list[Entry]] = {}

    def exact(self, texts: Mapping[str, Collection[str]]) -> Mapping[str, list[Entry]]:
        """Return entries whose name is a text as written or with capitals, tagged or plain; one query."""
        profile = self._kg.profile
        new = list(islice((norm for norm in texts if norm not in self._exact), MOST_NAMES))
        self._exact |= {norm: [] for norm in new}
        written = (form for norm in new for form in texts[norm])
        forms = (f for t in written for f in (t, t.title(), t[:1].upper() + t[1:], t.lower()))
        values = [v for f in dict.fromkeys(forms) for v in (text(f), text(f, profile.language))]
        predicates = map(IRI, (*profile.label_predicates, *profile.alias_predicates))
        pattern = f"VALUES ?label {{ {terms_n3(values)} }} {facts_by(predicates, '?node ?by ?label')}"
        for entry in self._entries(pattern, self._kg) if values else ():
            self._exact.setdefault(normalise(entry.text), []).append(entry)
        return {norm: self._exact[norm] for norm in texts if self._exact.get(norm)}

    def node(self, iri: IRI) -> Entry | None:
        """Return the entry of a node under its preferred label."""
        label = self._kg.labels([iri]).get(iri)
        return Entry(iri, label, label) if label else None

    def by_words(self, name: str, every: bool) -> list[Entry]:
        """Return entries whose name has every word of a text, or that share words or their beginnings."""
        key, language = (normalise(name), every), self._kg.profile.language
        way = full_text_of(self._kg) if key[0] and key not in self._similar else None
        if way is not None:
            far = "STRLEN(STR(?label))" if every else f"ABS(STRLEN(STR(?label)) - {len(name)})"
            tagged = f'FILTER(LANG(?label) IN ("", "mul", "{language}"))'
            named = f"{way.pattern(name, language, every)} {tagged}"
            found = f"SELECT DISTINCT ?node ?label ?by WHERE {{ {named} }} ORDER BY {far} LIMIT {MATCHES}"
            self._similar[key] = list(self._entries(f"{{ {found} }}", base_of(self._kg)))
        return self._similar.get(key, [])

    def _entries(self, pattern: str, kg: KnowledgeGraph) -> Iterator[Entry]:
        """Entries of a pattern's ?node, ?label and ?by; popularity counts the facts that leave the node."""
        counted = f"SELECT ?node ?label ?by (COUNT(*) AS ?n) WHERE {{ {pattern} . ?node ?p ?o }}"
        result, profile = _ask(kg, f"{counted} GROUP BY ?node ?label ?by"), kg.profile
        if result.outcome is Outcome.TIMEOUT:
            raise QueryFailedError(result.outcome, f"{result.message}; {SLOW}")
        rows = [
            (node, label.value, by.value in profile.alias_predicates, whole_number(n) or 0)
            for node, label, by, n in result.rows
            if isinstance(node, IRI) and isinstance(label, Literal) and by and profile.linkable(node.value)
        ]
        labels = kg.labels(node for node, _, alias, _ in rows if alias)
        for node, name, alias, count in rows:
            yield Entry(node, labels.get(node, name) if alias else name, name, alias, count)
