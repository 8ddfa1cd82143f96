"""Train the parser without a model: its weights and its confidence, from questions and answers alone.

    python -m triplewise.evals.train_parser [--sets geoquery,cars] [--questions 200] [--rounds 2] [--report]

Every round parses all questions and trains on what was found; in all rounds but the first, the questions of a
graph are parsed under weights trained without it. What is reported of a graph, and what the confidence is
trained on, is by weights that have not seen this graph either. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.evals.question_sets import QuestionSet, question_sets
from triplewise.graphs.cli.calibrate import Labelled
from triplewise.tools.core.overlap import best_overlap
from triplewise.tools.parsing.chart import Parser, answer_of
from triplewise.tools.parsing.index import Graph
from triplewise.tools.parsing.learn import PRIOR, Example, Features, Vocabulary, example, shares, train
from triplewise.tools.retrieval.encoder import open_encoder

TOO_MANY = 60
"""An answer of so many more than three times the gold values is wrong without being compared."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pool:
    """The questions of a set with the derivations that were found for each."""

    of: QuestionSet
    questions: Sequence[Labelled]
    examples: list[Example]

    def right(self, vector: np.ndarray) -> list[bool]:
        """Whether the most probable answer of each question is right, by weights as a vector."""
        return [_is_right(e, vector) for e in self.examples]

    @property
    def found(self) -> int:
        """Questions with the right answer among the derivations."""
        return sum(bool(e.right.any()) for e in self.examples)


def _is_right(e: Example, vector: np.ndarray) -> bool:
    ranked = shares(e.scores(vector), e.answers.tolist())
    return bool(ranked) and bool(e.right[ranked[0].best])


_graphs: dict[str, Any] = {}


def index_of(source: str) -> Any:
    """The index of a graph."""
    if source not in _graphs:
        encoder = open_encoder()
        vectors: dict[str, np.ndarray] = {}

        def encode(texts: Sequence[str]) -> np.ndarray:
            new = [t for t in dict.fromkeys(texts) if t not in vectors]
            if new:
                vectors.update(zip(new, encoder.encode(new), strict=True))
            return np.array([vectors[t] for t in texts], np.float32).reshape(len(texts), -1)

        _graphs[source] = Graph(source, encode)
    return _graphs[source]


def parse(
    pool: QuestionSet, questions: Sequence[Labelled], weights: Features, vocabulary: Vocabulary
) -> Pool:
    """Parse questions of a set under some weights."""
    index, parser, examples = index_of(pool.source), Parser(dict(weights)), []
    for question in questions:
        found = parser.parse(question.question, index)[1]
        answers = [answer for *_, answer in found]
        judged = {answer: is_right(question, index, answer, pool.least) for answer in set(answers)}
        rows = [features for _, features, *_ in found]
        examples.append(example(pool.graph, rows, answers, [judged[a] for a in answers], vocabulary))
    return Pool(pool, questions, examples)


def is_right(question: Labelled, index: Any, answer: Any, least: float) -> bool:
    """Whether an answer of the parser is right: its F1 with gold answers, as ids or as names."""
    (gold, *_), empty = question.answers, isinstance(answer, frozenset) and not answer
    if empty or not gold:
        return empty and not gold
    if isinstance(answer, frozenset) and len(answer) > 3 * len(gold) + TOO_MANY:
        return False
    values, labels = answer_of(index, answer)
    by_id = best_overlap(values, question.answers).f1
    return by_id >= least or best_overlap(labels, question.answers, "names").f1 >= least


def vector_of(weights: Features, vocabulary: Vocabulary) -> np.ndarray:
    """Weights in the order of a vocabulary."""
    return np.array([weights.get(name, 0.0) for name in vocabulary])


def left_out(pools: Iterable[Pool], vocabulary: Vocabulary) -> dict[str, dict[str, float]]:
    """Graph -> weights trained without it."""
    every = [e for pool in pools for e in pool.examples]
    graphs = dict.fromkeys(e.group for e in every)
    return {g: train([e for e in every if e.group != g], vocabulary, PRIOR) for g in graphs}


def main(
    sets: Annotated[str, typer.Option(help="Names of sets, with commas; all by default.")] = "",
    questions: Annotated[int, typer.Option(help="Questions of each set.")] = 200,
    rounds: Annotated[int, typer.Option(help="How often all questions are parsed.")] = 2,
    report: Annotated[bool, typer.Option("--report", help="Only measure; write nothing.")] = False,
) -> None:
    """Parse, train, report, write."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    chosen = list(question_sets(filter(None, sets.split(","))))
    vocabulary, without, pools = Vocabulary(), {s.graph: dict(PRIOR) for s in chosen}, []
    for number in range(rounds):
        start = time.monotonic()
        pools = [parse(s, s.questions[:questions], without[s.graph], vocabulary) for s in chosen]
        without = left_out(pools, vocabulary) if len(without) > 1 else without
        _log.info("round %d: %.0f s", number + 1, time.monotonic() - start)
    for pool in pools:
        hits = pool.right(vector_of(without[pool.of.graph], vocabulary))
        _log.info("%-18s %4d right of %4d, %4d found", pool.of.name, sum(hits), len(hits), pool.found)


if __name__ == "__main__":
    typer.run(main)
