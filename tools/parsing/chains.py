"""Chains of relations around a named entity, as derivations of a question (the paths of SymAgent 4.1).

The grammar joins relations that words name one by one. A chain is found the other way round: it is grown from
the entity over the relations that the graph has there, and scored by how well the words of the question and
its relations account for each other (an alignment): each content word is covered by some relation, each
relation by a word of its own, and the end is of the kind that is asked for. So a chain may be read from words
that stand in any order and name its relations loosely. Learned weights rank it among all other derivations.

Paths are simple, as the closed paths that SymAgent samples: a relation walked there and back does not come
back to the entity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise, product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.lexicon import lexicon, root, section, word_list
from triplewise.tools.language.text import singular
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.denotation import Denotation
from triplewise.tools.parsing.derivation import Category, Derivation, Features
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import And, Count, Image, Minus, Nodes, Path, Query, Set
from triplewise.tools.parsing.question import Question
from triplewise.tools.parsing.similarity import thresholds_of, walked_text
from triplewise.tools.parsing.vocabulary import Vocabulary
from triplewise.tools.retrieval.encoder import Encoder, LearnedEncoder, vectors_of

Matrix: TypeAlias = NDArray[np.float32]
Edges: TypeAlias = tuple[tuple[IRI, bool], ...]
"""Relations of the graph, each with whether it is walked from subject to object."""

BEAM, HOPS = 12, 3
"""Chains of each length that grow on, and relations of the longest."""
FINISHED, KEPT = 40, 8
"""Chains of each length whose ends are looked at, and those of one entity that become derivations."""
LARGEST, LOOKED_AT = 20_000, 2_000
"""Nodes at the end of a chain above which it does not grow on, and those whose relations are looked at."""
MENTIONS, NODES = 3, 2
"""Mentions of a question around which chains are grown, and nodes of one name."""
TYPED = 30
"""Nodes at the end of a relation that tell of which classes they are."""
COMMON = 0.4
"""What a word is worth that may name every relation."""
MEETING = 6
"""Chains of each of two entities that are tried together."""
WORD, RELATION, FLOOR, END, JOIN = 0.9, 1.1, 1.0, 0.6, 0.45
"""Of the alignment: weights of each word's best similarity and of each relation's with a word of its own, the
similarity below which a relation costs more than it earns, the weight of the end, and the gain of a relation
walked there and back where the words speak of something in common."""


class SeedChain(NamedTuple):
    """A chain that seed questions show (`tools.planning.mining`).

    Attributes:
        topic: where it starts. edges: its relations.
        evidence: how far seeds speak for it, in [0, 1]. support: how many.
        keeps_topic: whether the topic is one of its answers where it comes back to it.
    """

    topic: IRI
    edges: Edges
    evidence: float
    support: int
    keeps_topic: bool = False


Seeds: TypeAlias = Callable[[str, Sequence[LinkedEntity]], Sequence[SeedChain]]
"""What seed questions show for a question and its entities."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A path from an entity with its alignment to the words of the question.

    Attributes:
        score: of the alignment.
        rows: similarity of each relation with each content word, shape (relations, words).
        own: the sum of these, each relation with a word of its own.
        covered: positions of the words that it accounts for. loose: how many of them by similarity alone.
        end: how well its end is of the kind that is asked for, 0 to 1.
        learned: similarity of the path as a whole, by an encoder that has learned from trajectories.
        seed: what seed questions show of it.
    """

    path: Path
    query: Set
    denotation: frozenset[int]
    score: float
    rows: Matrix
    own: float
    covered: frozenset[int]
    loose: int = 0
    end: float = 0.0
    learned: float = 0.0
    seed: SeedChain | None = None

    @property
    def features(self) -> Features:
        """What learned weights rank it by."""
        return [
            ("chain", 1.0),
            ("chain_own", self.own),
            ("chain_hop", len(self.path) - 1.0),
            ("chain_end", self.end),
            ("chain_loose", float(self.loose)),
            ("chain_learned", self.learned),
        ]


@dataclass(frozen=True, slots=True)
class _Partial:
    """A chain in the beam; `rows`: similarities of each relation with words, without the noun asked for."""

    steps: tuple[int, ...]
    denotation: frozenset[int]
    rows: Matrix

    @property
    def path(self) -> Path:
        """Its relations with their directions."""
        return tuple((step >> 1, -1 if step & 1 else 1) for step in self.steps)


class ChainGrower:
    """Grows chains from the topics of a question.

    Steps are numbered 2 * relation, and 1 more where it is walked backwards.

    Attributes:
        places: positions of the words to account for: content that is no mention or operator.
    """

    def __init__(
        self, question: Question, topics: Sequence[Derivation], kg: KnowledgeGraph, encoder: Encoder
    ) -> None:
        self._question, self._index, self._kg, self._encoder = question, question.index, kg, encoder
        self._thresholds = thresholds_of(encoder)
        operators = [a for a in question.anchors if a.category is Category.OPERATOR]
        used = {place for a in (*topics, *operators) for place in range(a.start, a.end)}
        self._sharing = frozenset(p for a in operators if a.kind == "same" for p in range(a.start, a.end))
        content = (p for p, word in enumerate(question.words) if word not in lexicon().stop)
        self.places = [p for p in content if p not in used and not question.words[p].isdigit()]
        noun = asked_for(question.words, frozenset(self.places))
        self._noun = self.places.index(noun) if noun >= 0 else -1
        table = step_similarities(question, self.places, self._thresholds.same)
        self._value = self._informative(table)
        self._table = table * self._value
        self._inner, self._ends = self._table.copy(), self._end_similarities()
        if noun >= 0:
            self._inner[:, self._noun] = 0.0

    @property
    def noun(self) -> int:
        """The position of the word that names what is asked for, or -1."""
        return self.places[self._noun] if self._noun >= 0 else -1

    def _informative(self, table: Matrix) -> Matrix:
        """What each word is worth, 0 to 1: the more, the fewer relations it may name (inverse frequency)."""
        count, width = len(table) // 2, len(self.places)
        if count < 2 or not width:
            return np.ones(width, np.float32)
        named = (table.reshape(count, 2, width).max(axis=1) >= self._thresholds.alike).sum(axis=0)
        rarity = 1 - np.log(np.maximum(named, 1)) / np.log(count)
        return np.asarray(COMMON + (1 - COMMON) * rarity, np.float32)

    def _end_similarities(self) -> Matrix:
        """How well what is at the end of each step is of the kind that is asked for, shape (steps,)."""
        question, index, wh = self._question, self._index, self._question.wh
        ends = np.zeros(2 * len(index.rels), np.float32)
        if self._noun >= 0:
            classes = question.class_similarity[self.noun, self.noun + 1].copy()
            classes[list(question.vocabulary.by_head.get(singular(question.words[self.noun]), ()))] = 1.0
        elif wh is not None:
            wanted = [kind for kind, names in section("things").items() if lexicon().kinds[wh][0] in names]
            classes = np.array([kind in wanted[:1] for kind in class_kinds(index)], np.float32)
        else:
            return ends
        for step, found in enumerate(end_classes(index)):
            ends[step] = max((float(classes[c]) for c in found), default=0.0)
        return ends

    def chains(self, topic: Derivation, shown: Mapping[Path, SeedChain] | None = None) -> list[Chain]:
        """The best chains from a topic, best first, with those that seed questions show."""
        shown, (node,) = shown or {}, topic.mentions
        nodes = self._index.keep(frozenset((node,)))
        start = _Partial((), nodes, self._inner[:0])
        frontier, finished = [start], list[tuple[float, _Partial]]()
        for _ in range(HOPS):
            candidates = [c for partial in frontier for c in self._longer(partial)]
            best = sorted(candidates, key=lambda c: -c[1])[:FINISHED]
            finished += [(whole, self._extended(node, partial, step)) for _, whole, partial, step in best]
            growing = sorted(candidates, key=lambda c: -c[0])
            longer = (self._extended(node, partial, step) for _, _, partial, step in growing)
            frontier = list(islice((partial for partial in longer if partial.denotation), BEAM))
        known = {partial.steps for _, partial in finished}
        walked = [self._walked(node, start, path) for path in shown]
        finished += [found for found in walked if found[1].steps not in known]
        finished = [found for found in finished if found[1].denotation - {node}]
        keep_topic = {path for path, seed in shown.items() if seed.keeps_topic}
        ranked = self._ranked(topic, finished, keep_topic)
        chosen = ranked[:KEPT] + [chain for chain in ranked[KEPT:] if chain.path in shown]
        return [replace(chain, seed=shown.get(chain.path)) for chain in chosen]

    def _walked(self, node: int, start: _Partial, path: Path) -> tuple[float, _Partial]:
        """A given chain from a node with its score."""
        partial, score = start, 0.0
        for relation, direction in path:
            step = 2 * relation + (direction < 0)
            score = float(self._scores(partial, np.array([step]))[1][0])
            partial = self._extended(node, partial, step)
        return score, partial

    def _longer(self, partial: _Partial) -> list[tuple[float, float, _Partial, int]]:
        """All chains longer by one step: scores as one that grows on and as a whole, chain before, step."""
        if len(partial.denotation) > LARGEST:
            return []
        steps = steps_at(self._index, partial.denotation)
        growing, whole = (scores.tolist() for scores in self._scores(partial, steps))
        return [(g, w, partial, s) for g, w, s in zip(growing, whole, steps.tolist(), strict=True)]

    def _scores(self, partial: _Partial, steps: NDArray[np.int64]) -> tuple[Matrix, Matrix]:
        """Alignment scores of a chain longer by each of some steps: as one that grows on, and as a whole."""
        total, chosen = assigned(partial.rows)
        without = np.full(len(self.places), total, np.float32)
        for word in chosen:
            rest = partial.rows.copy()
            rest[:, word] = 0.0
            without[word] = assigned(rest)[0]
        gain = np.full(len(steps), -RELATION * FLOOR * (len(partial.steps) + 1), np.float32)
        if partial.steps and self._sharing:
            gain += JOIN * (steps == partial.steps[-1] ^ 1)

        def fit(table: Matrix) -> Matrix:
            own = np.maximum(total, (table[steps] + without).max(axis=1, initial=0.0))
            return np.asarray(gain + RELATION * own, np.float32)

        best = np.maximum(partial.rows.max(axis=0, initial=0.0), self._inner[steps])
        growing = fit(self._inner) + WORD * best.sum(axis=1)
        if self._noun >= 0:
            best[:, self._noun] = np.maximum(self._table[steps, self._noun], self._ends[steps])
        return growing, fit(self._table) + WORD * best.sum(axis=1) + END * self._ends[steps]

    def _extended(self, node: int, partial: _Partial, step: int) -> _Partial:
        """A chain longer by one step; a relation walked there and back does not come back to the entity."""
        found = self._index.apply(step >> 1, -1 if step & 1 else 1, partial.denotation)
        if len(partial.steps) == 1 and step == partial.steps[0] ^ 1:
            found = self._index.keep(found - {node})
        return _Partial((*partial.steps, step), found, np.vstack([partial.rows, self._inner[step]]))

    def _query(self, node: int, path: Path, without: bool) -> Set:
        """The query of a chain; `without`: the entity is none of its answers."""
        start = Nodes(self._index.keep(frozenset((node,))))
        if path[1:2] == ((path[0][0], -path[0][1]),):
            back: Set = Minus(Image(path[:2], start), start)
            query = Image(path[2:], back) if path[2:] else back
        else:
            query = Image(path, start)
        return Minus(query, start) if without else query

    def _ranked(
        self, topic: Derivation, finished: Sequence[tuple[float, _Partial]], keep_topic: Collection[Path]
    ) -> list[Chain]:
        """Chains with complete scores, best first; of those to keep the topic it may be an answer."""
        (node,), value, same = topic.mentions, self._value, self._thresholds.same
        chains = list[Chain]()
        weak = (self._thresholds.named + self._thresholds.unrelated) / 2
        learned_of = self._learned(topic, [partial.path for _, partial in finished])
        for (score, partial), learned in zip(finished, learned_of, strict=True):
            last, path, found = partial.steps[-1], partial.path, partial.denotation
            rows = np.vstack([partial.rows[:-1], self._table[last]])
            own, _ = assigned(rows)
            if self._noun >= 0:
                rows[-1, self._noun] = max(rows[-1, self._noun], self._ends[last])
            without = node in found and path not in keep_topic
            best = rows.max(axis=0, initial=0.0)
            covered = best >= weak * value
            returns = any(a == b ^ 1 for a, b in pairwise(partial.steps))
            chains.append(
                Chain(
                    path,
                    self._query(node, path, without),
                    self._index.keep(found - {node}) if without else found,
                    score + learned,
                    rows,
                    own,
                    frozenset(np.array(self.places, int)[covered].tolist())
                    | (self._sharing if returns else frozenset()),
                    int((covered & (best < same * value)).sum()),
                    float(self._ends[last]),
                    learned,
                )
            )
        return sorted(chains, key=lambda c: (-c.score, len(c.path)))

    def _learned(self, topic: Derivation, paths: Sequence[Path]) -> list[float]:
        """What an encoder that has learned from trajectories adds (SymAgent 4.3): paths as wholes."""
        encoder, words = self._encoder, self._question.words
        if not isinstance(encoder, LearnedEncoder) or not paths:
            return [0.0] * len(paths)
        short = self._kg.profile.short
        walked = [[(short(iri), forward) for iri, forward in edges_of(self._index, p)] for p in paths]
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
        forward, backward = (
            np.where(s > 0, np.maximum(c, same), c) for s, c in zip(shared, cosines, strict=True)
        )
        table[::2, column], table[1::2, column] = forward, np.where(inverse, backward, forward)
    return table


def assigned(rows: Matrix) -> tuple[float, tuple[int, ...]]:
    """The greatest sum where each relation (row) has a word (column) of its own or none, and these words."""
    best, words = 0.0, tuple[int, ...]()
    for word in np.argsort(-rows[0], kind="stable")[: len(rows)].tolist() if len(rows) else ():
        rest = rows[1:].copy()
        rest[:, word] = 0.0
        others, chosen = assigned(rest)
        if (total := others + float(rows[0, word])) > best:
            best, words = total, (word, *chosen)
    return best, words


def class_kinds(index: GraphIndex) -> list[str]:
    """What kind of thing each class is: person, place, time, ..."""
    if "class kinds" not in index.kept:
        prototypes = [(kind, word) for kind, words in section("things").items() for word in words]
        vectors = index.encode([word for _, word in prototypes])
        nearest = Vocabulary.of(index).classes.similarity(vectors).argmax(axis=0).tolist()
        index.kept["class kinds"] = [prototypes[best][0] for best in nearest]
    found: list[str] = index.kept["class kinds"]
    return found


def end_classes(index: GraphIndex) -> list[list[int]]:
    """The classes that most of what is at the end of each step are of."""
    if "end classes" not in index.kept:
        ends = (nodes for relation in index.rels for nodes in (relation.objects, relation.subjects))
        counts = (Counter(c for node in islice(nodes, TYPED) for c in index.types[node]) for nodes in ends)
        index.kept["end classes"] = [
            [c for c, n in count.items() if n == max(count.values())] for count in counts
        ]
    found: list[list[int]] = index.kept["end classes"]
    return found


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


def asked_for(words: Sequence[str], content: frozenset[int]) -> int:
    """The position of the noun that names what is asked for, or -1; `content`: positions of content words."""
    for place, word in enumerate(words):
        if word in lexicon().kinds:
            return -1
        if word in ("which", "what") or (word == "many" and words[place - 1] == "how"):
            follows_verb = place + 1 < len(words) and words[place + 1] in word_list("verbs")
            return _noun(words, content, place + 1 + follows_verb, follows_verb)
    is_order = bool(words) and words[0] in word_list("orders")
    return _noun(words, content, 1, False) if is_order else -1


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

    A derivation spans the words that its chain accounts for; a second one leaves the noun that is asked for
    to a class. Call it when the anchors of entities have their scores.
    """
    topics = topics_of(question)
    shown = _shown(question, topics, seeds) if seeds is not None and topics else {}
    grown = list[tuple[Derivation, list[Chain]]]()
    anchors = list[Derivation]()
    grower = ChainGrower(question, topics, kg, encoder) if topics else None
    for topic in topics:
        assert grower is not None
        chains = grower.chains(topic, shown.get(min(topic.mentions)))
        grown.append((topic, chains))
        for chain in chains:
            anchors += _derivations(question, topic, chain, grower.noun)
    for one, other in combinations(grown, 2):
        if one[0].end <= other[0].start or other[0].end <= one[0].start:
            anchors += _meeting(question, one, other)
    return anchors


