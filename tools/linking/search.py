"""Search: from a text to the entities, classes and relations of a KG, by words and by meaning.

Names are compared by their words; classes and relations by the vectors of labels and descriptions too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf, NamedTuple

import numpy as np

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.labels import Candidate, similarity
from triplewise.tools.kg.profile import Profile, local_name, split_words
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import relation_descriptions, relation_texts, remembered, singulars
from triplewise.tools.language.lexicon import grammar_of
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.ranking import fuse
from triplewise.tools.retrieval.similarity import thresholds_of

MatchKind = OneOf["entity", "class", "relation"]
KINDS: tuple[MatchKind, ...] = ("entity", "class", "relation")

MOST_READ = 20_000  # classes and relations of a KG that are read; one with more is searched among these
FEW_RELATIONS, LONGEST_LOOK = 1_000, 5.0  # relations of an endpoint, or none; seconds it has to list them
LEAST_ALIKE = 0.7  # likeness of names by their words from which they are shown whatever vectors say
OUTLYING = 3.0  # standard deviations above the mean of the vocabulary from which a vector stands out
MOST_BEHIND = 0.3  # how much less alike than the best name another may be to be shown
TYPES = 2  # classes shown of a node
CLOSE, ALIKE = 0.75, 0.8  # likeness of a name to a text, and of two words, from which they are close
UNUSED = 0.2  # how much less alike a name without any facts is taken to be
LANGUAGE_NAMES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish"}


@dataclass(frozen=True, slots=True)
class Match:
    """Something a text may mean. `score` orders those of one kind; what is not `close` is the nearest."""

    id: str
    label: str
    kind: MatchKind
    score: float
    description: str = ""
    types: tuple[str, ...] = ()
    close: bool = True

    def text(self) -> str:
        """One line for prompts and terminals, e.g. `Q90: Paris (city; capital of France)`."""
        about = "; ".join(t for t in (", ".join(self.types), self.description) if t)
        return f"{self.id}: {self.label}{f' ({about})' if about else ''}"


def search_kg(
    kg: KnowledgeGraph,
    text: str,
    kinds: Collection[MatchKind] = KINDS,
    encoder: Encoder | None = None,
    limit: int = 8,
) -> tuple[Match, ...]:
    """Return what a name or a description may mean: at most `limit` of each kind, best first.

    Of a single kind the nearest are given; of several, what stands out.
    """
    matches: list[Match] = []
    for kind in KINDS if normalise(text) else ():
        if kind in kinds and kind == "entity":
            matches += _entities(kg, text, limit)
        elif kind in kinds:
            matches += _vocabulary(kg, text, kind, encoder, limit, fill=len(kinds) == 1)
    return tuple(matches)


def _entities(kg: KnowledgeGraph, text: str, limit: int) -> list[Match]:
    """Nodes of this name or a near one; those without facts after others alike.

    A near name has all numbers of the text. Of a text that ends or begins with a class ("Japanese language"),
    members of the class may have the rest for a name.
    """
    words, profile = normalise(text).split(), kg.profile
    numbers = {w for w in words if w.isdecimal()}
    found = [*_members(kg, words), *kg.names.search(text, limit=4 * limit, near=True)]
    found = [c for c in (*found, *kg.names.longer(text, limit)) if profile.linkable(c.iri.value)]
    if numbers:
        only = len(numbers) == len(words)
        fits = (not only and numbers <= set(re.findall(r"\d+", c.entry.text)) for c in found)
        found = [c for c, is_fit in zip(found, fits, strict=True) if is_fit or c.kind != "fuzzy"]
    known, best = any(c.entry.popularity for c in found), max((c.score for c in found), default=0.0)

    def order(c: Candidate) -> tuple[float, int]:
        return -round(c.score - UNUSED * (known and not c.entry.popularity), 1), -c.entry.popularity

    nodes = {c.iri: c for c in sorted(found, key=order, reverse=True)}
    chosen = [c for c in sorted(nodes.values(), key=order) if c.score >= best - MOST_BEHIND][:limit]
    types = node_types(kg, [c.iri for c in chosen])
    return [
        Match(profile.short(c.iri), c.entry.label, "entity", c.score, c.entry.description,
              types.get(c.iri, ()), c.score >= CLOSE or _has_words(words, c.entry.text))
        for c in chosen
    ]  # fmt: skip


def _members(kg: KnowledgeGraph, words: Sequence[str]) -> list[Candidate]:
    """Nodes that have some words for a name but for one at an end, which names a class of theirs."""
    found, classes = list[Candidate](), class_words(kg) if len(words) > 1 else frozenset[str]()
    for kind, rest in ((words[-1], words[:-1]), (words[0], words[1:])):
        if not classes.isdisjoint(singulars(kind)):
            entries = kg.names.exact(" ".join(rest))
            types = node_types(kg, [entry.iri for entry in entries])
            for entry in entries:
                if any(kind in normalise(t).split() for t in types.get(entry.iri, ())):
                    found.append(Candidate(entry, 1.0, "exact"))
    return found


def _has_words(words: Sequence[str], name: str) -> bool:
    """Whether a name has all of some words, or words spelt much like them."""
    others = normalise(name).split()
    return all(max((similarity(w, o) for o in others), default=0) >= ALIKE for w in words)


def labels_language(question: str, profile: Profile) -> str:
    """Return the language of a graph's labels where a question is in another one, else ""."""
    is_english = not grammar_of(question) and not re.search(r"[\u0370-\uffff]", question)
    own = profile.language.partition("-")[0]
    return "" if is_english == (own == "en") else LANGUAGE_NAMES.get(own, own)


