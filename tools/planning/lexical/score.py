"""How well a rule body fits the words of a question, without a language model.

Each content word should be said by some relation of the body, each relation should be said by a word of its
own, and the far end should be of the kind that is asked for. The similarity of a word and a relation is the
best cosine with any of the relation's texts; what a cosine means depends on the encoder (`Thresholds`). An
encoder that has learned from trajectories (SymAgent 4.3) also compares the question and the body as wholes.
The values that a rule leads to are judged by their types (`ValueFit`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import yaml

from triplewise.tools.core.rules import Atom
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.planning.bodies import Body, Signature, end_type, signature, texts_of, types_of
from triplewise.tools.planning.lexical.question import QuestionView, lexicon, stem
from triplewise.tools.pyql.program import TEMPORAL
from triplewise.tools.pyql.text import NUMERIC
from triplewise.tools.retrieval.encoder import Encoder, LearnedEncoder, open_encoder, vectors_of

_WORD = re.compile(r"[a-z]+")
_YEAR = re.compile(r"-?\d{4}(-\d\d){0,2}")
PLAIN = -0.5  # The fit of texts and numbers where the noun asked for names no relation that leads to them
OTHER_KIND = -0.25  # The fit of values that are no persons where "who" asks, and no places where "where" does
SAMPLE = 6  # Values looked at to see whether they fit
NEARLY = 0.9  # What is at least this share as similar as the best one is meant as well


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the cosines of one encoder mean, and the weights of a rule's score that go with them.

    `evals/choose_thresholds.py` chooses them and writes `thresholds.yaml`, which has a `default` for others.

    Attributes:
        same: two texts name the same; words that are forms of one another are this similar.
        spoken: a word speaks of a relation. unrelated: below it, a word has nothing to do with a relation.
        word: weight of each question word's best similarity.
        relation: weight of each relation's similarity with a word of its own.
        floor: the similarity below which a relation costs more than it earns.
        end: weight of how well the answers are of the kind that is asked for, and of each topic left out.
        hint: weight of a weak sign: a declared kind, a direction without a reading, the order of words.
        join: gain of a rule that uses a second topic, or a relation there and back, as the words say.
    """

    same: float
    spoken: float
    unrelated: float
    word: float
    relation: float
    floor: float
    end: float
    hint: float
    join: float

    @property
    def named(self) -> float:
        """Half-way between `same` and `spoken`: a relation that a model names."""
        return (self.same + self.spoken) / 2

    @property
    def weak(self) -> float:
        """Half-way between a word that speaks of a relation and one that has nothing to do with it."""
        return (self.spoken + self.unrelated) / 2


def words_of(encoder: Encoder) -> Encoder:
    """Return the encoder for single words: an encoder that has learned paths has one of its own."""
    return open_encoder() if isinstance(encoder, LearnedEncoder) else encoder


def thresholds_of(encoder: Encoder) -> Thresholds:
    """Return the thresholds of an encoder: those it carries itself, else those chosen for its name."""
    encoder = words_of(encoder)
    own, chosen = getattr(encoder, "thresholds", None), _chosen_thresholds()
    return own if isinstance(own, Thresholds) else chosen.get(encoder.name, chosen[""])


@cache
def _chosen_thresholds() -> dict[str, Thresholds]:
    """Return the thresholds of encoders by name, "" of any other."""
    data = yaml.safe_load(files(__package__).joinpath("thresholds.yaml").read_text("utf-8"))
    return {name: Thresholds(**t) for name, t in {**data["encoders"], "": data["default"]}.items()}


def similarities(
    kg: KnowledgeGraph, encoder: Encoder, groups: Sequence[Sequence[str]], words: Sequence[str]
) -> np.ndarray:
    """Return how similar groups of the KG's texts and words of a question are, shape (groups, words).

    It is the best cosine of a group's texts, and at least `same` where one of them shares a word stem; 0 of
    two words for different quantities.
    """
    table = np.zeros((len(groups), len(words)), dtype=np.float32)
    if not table.size:
        return table
    encoder = words_of(encoder)
    vectors = vectors_of(kg, encoder).vectors([text for texts in groups for text in texts])
    cosines, start = vectors @ encoder.encode(list(words)).T, 0
    stems, same = [stem(word) for word in words], thresholds_of(encoder).same
    asked = [_quantities(word) for word in words]
    for row, texts in zip(table, groups, strict=True):
        if texts:
            row[:] = cosines[start : start + len(texts)].max(axis=0)
        start += len(texts)
        own = {stem(w) for t in texts for w in _WORD.findall(t.lower())} - lexicon()["stopwords"]
        shared = [s in own for s in stems]
        row[shared] = np.maximum(row[shared], same)
        measured = _quantities(" ".join(own))
        row[[bool(measured and q and measured.isdisjoint(q)) for q in asked]] = 0.0
    return table


