"""How well a rule body fits the words of a question, without a language model.

Each content word should be said by some relation of the body, each relation should be said by a word of
its own, and the far end should be of the kind that is asked for. Likeness of a word and a relation is
the best cosine with any of the relation's texts, or a fixed value where they share a word stem. An encoder
that has learned from trajectories (SymAgent 4.3) also compares the question and the body as wholes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import Body, end_type, texts_of
from triplewise.tools.planning.lexical.path_fit import PathFit, words_of
from triplewise.tools.planning.lexical.question import QuestionView, lexicon, stem
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import VectorStore, vectors_of

_WORD = re.compile(r"[a-z]+")
Key = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the score, tuned on development questions only.

    Attributes:
        stem: likeness of a word and a relation text that share a stem.
        word: weight of each question word's best likeness.
        atom: weight of each relation's own word; floor: the likeness below which a relation costs.
        expected: weight of the likeness of the asked noun and the far end.
        kind: bonus where the far end is of the kind the question word implies.
        unknown: likeness of the asked noun and a far end whose type is not declared.
        damped: share of the likeness with the expected noun that is left to a relation in that case.
        typing: penalty for asking what something is an instance of.
        preposition: likeness of the first relation where the expected noun names a class of the KG.
        backward: penalty for walking against a relation that has no reading of its own that way.
        pair: bonus for walking a relation there and back ("of the same ...").
        same: that bonus where the question says so ("the same", "together").
        order: penalty for a relation whose word stands on the wrong side of a later one's.
        sure: likeness of a word and a relation that is surely meant by it.
    """

    stem: float = 0.7
    word: float = 0.9
    atom: float = 1.1
    floor: float = 0.9
    expected: float = 0.8
    kind: float = 0.2
    unknown: float = 0.6
    preposition: float = 0.5
    damped: float = 0.7
    typing: float = 0.3
    backward: float = 0.1
    pair: float = 0.1
    same: float = 0.5
    order: float = 0.15
    sure: float = 0.6


