"""Claims: the facts of a KG that prove or contradict a sentence (fact checking, ODA section 3.1).

A claim is proved by a fact between two things it names, over a relation that its words speak of, when no word
of it says more than that. It is contradicted where such a relation has one value only and the KG has another
one than the claim. Of everything else a KG that may lack facts says nothing: then there is no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.cardinality import is_single_valued
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import make_atom, node_form, texts_of
from triplewise.tools.planning.lexical.named import Named, named_nodes, numbers_in, spans_of
from triplewise.tools.planning.lexical.operations import is_date, is_number
from triplewise.tools.planning.lexical.question import QuestionView, lexicon, stem, view
from triplewise.tools.pyql.text import write_node
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

SPOKEN = 0.55
"""Likeness with a word of the claim from which on a relation is what the claim speaks of."""
SAID = 0.3
"""Likeness with a relation, or a type, below which a word of the claim says something else."""
STEM = 0.7
"""Likeness of words that are forms of one another."""
CLASS_DEPTH = 3
"""Steps up the classes over which a thing is still said to be one."""
LINKED = "assumed, for the graph links what the claim names, though by another relation than it speaks of"
"""Provenance of a rule that no more than makes a claim likely."""
VALUES = 20
"""Values of a relation that are compared with the claim's."""
LITERALS = 300
"""Literals of an entity that are looked at."""

