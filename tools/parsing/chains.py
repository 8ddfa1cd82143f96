"""Chains of relations around a named entity, as derivations of a question (SymAgent 4.1: rule bodies).

Grammar joins relations that words name one by one. A chain is found the other way round: it is grown from the
entity over relations the graph has there, and scored by how well the words of the question and its relations
account for each other (an alignment): each content word should be covered by some relation, each relation by
a word of its own, and the end should be of the kind that is asked for. So a chain may be read from words that
stand in any order and name its relations loosely. Learned weights rank it among all other derivations.

Paths are simple, as the closed paths that SymAgent samples: a relation walked there and back does not come
back to the entity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.language.lexicon import lexicon, word_list
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.denotation import Denotation
from triplewise.tools.parsing.derivation import Category, Derivation, Features
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import And, Count, Image, Minus, Nodes, Path, Query, Set, Step
from triplewise.tools.parsing.question import Question
from triplewise.tools.parsing.similarity import path_text, step_texts, thing_kinds, thresholds_of
from triplewise.tools.retrieval.encoder import Encoder, LearnedEncoder, vectors_of

Matrix = NDArray[np.float32]

BEAM, HOPS = 12, 3
"""Chains of each length that grow on, and relations of the longest."""
FINISHED = 40
"""Chains of each length whose ends are looked at."""
KEPT = 8
"""Chains of one entity that become derivations."""
LARGEST = 20_000
"""Nodes at the end of a chain above which it does not grow on."""
MENTIONS, NODES = 3, 2
"""Mentions of a question around which chains are grown, and nodes of one name."""
COMMON, RARE = 0.4, 0.6
"""What a word is worth that may name every relation, and from where on a word tells relations apart."""
CONTRAST = 0.1
"""Difference of similarities at which a word clearly names the better of two relations."""
MEETING = 6
"""Chains of each of two entities that are tried together."""


class SeedChain(NamedTuple):
    """A chain that seed questions show (`tools.planning.mining`).

    Attributes:
        topic: where it starts. edges: its relations, each with whether it is walked from subject to object.
        evidence: how far seeds speak for it, in [0, 1]. support: how many.
        keeps_topic: whether the topic is one of its answers where it comes back to it.
    """

    topic: IRI
    edges: tuple[tuple[IRI, bool], ...]
    evidence: float
    support: int
    keeps_topic: bool = False


Seeds: TypeAlias = Callable[[str, Sequence[LinkedEntity]], Sequence[SeedChain]]
"""What seed questions show for a question and its entities."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a question that a chain from one entity has to account for.

    Attributes:
        words: content words. places: their positions in the question. start, end: tokens of the mention.
        noun: index in `words` of the noun that names what is asked for, or -1.
        kind: what a question word asks for ("person", "place", "time", "number"), or "".
        shares: positions of words that speak of what has something in common ("the same director").
        text: the question with the mention masked, for encoders that have learned whole paths.
    """

    words: tuple[str, ...]
    places: tuple[int, ...]
    start: int
    end: int
    noun: int = -1
    kind: str = ""
    shares: frozenset[int] = frozenset()
    text: str = ""

    def distance(self, word: int) -> int:
        """Tokens between a word and the mention; -1 for no word."""
        if word < 0:
            return -1
        place = self.places[word]
        return self.start - place if place < self.start else place - self.end + 1


@dataclass(frozen=True, slots=True)
class Chain:
    """A path from an entity with its alignment to the words of the question.

    Attributes:
        score: of the alignment. margin: its score minus that of the best chain from the entity, at most 0.
        rows: similarity of each relation with each word, shape (relations, words).
        similarities: of each relation with the word it is aligned to.
        covered: positions of the words that it accounts for.
        contrast: how far the words name other relations around better, at most 0.
        missed: words that surely name a relation around, and none of these.
        named: words that name a relation around.
        loose: words that it accounts for by similarity alone.
        unnamed: relations that no word of their own names.
        end: how well its end is of the kind that is asked for, 0 to 1.
        unread: relations walked backwards that have no reading that way.
        disorder: how often a later relation is named nearer to the mention.
        returns: relations walked there and back.
        evidence, support: of seed questions (`tools.planning.mining`).
    """

    path: Path
    query: Set
    denotation: frozenset[int]
    score: float
    rows: Matrix
    similarities: tuple[float, ...]
    covered: frozenset[int] = frozenset()
    margin: float = 0.0
    end: float = 0.0
    unread: float = 0.0
    disorder: int = 0
    returns: int = 0
    learned: float = 0.0
    contrast: float = 0.0
    missed: int = 0
    loose: int = 0
    unnamed: int = 0
    named: int = 0
    evidence: float = 0.0
    support: int = 0

    def features(self, wording: Wording) -> Features:
        """What learned weights rank it by."""
        return [
            ("chain", 1.0),
            ("chain_words", float(self.rows.max(axis=0, initial=0.0).sum())),
            ("chain_own", sum(self.similarities)),
            ("chain_weakest", min(self.similarities, default=0.0)),
            ("chain_margin", self.margin),
            ("chain_hop", len(self.path) - 1.0),
            ("chain_end", self.end),
            ("chain_unread", self.unread),
            ("chain_disorder", float(self.disorder)),
            ("chain_return", float(self.returns)),
            ("chain_return_shared", float(self.returns * bool(wording.shares))),
            ("chain_learned", self.learned),
            ("chain_contrast", self.contrast),
            ("chain_missed", float(self.missed)),
            ("chain_unnamed", float(self.unnamed)),
            ("chain_loose", float(self.loose)),
            ("chain_short", float(max(0, self.named - len(self.path)))),
        ]


@dataclass(frozen=True, slots=True)
class _Partial:
    """A chain in the beam.

    Attributes:
        best: the best similarity of each word with a relation so far.
        rows: similarities of each relation with the words, without the noun that is asked for.
    """

    steps: tuple[int, ...]
    query: Set
    denotation: frozenset[int]
    best: Matrix
    rows: tuple[Matrix, ...] = ()

    def assigned(self) -> tuple[float, Matrix]:
        """The sum of similarities when each relation has a word of its own; and without each word in turn."""
        width = len(self.best)
        without = np.zeros(width, np.float32)
        if not self.rows or not width:
            return 0.0, without
        if len(self.rows) == 1:
            table = self.rows[0]
        else:
            first, second = self.rows
            table = first[:, None] + second[None, :]
            np.fill_diagonal(table, np.maximum(first, second))
        for word in range(width):
            rest = table
            for axis in range(table.ndim):
                rest = np.delete(rest, word, axis=axis)
            without[word] = rest.max(initial=0.0)
        return float(table.max(initial=0.0)), without


class ChainGrower:
    """Grows chains for one wording. Steps are numbered 2 * relation, and 1 more where walked backwards."""

    def __init__(self, index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder, wording: Wording) -> None:
        self._index, self._kg, self._encoder, self._wording = index, kg, encoder, wording
        self._texts = step_texts(index, kg, encoder)
        self._weights = thresholds_of(encoder)
        self._table = self._texts.similarities(wording.words, self._weights.same)
        self._value = self._informative()
        self._table = self._table * self._value
        self._inner = self._table.copy()
        self._ends = np.zeros(len(self._table), np.float32)
        self._met = np.zeros(len(wording.words), np.float32)  # best similarity with a relation met so far
        if wording.noun >= 0:
            self._inner[:, wording.noun] = 0.0
            self._ends = self._texts.end_similarities(wording.words[wording.noun])
        elif wording.kind:
            self._ends = np.array([kind == wording.kind for kind in self._texts.kinds()], np.float32)

    def _informative(self) -> Matrix:
        """What each word is worth, 0 to 1: the more, the fewer relations it may name (inverse frequency)."""
        count, width = len(self._table) // 2, len(self._wording.words)
        if count < 2 or not width:
            return np.ones(width, np.float32)
        named = (self._table.reshape(count, 2, width).max(axis=1) >= self._weights.named).sum(axis=0)
        rarity = 1 - np.log(np.maximum(named, 1)) / np.log(count)
        return np.asarray(COMMON + (1 - COMMON) * rarity, np.float32)

    def chains(self, node: int, shown: Mapping[Path, SeedChain] | None = None) -> list[Chain]:
        """The best chains from a node, best first, with those that seed questions show."""
        shown = shown or {}
        frontier = [self._start(node)]
        finished: list[tuple[float, _Partial]] = []
        for _ in range(HOPS):
            candidates = [c for partial in frontier for c in self._longer(partial)]
            finished += self._finished(node, candidates)
            frontier = self._beam(node, candidates)
        known = {partial.steps for _, partial in finished}
        finished += [
            found for path in shown for found in self._walked(node, path) if found[1].steps not in known
        ]
        ranked = self._ranked(node, finished, {path for path, seed in shown.items() if seed.keeps_topic})
        chosen = ranked[:KEPT] + [chain for chain in ranked[KEPT:] if chain.path in shown]
        return [self._with_evidence(chain, shown.get(chain.path)) for chain in chosen]

    @staticmethod
    def _with_evidence(chain: Chain, seed: SeedChain | None) -> Chain:
        return chain if seed is None else replace(chain, evidence=seed.evidence, support=seed.support)

    def _walked(self, node: int, path: Path) -> Iterator[tuple[float, _Partial]]:
        """A given chain from a node with its score; nothing where it leads nowhere."""
        partial, score = self._start(node), 0.0
        for relation, direction in path:
            step = 2 * relation + (direction < 0)
            score = float(self._scores(partial, np.array([step]))[1][0])
            partial = self._extended(node, partial, step)
        if partial.denotation - {node}:
            yield score, partial

    def _start(self, node: int) -> _Partial:
        nodes = self._index.keep(frozenset((node,)))
        return _Partial((), Nodes(nodes), nodes, np.zeros(len(self._wording.words), np.float32))

    def _longer(self, partial: _Partial) -> list[tuple[float, float, _Partial, int]]:
        """All chains longer by one step: scores as one that grows on and as a whole, chain before, step."""
        if len(partial.denotation) > LARGEST:
            return []
        steps = self._texts.steps_at(partial.denotation)
        self._met = np.maximum(self._met, self._table[steps].max(axis=0, initial=0.0))
        growing, whole = self._scores(partial, steps)
        return [
            (g, w, partial, s)
            for g, w, s in zip(growing.tolist(), whole.tolist(), steps.tolist(), strict=True)
        ]

    def _scores(self, partial: _Partial, steps: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
        """Alignment scores of a chain longer by each of some steps: as one that grows on, and as a whole."""
        weights, wording = self._weights, self._wording
        total, without = partial.assigned()
        unread = self._texts.unread[steps] + self._texts.unread[list(partial.steps)].sum()
        gain = -weights.relation * weights.floor * (len(partial.steps) + 1) - weights.hint * unread
        if partial.steps:
            gain = gain + (steps == partial.steps[-1] ^ 1) * (
                weights.join if wording.shares else weights.hint
            )

        def fit(table: Matrix) -> Matrix:
            own = np.maximum(total, (table[steps] + without).max(axis=1, initial=0.0))
            return np.asarray(gain + weights.relation * own, np.float32)

        best = np.maximum(partial.best, self._inner[steps])
        growing = fit(self._inner) + weights.word * best.sum(axis=1)
        if wording.noun >= 0:
            best[:, wording.noun] = np.maximum(self._table[steps, wording.noun], self._ends[steps])
        whole = fit(self._table) + weights.word * best.sum(axis=1) + weights.end * self._ends[steps]
        return growing, whole

    def _extended(self, node: int, partial: _Partial, step: int) -> _Partial:
        """A chain longer by one step; a relation walked there and back does not come back to the entity."""
        one: Step = (step >> 1, -1 if step & 1 else 1)
        found = self._index.apply(*one, partial.denotation)
        match partial.query:
            case Image(path, of):
                query: Set = Image((*path, one), of)
            case _:
                query = Image((one,), partial.query)
        if len(partial.steps) == 1 and step == partial.steps[0] ^ 1 and node in found:
            query, found = self._without(node, query, found)
        row = self._inner[step]
        rows = (*partial.rows, row)[:2]
        return _Partial((*partial.steps, step), query, found, np.maximum(partial.best, row), rows)

    def _without(self, node: int, query: Set, found: frozenset[int]) -> tuple[Set, frozenset[int]]:
        return Minus(query, Nodes(self._index.keep(frozenset((node,))))), self._index.keep(found - {node})

    def _beam(self, node: int, candidates: Sequence[tuple[float, float, _Partial, int]]) -> list[_Partial]:
        """The best chains that grow on."""
        beam: list[_Partial] = []
        for _, _, partial, step in sorted(candidates, key=lambda c: -c[0]):
            longer = self._extended(node, partial, step)
            beam += [longer] if longer.denotation else []
            if len(beam) == BEAM:
                break
        return beam

    def _finished(
        self, node: int, candidates: Sequence[tuple[float, float, _Partial, int]]
    ) -> list[tuple[float, _Partial]]:
        """The best chains as they are, with scores; without those that lead back to the entity alone."""
        best = sorted(candidates, key=lambda c: -c[1])[:FINISHED]
        finished = ((whole, self._extended(node, partial, step)) for _, whole, partial, step in best)
        return [(score, partial) for score, partial in finished if partial.denotation - {node}]

    def _ranked(
        self, node: int, finished: Sequence[tuple[float, _Partial]], keep_topic: Collection[Path]
    ) -> list[Chain]:
        """Chains with complete scores, best first; of those to keep the topic it may be an answer."""
        weights, wording = self._weights, self._wording
        learned = self._learned([partial.steps for _, partial in finished])
        chains = []
        for (score, partial), of_path in zip(finished, learned, strict=True):
            steps = partial.steps
            rows = np.stack([*self._inner[list(steps[:-1])], self._table[steps[-1]]])
            similarities, chosen = _assign(rows)
            if wording.noun >= 0:
                rows[-1, wording.noun] = max(rows[-1, wording.noun], self._ends[steps[-1]])
            best, returns = rows.max(axis=0, initial=0.0), sum(a == b ^ 1 for a, b in pairwise(steps))
            disorder = sum(a > b >= 0 for a, b in pairwise(map(wording.distance, chosen)))
            query, found = partial.query, partial.denotation
            path = tuple((s >> 1, -1 if s & 1 else 1) for s in steps)
            if node in found and path not in keep_topic:
                query, found = self._without(node, query, found)
            chain = Chain(
                path=path,
                query=query,
                denotation=found,
                score=score - weights.hint * disorder + of_path,
                rows=rows,
                similarities=similarities,
                covered=self._covered(best, returns),
                end=float(self._ends[steps[-1]]),
                unread=float(self._texts.unread[list(steps)].sum()),
                disorder=disorder,
                returns=returns,
                learned=of_path,
                contrast=float((np.exp((best - self._met).clip(max=0.0) / CONTRAST) - 1.0) @ self._value),
                unnamed=self._unnamed(rows, chosen, returns),
                loose=int(((best >= weights.weak * self._value) & (best < weights.same * self._value)).sum()),
                missed=int(
                    ((self._met >= weights.same * self._value) & (best < weights.weak * self._value)).sum()
                ),
                named=int(((self._met >= weights.spoken * self._value) & (self._value > RARE)).sum()),
            )
            chains.append(chain)
        chains.sort(key=lambda c: (-c.score, len(c.path)))
        return [replace(c, margin=c.score - chains[0].score) for c in chains]

    def _unnamed(self, rows: Matrix, chosen: Sequence[int], returns: int) -> int:
        """Relations that no word of their own names; the way back of a shared one ("the same") needs none."""
        least = self._weights.spoken
        named = (
            word >= 0 and row[word] >= least * self._value[word]
            for row, word in zip(rows, chosen, strict=True)
        )
        return max(0, sum(not is_named for is_named in named) - returns * bool(self._wording.shares))

    def _covered(self, best: Matrix, returns: int) -> frozenset[int]:
        """Positions of the words that are similar enough to some relation of a chain."""
        enough = (best >= self._weights.weak * self._value).tolist()
        places = (place for place, is_covered in zip(self._wording.places, enough, strict=True) if is_covered)
        return frozenset((*places, *(self._wording.shares if returns else ())))

    def _learned(self, bodies: Sequence[tuple[int, ...]]) -> list[float]:
        """What an encoder that has learned from trajectories adds (SymAgent 4.3): paths as wholes."""
        encoder = self._encoder
        if not isinstance(encoder, LearnedEncoder) or not bodies:
            return [0.0] * len(bodies)
        paths = [path_text(self._texts, steps) for steps in bodies]
        cosines = vectors_of(self._kg, encoder).vectors(paths) @ encoder.encode([self._wording.text])[0]
        return [float(encoder.path_weight * c) for c in cosines]


def _assign(rows: Matrix) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Give each relation (row) a word (column) of its own, or none (-1), for the greatest sum."""
    width = min(4, rows.shape[1])
    top = [[*(int(i) for i in np.argsort(-row, kind="stable")[:width]), -1] for row in rows]
    best, chosen = -1.0, tuple(-1 for _ in top)
    for pick in product(*top):
        used = [p for p in pick if p >= 0]
        if len(set(used)) == len(used):
            total = float(sum(rows[i, p] for i, p in enumerate(pick) if p >= 0))
            if total > best + 1e-9:
                best, chosen = total, pick
    return tuple(float(rows[i, c]) if c >= 0 else 0.0 for i, c in enumerate(chosen)), chosen