def node_types(kg: KnowledgeGraph, nodes: Sequence[IRI]) -> dict[IRI, tuple[str, ...]]:
    """Return the labels of some classes of each node, with two queries for all of them."""
    links, values = kg.profile.type_links, " ".join(node.n3() for node in nodes)
    types_by_node: dict[IRI, list[IRI]] = {}
    sparql = f"SELECT DISTINCT ?x ?t WHERE {{ VALUES ?x {{ {values} }} ?x {links} ?t }}"
    for node, type_ in kg.query(sparql).rows if values and links else ():
        if isinstance(node, IRI) and isinstance(type_, IRI):
            types_by_node.setdefault(node, []).append(type_)
    shown = {node: sorted(types)[:TYPES] for node, types in types_by_node.items()}
    names = _class_names(kg, {t for types in shown.values() for t in types})
    return {node: tuple(names[t] for t in types) for node, types in shown.items()}


def _class_names(kg: KnowledgeGraph, classes: Collection[IRI]) -> dict[IRI, str]:
    """Return the labels of classes, else the words of their IRIs."""
    labels = kg.labels(classes)
    return {c: labels.get(c) or class_name(c) for c in classes}


def class_name(node: Term) -> str:
    """Return the words of a class that has no label."""
    return split_words(local_name(node.value)).lower()


def _vocabulary(
    kg: KnowledgeGraph, text: str, kind: MatchKind, encoder: Encoder | None, limit: int, fill: bool
) -> list[Match]:
    """Classes or relations that a text may mean, by words and by vectors; `fill`: the nearest, if far."""
    entries = classes_of(kg) if kind == "class" else relations_of(kg)
    if not entries:
        return []
    written, forms_of = text.rpartition(":")[2].casefold(), {normalise(text), normalise(split_words(text))}
    alike = np.array([max(similarity(t, normalise(n)) for n in e.names for t in forms_of) for e in entries])
    alike[[e.id.rpartition(":")[2].casefold() == written for e in entries]] = 1.0
    shown = alike >= LEAST_ALIKE
    scores = words = np.where(shown, alike, 0.0)
    if encoder is not None:
        texts = [f"{e.names[0]}: {e.description}" if e.description else e.names[0] for e in entries]
        cosines = vectors_of(kg, encoder).vectors(texts, encoder) @ encoder.encode([text])[0]
        stands_out = cosines.mean() + OUTLYING * cosines.std()
        shown |= cosines >= min(stands_out, thresholds_of(encoder).same)
        scores = fuse([words, cosines])
    order = [i for i in np.argsort(-scores, kind="stable") if fill or shown[i]]
    # Forms of one relation (Wikidata's p:, ps:, pq:) are one match: the one with the shortest id.
    forms: dict[tuple[str, str], int] = {}
    for i in order:
        form = (entries[i].id.rpartition(":")[2], entries[i].names[0].partition(" (")[0])
        forms[form] = min(forms.get(form, i), i, key=lambda j: len(entries[j].id))
    found = [(entries[i], float(scores[i]), bool(shown[i])) for i in list(forms.values())[:limit]]
    return [Match(e.id, e.names[0], kind, score, e.description, (), close) for e, score, close in found]


class Entry(NamedTuple):
    """A class or a relation with its names, best first, and its description."""

    id: str
    names: tuple[str, ...]
    description: str = ""


def relations_of(kg: KnowledgeGraph) -> tuple[Entry, ...]:
    """Return the relations of a KG, read once; none of an endpoint with very many, or that takes long."""

    def read() -> tuple[Entry, ...] | None:
        limit, seconds = (FEW_RELATIONS, min(kg.timeout, LONGEST_LOOK)) if kg.is_remote else (MOST_READ, None)
        result = kg.query("SELECT DISTINCT ?p WHERE { ?s ?p ?o }", limit=limit, timeout=seconds)
        if kg.is_remote and result.outcome in (Outcome.TIMEOUT, Outcome.TRUNCATED):
            return () if result.outcome is Outcome.TRUNCATED else None  # a time-out is not remembered
        iris = (row[0] for row in result.rows)
        shorts = [kg.profile.short(r) for r in iris if isinstance(r, IRI) and not kg.profile.excludes(r)]
        texts, descriptions = relation_texts(kg, shorts), relation_descriptions(kg, shorts)
        names = {r: tuple(n for n in (t.label, t.inverse, *t.aliases) if n) for r, t in texts.items()}
        return tuple(Entry(r, names[r], t.description or descriptions.get(r, "")) for r, t in texts.items())

    return remembered(kg, "vocabulary", "relations", read) or ()


def classes_of(kg: KnowledgeGraph) -> tuple[Entry, ...]:
    """Return the classes of a KG that have instances, read once."""

    def read() -> tuple[Entry, ...]:
        sparql = f"SELECT DISTINCT ?c WHERE {{ ?x {kg.profile.type_links} ?c }}"
        rows = kg.query(sparql, limit=MOST_READ).rows if kg.profile.type_links else ()
        names = _class_names(kg, [row[0] for row in rows if isinstance(row[0], IRI)])
        return tuple(Entry(kg.profile.short(c), (name,)) for c, name in names.items())

    return remembered(kg, "vocabulary", "classes with instances", read)


def class_words(kg: KnowledgeGraph) -> frozenset[str]:
    """The names of a graph's classes that are one word; none of a graph without a label index."""
    names = (normalise(of.names[0]) for of in (classes_of(kg) if kg.index is not None else ()))
    return frozenset(name for name in names if " " not in name)
