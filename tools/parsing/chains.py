"""Chains of relations around a named entity, as derivations of a question (the paths of SymAgent 4.1).

The grammar joins relations that words name one by one. A chain is grown from the entity over the relations
that the graph has there, and scored by an alignment: each content word is covered by some relation, each
relation by a word of its own, and the end is of the expected kind of answer. So words may stand in any order
and name its relations loosely. Learned weights rank it among all other derivations. Paths are simple, as
those that SymAgent samples: a relation walked there and back does not come back to the entity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise, product, repeat
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.lexicon import root, word_list
from triplewise.tools.language.text import singular
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.derivation import Category, Derivation, Features, f
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import And, Image, Minus, Nodes, Path, Set, Step
from triplewise.tools.parsing.question import Question
from triplewise.tools.parsing.relations import Edges
from triplewise.tools.retrieval.encoder import Encoder, LearnedEncoder, vectors_of
from triplewise.tools.retrieval.similarity import thresholds_of, walked_text

Matrix: TypeAlias = NDArray[np.float32]
Seeds: TypeAlias = Callable[[str, Sequence[LinkedEntity]], Sequence[Rule]]
"""The rules that seed questions show for a question and its entities."""

BEAM, HOPS = 12, 3  # Chains of each length that grow on, and relations of the longest
FINISHED, KEPT = 40, 8  # Chains of each length that are finished, and of an entity that become derivations
LARGEST, LOOKED_AT = 20_000, 2_000  # Nodes at an end that grows on, and those whose relations are looked at
MENTIONS, NODES = 3, 2  # Mentions of a question around which chains are grown, and nodes of one name
OF_KIND = 0.5  # Least probability of a class that is of the kind that "who", "where" or "when" asks for
COMMON = 0.4  # What a word is worth that may name every relation
MEETING = 6  # Chains of each of two entities that are tried together
WORD, RELATION, FLOOR, END = 0.9, 1.1, 1.0, 0.6
"""Of the alignment: weights of each word's best similarity and of each relation's with a word of its own, the
similarity below which a relation costs more than it earns, and the weight of the end."""


def step_of(number: int) -> Step:
    """The step of a number: 2 * relation, and 1 more where it is walked backwards."""
    return number >> 1, -1 if number & 1 else 1


class _Partial(NamedTuple):
    """A chain with its alignment."""

    steps: tuple[int, ...]  # by number: see `step_of`
    denotation: frozenset[int]
    words: Matrix  # best similarity of each content word
    free: Matrix  # words that no relation has for its own
    own: float = 0.0  # similarities of the relations with their own words


class _Way(NamedTuple):
    """A chain with a step that it can be longer by, and the score that it has then."""

    score: float
    chain: _Partial
    step: int

    @property
    def path(self) -> Path:
        """Its relations with their directions."""
        return tuple(map(step_of, (*self.chain.steps, self.step)))


@dataclass(frozen=True, slots=True)
class Chain:
    """A path from an entity with its alignment to the words of the question."""

    path: Path
    query: Set
    denotation: frozenset[int]
    score: float  # of the alignment
    learned: float  # the part of it that an encoder gives that has learned from trajectories
    covered: frozenset[int]  # positions of the words that it accounts for
    own: float  # words that relations have for their own
    features: Features  # what learned weights rank it by


class ChainGrower:
    """Grows chains from the topics of a question."""

    def __init__(
        self, question: Question, topics: Sequence[Derivation], kg: KnowledgeGraph, encoder: Encoder
    ) -> None:
        self._question, self._index, self._kg, self._encoder = question, question.index, kg, encoder
        self._thresholds = thresholds_of(encoder)
        operators = [a for a in question.anchors if a.category is Category.OPERATOR]
        used = {place for a in (*topics, *operators) for place in range(a.start, a.end)}
        self._sharing = {p for a in operators if a.kind == "same" for p in range(a.start, a.end)}
        content = (p for p, word in enumerate(question.words) if word not in word_list("stop"))
        self._places = [p for p in content if p not in used and not question.words[p].isdigit()]
        noun = question.focus.end - 1 if question.focus is not None else -1
        self._is_noun = np.array([place == noun for place in self._places], bool)
        self._table = step_similarities(question, self._places, self._thresholds.same)
        self._value = self._informative()
        self._table *= self._value
        self._ends = self._end_similarities()

    def _informative(self) -> Matrix:
        """What each word is worth, 0 to 1: the more, the fewer relations it may name (inverse frequency)."""
        count, width = len(self._table) // 2, len(self._places)
        if count < 2 or not width:
            return np.ones(width, np.float32)
        named = (self._table.reshape(count, 2, width).max(axis=1) >= self._thresholds.alike).sum(axis=0)
        rarity = 1 - np.log(np.maximum(named, 1)) / np.log(count)
        return np.asarray(COMMON + (1 - COMMON) * rarity, np.float32)

    def _end_similarities(self) -> Matrix:
        """How well what is at the end of each step fits the expected kind of answer, shape (steps,)."""
        question, index = self._question, self._index
        if question.focus is not None:
            noun = question.focus.end - 1
            fits = question.class_similarity[noun, noun + 1].copy()
            fits[list(question.vocabulary.by_head.get(singular(question.words[noun]), ()))] = 1.0
        elif question.wh is not None:
            like = question.vocabulary.classes_like(question.wh)
            fits = (like > OF_KIND).astype(np.float32)
        else:
            return np.zeros(2 * len(index.rels), np.float32)
        if "end classes" not in index.kept:
            ends = (nodes for relation in index.rels for nodes in (relation.objects, relation.subjects))
            index.kept["end classes"] = [sorted(index.sig(nodes)) for nodes in ends]
        found = (fits[classes].max(initial=0.0) for classes in index.kept["end classes"])
        return np.fromiter(found, np.float32)

    def chains(self, topic: Derivation, shown: Mapping[Path, Rule] | None = None) -> list[Chain]:
        """The best chains from a topic, best first, with those that seed questions show."""
        shown, (node,) = shown or {}, topic.mentions
        width = len(self._places)
        nodes = self._index.keep(frozenset((node,)))
        start = _Partial((), nodes, np.zeros(width, np.float32), np.ones(width, np.float32))
        frontier, ways, chains = iter((start,)), list[_Way](), list[Chain]()
        for _ in range(HOPS):
            whole, growing = self._ranked(frontier)
            ways += whole[:FINISHED]
            frontier = islice((p for way in growing if (p := self._extended(node, way)).denotation), BEAM)
        for path in shown.keys() - {way.path for way in ways}:
            partial = start
            *before, last = (2 * relation + (direction < 0) for relation, direction in path)
            for step in before:
                partial = self._extended(node, _Way(0.0, partial, step))
            ways.append(_Way(self._scores(partial, np.array([last]))[0].item(), partial, last))
        learned = zip(ways, self._learned(topic, ways), strict=True)
        for way, more in sorted(learned, key=lambda of: (-of[0].score - of[1], len(of[0].chain.steps))):
            if len(chains) < KEPT or way.path in shown:
                partial = self._extended(node, way, True)
                if partial.denotation - {node}:
                    chains.append(self._chain(node, partial, way, more, shown.get(way.path)))
        return chains

    def _ranked(self, partials: Iterable[_Partial]) -> tuple[list[_Way], list[_Way]]:
        """The ways on from some chains, best first: as wholes, and as chains that grow on."""
        ranked = list[_Way](), list[_Way]()
        for partial in (p for p in partials if len(p.denotation) <= LARGEST):
            steps = steps_at(self._index, partial.denotation)
            for ways, scores in zip(ranked, self._scores(partial, steps), strict=True):
                ways += map(_Way, scores.tolist(), repeat(partial), steps.tolist())
        for ways in ranked:
            ways.sort(key=lambda way: -way.score)
        return ranked

    def _scores(self, partial: _Partial, steps: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
        """Alignment scores of a chain longer by each of some steps: as a whole, and as one that grows on."""
        rows, ends = self._table[steps], self._ends[steps]
        best = np.maximum(partial.words, rows)
        own = partial.own + (rows * partial.free).max(axis=1, initial=0.0)
        growing = WORD * best.sum(axis=1) + RELATION * (own - FLOOR * (len(partial.steps) + 1))
        fit = np.maximum(ends - best[:, self._is_noun].sum(axis=1), 0.0) * bool(self._is_noun.any())
        return growing + (WORD * fit + END * ends), growing

    def _extended(self, node: int, way: _Way, is_whole: bool = False) -> _Partial:
        """A chain longer by one step; a relation walked there and back does not come back to the entity."""
        _, partial, step = way
        found = self._index.apply(*step_of(step), partial.denotation)
        if len(partial.steps) == 1 and step == partial.steps[0] ^ 1:
            found = self._index.keep(found - {node})
        row = self._table[step]
        own, free = row * partial.free, partial.free.copy()
        if len(own):
            free[own.argmax()] = 0.0
        words = np.maximum(partial.words, row)
        if is_whole:
            words[self._is_noun] = np.maximum(words[self._is_noun], self._ends[step])
        total = partial.own + float(own.max(initial=0.0))
        return _Partial((*partial.steps, step), found, words, free, total)

    def _chain(self, node: int, partial: _Partial, way: _Way, learned: float, seed: Rule | None) -> Chain:
        """A finished chain; the entity is not among its answers, unless seeds count it."""
        start, path, found = Nodes(self._index.keep(frozenset((node,)))), way.path, partial.denotation
        query: Set = Image(path, start)
        if path[1:2] == ((path[0][0], -path[0][1]),):
            query = Minus(Image(path[:2], start), start)
            query = Image(path[2:], query) if path[2:] else query
        if node in found and not (seed and seed.keeps_topic):
            query, found = Minus(query, start), self._index.keep(found - {node})
        limits = self._thresholds
        is_covered = partial.words >= self._value * (limits.named + limits.unrelated) / 2
        covered = frozenset(np.array(self._places, int)[is_covered].tolist())
        if any(one == other ^ 1 for one, other in pairwise(partial.steps)):
            covered |= self._sharing
        end, loose = self._ends[partial.steps[-1]], is_covered & (partial.words < limits.same * self._value)
        shape = f(chain=1, chain_own=partial.own, chain_hop=len(path) - 1, chain_end=end)
        # Among many relations, more of which are near what is named, they count otherwise.
        among = [(f"{name}_wide", value) for name, value in shape if self._index.is_wide]
        features = [*shape, *among, *f(chain_loose=loose.sum(), chain_learned=learned)]
        return Chain(path, query, found, way.score + learned, learned, covered, partial.own, features)

    def _learned(self, topic: Derivation, ways: Sequence[_Way]) -> list[float]:
        """What an encoder that has learned from trajectories adds (SymAgent 4.3): paths as wholes."""
        encoder, words = self._encoder, self._question.words
        if not isinstance(encoder, LearnedEncoder) or not ways:
            return [0.0] * len(ways)
        short = self._kg.profile.short
        walked = [[(short(iri), forward) for iri, forward in edges_of(self._index, w.path)] for w in ways]
        texts = relation_texts(self._kg, {relation for path in walked for relation, _ in path})
        vectors = vectors_of(self._kg, encoder).vectors([walked_text(texts, path) for path in walked])
        masked = [*words[: topic.start], "entity", *words[topic.end :]]
        cosines = vectors @ encoder.encode([" ".join(masked)])[0]
        return [float(encoder.path_weight * c) for c in cosines]


def step_similarities(question: Question, places: Sequence[int], same: float) -> Matrix:
    """How well steps go with words of a question, shape (steps, words).

    By vectors, and at least `same` where a word has the root of one of the names.
    """
    vocabulary, relations = question.vocabulary, question.index.rels
    table = np.zeros((2 * len(relations), len(places)), np.float32)
    inverse = np.array([bool(relation.inverse) for relation in relations], bool)
    for column, place in enumerate(places):
        word, span = question.words[place], (place, place + 1)
        shared = (names.overlap([root(word)], [word]) for names in (vocabulary.relations, vocabulary.inverse))
        cosines = question.relation_similarity[span], question.inverse_similarity[span]
        ways = zip(shared, cosines, strict=True)
        forward, backward = (np.where(s > 0, np.maximum(c, same), c) for s, c in ways)
        table[::2, column], table[1::2, column] = forward, np.where(inverse, backward, forward)
    return table


def steps_at(index: GraphIndex, nodes: Collection[int]) -> NDArray[np.int64]:
    """The steps that lead on from any of some nodes."""
    if "steps at" not in index.kept:
        ends = [np.unique(e) for relation in index.rels for e in (relation.starts, relation.ends)]
        starts = np.concatenate([np.zeros(0, np.int64), *ends])
        order = np.argsort(starts, kind="stable")
        steps = np.repeat(np.arange(len(ends)), [len(e) for e in ends])
        index.kept["steps at"] = starts[order], steps[order]
    starts, steps = index.kept["steps at"]
    some = np.fromiter(islice(nodes, LOOKED_AT), np.int64)
    first, last = np.searchsorted(starts, some), np.searchsorted(starts, some, side="right")
    parts = [steps[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True) if a < b]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


# --- chains as derivations of a question ------------------------------------------------------------------


def topics_of(question: Question) -> list[Derivation]:
    """The entity anchors that chains are grown from: the best, at mentions that do not overlap."""
    entities = [a for a in question.anchors if a.kind == "entity" and len(a.mentions) == 1 and a.score > 0]
    spans, topics = dict[tuple[int, int], int](), list[Derivation]()
    for anchor in sorted(entities, key=lambda a: -a.score):
        span = (anchor.start, anchor.end)
        is_new = span not in spans
        if is_new and (len(spans) == MENTIONS or any(a < span[1] and span[0] < b for a, b in spans)):
            continue
        if spans.setdefault(span, 0) < NODES:
            spans[span] += 1
            topics.append(anchor)
    return topics


def chain_anchors(
    question: Question, kg: KnowledgeGraph, encoder: Encoder, seeds: Seeds | None = None
) -> list[Derivation]:
    """Chains around the entities that a question names, those that seed questions show, and two that meet.

    A derivation spans the words that its chain accounts for. Anchors of entities have their scores before.
    """
    if not (topics := topics_of(question)):
        return []
    shown = _shown(question, topics, seeds) if seeds is not None else {}
    grower, anchors = ChainGrower(question, topics, kg, encoder), list[Derivation]()
    grown = [(topic, grower.chains(topic, shown.get(min(topic.mentions)))) for topic in topics]
    for topic, chains in grown:
        for chain in chains:
            anchors.append(_derivation(question, (topic,), chain))
            seed = shown.get(min(topic.mentions), {}).get(chain.path)
            if seed is not None and seed.evidence:
                anchors.append(_derivation(question, (topic,), chain, seed))
    for (one, left), (other, right) in combinations(grown, 2):
        for a, b in product(left[:MEETING], right[:MEETING]):
            met = question.index.meet(a.denotation, b.denotation)
            if met and (one.end <= other.start or other.end <= one.start):
                own, hops = (0.0, 0.0) if a.path == b.path else (b.own, len(b.path) - 1.0)
                features = [*a.features, ("chain_own", own), ("chain_hop", hops)]
                covered, query = a.covered | b.covered, And(a.query, b.query)
                both = replace(a, query=query, denotation=met, covered=covered, features=features)
                anchors.append(_derivation(question, (one, other), both))
    return anchors


def _shown(question: Question, topics: Sequence[Derivation], seeds: Seeds) -> dict[int, dict[Path, Rule]]:
    """What seed questions show: topic -> path of the index -> rule."""
    index, tokens, expand = question.index, question.tokens, question.index.profile.expand
    linked, nodes = list[LinkedEntity](), dict[IRI | None, int]()
    for topic in topics:
        (node,) = topic.mentions
        term, start, end = index.terms[node], tokens[topic.start].start, tokens[topic.end - 1].end
        if isinstance(term, IRI):
            name = question.text[start:end]
            linked.append(LinkedEntity(name, start, end, index.profile.short(term), index.label(node), 1.0))
            nodes[term] = node
    paths = defaultdict[int, dict[Path, Rule]](dict)
    for rule in seeds(question.text, linked):
        if (start_node := nodes.get(expand(rule.anchor))) is not None:
            edges = [(expand(atom.relation, relation=True), atom.forward) for atom in rule.path]
            for path in index_paths(index, edges):
                paths[start_node].setdefault(path, rule)
    return paths


def index_paths(index: GraphIndex, edges: Sequence[tuple[IRI | None, bool]]) -> list[Path]:
    """The paths of an index that walk some relations of the graph: two through a mediator are one step."""
    if not edges:
        return [()]
    if "by path" not in index.kept:
        index.kept["by path"] = {relation.path: relation.i for relation in index.rels}
    numbers, found = index.kept["by path"], list[Path]()
    for length in range(1, min(2, len(edges)) + 1):
        part, rest = tuple(edges[:length]), edges[length:]
        back = tuple((iri, not forward) for iri, forward in reversed(part))
        step = (numbers[part], 1) if part in numbers else (numbers[back], -1) if back in numbers else None
        found += [(step, *path) for path in index_paths(index, rest)] if step is not None else []
    return found


def edges_of(index: GraphIndex, path: Path) -> Edges:
    """The relations of the graph that a path of an index walks."""
    return tuple(edge for number, direction in path for edge in index.rels[number].edges(direction))


def _derivation(
    question: Question, topics: Sequence[Derivation], chain: Chain, seed: Rule | None = None
) -> Derivation:
    """A set over the words that a chain accounts for; what it leaves out in between costs as anywhere.

    With a seed that shows it, it is over the whole question, and the more speaks for it, the less that costs.
    """
    used = {*chain.covered, *(place for t in topics for place in range(t.start, t.end))}
    start, end = (min(used), max(used) + 1) if seed is None else (0, question.n)
    left_out = [skip for p in range(start, end) if p not in used for skip in question.skips(p, p + 1)]
    features = [*chain.features, *(feature for t in topics for feature in t.features)]
    if seed is not None:
        left_out = [(name, value * (1 - seed.evidence)) for name, value in left_out]
        features += f(seed_evidence=seed.evidence, seed_support=np.log1p(seed.support))
    mentions = frozenset(node for t in topics for node in t.mentions)
    features += left_out
    return Derivation(
        Category.SET, start, end, features, chain.query, chain.denotation, kind="chain", mentions=mentions
    )