# --- chains as derivations of a question ------------------------------------------------------------------


def chain_anchors(
    question: Question, kg: KnowledgeGraph, encoder: Encoder, seeds: Seeds | None = None
) -> list[Derivation]:
    """Chains around the entities that a question names, those that seed questions show, and two that meet.

    A derivation spans the words that its chain accounts for; a second one leaves the noun that is asked for
    to a class. Call it when the anchors of entities have their scores.
    """
    index, topics = question.index, topics_of(question)
    shown = _shown(question, topics, seeds) if seeds is not None else {}
    grown: list[tuple[Derivation, Wording, list[Chain]]] = []
    for topic in topics:
        wording = wording_of(question, topic, topics)
        (node,) = topic.mentions
        grower = ChainGrower(index, kg, encoder, wording)
        grown.append((topic, wording, grower.chains(node, shown.get(node, {}))))
    anchors = [
        derivation
        for topic, wording, chains in grown
        for chain in chains
        for derivation in (
            *_derivations(question, topic, wording, chain),
            *([_of_seeds(question, topic, wording, chain)] if chain.evidence else ()),
        )
    ]
    for one, other in combinations(grown, 2):
        if one[0].end <= other[0].start or other[0].end <= one[0].start:
            anchors += _meeting(question, one, other)
    return anchors


