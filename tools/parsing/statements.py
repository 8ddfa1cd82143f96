"""What is no question (ODA, section 3.1): claims to be checked, and slots to be filled; and how to tell them.

A claim is proved by a fact between two things it names, over a relation that its words speak of, when no word
of it says more than that. It is contradicted where such a relation has one value only and the KG has another
one than the claim. Of everything else a KG that may lack facts says nothing: then there is no reading.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal as OneOf
from typing import NamedTuple

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual, is_single_valued
from triplewise.tools.language.lexicon import lexicon, root, word_list
from triplewise.tools.linking.linker import LinkedEntity, candidate_nodes
from triplewise.tools.parsing.chains import step_similarities, steps_at
from triplewise.tools.parsing.denotation import denotation
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.program import compile_query
from triplewise.tools.parsing.query import And, Compared, Exists, Image, Members, Nodes, Number, Query, Step
from triplewise.tools.parsing.question import Question, Span
from triplewise.tools.parsing.reading import Labels, Reading
from triplewise.tools.parsing.similarity import NEARLY, similarities, thresholds_of
from triplewise.tools.pyql.words import describe
from triplewise.tools.retrieval.encoder import Encoder

Form = OneOf["question", "claim", "slot"]

LINKED = "assumed, for the graph links what the claim names, though by another relation than it speaks of"
"""Provenance of a reading that no more than makes a claim likely."""
_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_NOTE = re.compile(r" \([^()]*\)$")
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")


def form_of(text: str) -> Form:
    """Return what a text is: a slot is `entity [SEP] relation`, a claim ends as a statement does.

    A claim begins neither with a question word, nor with a verb before its subject, nor with an order.
    """
    if slot_of(text) is not None:
        return "slot"
    words = _words_of(text)
    if not text.rstrip(" \"'”").endswith((".", "!")) or len(words) < 3:
        return "question"
    late = words[0] in word_list("phrase_prepositions") or words[0] == "please"
    opening = words[1] if late else words[0]
    if _LATE_ORDER.search(text.casefold()):
        return "question"
    asks = opening in word_list("asking") | word_list("orders") or (
        not late and opening in word_list("verbs")
    )
    return "question" if asks else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Return entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]++)(?! you\b)", text.casefold())
    verbs = word_list("verbs")
    return form_of(text) == "claim" or bool(first and first[1].replace("’", "'") in verbs)


def denies(text: str) -> bool:
    """Whether a text says that something is not so ("was never married", "isn't")."""
    return any(_is_denial(word) for word in _words_of(text))


def _is_denial(word: str) -> bool:
    return word in word_list("denials") or word.endswith("n't")


def _words_of(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold().replace("’", "'"))


class _Named(NamedTuple):
    """What a claim names at some tokens: nodes of that name, or a number or date."""

    span: Span
    nodes: frozenset[int] = frozenset()
    number: Number | None = None


class _Fact(NamedTuple):
    """A step from the topic to something the claim names, and the query of whether it holds."""

    step: Step
    named: _Named
    query: Query


def claim_readings(
    claim: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    closed_world: bool = False,
) -> tuple[Reading, ...]:
    """Return readings of yes or no that decide a claim, best first: one that holds proves it, or contradicts.

    A claim that denies ("was never married to") is read as what it denies. Confidence is not calibrated.

    Args:
        closed_world: what is not linked in the KG is not linked at all. Then a claim that nothing decides is
            likely where the KG links all that it names, by whatever relation (provenance `LINKED`).
    """
    topics = [iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None]
    index = index_for(kg, encoder, claim, lambda: [*topics, *candidate_nodes(claim, kg, encoder)])
    question, given = ground(claim, index), ground(claim, index, linked)
    topic_anchors = [a for a in given.of_kind("entity") if ("ent_given", 1.0) in a.features]
    named = {(a.start, a.end): _Named((a.start, a.end), a.mentions) for a in topic_anchors}
    check, readings = _Check(question, kg, encoder, list(named)), list[Reading]()
    for name in _other_names(question):
        if not any(_overlap(name.span, other) for other in named):
            named[name.span] = name
    for anchor in topic_anchors:
        (topic,), span = anchor.mentions, (anchor.start, anchor.end)
        others = [name for name in named.values() if name.span != span]
        readings += check.readings(topic, span, others, closed_world)
    return tuple(sorted(readings, key=lambda r: -r.score))


def _other_names(question: Question) -> Iterator[_Named]:
    """Yield what a claim names in full: entities, the longest names first, then numbers and dates."""
    nodes = dict[Span, frozenset[int]]()
    for anchor in question.of_kind("entity", "literal"):
        if anchor.features[0][0] in ("ent_exact", "ent_alias", "ent_norm", "ent_literal"):
            span = (anchor.start, anchor.end)
            nodes[span] = nodes.get(span, frozenset()) | anchor.nodes
    for span in sorted(nodes, key=lambda s: s[0] - s[1]):
        yield _Named(span, nodes[span])
    for anchor in question.of_kind("value"):
        if isinstance(anchor.meaning, Number):
            yield _Named((anchor.start, anchor.end), number=anchor.meaning)


class _Check:
    """The check of a claim; `spans`: tokens of the entities that it is known to be about."""

    def __init__(self, question: Question, kg: KnowledgeGraph, encoder: Encoder, spans: list[Span]) -> None:
        self._question, self._index, self._kg, self._spans = question, question.index, kg, spans
        self._thresholds = thresholds_of(encoder)
        self._table = step_similarities(question, range(question.n), self._thresholds.same)

    def readings(self, topic: int, span: Span, named: Sequence[_Named], closed: bool) -> list[Reading]:
        """Return what proves the claim about a topic, else contradicts it, else in a closed world likely."""
        facts = [fact for name in named for fact in self._facts(topic, name)]
        proof = "the graph holds this fact"
        found = [(f.query, score, proof) for f in facts if (score := self._fit(topic, span, f)) > 0]
        found += self._classes(topic)
        if not found:
            settled = {f.named.span for f in facts}
            found = list(self._contradictions(topic, span, [n for n in named if n.span not in settled]))
        if not found and closed:  # facts between two things that the claim names, where it names no third one
            found = [(f.query, 0.0, LINKED) for f in facts if not self._names(self._rest(f.named.span))]
        return [r for query, score, why in found for r in written(query, self._index, self._kg, score, why)]

    def _rest(self, *spans: Span) -> list[int]:
        """Return the tokens of what a claim says besides the entities it is about and some names."""
        inside = {i for span in (*self._spans, *spans) for i in range(*span)}
        return [i for i in range(self._question.n) if i not in inside]

    def _content(self, places: Sequence[int]) -> list[int]:
        """Return those of some tokens that are content: no function words, numbers or denials."""
        words, stop = self._question.words, lexicon().stop
        found = (i for i in places if words[i] not in stop and words[i][0].isalpha())
        return [i for i in found if not _is_denial(self._question.tokens[i].text.lower())]

    def _names(self, places: Sequence[int]) -> list[int]:
        """Return those of some tokens that are written like names; [] where capitals tell nothing."""
        content = [i for i in self._content(places) if i]
        names = [i for i in content if self._question.tokens[i].capital]
        return names if len(names) < len(content) else []

    def _facts(self, topic: int, named: _Named) -> Iterator[_Fact]:
        """Yield all facts between the topic and what a claim names."""
        start, index = frozenset((topic,)), self._index
        for number in steps_at(index, start).tolist():
            step: Step = (number >> 1, -1 if number & 1 else 1)
            found = index.apply(*step, start)
            if named.number is not None:
                query = self._query(topic, step, named)
                if denotation(query, index):
                    yield _Fact(step, named, query)
            elif both := found & named.nodes - start:
                one = named._replace(nodes=frozenset((min(both),)))
                yield _Fact(step, named, self._query(topic, step, one))

    def _query(self, topic: int, step: Step, named: _Named) -> Exists:
        """Does the fact hold?"""
        of = Nodes(frozenset((topic,)))
        if named.number is not None:
            return Exists(Compared(of, (step,), "eq", named.number))
        return Exists(And(of, Image(((step[0], -step[1]),), Nodes(named.nodes))))

    def _fit(self, topic: int, span: Span, fact: _Fact) -> float:
        """Return how well a fact says all of the claim; 0 where the claim says something else, or more."""
        rest, is_forward = self._rest(fact.named.span), fact.step[1] > 0
        content = self._content(rest)
        if not content:
            # "X is a Y", "X is in Y": no word tells the relation, so any fact of X that has Y says as much.
            ordered = (span[0] < fact.named.span[0]) == is_forward
            return self._thresholds.named if ordered and rest else 0.0
        row = self._table[2 * fact.step[0] + (not is_forward), content]
        if row.max() < self._thresholds.named:
            return 0.0
        # A word may only say what kind of thing is meant ("the city of Turin").
        types = {c for node in (topic, *fact.named.nodes) for c in self._index.types[node]}
        kinds = {root(w) for c in types for name in self._index.classes[c].names for w in name.split()}
        pairs = zip(content, row.tolist(), strict=True)
        others = {root(self._question.words[i]) for i, cosine in pairs if cosine < self._thresholds.unrelated}
        return 0.0 if others - kinds else float(row.max())

    def _classes(self, topic: int) -> Iterator[tuple[Query, float, str]]:
        """Yield checks of classes that the claim names and the topic is of, over the classes in between."""
        for anchor in self._question.of_kind("class"):
            cls, is_whole = anchor.meaning, anchor.features[0][0] in ("cls_exact", "cls_head")
            rest = self._content(self._rest((anchor.start, anchor.end)))
            if is_whole and self._index.classes[cls].iri and topic in self._index.members[cls] and not rest:
                query = Exists(And(Nodes(frozenset((topic,))), Members(cls)))
                yield query, self._thresholds.named, "the graph holds the classes in between"

    def _contradictions(
        self, topic: int, span: Span, named: Sequence[_Named]
    ) -> Iterator[tuple[Query, float, str]]:
        """Yield facts of single-valued relations that the claim gives another value."""
        why = "the graph has another value for a relation that has one"
        for number in steps_at(self._index, (topic,)).tolist():
            relation = self._index.rels[number >> 1]
            if number & 1 or len(relation.path) > 1:
                continue
            for name in named:
                fact = _Fact((relation.i, 1), name, self._query(topic, (relation.i, 1), name))
                score = self._fit(topic, span, fact) if self._content(self._rest(name.span)) else 0.0
                if score > 0 and self._excludes(topic, relation.i, name):
                    yield fact.query, score, why

    def _excludes(self, topic: int, number: int, named: _Named) -> bool:
        """Return whether the topic's values rule out what the claim says, whichever node it means.

        It is a value that the relation takes somewhere, and none of the topic's, nor near one of them and so
        perhaps the same, a part or the whole of it: one fact away, or two of the same relation ("is in").
        """
        index, relation = self._index, self._index.rels[number]
        values = frozenset(relation.fwd.get(topic, ()))
        if not values or not is_single_valued(self._kg, relation.path[0][0]):
            return False
        if named.number is not None:  # years are compared with dates, other numbers with numbers
            return relation.dtype == (named.number.kind or "number") and values <= index.value.keys()
        near = {n for n in values if not index.is_literal[n]}
        if not near or not named.nodes & relation.objects:
            return False
        for step in steps_at(index, near).tolist():
            one: Step = (step >> 1, -1 if step & 1 else 1)
            once = index.apply(*one, frozenset(near))
            if named.nodes & (once | index.apply(*one, once)):
                return False
        return True


def _overlap(span: Span, other: Span) -> bool:
    return other[0] < span[1] and span[0] < other[1]


def written(
    query: Query, index: GraphIndex, kg: KnowledgeGraph, score: float, provenance: str
) -> Iterator[Reading]:
    """Yield a query as a reading whose confidence nothing calibrates, if PyQL has a program for it."""
    with suppress(ActionError):
        program = compile_query(query, index, kg.profile)
        text = describe(program, Labels(query, index, kg))
        yield Reading(program.text(kg.profile), text, score, 0.0, provenance)


def slot_readings(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Reading, ...]:
    """Return readings that fill a slot, best first; () where the KG has no such relation of the entity.

    Nothing calibrates their confidence.

    Args:
        relation: its name, as the slot has it. linked: the slot's entity.
    """
    readings = list[Reading]()
    for topic in [iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None]:
        index = index_for(kg, encoder, relation, lambda topic=topic: [topic])  # type: ignore[misc]
        if (node := index.numbers_of.get(topic)) is None:
            continue
        for step, name, similarity in _matches(relation, node, index, kg, encoder):
            query = Image((step,), Nodes(frozenset((node,))))
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            readings += written(query, index, kg, similarity, note)
    return tuple(sorted(readings, key=lambda r: -r.score))


def _matches(
    relation: str, node: int, index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder
) -> list[tuple[Step, str, float]]:
    """Return the relations of that very name, else those with names like it, each once, with similarities.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    key = normalise(_NOTE.sub("", relation))
    steps: list[Step] = [(n >> 1, -1 if n & 1 else 1) for n in steps_at(index, (node,)).tolist()]
    # Backward, a relation has a name only if it has one of its own that way.
    named = [
        (step, name)
        for step in steps
        for name in (index.rels[step[0]].names if step[1] > 0 else index.rels[step[0]].inverse)
    ]
    if same := {step: (step, name, 1.0) for step, name in named if normalise(name) == key}:
        forward = [found for step, found in same.items() if step[1] > 0]
        return forward or list(same.values())
    elsewhere = {r.i for r in index.rels if key in map(normalise, r.names)}
    if not named or elsewhere:
        # A relation that arrives at an entity may say as much of the other one, as "spouse" does.
        return [
            (step, f"{index.rels[step[0]].names[0]} (of the other one)", 1.0)
            for step in steps
            if step[0] in elsewhere and is_mutual(kg, index.rels[step[0]].path[0][0])
        ]
    column = similarities(kg, encoder, [[name] for _, name in named], [relation])[:, 0].tolist()
    least, matches = thresholds_of(encoder).same, dict[Step, tuple[Step, str, float]]()
    for similarity, (step, name) in sorted(zip(column, named, strict=True), key=lambda pair: -pair[0]):
        if similarity > least and similarity >= NEARLY * max(column):
            matches.setdefault(step, (step, name, similarity))
    return list(matches.values())