def _shown(
    question: Question, topics: Sequence[Derivation], seeds: Seeds
) -> dict[int, dict[Path, SeedChain]]:
    """What seed questions show: topic -> path of the index -> chain."""
    index, tokens = question.index, question.tokens
    linked, nodes = list[LinkedEntity](), dict[IRI, int]()
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
    edges = list[tuple[IRI, bool]]()
    for number, direction in path:
        own = index.rels[number].path
        edges += own if direction > 0 else [(iri, not forward) for iri, forward in reversed(own)]
    return tuple(edges)


def _derivations(question: Question, topic: Derivation, chain: Chain, noun: int) -> Iterator[Derivation]:
    """The derivations of a chain: itself, without the noun that is asked for, and where seeds show it.

    The noun is left to a class next to it. What seeds show is over the whole question, as for theirs: what
    it leaves out costs the less, the more speaks for it. Where the question asks how many, so did they.
    """
    covered, features = chain.covered, chain.features
    yield _derivation(question, (topic,), covered, features, chain.query, chain.denotation)
    if noun in covered:
        others = [*features, ("chain_end", -chain.end)]
        yield _derivation(question, (topic,), covered - {noun}, others, chain.query, chain.denotation)
    if (seed := chain.seed) is None or not seed.evidence:
        return
    used = {*covered, *range(topic.start, topic.end)}
    skipped = [
        f for place in range(question.n) if place not in used for f in question.skips(place, place + 1)
    ]
    features += [
        *((name, value * (1 - seed.evidence)) for name, value in skipped),
        ("seed_evidence", seed.evidence),
        ("seed_support", float(np.log1p(seed.support))),
    ]
    everything = frozenset(range(question.n))
    if question.may_be_empty and not question.is_yes_no:
        number = float(len(chain.denotation))
        yield _derivation(
            question, (topic,), everything, features, Count(chain.query), number, Category.NUMBER
        )
    else:
        yield _derivation(question, (topic,), everything, features, chain.query, chain.denotation)


def _meeting(
    question: Question, one: tuple[Derivation, list[Chain]], other: tuple[Derivation, list[Chain]]
) -> Iterator[Derivation]:
    """Derivations of two chains that end in the same nodes; one word may serve the same path of both."""
    for left, right in product(one[1][:MEETING], other[1][:MEETING]):
        found = question.index.meet(left.denotation, right.denotation)
        if not found:
            continue
        is_same, rest = left.path == right.path, right.rows.copy()
        rest[:, assigned(left.rows)[1]] = 0.0  # each word serves one relation
        joined = replace(
            left,
            path=left.path if is_same else left.path + right.path[1:],
            own=left.own if is_same else left.own + assigned(rest)[0],
            end=max(left.end, right.end),
        )
        features = [*joined.features, ("chain_meet", 1.0)]
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
    return Derivation(
        category,
        start,
        end,
        [*features, *skipped, *(f for t in topics for f in t.features)],
        query=query,
        denotation=denotation,
        kind="chain",
        head=start,
        mentions=frozenset(node for t in topics for node in t.mentions),
    )
