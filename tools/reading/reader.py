"""The reader without a language model: which sentence says a relation, and of what.

For every name or value in a sentence about the entity, it is asked which relation of the KG the sentence
states between the two: by how near its words are to the relation's, and by whether the two are like what the
relation joins elsewhere. The relation asked must win against the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from triplewise.tools.core.facts import Passage, RawTriple
from triplewise.tools.core.names import Span, normalise
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.linking.mentions import same_case
from triplewise.tools.reading.base import Asked, statements
from triplewise.tools.reading.candidates import Candidate, candidates, groups, is_common
from triplewise.tools.reading.sentences import occurrences, sentences, without_article
from triplewise.tools.reading.shapes import Features, Shape, Shapes, Side, shapes_of, written
from triplewise.tools.reading.values import is_temporal, is_text
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

LEAST = 0.5
"""Confidence from which on a triple is kept: at 0.5, the sentence is as likely to state the relation asked as
to state any other, or none."""
WORDS = 20.0
"""Weight of the cosine between a sentence and a statement of the relation, in log odds."""
LIKENESS = 4.5
"""Weight of how like the two ends are to what the relation joins elsewhere, in log odds a log unit."""
ASKED = 2.5
"""Log odds in favour of the relation asked: passages were looked for because they may tell it."""
NOTHING = 4.0
"""Log odds of a sentence that states no relation between the two at all."""
RIVALS = 40
"""Other relations that a sentence may state, those that fit the two best."""
NEARLY = 0.9
"""A name that the KG does not know must be nearly as likely as the likeliest that it knows in a sentence."""
COMMON = 0.6
"""What the confidence in a noun of every day, such as `music`, is multiplied by, even if the KG has it."""
LEAST_LIKE = 0.12
"""Below this likeness to what the relation joins elsewhere, a name is no candidate."""

_PRONOUN = re.compile(
    r"(?:He|She|It|They|His|Her|Its|Their|Th(?:is|e) (?:film|movie|book|novel|song|album|series|show|company|"
    r"city|country|band|group|team|actor|actress|director|writer|author|singer|person|work|game|play))\b"
)
_SIGNS = re.compile(r"\s+([,.;:!?])|\(\s*\)|\s{2,}")
_CLAUSE = re.compile(r"[,;:()–—]|\b(?:and|but|while|who|which|where|when)\b")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence about the entity, with where it is named and how sure that is."""

    text: str
    passage: Passage
    named: tuple[Span, ...]
    certainty: float


@dataclass(frozen=True, slots=True)
class _Reading:
    """A candidate in a sentence, the words that say what it is to the entity, and its features."""

    sentence: _Sentence
    candidate: Candidate
    words: str
    features: tuple[Features, ...]
    first: bool


def read_passages(
    passages: Sequence[Passage], asked: Asked, kg: KnowledgeGraph, encoder: Encoder, least: float = LEAST
) -> tuple[RawTriple, ...]:
    """Triples of the relation asked that passages state about the entity, most certain first.

    The relation of a triple is its short id; the entity goes by its id where it has one; the other end is as
    the sentence writes it. Each pair is given once, from the sentence that says it best.

    Args:
        passages: what is read. asked: entity, relation, question. kg: what names and relations are known by.
        encoder: compares sentences with relations. least: confidence that a triple must have.
    """
    about = [s for p in passages for s in _about(p, asked)]
    shapes = shapes_of(kg)
    readings = _readings(about, kg, shapes)
    if not readings:
        return ()
    scorer = _Scorer(kg, encoder, shapes, asked)
    best: dict[tuple[str, str], RawTriple] = {}
    for raw, text in scorer.triples(readings):
        key = (normalise(text), "forward" if raw.object == text else "backward")
        if raw.confidence >= least and raw.confidence > (best[key].confidence if key in best else 0.0):
            best[key] = raw
    return tuple(sorted(best.values(), key=lambda t: -t.confidence))


def _about(passage: Passage, asked: Asked) -> list[_Sentence]:
    """The sentences of a passage that are about the entity: it is named, or the document is about it."""
    names = {n for name in asked.names for n in (normalise(name), without_article(name)) if n}
    title = normalise(passage.title)
    titled = any(title == n or title.startswith(f"{n} ") for n in names)
    surname = _surname(asked.name)
    found, spoken_of, mentioned = [], titled, titled
    for _, text in sentences(passage.text):
        named = _written_so(occurrences(text, names), asked.names)
        if named:
            found.append(_Sentence(text, passage, tuple(named), 1.0))
        elif mentioned and surname and (named := occurrences(text, {surname})):
            found.append(_Sentence(text, passage, tuple(named), 0.9))
        elif titled or (spoken_of and _PRONOUN.match(text)):
            found.append(_Sentence(text, passage, (), 0.85))
        mentioned = mentioned or bool(named)
        spoken_of = titled or (bool(named) and named[0].start <= len("The "))
    return found