class Scorer:
    """Scores rule bodies for one question.

    With `by_class`, the expected noun names a class of the KG: the types of the values found decide, and
    relations earn less from the noun.
    """

    def __init__(
        self,
        kg: KnowledgeGraph,
        encoder: Encoder,
        view: QuestionView,
        topic: str = "",
        weights: Weights | None = None,
        by_class: bool = False,
    ) -> None:
        self._paths = PathFit(kg, encoder, view)
        encoder = words_of(encoder)
        self._kg, self._encoder, self._view = kg, encoder, view
        self._store = vectors_of(kg, encoder)
        self._weights = weights or Weights()
        self._by_class = by_class
        self._likeness: dict[Key, np.ndarray] = {}
        self._ends: dict[Key, float] = {}
        self._named: dict[Key, float] = {}
        self._against: dict[Key, bool] = {}
        self._typing: dict[Key, bool] = {}
        self.words = self._question_words(topic)
        self._vectors = encoder.encode([w for w, _ in self.words])
        nouns = [i for i, (w, _) in enumerate(self.words) if w == view.expected]
        self._expected_column = nouns[0] if nouns else -1
        self._kind = view.kind or (nearest_kind(encoder, view.expected) if view.expected else "")

    def _question_words(self, topic: str) -> list[tuple[str, int]]:
        """Content words, without a noun right before the mention that only says what the topic is."""
        words = list(self._view.words)
        words += [(q, -1) for q in self._view.quantities[:1]]
        if self._view.superlative:
            words = [w for w in words if w[0] != self._view.superlative.word]
        before = {i - 1 for i, t in enumerate(self._view.tokens) if t.mention >= 0}
        types = set(self._topic_types(topic))
        if not types:
            return words
        vectors = self._store.vectors(sorted(types))
        return [w for w in words if w[1] not in before or not self._is_apposition(w[0], types, vectors)]

    def _is_apposition(self, word: str, types: set[str], vectors: np.ndarray) -> bool:
        """Whether a word names the type of the topic."""
        if any(stem(word) == stem(t) for t in types):
            return True
        return float((vectors @ self._encoder.encode([word])[0]).max()) > 0.6

    def _topic_types(self, topic: str) -> set[str]:
        """Types of the topic, as its relations declare them."""
        iri = self._kg.profile.expand(topic) if topic else None
        if iri is None:
            return set()
        around, short = self._kg.relations(iri), self._kg.profile.short
        forward, backward = [short(r) for r in around.forward], [short(r) for r in around.backward]
        texts = relation_texts(self._kg, [*forward, *backward])
        found = {texts[r].subject_type for r in forward} | {texts[r].object_type for r in backward}
        return {t for t in found if t}

    def prepare(self, bodies: Sequence[Body]) -> None:
        """Encode the texts of all new relations at once."""
        keys = list(dict.fromkeys((a.relation, a.forward) for b in bodies for a in b))
        new = [k for k in keys if k not in self._likeness]
        if not new:
            return
        docs = relation_texts(self._kg, [r for r, _ in new])
        spoken = [texts_of(docs[r], forward) for r, forward in new]
        types = [t for r, forward in new for t in (docs[r].subject_type, end_type(docs[r], forward)) if t]
        vectors = self._store.vectors([t for texts in (*spoken, types) for t in texts])
        at = 0
        for key, texts in zip(new, spoken, strict=True):
            rows = vectors[at : at + len(texts)]
            at += len(texts)
            self._likeness[key] = self._compare(texts, rows)
            doc = docs[key[0]]
            self._ends[key] = self._end_fit(end_type(doc, key[1]))
            self._named[key] = self._noun_fit(doc.object_type if key[1] else doc.subject_type)
            self._against[key] = not key[1] and not doc.inverse
            iri = self._kg.profile.expand(key[0], relation=True)
            self._typing[key] = key[1] and iri is not None and iri.value in self._kg.profile.type_predicates

    def _compare(self, texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        """Likeness of every question word with one relation, shape (words,)."""
        if not self.words:
            return np.zeros(0, dtype=np.float32)
        best: np.ndarray = (self._vectors @ vectors.T).max(axis=1)
        stop = lexicon()["stopwords"]
        stems = {stem(w) for t in texts for w in _WORD.findall(t.lower()) if w not in stop}
        shared = np.array([self._weights.stem if stem(w) in stems else 0.0 for w, _ in self.words])
        return np.asarray(np.maximum(best, shared))

    def _end_fit(self, type_text: str) -> float:
        """How well a far end of this type fits what is asked for."""
        if not type_text:
            return 0.0
        fit, expected = 0.0, self._view.expected
        if self._by_class:
            return fit
        if expected:
            same = stem(expected) == stem(type_text.split()[-1])
            fit += self._weights.expected * (1.0 if same else self._cosine(expected, type_text))
        if self._kind:
            fit += self._weights.kind * (nearest_kind(self._encoder, type_text, self._store) == self._kind)
        return fit

    def _noun_fit(self, declared: str) -> float:
        """How well the asked noun names a far end of this declared type."""
        expected = self._view.expected
        if not declared or not expected:
            return self._weights.unknown
        if stem(expected) == stem(declared.split()[-1]):
            return 1.0
        return self._cosine(expected, declared)

    def _cosine(self, word: str, text: str) -> float:
        """Likeness of a word of the question and a text of the KG."""
        return float(self._encoder.encode([word])[0] @ self._store.vectors([text])[0])

    def _matrix(self, body: Body) -> np.ndarray:
        """Likeness of each relation (row) and word (column); the asked noun speaks of the last one only."""
        matrix = np.stack([self._likeness[(a.relation, a.forward)] for a in body])
        column = self._expected_column
        if column >= 0:
            matrix[:-1, column] = 0.0
            if self._by_class:
                matrix[-1, column] *= self._weights.damped
        if self._by_class and matrix.size:
            # "which river in France": a preposition says the relation to the topic.
            matrix[0] = np.maximum(matrix[0], self._weights.preposition * (matrix[0] == matrix[0].max()))
        return matrix

    def partial(self, bodies: Sequence[Body]) -> list[float]:
        """Scores of bodies that may still grow: the far end does not count."""
        self.prepare(bodies)
        learned = self._paths.weight * self._paths.of(bodies)
        return [self._fit(b) + float(extra) for b, extra in zip(bodies, learned, strict=True)]

    def scores(self, bodies: Sequence[Body]) -> list[float]:
        """Scores of finished bodies; higher is better."""
        ends = (self._ends[(b[-1].relation, b[-1].forward)] for b in bodies)
        return [value + end for value, end in zip(self.partial(bodies), ends, strict=True)]

    def learned(self, body: Body) -> float:
        """How surely the encoder has learned that the question asks for a body, 0 by one that has not.

        On the scale of word likenesses: what most right bodies reach counts as a word that is surely said.
        """
        return float(self._weights.sure * self._paths.of([body])[0] / self._paths.sure)

    def named(self, body: Body) -> float:
        """Likeness of the expected noun and the last relation, 0 without an expected noun."""
        if self._expected_column < 0:
            return 0.0
        self.prepare([body])
        return float(self._likeness[(body[-1].relation, body[-1].forward)][self._expected_column])

    def support(self, body: Body) -> float:
        """Likeness of the least supported relation of a body with a word of its own, 0 to 1.

        What has been learned about the body as a whole counts where it says more.
        """
        self.prepare([body])
        return max(self._support(body), self.learned(body))

    def _support(self, body: Body) -> float:
        """Likeness of the least supported relation of a body with a word of its own."""
        matrix = self._matrix(body)
        if not matrix.size:
            return 0.0
        _own, chosen = _assign(matrix)
        said = [float(matrix[i, c]) if c >= 0 else 0.0 for i, c in enumerate(chosen)]
        pairs = [i for i in range(1, len(body)) if body[i].relation == body[i - 1].relation]
        # Walking a relation there and back ("the same ...") needs one word for both ways.
        least = self._weights.unknown if self._view.same else 0.0
        for i in pairs:
            said[i] = said[i - 1] = max(said[i], said[i - 1], least)
        return min(said)

    def leaves_out(self, chains: Sequence[Body], spoken: float = 0.8, said: float = 0.45) -> tuple[str, ...]:
        """Words that surely speak of a relation which the chains leave out.

        A word is surely spoken of some relation if it is as like one seen around the topic as `spoken`; it is
        left out if no relation of the chains is as like it as `said`. Chains that are learned to be what the
        whole question speaks of leave nothing out.
        """
        self.prepare(chains)
        known = bool(chains) and min(map(self.learned, chains)) >= said
        if not self.words or not self._likeness or known:
            return ()
        best = np.stack(list(self._likeness.values())).max(axis=0)
        own = np.stack([self._likeness[(a.relation, a.forward)] for c in chains for a in c]).max(axis=0)
        left = (best >= spoken) & (own < said)
        if self._expected_column >= 0:
            left[self._expected_column] = False
        return tuple(w for (w, _), out in zip(self.words, left, strict=True) if out)

    def _fit(self, body: Body) -> float:
        """Words said by relations, relations said by words of their own."""
        w = self._weights
        matrix = self._matrix(body)
        if not matrix.size:
            return -w.atom * w.floor * len(body)
        own, chosen = _assign(matrix)
        said = matrix.max(axis=0)
        if self._expected_column >= 0:
            last = (body[-1].relation, body[-1].forward)
            named = self._weights.unknown if self._by_class else self._named[last]
            said[self._expected_column] = max(said[self._expected_column], named)
        value = w.word * float(said.sum()) + w.atom * (own - w.floor * len(body))
        pairs = (a.relation == b.relation and a.forward != b.forward for a, b in pairwise(body))
        value += (w.same if self._view.same else w.pair) * sum(pairs)
        value -= w.typing * sum(self._typing[(a.relation, a.forward)] for a in body)
        value -= w.backward * sum(self._against[(a.relation, a.forward)] for a in body)
        return value - w.order * self._disorder(chosen)

    def _disorder(self, chosen: Sequence[int]) -> int:
        """Pairs of relations whose words stand in the wrong order, seen from the mention."""
        far = [self._view.distance(self.words[i][1]) if i >= 0 else -1 for i in chosen]
        return sum(far[i] > far[i + 1] for i in range(len(far) - 1) if far[i] >= 0 and far[i + 1] >= 0)


def _assign(matrix: np.ndarray) -> tuple[float, tuple[int, ...]]:
    """Give each relation (row) a word (column) of its own: the greatest sum, and the words chosen.

    A relation may stay without a word (-1). Exact for the short bodies used here.
    """
    width = min(4, matrix.shape[1])
    top = [[-1, *(int(i) for i in np.argsort(-row, kind="stable")[:width])] for row in matrix]
    best, chosen = -1.0, tuple(-1 for _ in top)
    for pick in product(*top):
        used = [p for p in pick if p >= 0]
        if len(set(used)) == len(used):
            total = float(sum(matrix[i, p] for i, p in enumerate(pick) if p >= 0))
            if total > best + 1e-9:
                best, chosen = total, pick
    return best, chosen


_KINDS: dict[tuple[str, str], str] = {}


def nearest_kind(encoder: Encoder, noun: str, store: VectorStore | None = None) -> str:
    """Kind of thing (`english.yaml`) whose prototype word is nearest to a noun; remembered per encoder.

    `store` holds the vector of a noun that is a text of the KG.
    """
    key = (encoder.name, noun)
    if key not in _KINDS:
        names = [(kind, word) for kind, words in lexicon()["kinds"].items() for word in words]
        vector = (encoder.encode if store is None else store.vectors)([noun])[0]
        _KINDS[key] = names[int((encoder.encode([word for _, word in names]) @ vector).argmax())][0]
    return _KINDS[key]