@lru_cache(maxsize=65_536)
def _quantities(text: str) -> frozenset[int]:
    """Return the quantities that a text names (`english.yaml`), synonyms as one."""
    stems = {stem(word) for word in text.lower().split()}
    groups = enumerate(lexicon()["quantities"])
    return frozenset(i for i, words in groups if not stems.isdisjoint(map(stem, words.split())))


def path_text(texts: Mapping[str, RelationText], path: Signature) -> str:
    """Return a path in words: relations in the order they are walked, each with the kind it leads to."""
    steps = []
    for relation, forward in path:
        text = texts[relation]
        name = text.label if forward else text.inverse or f"whose {text.label} it is"
        end = end_type(text, forward)
        steps.append(f"{name} ({end})" if end and end.casefold() != name.casefold() else name)
    return ", then ".join(steps)


def path_similarities(
    kg: KnowledgeGraph, encoder: Encoder, view: QuestionView, bodies: Sequence[Body]
) -> np.ndarray:
    """Return the cosine of the question and each body, shape (bodies,); 0 by an encoder without paths."""
    if not isinstance(encoder, LearnedEncoder) or not bodies:
        return np.zeros(len(bodies))
    texts = relation_texts(kg, {a.relation for body in bodies for a in body})
    paths = [path_text(texts, signature(body)) for body in bodies]
    cosines: np.ndarray = vectors_of(kg, encoder).vectors(paths) @ encoder.encode([view.masked])[0]
    return cosines.astype(np.float64)


def nearest_kinds(encoder: Encoder, nouns: Sequence[str], least: float = -1.0) -> list[str]:
    """Return the kinds of things (`english.yaml`) whose prototype words are nearest to nouns.

    "" where the cosine is below `least`.
    """
    prototypes = [(kind, word) for kind, words in lexicon()["kinds"].items() for word in words]
    if not nouns:
        return []
    cosines = encoder.encode(nouns) @ encoder.encode([word for _, word in prototypes]).T
    return [prototypes[row.argmax()][0] if row.max() >= least else "" for row in cosines]


class _Reading(NamedTuple):
    """How one relation, walked in one direction, reads beside the question.

    `words`: similarity with each word. `end`: how well its far end fits what is asked for. `named`: how well
    the asked noun names the declared type there. `penalty`: of types, and of directions without a reading.
    """

    words: np.ndarray
    end: float
    named: float
    penalty: float


