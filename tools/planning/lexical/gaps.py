"""Rules that only documents can complete: which are kept, where they stand, and what to read for without any.

A graph that lacks a fact may lack all that leads to it: SymAgent keeps such a rule alive and reads (4.2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.protocol import KnowledgeGraph, origin_of
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import ground, make_atom
from triplewise.tools.planning.lexical.question import MENTION, lexicon, stem
from triplewise.tools.planning.lexical.search import SUPPORTED, Search

GAP = "with a gap in the graph"
"""How the provenance of a rule ends that only documents can complete."""
ALIKE = 0.5
"""Questions that share this part of what they say besides their entities ask for the same."""
GUESSES = 2
"""Relations that documents are read for where nothing else is planned."""
MOST_RELATIONS = 2_000
"""Relations of a graph that are compared with a question."""
SECONDS = 5.0
"""Seconds that listing the relations of a graph may take; else those of its profile are taken."""

_relations: WeakKeyDictionary[KnowledgeGraph, tuple[str, ...]] = WeakKeyDictionary()
_lock = Lock()


def with_gap(rule: Rule) -> Rule:
    """A rule marked as one that only documents can complete."""
    return replace(rule, provenance=f"{rule.provenance}, {GAP}")


def has_gap(rule: Rule) -> bool:
    """Whether only documents can complete a rule."""
    return rule.provenance.endswith(GAP)


def shared_places(rules: Sequence[Rule], limit: int) -> list[Rule]:
    """The first rules, in order, at most `limit`, where neither kind takes the place of the other.

    Rules with a gap have half of the places, more where there are not enough others.
    """
    gaps = [i for i, r in enumerate(rules) if has_gap(r)]
    whole = [i for i, r in enumerate(rules) if not has_gap(r)]
    gaps = gaps[: max(limit - len(whole), limit // 2)]
    kept = {*gaps, *whole[: limit - len(gaps)]}
    return [r for i, r in enumerate(rules) if i in kept]


def alike(masked: str, other: str) -> bool:
    """Whether two questions with masked entities say the same for the most part, by the stems of their words.

    BM25 orders seeds but does not say whether the first of them is like the question at all.
    """
    mine, theirs = _stems(masked), _stems(other)
    return 2 * len(mine & theirs) >= ALIKE * (len(mine) + len(theirs))


def _stems(masked: str) -> set[str]:
    """Stems of the words that say something; of all words, where none does."""
    words = {w for w in masked.split() if w != MENTION and any(c.isalnum() for c in w)}
    return {stem(w) for w in words - set(lexicon()["stopwords"])} or words


def relations_of(kg: KnowledgeGraph) -> tuple[str, ...]:
    """Short ids of all relations of a graph, listed once by one query; of its profile, if that takes long.

    Labels, aliases, descriptions and types are left out: documents are not read for them.
    """
    origin = origin_of(kg)
    with _lock:
        if origin in _relations:
            return _relations[origin]
    profile = origin.profile
    plain = {
        *profile.type_predicates,
        *profile.label_predicates,
        *profile.alias_predicates,
        *profile.description_predicates,
    }
    listed = origin.query("SELECT DISTINCT ?r WHERE { ?s ?r ?o }", timeout=SECONDS, limit=MOST_RELATIONS)
    found = [r for r in listed.column("r") if isinstance(r, IRI)] if listed.rows else []
    usable = sorted(profile.short(r) for r in found if r.value not in plain and not profile.excludes(r))
    with _lock:
        return _relations.setdefault(origin, tuple(usable or profile.relations))


def guessed_rules(search: Search) -> list[Rule]:
    """Rules of the one relation that the question speaks of, wherever the graph has it; () if it names none.

    For an entity that the graph has nothing about, or not what is asked. Chosen as other rules are: by the
    words of the question and by what it expects.
    """
    if search.seen.boolean or search.seen.constrained:
        return []
    names = relations_of(search.kg)
    relation_texts(search.kg, names)
    steps = [(make_atom(search.kg, r, way, ()),) for r in names for way in (True, False)]
    rules: list[Rule] = []
    for topic in search.topics if steps else ():
        scorer = search.scorer(topic)
        for body, score in zip(steps, scorer.scores(steps), strict=True):
            if scorer.support(body) < SUPPORTED:
                continue
            if all(find_classes(search.kg, word) for word in scorer.leaves_out([body])):
                note = f"fits the words of the question, {GAP}"
                rules.append(replace(ground(topic, body), score=score, provenance=note))
    return search.ranked(rules)[:GUESSES]
