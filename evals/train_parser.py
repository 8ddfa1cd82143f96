"""Train the parser without a model: its weights and its confidence, from questions and answers alone.

    python -m triplewise.evals.train_parser [--sets geoquery,cars] [--questions 200] [--rounds 2] [--report]

Every round parses all questions and trains on what was found; in all rounds but the first, the questions of a
graph are parsed under weights trained without it. What is reported of a graph, and what the confidence is
trained on, is by weights that have not seen this graph either. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.evals.question_sets import QuestionSet, question_sets
from triplewise.graphs.cli.calibrate import Labelled
from triplewise.tools.core.overlap import best_overlap
from triplewise.tools.learning import calibration
from triplewise.tools.learning.calibration import Row
from triplewise.tools.parsing import learn
from triplewise.tools.parsing.chart import Parser, answer_of
from triplewise.tools.parsing.confidence import FILE, Calibration, trust_features
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

    def rows(self, weights: Features, vocabulary: Vocabulary) -> list[Row]:
        """What comes of each question under some weights: whether the first answer is right, the evidence."""
        vector, names = vector_of(weights, vocabulary), list(vocabulary)
        rows = []
        for question, found in zip(self.questions, self.examples, strict=True):
            ranked, features = shares(found.scores(vector), found.answers.tolist()), found.features(names)
            is_given = bool(ranked) and not features[ranked[0].best].get("nothing")
            rows.append(
                Row(
                    self.of.graph,
                    question.question,
                    is_given and bool(found.right[ranked[0].best]),
                    trust_features(features, ranked) if is_given else {},
                    any(question.answers),
                    self.of.is_clean,
                )
            )
        return rows

    @property
    def found(self) -> int:
        """Answerable questions with the right answer among the derivations."""
        pairs = zip(self.questions, self.examples, strict=True)
        return sum(bool(e.right.any()) for q, e in pairs if any(q.answers))


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


def table(pools: Sequence[Pool], rows: Sequence[Sequence[Row]], confidence: Calibration) -> str:
    """The figures of each set and of all that are clean, by a confidence that saw none of their graphs."""
    lines = [f"{'':18}{'asked':>6}{'found':>6}{'right':>6}{'sure':>6}{'prec':>6}{'cov':>6}{'refused':>9}{'ece':>6}{'aurc':>6}"]
    every = [row for part in rows for row in part]
    given = [row for row in every if row.features]
    estimates = iter(calibration.cross_validated(given, confidence.provenance["strength"]))
    sure_of = {id(row): float(next(estimates)) for row in given}
    parts = [(pool.of.name, part, pool.found) for pool, part in zip(pools, rows, strict=True)]
    clean = [row for row in every if row.is_clean]
    parts.append(("clean sets", clean, sum(pool.found for pool in pools if pool.of.is_clean)))
    for name, part, found in parts:
        answerable = [r for r in part if r.is_answerable]
        sure = [r for r in part if sure_of.get(id(r), 0.0) >= confidence.min_confidence]
        refused = [r for r in part if not r.is_answerable and r not in sure]
        shown = [r for r in part if r.features]
        arrays = (np.array([sure_of[id(r)] for r in shown]), np.array([r.is_right for r in shown], bool))
        ones = np.ones(len(shown))
        n = max(len(answerable), 1)
        lines.append(
            f"{name:18}{len(answerable):6}{found / n:6.2f}{sum(r.is_right for r in answerable) / n:6.2f}"
            f"{len(sure):6}{sum(r.is_right for r in sure) / max(len(sure), 1):6.2f}{len(sure) / n:6.2f}"
            f"{len(refused):4} of {len(part) - len(answerable):2}"
            f"{calibration.calibration_error(*arrays, ones):6.2f}{calibration.risk_coverage(*arrays, ones):6.2f}"
        )
    return "\n".join(lines)


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
    weights = train([e for pool in pools for e in pool.examples], vocabulary, PRIOR)
    rows = [pool.rows(without[pool.of.graph], vocabulary) for pool in pools]
    confidence = calibration.train([row for part in rows for row in part])
    _log.info("%s\nmin_confidence %g", table(pools, rows, confidence), confidence.min_confidence)
    if not report:
        folder = Path(str(files("triplewise.tools.parsing")))
        kept = {name: round(weight, 4) for name, weight in sorted(weights.items())}
        (folder / learn.FILE).write_text(json.dumps(kept, indent=0) + "\n", "utf-8")
        confidence.write(folder / FILE)


if __name__ == "__main__":
    typer.run(main)