def _shown(
    question: Question, topics: Sequence[Derivation], seeds: Seeds
) -> dict[int, dict[Path, SeedChain]]:
    """What seed questions show: topic -> path of the index -> chain."""
    index, tokens = question.index, question.tokens
    linked, nodes = [], {}
    for topic in topics:
        (node,) = topic.mentions
        term, start, end = index.terms[node], tokens[topic.start].start, tokens[topic.end - 1].end
        if isinstance(term, IRI):
            name = question.text[start:end]
            linked.append(LinkedEntity(name, start, end, index.profile.short(term), index.label(node), 1.0))
            nodes[term] = node
    paths: dict[int, dict[Path, SeedChain]] = {}
    for shown in seeds(question.text, linked):
        for path in index_paths(index, shown.edges) if shown.topic in nodes else ():
            paths.setdefault(nodes[shown.topic], {}).setdefault(path, shown)
    return paths


def index_paths(index: GraphIndex, edges: Sequence[tuple[IRI, bool]]) -> list[Path]:
    """The paths of an index that walk some relations of the graph: two through a mediator are one step."""
    if not edges:
        return [()]
    found = []
    for length in (1, 2):
        part = tuple(edges[:length])
        back = tuple((iri, not forward) for iri, forward in reversed(part))
        numbers = _numbers(index)
        steps = [(numbers[part], 1)] if part in numbers else [(numbers[back], -1)] if back in numbers else []
        if len(part) == length:
            found += [(step, *rest) for step in steps for rest in index_paths(index, edges[length:])]
    return found