class Scorer:
    """Scores rule bodies for one question.

    Attributes:
        words: the content words with their places; -1 for a quantity that "how tall" asks for.

    Args:
        topic: where the bodies start; a noun before its mention that only says its type needs no relation.
        by_class: the expected noun names a class of the KG: then the types of the values decide, and
            relations earn less from the noun.
    """

    def __init__(
        self,
        kg: KnowledgeGraph,
        encoder: Encoder,
        view: QuestionView,
        topic: str = "",
        by_class: bool = False,
    ) -> None:
        self._kg, self._encoder, self._view, self.by_class = kg, encoder, view, by_class
        self._weights = thresholds_of(encoder)
        self._path_weight = encoder.path_weight if isinstance(encoder, LearnedEncoder) else 0.0
        self._readings: dict[tuple[str, bool], _Reading] = {}
        self.words = self._question_words(topic)
        self._noun = next((i for i, (w, _) in enumerate(self.words) if w == view.expected), -1)
        self._kind = view.kind
        if view.expected and not view.kind:
            (self._kind,) = nearest_kinds(words_of(encoder), [view.expected])

    def _question_words(self, topic: str) -> list[tuple[str, int]]:
        """Return content words with their places, without a noun before a mention that says its type."""
        view = self._view
        words = [*view.words, *((q, -1) for q in view.quantities[:1])]
        if view.superlative:
            words = [w for w in words if w[0] != view.superlative.word]
        before = {i - 1 for i, t in enumerate(view.tokens) if t.mention >= 0}
        candidates = [w for w, i in words if i in before]
        iri = self._kg.profile.expand(topic) if topic and candidates else None
        if iri is None:
            return words
        around, short = self._kg.relations(iri), self._kg.profile.short
        forward, backward = [short(r) for r in around.forward], [short(r) for r in around.backward]
        texts = relation_texts(self._kg, [*forward, *backward])
        # Types of the topic, as its relations declare them.
        declared = {texts[r].subject_type for r in forward} | {texts[r].object_type for r in backward}
        types = sorted(declared - {""})
        if not types:
            return words
        best = similarities(self._kg, self._encoder, [types], candidates)[0]
        appositions = {w for w, s in zip(candidates, best, strict=True) if s > self._weights.spoken}
        return [w for w in words if w[1] not in before or w[0] not in appositions]

    def _read(self, bodies: Sequence[Body]) -> None:
        """Compare all new relations with the question at once."""
        steps = dict.fromkeys((a.relation, a.forward) for body in bodies for a in body)
        new = [step for step in steps if step not in self._readings]
        if not new:
            return
        weights, view, encoder = self._weights, self._view, words_of(self._encoder)
        docs, profile = relation_texts(self._kg, [r for r, _ in new]), self._kg.profile
        groups = [texts_of(docs[r], way) for r, way in new]
        table = similarities(self._kg, self._encoder, groups, [w for w, _ in self.words])
        ends = [end_type(docs[r], way) for r, way in new]
        declared = [docs[r].object_type if way else docs[r].subject_type for r, way in new]
        by_noun = dict.fromkeys(t for t in (*ends, *declared) if t and view.expected)
        if by_noun:
            vectors = vectors_of(self._kg, encoder).vectors(list(by_noun))
            cosines = vectors @ encoder.encode([view.expected])[0]
            for text, cosine in zip(by_noun, cosines.tolist(), strict=True):
                by_noun[text] = 1.0 if stem(view.expected) == stem(text.split()[-1]) else cosine
        kinds = dict(zip(ends, nearest_kinds(encoder, ends), strict=True))
        for (relation, forward), row, end, type_ in zip(new, table, ends, declared, strict=True):
            fit = 0.0
            if end and not self.by_class:
                fit = weights.end * (by_noun.get(end) or 0.0)
                fit += weights.hint * (kinds[end] == self._kind)
            iri = profile.expand(relation, relation=True)
            typing = forward and iri is not None and iri.value in profile.type_predicates
            against = not forward and not docs[relation].inverse
            named = by_noun.get(type_)
            named = weights.spoken if named is None else named
            penalty = weights.hint * (2 * typing + against)
            self._readings[relation, forward] = _Reading(row, fit, named, penalty)

    def _reading(self, atom: Atom) -> _Reading:
        """Return how a relation reads that was compared already."""
        return self._readings[atom.relation, atom.forward]

    def _matrix(self, body: Body) -> np.ndarray:
        """Return the similarity of relations (rows) and words; the asked noun speaks of the last one only."""
        matrix = np.stack([self._reading(a).words for a in body])
        if self._noun >= 0:
            matrix[:-1, self._noun] = 0.0
            if self.by_class:
                matrix[-1, self._noun] *= self._weights.same
            if len(body) > 1 and self._view.expected.removesuffix("s") in lexicon()["dates"]:
                matrix[-1, self._noun] = 0.0  # "in what year": it only says of what kind the answer is
        if self.by_class and len(body) == 1:
            # "which river in France": a preposition says the relation to the topic.
            matrix[0] = np.maximum(matrix[0], self._weights.weak * (matrix[0] == matrix[0].max()))
        return matrix

    def table(self, body: Body) -> np.ndarray:
        """Return the similarity of each relation of a body (rows) with each of `words`."""
        self._read([body])
        return np.stack([self._reading(a).words for a in body])

    def partial(self, bodies: Sequence[Body]) -> list[float]:
        """Return scores of bodies that may still grow: the far end does not count."""
        self._read(bodies)
        learned = np.zeros(len(bodies))
        if self._path_weight:
            learned = self._path_weight * path_similarities(self._kg, self._encoder, self._view, bodies)
        return [self._fit(body) + extra for body, extra in zip(bodies, learned.tolist(), strict=True)]

    def scores(self, bodies: Sequence[Body]) -> list[float]:
        """Return scores of finished bodies; higher is better."""
        values = zip(self.partial(bodies), bodies, strict=True)
        return [value + self._reading(body[-1]).end for value, body in values]

    def _fit(self, body: Body) -> float:
        """Return how well words are said by relations, and relations by words of their own."""
        weights, matrix = self._weights, self._matrix(body)
        if not matrix.size:
            return -weights.relation * weights.floor * len(body)
        own, chosen = _assign(matrix)
        best = matrix.max(axis=0)
        if self._noun >= 0:
            named = weights.spoken if self.by_class else self._reading(body[-1]).named
            best[self._noun] = max(best[self._noun], named)
        value = weights.word * float(best.sum()) + weights.relation * (own - weights.floor * len(body))
        returns = sum(a.relation == b.relation and a.forward != b.forward for a, b in pairwise(body))
        value += returns * (weights.join if self._view.same else weights.hint)
        # Seen from the mention, the words of later relations stand farther away.
        far = [self._view.distance(self.words[i][1]) if i >= 0 else -1 for i in chosen]
        disorder = sum(a > b >= 0 for a, b in pairwise(far))
        return value - weights.hint * disorder - sum(self._reading(a).penalty for a in body)

    def perfect(self, relations: int) -> float:
        """Return the score of so many relations where words say each of them, and they every word."""
        weights = self._weights
        return weights.word * len(self.words) + weights.relation * (1 - weights.floor) * relations

    def learned(self, body: Body) -> float:
        """Return how surely the encoder has learned that the question asks for a body, else 0.

        On the scale of single words: what most right bodies reach counts as a word that speaks of them.
        """
        if not isinstance(self._encoder, LearnedEncoder) or not self._path_weight:
            return 0.0
        cosine = path_similarities(self._kg, self._encoder, self._view, [body])[0]
        return float(self._weights.spoken * cosine / self._encoder.sure)

    def names(self, body: Body) -> bool:
        """Return whether the expected noun names the last relation itself ("capital")."""
        return self._noun >= 0 and bool(self.table(body)[-1, self._noun] > self._weights.same)

    def support(self, body: Body) -> float:
        """Return the similarity of the least supported relation with a word of its own, 0 to 1.

        What has been learned about the body as a whole counts where it says more.
        """
        self._read([body])
        matrix = self._matrix(body)
        if not matrix.size:
            return self.learned(body)
        _own, chosen = _assign(matrix)
        values = [float(matrix[i, c]) if c >= 0 else 0.0 for i, c in enumerate(chosen)]
        # Walking a relation there and back ("the same ...") needs one word for both ways.
        least = self._weights.spoken if self._view.same else 0.0
        for i in range(1, len(body)):
            if body[i].relation == body[i - 1].relation and body[i].forward != body[i - 1].forward:
                values[i] = values[i - 1] = max(values[i], values[i - 1], least)
        return max(min(values), self.learned(body))

    def leaves_out(self, chains: Sequence[Body]) -> tuple[str, ...]:
        """Return words that surely speak of a relation around the topic and are not said by the chains.

        Chains that are learned to be what the whole question speaks of leave nothing out.
        """
        own = self._said(chains)
        if not self.words or not self._readings:
            return ()
        if chains and min(map(self.learned, chains)) >= self._weights.weak:
            return ()
        best = np.stack([r.words for r in self._readings.values()]).max(axis=0)
        left = (best > self._weights.same) & (own < self._weights.weak)
        return tuple(w for i, (w, _) in enumerate(self.words) if left[i] and i != self._noun)

    def unsaid(self, chains: Sequence[Body]) -> tuple[str, ...]:
        """Return content words that no relation of the chains says, but for the noun that is asked for."""
        left = self._said(chains) < self._weights.unrelated
        return tuple(w for i, (w, _) in enumerate(self.words) if left[i] and i != self._noun)

    def _said(self, chains: Sequence[Body]) -> np.ndarray:
        """Return how well the relations of some chains say each word."""
        body = tuple(atom for chain in chains for atom in chain)
        return self.table(body).max(axis=0) if body else np.zeros(len(self.words))


