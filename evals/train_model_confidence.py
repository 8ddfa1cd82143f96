"""Train how sure the answer of a language model is: `python -m triplewise.evals.train_model_confidence`.

What a model may write are the parser's own readings of training questions and gold queries, right and wrong
ones. No model and no agent runs. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd
import typer

from triplewise.evals.inject_mistakes import gold_programs, is_right, written_programs
from triplewise.evals.question_sets import QuestionSet, question_sets
from triplewise.evals.train_parser import FOLDER
from triplewise.graphs.commands import option
from triplewise.tools.learning.calibration import Row, train
from triplewise.tools.parsing.confidence import MODEL_FILE, Calibration, query_features

SMALL = ("company", "library", "league", "university", "airline", "recipes")
SETS = ("geoquery", "cars", "elements", "units", "metaqa", "webqsp", "qald10", *SMALL)
READ, COMPARED = 10, 5  # Readings that a model may write, and those that its query is compared with
SHARES = {(True, True): 0.58, (False, True): 0.28, (True, False): 0.06, (False, False): 0.08}
"""Of the answers of played models: whether the best reading agrees, and whether they are right."""
LEAST = 0.02  # How likely anything is


def rows(of: QuestionSet, count: int) -> Iterator[Row]:
    """Yield the distinct answers of the first `count` questions of a set, each with its evidence."""
    kg, gold, answers = of.open(), gold_programs(of), defaultdict[str, list[tuple[str, ...]]](list)
    for question in (*of.questions, *of.held_out):  # a question has a record for each of its gold queries
        answers[question.question] += question.answers
    for question in of.questions[:count]:
        readings, written = written_programs(question, kg, gold, READ)
        judged = question._replace(answers=tuple(answers[question.question]))
        distinct = {frozenset(values): (program, values) for program, values in reversed(written) if values}
        for program, values in distinct.values():
            evidence = query_features(program, values, readings[:COMPARED], kg.profile)
            yield Row(of.graph, question.question, is_right(kg, judged, values, of.least), evidence)


def fitted(given: Sequence[Row]) -> Calibration:
    """Return how sure a model's answer is, trained on rows; below a half it is more likely wrong.

    Within their share, rows that disagree with the best reading count by how likely that makes them: the
    right ones by how unsure the reading is, the wrong ones by how sure.
    """
    sizes, graphs, parts = Counter[tuple[str, bool, bool]](), Counter(row.group for row in given), []
    for row in given:
        agrees, sure = row.features["agreement"] > 0, -row.features["agreement"]
        likely = 1.0 if agrees else max(1 - sure if row.is_right else sure, LEAST)
        parts.append(((row.group, agrees, row.is_right), likely))
        sizes[parts[-1][0]] += likely  # type: ignore[assignment]
    weighted = [
        replace(row, weight=graphs[row.group] * SHARES[cell[1:]] * likely / sizes[cell])
        for row, (cell, likely) in zip(given, parts, strict=True)
    ]
    return replace(train(weighted, {"answers": len(given)}), min_confidence=0.5, floor=0.0)


def main(count: int = option("N", "Questions of each set.", 80)) -> None:
    """Train, write, and print figures of graphs left out."""
    trained = fitted([row for of in question_sets(SETS) for row in rows(of, count)])
    trained.write(FOLDER / MODEL_FILE)
    typer.echo(pd.DataFrame(trained.provenance["left out"]).T.to_string())


if __name__ == "__main__":
    typer.run(main)