_WORD = re.compile(r"[a-z]+")
_YEAR = re.compile(r"-?\d{4}")


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact between the topic and something the claim names; `forward`: the topic is its subject."""

    relation: str
    forward: bool
    value: Term
    said: Named


def claim_rules(
    claim: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    closed_world: bool = False,
) -> tuple[Rule, ...]:
    """Yes-or-no rules that decide a claim, best first: those that hold prove it, others contradict it.

    A claim that denies ("was never married to") is read as what it denies.

    Args:
        claim: the sentence. linked: what it is about. kg: asked a few batched queries.
        encoder: compares words.
        closed_world: what is not linked in the KG is not linked at all. Then a claim that nothing decides is
            likely where the KG links all that it names, by whatever relation (provenance `LINKED`).
    """
    rules = [r for topic in linked for r in _Check(claim, topic, linked, kg, encoder).rules(closed_world)]
    return tuple(sorted(rules, key=lambda r: -r.score))


class _Check:
    """The check of one claim, seen from one entity of it."""

    def __init__(
        self,
        claim: str,
        topic: LinkedEntity,
        linked: Sequence[LinkedEntity],
        kg: KnowledgeGraph,
        encoder: Encoder,
    ) -> None:
        self._claim, self._kg, self._encoder = claim, kg, encoder
        self._anchor = node_form(kg, topic.id)
        self._topic = kg.profile.expand(topic.id)
        self._own = [s for e in linked for s in spans_of(claim, e)]
        self._entity = topic
        self._others = [e for e in linked if e.id != topic.id]
        self._vectors: dict[tuple[str, ...], np.ndarray] = {}

    def rules(self, closed_world: bool) -> list[Rule]:
        """What proves the claim; else what contradicts it; else, in a closed world, what makes it likely."""
        if self._topic is None:
            return []
        named = named_nodes(self._claim, self._topic, self._own, self._others, self._kg)
        facts = [*_facts(self._kg, self._topic, named), *self._dated()]
        kinds = list(_member(self._kg, self._topic, named))
        proofs = [self._rule(f, likeness) for f in facts if (likeness := self._fits(f)) > 0]
        proofs += [self._class_rule(*kind) for kind in kinds if self._only_says(kind[0])]
        decided = proofs or list(self._contradictions(named, facts))
        return decided or (list(self._links(facts)) if closed_world else [])

    def _links(self, facts: Sequence[_Fact]) -> Iterator[Rule]:
        """Facts between two things that the claim names, where it names no third one."""
        for fact in facts:
            if not self._seen(fact.said).unlinked:
                yield replace(self._rule(fact, 0.0), provenance=LINKED)

    def _rule(self, fact: _Fact, score: float) -> Rule:
        """Does the fact hold?"""
        atom = make_atom(self._kg, fact.relation, fact.forward, ())
        held = Constraint("holds", self._anchor, (atom,), value=write_node(fact.value, self._kg.profile))
        return Rule(
            self._anchor, (), (Constraint("ask"), held), score=score, provenance="the graph holds this fact"
        )

    def _class_rule(self, kind: Named, path: Sequence[str]) -> Rule:
        """Is the topic of a class, over the classes in between?"""
        kg, end = self._kg, write_node(kind.node, self._kg.profile)
        names = [f"class_{i}" for i in range(1, len(path))]
        body = [
            Atom(make_atom(kg, r, True, ()).relation, True, v) for r, v in zip(path[:-1], names, strict=True)
        ]
        last = Atom(make_atom(kg, path[-1], False, ()).relation, False, names[-1])
        meets = Constraint("meets", names[-1], (last,), value=end)
        note = "the graph holds the classes in between"
        return Rule(self._anchor, tuple(body), (Constraint("ask"), meets), score=SPOKEN, provenance=note)

    def _seen(self, said: Named) -> QuestionView:
        """The claim with the topic and one named thing as mentions."""
        return view(self._claim, [*self._own, *([(said.start, said.end)] if said.end > 0 else [])])

    def _fits(self, fact: _Fact) -> float:
        """How well a fact says the claim, all of it; 0 where the claim says something else, or more."""
        seen = self._seen(fact.said)
        words = [w for w, _ in seen.words]
        if not words:
            return self._bare(seen, fact)
        likeness = self._likeness(fact.relation, fact.forward, words)
        types = self._types(fact.value)
        left = [
            w for w, like in zip(words, likeness, strict=True) if like < SAID and not self._is_type(w, types)
        ]
        return float(likeness.max()) if likeness.max() >= SPOKEN and not left else 0.0

    def _bare(self, seen: QuestionView, fact: _Fact) -> float:
        """ "X is a Y", "X is in Y": no word tells the relation, so any fact of X that has Y says as much."""
        places = [start for start, _ in spans_of(self._claim, self._entity)]
        said = bool(places) and (places[0] < fact.said.start) == fact.forward
        return SPOKEN if said and len(seen.tokens) > 2 else 0.0

    def _only_says(self, kind: Named) -> bool:
        """Whether the claim says no more than that the topic is of a kind."""
        words = [w for w, _ in self._seen(kind).words]
        return not words

    def _likeness(self, relation: str, forward: bool, words: Sequence[str]) -> np.ndarray:
        """Likeness of each word with what a relation reads as, shape (words,)."""
        texts = texts_of(relation_texts(self._kg, [relation])[relation], forward)
        key = tuple(words)
        if key not in self._vectors:
            self._vectors[key] = self._encoder.encode(list(words))
        best: np.ndarray = (self._vectors[key] @ vectors_of(self._kg, self._encoder).vectors(texts).T).max(
            axis=1
        )
        stop = lexicon()["stopwords"]
        stems = {stem(w) for t in texts for w in _WORD.findall(t.lower()) if w not in stop}
        return np.asarray(np.maximum(best, [STEM if stem(w) in stems else 0.0 for w in words]))

    def _types(self, value: Term) -> list[str]:
        """Names of the types of the topic and of a value."""
        links = "|".join(IRI(p).n3() for p in self._kg.profile.type_predicates)
        nodes = " ".join(n.n3() for n in (self._topic, value) if isinstance(n, IRI))
        if not links or not nodes:
            return []
        found = self._kg.query(
            f"SELECT DISTINCT ?c WHERE {{ VALUES ?x {{ {nodes} }} ?x {links} ?c }}", limit=VALUES
        )
        return list(self._kg.labels(found.column("c")).values()) if found.rows else []

    def _is_type(self, word: str, types: Iterable[str]) -> bool:
        """Whether a word only says what kind of thing is spoken of ("the city of Turin")."""
        return any(stem(word) == stem(part) for name in types for part in _WORD.findall(name.lower()))

    def _dated(self) -> list[_Fact]:
        """Facts whose date or number the claim names."""
        numbers = numbers_in(self._claim, self._own)
        if not numbers or self._topic is None:
            return []
        facts = []
        for relation, value in _literals(self._kg, self._topic):
            for said in numbers:
                if _same_value(value, said.text.replace(",", "")):
                    facts.append(_Fact(relation, True, value, said))
        return facts

    def _contradictions(self, named: Sequence[Named], facts: Sequence[_Fact]) -> Iterator[Rule]:
        """Facts of single-valued relations that the claim gives another value."""
        held = {(f.said.start, f.said.end) for f in facts}
        wanted: dict[tuple[int, int], list[Named]] = {}
        for said in [*named, *numbers_in(self._claim, self._own)]:
            if (said.start, said.end) not in held:
                wanted.setdefault((said.start, said.end), []).append(said)
        around = self._kg.relations(self._topic).forward if wanted and self._topic is not None else ()
        for iri in around:
            for alike in wanted.values():
                fact = _Fact(self._kg.profile.short(iri), True, alike[0].node, alike[0])
                if (
                    self._seen(alike[0]).words
                    and (score := self._fits(fact)) > 0
                    and self._excludes(iri, alike)
                ):
                    told = "the graph has another value for a relation that has one"
                    yield replace(self._rule(fact, score), provenance=told)

    def _excludes(self, relation: IRI, said: Sequence[Named]) -> bool:
        """Whether the topic's values rule out what the claim says, whichever node of that name it means.

        It is a value that the relation takes, and none of the topic's.
        """
        assert self._topic is not None
        values = [
            t.object for t in self._kg.neighbours(self._topic, relation, "forward", limit=VALUES).triples
        ]
        if not values or not is_single_valued(self._kg, relation):
            return False
        if isinstance(said[0].node, Literal):
            text = said[0].text.replace(",", "")
            return all(_comparable(v, text) and not _same_value(v, text) for v in values)
        fitting = any(_is_value(self._kg, relation, n.node) for n in said)
        return fitting and not any(_related(self._kg, values, n.node) for n in said)


def _facts(kg: KnowledgeGraph, topic: IRI, named: Sequence[Named]) -> Iterator[_Fact]:
    """All facts between the topic and the nodes that a claim names; two queries."""
    if not named:
        return
    nodes = {n.node: n for n in reversed(named)}
    values = " ".join(n.n3() for n in nodes)
    for forward in (True, False):
        ends = f"{topic.n3()} ?r ?x" if forward else f"?x ?r {topic.n3()}"
        found = kg.query(f"SELECT DISTINCT ?r ?x WHERE {{ VALUES ?x {{ {values} }} {ends} }}")
        for relation, node in found.rows:
            said = _said(node, nodes)
            if isinstance(relation, IRI) and said is not None and not kg.profile.excludes(relation):
                yield _Fact(kg.profile.short(relation), forward, said.node, said)


def _said(found: Term | None, nodes: Mapping[Term, Named]) -> Named | None:
    """What a query found of the nodes it was given; Virtuoso may return a lone one as a string."""
    if found is None:
        return None
    return nodes.get(found) or next((said for node, said in nodes.items() if node.value == found.value), None)


def _literals(kg: KnowledgeGraph, topic: IRI) -> Iterator[tuple[str, Literal]]:
    """Dates and numbers of an entity, with their relations; one query."""
    found = kg.query(f"SELECT ?r ?x WHERE {{ {topic.n3()} ?r ?x FILTER(isLiteral(?x)) }}", limit=LITERALS)
    for relation, value in found.rows:
        if not isinstance(relation, IRI) or not isinstance(value, Literal) or kg.profile.excludes(relation):
            continue
        if is_date(value) or is_number(value):
            yield kg.profile.short(relation), value


def _member(
    kg: KnowledgeGraph, topic: IRI, named: Sequence[Named]
) -> Iterator[tuple[Named, tuple[str, ...]]]:
    """The classes a claim names that the topic is of over classes in between, with the relations there."""
    types, above = kg.profile.type_predicates, kg.profile.subclass_predicates
    if not types or not above or not named:
        return
    short = kg.profile.short
    nodes = {n.node: n for n in reversed(named)}
    values, up = " ".join(n.n3() for n in nodes), IRI(above[0])
    for steps in range(1, CLASS_DEPTH):
        for first in (IRI(types[0]), up):
            path = "/".join([first.n3(), *[up.n3()] * steps])
            found = kg.query(
                f"SELECT DISTINCT ?x WHERE {{ VALUES ?x {{ {values} }} {topic.n3()} {path} ?x }}"
            )
            for node in found.column("x") if found.rows else ():
                if (said := _said(node, nodes)) is not None:
                    yield said, (short(first), *[short(up)] * steps)


def _is_value(kg: KnowledgeGraph, relation: IRI, node: Term) -> bool:
    """Whether a node is a value of a relation somewhere: of the kind that the relation takes."""
    return bool(kg.query(f"ASK {{ ?s {relation.n3()} {node.n3()} }}").boolean)


def _related(kg: KnowledgeGraph, values: Sequence[Term], node: Term) -> bool:
    """Whether a node is near one of the values, and so may be the same, a part of it or the whole of it.

    Near: one fact away, or two of the same relation ("located in" walked twice), or nobody knows.
    """
    ends = " ".join(v.n3() for v in values if isinstance(v, IRI))
    if not ends:
        return True
    n = node.n3()
    ways = (f"?v ?r {n}", f"{n} ?r ?v", f"?v ?r ?m . ?m ?r {n}", f"{n} ?r ?m . ?m ?r ?v")
    found = (kg.query(f"ASK {{ VALUES ?v {{ {ends} }} {way} }}").boolean for way in ways)
    return any(answer is not False for answer in found)


def _same_value(value: Term, said: str) -> bool:
    """Whether a date or number of the KG is what a claim says: a year, or the number."""
    if not isinstance(value, Literal):
        return False
    if is_date(value):
        return value.value.lstrip("+").startswith(said) if _YEAR.fullmatch(said) else False
    return is_number(value) and float(value.value) == float(said)


def _comparable(value: Term, said: str) -> bool:
    """Whether a value and what a claim says are both years, or both numbers that are no years."""
    if not isinstance(value, Literal):
        return False
    return is_date(value) == bool(_YEAR.fullmatch(said)) and (is_date(value) or is_number(value))