def _written_so(found: list[Span], names: Sequence[str]) -> list[Span]:
    """Of several places, those written as the entity is: the word good, not the one in `A Good Woman`."""
    same = [s for s in found if any(same_case(s.text, name) for name in names)]
    return same or found


def _surname(name: str) -> str:
    """Normal form of the last word of a name of several capitalised words."""
    words = name.split()
    last = words[-1] if len(words) > 1 and all(w[:1].isupper() for w in words) else ""
    return normalise(last) if len(last) > 2 else ""


def _readings(about: Sequence[_Sentence], kg: KnowledgeGraph, shapes: Shapes) -> list[_Reading]:
    """All candidates of the sentences; the KG is asked about their nodes at once."""
    found = [(s, candidates(s.text, kg.index, s.named)) for s in about]
    features = shapes.features(e.iri for _, cs in found for c in cs for e in c.entries)
    readings = []
    for sentence, present in found:
        runs = groups(sentence.text, present)
        for i, run in enumerate(runs):
            words = _words(sentence, runs, i)
            for candidate in run:
                known = tuple(features.get(e.iri, frozenset()) for e in candidate.entries)
                readings.append(_Reading(sentence, candidate, words, known, candidate is run[0]))
    return readings


def _words(sentence: _Sentence, runs: Sequence[Sequence[Candidate]], i: int) -> str:
    """What a sentence says about one run of candidates: all of it but the names, or its own clause."""
    text, run = sentence.text, runs[i]
    start, end = run[0].start, run[-1].end
    masked = [(n.start, n.end) for n in sentence.named]
    whole = _without(text, [(start, end), *masked])
    others = [r for j, r in enumerate(runs) if j != i and any(c.sure for c in r)]
    if not others:
        return whole
    bounds = [b for r in others for b in (r[0].start, r[-1].end)] + [b for span in masked for b in span]
    left = max((b for b in bounds if b <= start), default=0)
    right = min((b for b in bounds if b >= end), default=len(text))
    before = _CLAUSE.split(text[left:start])[-1] if left else text[left:start]
    after = _CLAUSE.split(text[end:right])[0]
    clause = " ".join(f"{before} {after}".split()).strip(" .")
    return clause if any(len(w) > 3 for w in clause.split()) else whole


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text without some of its spans."""
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]} {text[end:]}"
    return _SIGNS.sub(lambda m: m[1] or " ", text).strip()


class _Scorer:
    """Scores readings for one question."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, shapes: Shapes, asked: Asked) -> None:
        self._kg, self._encoder, self._shapes, self._asked = kg, encoder, shapes, asked
        node = asked.entity
        known = shapes.features([node]).get(node, frozenset()) if node is not None else frozenset()
        self._entity = known or frozenset({written(asked.name)})
        self._functional = (shapes.functional(asked.relation) or 0.0) >= 0.9
        self._statements: dict[tuple[IRI, bool], np.ndarray] = {}

    def triples(self, readings: Sequence[_Reading]) -> Iterable[tuple[RawTriple, str]]:
        """A triple for every reading that may say the relation asked, with the text of its other end."""
        own = self._shapes.of([self._asked.relation])[self._asked.relation]
        fitting = [r for r in readings if max(self._fits(r, own)) >= LEAST_LIKE and not self._says(r)]
        if not fitting:
            return
        shapes = self._shapes.of([self._asked.relation, *self._around(fitting)])
        vectors = self._encoder.encode([r.words for r in fitting])
        scored = [(r, *self._chance(r, v, shapes)) for r, v in zip(fitting, vectors, strict=True)]
        known: dict[str, float] = {}
        for reading, chance, _ in scored:
            if any(reading.features):
                known[reading.sentence.text] = max(chance, known.get(reading.sentence.text, 0.0))
        for reading, chance, forward in scored:
            # Of an enumeration, a relation with one object takes the first alone.
            if self._functional and not reading.first:
                continue
            if not any(reading.features) and chance < NEARLY * known.get(reading.sentence.text, 0.0):
                continue
            chance *= 1.0 if reading.candidate.sure or not is_common(reading.candidate.text) else COMMON
            yield self._raw(reading, chance * reading.sentence.certainty, forward), reading.candidate.text

    def _says(self, reading: _Reading) -> bool:
        """Whether a candidate is but a word of the relation: the genre in `the genre of`."""
        candidate = reading.candidate
        if candidate.sure and candidate.entries:
            return False
        short = self._kg.profile.short(self._asked.relation)
        text = relation_texts(self._kg, [short])[short]
        own = normalise(" ".join((text.label, *text.aliases, text.subject_type, text.object_type))).split()
        return set(normalise(candidate.text).split()) <= set(own)

    def _around(self, readings: Sequence[_Reading]) -> list[IRI]:
        """The relations that the entity and the candidates have."""
        counted: dict[str, int] = {}
        for features in (self._entity, *(fs for r in readings for fs in r.features)):
            for feature in features:
                if feature[0] in "<>":
                    counted[feature[1:]] = counted.get(feature[1:], 0) + 1
        ranked = sorted(counted, key=lambda r: (-counted[r], r))
        return [IRI(r) for r in ranked[: 2 * RIVALS]]

    def _chance(self, reading: _Reading, vector: np.ndarray, shapes: dict[IRI, Shape]) -> tuple[float, bool]:
        """How likely it is that a sentence states the relation asked, and in which direction."""
        fits = {}
        for relation, shape in shapes.items():
            for forward, like in zip((True, False), self._fits(reading, shape), strict=True):
                fits[relation, forward] = like
        own = [(self._asked.relation, forward) for forward in (True, False)]
        rivals = sorted((k for k in fits if k not in own), key=lambda k: -fits[k])[:RIVALS]
        self._embed([*own, *rivals])
        scores = {
            k: WORDS * float((self._statements[k] @ vector).max()) + LIKENESS * math.log(0.02 + fits[k])
            for k in (*own, *rivals)
        }
        scores.update({k: scores[k] + ASKED for k in own})
        most = max(scores.values())
        total = sum(math.exp(s - most) for s in scores.values()) + math.exp(NOTHING - most)
        mine = [math.exp(scores[k] - most) / total for k in own]
        return sum(mine), mine[0] >= mine[1]

    def _fits(self, reading: _Reading, shape: Shape) -> tuple[float, float]:
        """How like the two ends are to those of a relation: entity as subject, and as object."""
        forward = self._like(reading, shape.objects) * shape.subjects.like(self._entity)
        backward = self._like(reading, shape.subjects) * shape.objects.like(self._entity)
        return math.sqrt(forward), math.sqrt(backward)

    def _like(self, reading: _Reading, side: Side) -> float:
        """How like a candidate is to the nodes or values at one end."""
        candidate = reading.candidate
        known = max((side.like(f) for f in reading.features), default=0.0)
        if side.literal > 0.3:
            return max(known, _as_value(candidate, side))
        if any(reading.features):
            return known
        return side.like(frozenset({written(candidate.text)})) if candidate.sure else 0.0

    def _embed(self, wanted: Sequence[tuple[IRI, bool]]) -> None:
        """Vectors of the statements of relations, from the store beside the KG."""
        new = [k for k in wanted if k not in self._statements]
        shorts = {r: self._kg.profile.short(r) for r, _ in new}
        texts = relation_texts(self._kg, shorts.values())
        made = {k: statements(texts[shorts[k[0]]], k[1]) for k in new}
        flat = [s for some in made.values() for s in some]
        vectors, at = vectors_of(self._kg, self._encoder).vectors(flat) if flat else np.empty((0, 0)), 0
        for key, some in made.items():
            self._statements[key] = vectors[at : at + len(some)]
            at += len(some)

    def _raw(self, reading: _Reading, confidence: float, forward: bool) -> RawTriple:
        """The triple that was read."""
        asked, profile = self._asked, self._kg.profile
        entity = asked.name if asked.entity is None else profile.short(asked.entity)
        ends = (entity, reading.candidate.text)
        subject, obj = ends if forward else ends[::-1]
        sentence = reading.sentence
        return RawTriple(
            subject, profile.short(asked.relation), obj, sentence.text, sentence.passage, round(confidence, 4)
        )


def _as_value(candidate: Candidate, side: Side) -> float:
    """How well a candidate's kind agrees with the datatypes at one end."""
    dates = sum(v for d, v in side.datatypes.items() if is_temporal(d))
    texts = sum(v for d, v in side.datatypes.items() if is_text(d))
    if candidate.kind == "date":
        return max(dates, (side.literal - texts - dates) if candidate.text.isdigit() else 0.0)
    if candidate.kind == "number":
        return side.literal - dates - texts
    return 0.5 * texts if candidate.sure else 0.0
