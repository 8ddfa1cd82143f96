"""Training questions of the parser: which derivations of a question have the gold answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from triplewise.tools.core.overlap import best_overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.exploration import short_answers
from triplewise.tools.parsing.chart import Candidate
from triplewise.tools.parsing.denotation import Denotation
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.learn import Example, Features, Vocabulary, example, shares, train
from triplewise.tools.parsing.reading import derive
from triplewise.tools.retrieval.encoder import Encoder

TOO_MANY = 60  # An answer of so many more than three times the gold values is wrong without being compared


class Labelled(NamedTuple):
    """A training question: text, entities (mention -> id or None), and complete sets of right answers."""

    question: str
    entities: Mapping[str, str | None]
    answers: tuple[tuple[str, ...], ...]  # one empty set for a question that the graph cannot answer


def derivations(
    question: Labelled, kg: KnowledgeGraph, encoder: Encoder, weights: Features
) -> tuple[GraphIndex, list[Candidate]]:
    """Return the index that a question is read with, and its derivations, best first."""
    linked = {mention: id_ for mention, id_ in question.entities.items() if id_ is not None}
    read, found = derive(question.question, kg, encoder, linked or None, weights=weights)
    return read.index, found


def improved_weights(
    questions: Sequence[Labelled], kg: KnowledgeGraph, encoder: Encoder, prior: Features
) -> tuple[dict[str, float], float, float]:
    """Return weights for one graph, learned from every other question and drawn to those it has now.

    And the shares of the other questions whose first answer is right, by the prior and by these weights.
    """
    vocabulary, examples = Vocabulary(), list[Example]()
    for question in questions:
        index, found = derivations(question, kg, encoder, prior)
        examples.append(labelled_example(kg.name, question, found, kg, index, vocabulary))
    learned, others = train(examples[::2], vocabulary, prior), examples[1::2]

    def right(weights: Features) -> float:
        vector = np.array([weights.get(name, 0.0) for name in vocabulary])
        ranked = ((e, shares(e.scores(vector), e.answers.tolist())) for e in others)
        return sum(bool(first) and bool(e.right[first[0].best]) for e, first in ranked) / len(others)

    return learned, right(prior), right(learned)


def labelled_example(
    group: str,
    question: Labelled,
    found: Sequence[Candidate],
    kg: KnowledgeGraph,
    index: GraphIndex,
    vocabulary: Vocabulary,
    least: float = 1.0,
) -> Example:
    """Return the derivations `found` of a question of a graph (`group`), those right whose F1 is `least`."""
    answers = [candidate.answer for candidate in found]
    golds = [short_answers(kg, gold) for gold in question.answers]
    right = {answer: is_right(answer, golds, index, kg.profile, least) for answer in set(answers)}
    features = [candidate.features for candidate in found]
    return example(group, features, answers, [right[answer] for answer in answers], vocabulary)


def is_right(
    answer: Denotation, golds: list[list[str]], index: GraphIndex, profile: Profile, least: float = 1.0
) -> bool:
    """Whether an answer of the parser has this F1 with the gold answers, or is none where there are none."""
    (gold, *_), is_empty = golds, answer == frozenset()
    if is_empty or not gold:
        return is_empty and not gold
    rows = answer if isinstance(answer, frozenset) else [answer]
    parts = [part for row in rows for part in (row if isinstance(row, tuple) else (row,))]
    if len(parts) > 3 * len(gold) + TOO_MANY:
        return False
    ids, labels = zip(*sorted({_written(part, index, profile) for part in parts}), strict=True)
    return best_overlap(ids, golds).f1 >= least or best_overlap(labels, golds, "names").f1 >= least


def _written(part: float, index: GraphIndex, profile: Profile) -> tuple[str, str]:
    """A node, number or truth value as gold answers may write it: by its id, and by its label."""
    if type(part) is int:
        term = index.terms[part]
        return profile.short(term) if isinstance(term, IRI) else term.value, index.label(part)
    text = str(int(part)) if isinstance(part, float) and part.is_integer() else str(part).lower()
    return text, text