_NUMBERS: WeakKeyDictionary[GraphIndex, dict[tuple[tuple[IRI, bool], ...], int]] = WeakKeyDictionary()


def _numbers(index: GraphIndex) -> dict[tuple[tuple[IRI, bool], ...], int]:
    """The number of each relation of an index by its path in the graph."""
    if index not in _NUMBERS:
        _NUMBERS[index] = {relation.path: relation.i for relation in index.rels}
    return _NUMBERS[index]


def topics_of(question: Question) -> list[Derivation]:
    """The entity anchors that chains are grown from: the best, at mentions that do not overlap."""
    entities = [a for a in question.anchors if a.kind == "entity" and len(a.mentions) == 1 and a.score > 0]
    entities.sort(key=lambda a: -a.score)
    spans: dict[tuple[int, int], int] = {}
    topics = []
    for anchor in entities:
        span = (anchor.start, anchor.end)
        if span not in spans and (
            len(spans) == MENTIONS or any(a < span[1] and span[0] < b for a, b in spans)
        ):
            continue
        if spans.setdefault(span, 0) < NODES:
            spans[span] += 1
            topics.append(anchor)
    return topics


def wording_of(question: Question, topic: Derivation, topics: Sequence[Derivation]) -> Wording:
    """The words that chains from a topic have to account for: content that is no mention or operator."""
    mentioned = {place for t in topics for place in range(t.start, t.end)}
    operators = [a for a in question.anchors if a.category is Category.OPERATOR]
    used = {place for a in operators if a.kind != "same" for place in range(a.start, a.end)}
    stop = lexicon().stop
    places = [
        place
        for place, word in enumerate(question.words)
        if word not in stop and not word.isdigit() and place not in mentioned and place not in used
    ]
    words = tuple(question.words[place] for place in places)
    noun, kind = asked_for(question.words, frozenset(places))
    masked = [
        "entity" if place == topic.start else word
        for place, word in enumerate(question.words)
        if not topic.start < place < topic.end
    ]
    return Wording(
        words,
        tuple(places),
        topic.start,
        topic.end,
        places.index(noun) if noun >= 0 else -1,
        kind,
        frozenset(p for a in operators if a.kind == "same" for p in range(a.start, a.end)),
        " ".join(masked),
    )


