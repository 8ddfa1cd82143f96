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
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.evals.question_sets import QuestionSet, question_sets
from triplewise.evals.unanswerable import Taken, chosen, needed, without
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.learning import calibration
from triplewise.tools.learning.calibration import Row
from triplewise.tools.learning.parser_training import Labelled, derivations, labelled_example
from triplewise.tools.parsing import chains, grammar, learn
from triplewise.tools.parsing.confidence import FILE, Calibration, trust_features
from triplewise.tools.parsing.learn import Example, Features, Vocabulary, shares, train
from triplewise.tools.retrieval.encoder import open_encoder

MADE = 0.4
"""Share of the questions that are asked once more of a graph without what they need."""
PRIOR: Features = {**learn.PRIOR, **grammar.PRIORS, **chains.PRIORS}
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pool:
    """Questions of a set with the derivations that were found for each.

    `uses` are what the best right derivation of each needs of the graph, () where there is none. `is_made`: the
    questions were made unanswerable.
    """

    of: QuestionSet
    questions: Sequence[Labelled]
    examples: list[Example]
    uses: list[tuple[Taken, ...]]
    is_made: bool = False

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
                    self.of.is_clean and not self.is_made,
                )
            )
        return rows

    @property
    def found(self) -> int:
        """Answerable questions with the right answer among the derivations."""
        pairs = zip(self.questions, self.examples, strict=True)
        return sum(bool(e.right.any()) for q, e in pairs if any(q.answers))


def parse(
    of: QuestionSet, questions: Sequence[Labelled], kg: KnowledgeGraph, weights: Features, vocabulary: Vocabulary
) -> Pool:
    """Parse questions over a graph under some weights."""
    pool = Pool(of, questions, [], [])
    for question in questions:
        index, found = derivations(question, kg, open_encoder(), weights)
        judged = labelled_example(of.graph, question, found, kg, index, vocabulary, of.least)
        pool.examples.append(judged)
        best = next((c for c, is_good in zip(found, judged.right, strict=True) if is_good and c.answer), None)
        pool.uses.append(needed(best.query, index) if best is not None else ())
    return pool


def made_unanswerable(
    pool: Pool, kg: KnowledgeGraph, weights: Features, vocabulary: Vocabulary, share: float
) -> Pool:
    """Parse a share of a pool's questions over the graph without what their answers need.

    Where the rest of the graph still gives the right answer, the question is left out.
    """
    questions: list[Labelled] = []
    made = Pool(pool.of, questions, [], [], True)
    for taken, numbers in chosen(pool.uses, round(share * len(pool.questions))).items():
        if (rest := without(kg, taken)) is None:
            break
        asked = [pool.questions[number] for number in numbers]
        parsed = parse(pool.of, asked, rest, weights, vocabulary)
        for question, found in zip(asked, parsed.examples, strict=True):
            if not found.right.any():
                questions.append(question._replace(answers=((),)))
                made.examples.append(found)
                made.uses.append(())
    return made


def vector_of(weights: Features, vocabulary: Vocabulary) -> np.ndarray:
    """Weights in the order of a vocabulary."""
    return np.array([weights.get(name, 0.0) for name in vocabulary])


def left_out(pools: Iterable[Pool], vocabulary: Vocabulary) -> dict[str, dict[str, float]]:
    """Graph -> weights trained without it."""
    every = [e for pool in pools for e in pool.examples]
    graphs = dict.fromkeys(e.group for e in every)
    return {g: train([e for e in every if e.group != g], vocabulary, PRIOR) for g in graphs}


def table(pools: Sequence[Pool], rows: Sequence[Sequence[Row]], confidence: Calibration) -> str:
    """The figures of each pool and of all clean ones, by a confidence that saw none of their graphs."""
    heads = ("answerable", "found", "right", "sure", "precision", "coverage", "refused", "of", "ece", "aurc")
    lines = [f"{'':18}" + "".join(f"{head:>11}" for head in heads)]
    every = [row for part in rows for row in part]
    given = [row for row in every if row.features]
    estimates = iter(calibration.cross_validated(given, confidence.provenance["strength"]))
    sure_of = {id(row): float(next(estimates)) for row in given}
    parts = [(p.of.name + " made" * p.is_made, part, p.found) for p, part in zip(pools, rows, strict=True)]
    for name, test in (("clean", True), ("not clean", False)):
        chosen = [(pool, part) for pool, part in zip(pools, rows, strict=True) if not pool.is_made]
        chosen = [(pool, part) for pool, part in chosen if pool.of.is_clean is test]
        parts.append((name, [row for _, part in chosen for row in part], sum(p.found for p, _ in chosen)))
    for name, part, found in parts:
        answerable = [r for r in part if r.is_answerable]
        shown = [r for r in part if r.features]
        sure = [r for r in shown if sure_of[id(r)] >= confidence.min_confidence]
        estimated = np.array([sure_of[id(r)] for r in shown])
        right, ones = np.array([r.is_right for r in shown], bool), np.ones(len(shown))
        count = max(len(answerable), 1)
        figures = (
            *(len(answerable), found / count, sum(r.is_right for r in answerable) / count, len(sure)),
            *(sum(r.is_right for r in sure) / max(len(sure), 1), sum(r.is_answerable for r in sure) / count),
            *(sum(not r.is_answerable for r in part) - sum(not r.is_answerable for r in sure),),
            *(len(part) - len(answerable), calibration.calibration_error(estimated, right, ones)),
            calibration.risk_coverage(estimated, right, ones),
        )
        lines.append(f"{name:18}" + "".join(f"{x:11}" if isinstance(x, int) else f"{x:11.3f}" for x in figures))
    return "\n".join(lines)


def main(
    sets: Annotated[str, typer.Option(help="Names of sets, with commas; all by default.")] = "",
    questions: Annotated[int, typer.Option(help="Questions of each set.")] = 200,
    rounds: Annotated[int, typer.Option(help="How often all questions are parsed.")] = 2,
    report: Annotated[bool, typer.Option("--report", help="Only measure; write nothing.")] = False,
) -> None:
    """Parse, train, report, write."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    used = list(question_sets(filter(None, sets.split(","))))
    graphs = {s.name: s.open() for s in used}
    vocabulary, pools = Vocabulary(), list[Pool]()
    without_graph: dict[str, dict[str, float]] = {s.graph: dict(PRIOR) for s in used}
    for number in range(rounds):
        start = time.monotonic()
        pools = []
        for s in used:
            weights = without_graph[s.graph]
            pools.append(parse(s, s.questions[:questions], graphs[s.name], weights, vocabulary))
        without_graph = left_out(pools, vocabulary) if len(without_graph) > 1 else without_graph
        _log.info("round %d: %.0f s", number + 1, time.monotonic() - start)
    made = [
        made_unanswerable(p, graphs[p.of.name], without_graph[p.of.graph], vocabulary, MADE) for p in pools
    ]
    weights = train([e for pool in pools for e in pool.examples], vocabulary, PRIOR)
    pools += made
    rows = [pool.rows(without_graph[pool.of.graph], vocabulary) for pool in pools]
    confidence = calibration.train([row for part in rows for row in part])
    _log.info("%s\nmin_confidence %g", table(pools, rows, confidence), confidence.min_confidence)
    if not report:
        folder = Path(str(files("triplewise.tools.parsing")))
        learn.write_weights(weights, folder / learn.FILE)
        confidence.write(folder / FILE)


if __name__ == "__main__":
    typer.run(main)