def _assign(matrix: np.ndarray) -> tuple[float, tuple[int, ...]]:
    """Give each relation (row) a word (column) of its own, or none (-1); the greatest sum, and the words."""
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


def is_number(term: Term) -> bool:
    """Return whether a value is a number, by datatype or by its text where the KG keeps plain text."""
    if not isinstance(term, Literal):
        return False
    return term.datatype in NUMERIC or term.value.replace(".", "", 1).isdigit()


def is_date(term: Term, label: str = "") -> bool:
    """Return whether a value is a date or a year, as a literal or by its label."""
    if isinstance(term, Literal):
        return term.datatype in TEMPORAL or bool(_YEAR.fullmatch(term.value))
    return bool(_YEAR.fullmatch(label))


class ValueFit:
    """Judges the values of rules for one question; `classes` are those that the expected noun names."""

    def __init__(
        self, kg: KnowledgeGraph, encoder: Encoder, view: QuestionView, classes: Sequence[IRI]
    ) -> None:
        self._kg, self._encoder, self._view, self._classes = kg, words_of(encoder), view, tuple(classes)
        self._weights = thresholds_of(encoder)

    def of(self, values: Sequence[Term], named: bool) -> float:
        """Return how well values are what is asked for, from -1 to 1.

        `named`: the expected noun names the relation that leads to them ("capital"): types say nothing.
        """
        sample, view = list(values[:SAMPLE]), self._view
        things = [v for v in sample if isinstance(v, IRI)]
        if view.kind in ("time", "number"):
            labels = self._kg.labels(things)
            good = [is_date(v, labels.get(v, "")) if view.kind == "time" else is_number(v) for v in sample]
            return 1.0 if sum(good) * 2 >= len(good) else -1.0
        if things:
            return 1.0 if named and not view.determined else self._of_type(things, named)
        if view.counting and all(map(is_number, sample)):
            return 0.5
        if view.kind in ("person", "place") or self._classes:
            return -1.0
        return 1.0 if named else PLAIN if view.expected else 0.0

    def _of_type(self, things: Sequence[IRI], named: bool) -> float:
        """Return how similar the types of values, if any, are to the noun or the kind that is asked for."""
        types, expected = types_of(self._kg, things), self._view.expected
        names = [n for n in types.values() if n]
        if not names or not (expected or self._view.kind):
            return float(named and not names and bool(self._kg.profile.type_predicates))
        if not expected:
            kind = self._view.kind
            alike = similarities(self._kg, self._encoder, [names], lexicon()["kinds"][kind])
            near = alike.max() >= self._weights.spoken or kind in nearest_kinds(self._encoder, names)
            return 0.5 if near else OTHER_KIND
        if set(types) & set(self._classes) or any(map(self.is_asked, names)):
            return 1.0
        spoken = self._weights.spoken
        best = float(similarities(self._kg, self._encoder, [names], [expected]).max())
        return max(-1.0, min(1.0, (best - spoken) / (1 - spoken)))

    def contradicts(self, values: Sequence[Term]) -> bool:
        """Return whether values are surely things where a date or number is asked for, or vice versa.

        Plain text, or a name with a digit, may be either in an unknown writing.
        """
        sample, kind = values[:SAMPLE], self._view.kind
        types = [v.datatype if isinstance(v, Literal) else "" for v in sample]
        if kind and all(t == XSD + "boolean" for t in types):
            return True
        if kind in ("person", "place"):
            return all(t in NUMERIC | TEMPORAL for t in types)
        if kind not in ("time", "number") or self._view.counting:
            return False
        names = self._kg.labels(v for v in sample if isinstance(v, IRI)).values()
        return len(names) == len(sample) and not any(c.isdigit() for name in names for c in name)

    def is_asked(self, name: str) -> bool:
        """Return whether the name of a type ends with the expected noun."""
        return bool(self._view.expected) and stem(name.split()[-1].lower()) == stem(self._view.expected)