def asked_for(words: Sequence[str], content: frozenset[int]) -> tuple[int, str]:
    """The position of the noun that names what is asked for, or -1, and the kind that a question word tells.

    `content`: positions of content words.
    """
    for place, word in enumerate(words):
        if word in lexicon().kinds:
            first = lexicon().kinds[word][0]
            return -1, next((kind for kind, names in thing_kinds().items() if first in names), "")
        if word in ("which", "what") or (word == "many" and words[place - 1] == "how"):
            follows_verb = place + 1 < len(words) and words[place + 1] in word_list("verbs")
            return _noun(words, content, place + 1 + follows_verb, follows_verb), ""
    is_order = bool(words) and words[0] in word_list("orders")
    return (_noun(words, content, 1, False) if is_order else -1), ""


def _noun(words: Sequence[str], content: frozenset[int], start: int, to_end: bool) -> int:
    """The head of the first run of content words: behind a verb its last word, else its first or a plural."""
    run: list[int] = []
    for place in range(start, len(words)):
        if place not in content:
            if run:
                break
            continue
        run.append(place)
        if not to_end and (len(run) == 2 or words[place].endswith("s")):
            break
    if not run:
        return -1
    # "which film won": a second word is only part of the noun if the first is no noun of its own.
    return run[-1] if to_end or words[run[-1]].endswith("s") else run[0]


def _derivations(
    question: Question, topic: Derivation, wording: Wording, chain: Chain
) -> Iterator[Derivation]:
    """The derivation of a chain; and once more with the noun that is asked for left to a class beside it."""
    covered, features = chain.covered, chain.features(wording)
    yield _derivation(question, (topic,), covered, features, chain.query, chain.denotation)
    noun = wording.places[wording.noun] if wording.noun >= 0 else -1
    if noun in covered:
        lost = -float(chain.rows[:, wording.noun].max()), ("chain_end", -chain.end)
        features = [*features, ("chain_words", lost[0]), lost[1]]
        yield _derivation(question, (topic,), covered - {noun}, features, chain.query, chain.denotation)


def _of_seeds(question: Question, topic: Derivation, wording: Wording, chain: Chain) -> Derivation:
    """The derivation of a chain that seed questions show: over the whole question, as for theirs.

    What it leaves out costs the less, the more speaks for it. Where the question asks how many, so did they.
    """
    used = {*chain.covered, *range(topic.start, topic.end)}
    skipped = [
        f for place in range(question.n) if place not in used for f in question.skips(place, place + 1)
    ]
    features = [
        *chain.features(wording),
        *((name, value * (1 - chain.evidence)) for name, value in skipped),
        ("seed_evidence", chain.evidence),
        ("seed_support", float(np.log1p(chain.support))),
    ]
    everything = frozenset(range(question.n))
    if question.may_be_empty and not question.is_yes_no:
        count, size = Count(chain.query), float(len(chain.denotation))
        return _derivation(question, (topic,), everything, features, count, size, Category.NUMBER)
    return _derivation(question, (topic,), everything, features, chain.query, chain.denotation)


def _meeting(
    question: Question,
    one: tuple[Derivation, Wording, list[Chain]],
    other: tuple[Derivation, Wording, list[Chain]],
) -> Iterator[Derivation]:
    """Derivations of two chains that end in the same nodes; one word may serve the same path of both."""
    wording, meet = one[1], question.index.meet
    for left, right in product(one[2][:MEETING], other[2][:MEETING]):
        found = meet(left.denotation, right.denotation)
        if not found:
            continue
        rows = np.concatenate([left.rows, right.rows])
        is_same = left.path == right.path
        own = left.similarities if is_same else _assign(rows)[0]
        joined = replace(
            left,
            rows=rows,
            path=left.path if is_same else left.path + right.path[1:],
            similarities=own,
            margin=left.margin + right.margin,
            unread=left.unread + right.unread,
            end=max(left.end, right.end),
            disorder=left.disorder + right.disorder,
            returns=left.returns + right.returns,
        )
        features = [*joined.features(wording), ("chain_meet", 1.0), ("chain_meet_same", float(is_same))]
        query, covered = And(left.query, right.query), left.covered | right.covered
        yield _derivation(question, (one[0], other[0]), covered, features, query, found)


def _derivation(
    question: Question,
    topics: Sequence[Derivation],
    covered: frozenset[int],
    features: Features,
    query: Query,
    denotation: Denotation,
    category: Category = Category.SET,
) -> Derivation:
    """A set over the words that a chain accounts for; what it leaves out in between costs as anywhere."""
    used = {*covered, *(place for t in topics for place in range(t.start, t.end))}
    start, end = min(used), max(used) + 1
    skipped = [
        f for place in range(start, end) if place not in used for f in question.skips(place, place + 1)
    ]
    named = [f for t in topics for f in t.features]
    mentions = frozenset(node for t in topics for node in t.mentions)
    return Derivation(
        category,
        start,
        end,
        [*features, *skipped, *named],
        query=query,
        denotation=denotation,
        kind="chain",
        head=start,
        mentions=mentions,
    )
