"""`python -m triplewise.evals.fit_sql`: fit the weights of the planner over tables on development questions.

Each part of a query (conditions, answer column, function) is a softmax over what else could stand there; its
weights maximise the likelihood of the gold part with an L2 penalty (convex, so there is one best solution).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import typer
import yaml
from numpy.typing import NDArray
from rich.console import Console

from triplewise.evals.data import Record, benchmark
from triplewise.evals.tasks.wikisql import databases, open_table, questions
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.sql.base import Condition, Database, SqlQuery
from triplewise.tools.sql.planning.features import (
    FUNCTIONS,
    Scene,
    answer_features,
    condition_features,
    function_features,
)
from triplewise.tools.sql.planning.mentions import Mention
from triplewise.tools.sql.planning.model import Features, Weights, dot
from triplewise.tools.sql.planning.planner import read_scene
from triplewise.tools.sql.planning.search import ConditionSet, condition_sets, summed

PENALTY = 0.0005
"""Weight of the L2 penalty a question."""
ROUNDS = 3
"""How often the sets of conditions are drawn anew with the weights found."""
OTHERS = 40
"""Other sets of conditions that the gold one is told from."""
START: Weights = {
    "one": -1.0,
    "words": 1.5,
    "tier exact": 1.0,
    "before": 2.0,
    "after": 1.0,
    "other before": -1.0,
    "tier compare": 1.0,
    "stop words": -3.0,
    "part of a longer": -2.0,
    "in a full name": -2.0,
}
"""Weights by which the first sets of conditions are drawn."""
HEADING = (
    "# Weights of the planner over tables, fitted by `python -m triplewise.evals.fit_sql` on the dev tables\n"
    "# of WikiSQL's train questions. Made by a program: what is set by hand is in priors.yaml.\n"
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question before its table, and its gold query."""

    scene: Scene
    gold: SqlQuery


@dataclass(frozen=True, slots=True)
class Choice:
    """Features of all that could stand at one place, and which of them is right."""

    options: Sequence[Features]
    right: int


def fit(choices: Sequence[Choice], penalty: float = PENALTY) -> dict[str, float]:
    """The weights of highest penalised likelihood.

    Args:
        choices: one a question. penalty: of the squared weights, times the number of choices.
    """
    from scipy.optimize import minimize

    names = sorted({name for choice in choices for found in choice.options for name in found})
    place = {name: i for i, name in enumerate(names)}
    blocks = [_matrix(choice.options, place) for choice in choices]
    table = np.vstack(blocks)
    starts = np.cumsum([0, *(len(b) for b in blocks)])[:-1]
    rights = starts + np.array([choice.right for choice in choices])
    sizes = np.array([len(b) for b in blocks])

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = table @ w
        tops = np.repeat(np.maximum.reduceat(scores, starts), sizes)
        raised = np.exp(scores - tops)
        totals = np.add.reduceat(raised, starts)
        share = raised / np.repeat(totals, sizes)
        likelihood = (scores[rights] - tops[starts] - np.log(totals)).mean()
        gradient = (table[rights].sum(axis=0) - table.T @ share) / len(blocks)
        return float(penalty * w @ w - likelihood), 2 * penalty * w - gradient

    found = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return {name: round(float(w), 4) for name, w in zip(names, found.x, strict=True)}


def _matrix(options: Sequence[Features], place: Mapping[str, int]) -> NDArray[np.float64]:
    matrix = np.zeros((len(options), len(place)))
    for row, found in enumerate(options):
        for name, value in found.items():
            matrix[row, place[name]] = value
    return matrix


def gold_set(scene: Scene, gold: SqlQuery) -> ConditionSet | None:
    """The mentions that say the gold conditions; None if one of them is not found."""
    chosen: list[Mention] = []
    for condition in gold.conditions:
        fitting = [m for m in scene.mentions if m.conditions == (condition,)]
        fitting = [m for m in fitting if not any(m.overlaps(c) for c in chosen)]
        if not fitting:
            return None
        chosen.append(max(fitting, key=lambda m: (m.tier in ("exact", "compare"), m.end - m.start)))
    return tuple(chosen)


def gold_query(record: Record, database: Database) -> SqlQuery:
    """A WikiSQL record's query over the one table of its database."""
    columns = database.schema.tables[0].columns
    conditions = tuple(
        Condition(columns[c], op, value if op == "=" else _number(value))
        for c, op, value in record["sql"]["conds"]
    )
    return SqlQuery(conditions, columns[record["sql"]["sel"]], record["sql"]["agg"])


def _number(value: str | float) -> int | float:
    number = float(str(value).replace(",", ""))
    return int(number) if number.is_integer() else number


def read_examples(records: Sequence[Record], folder: Path) -> Iterator[Example]:
    """Examples from records; extreme values are left out, since no gold query of WikiSQL has them."""
    encoder = open_encoder()
    for record in records:
        database = open_table(folder, record["table_id"])
        scene = read_scene(database, record["question"], encoder)
        plain = tuple(m for m in scene.mentions if not m.extreme)
        yield Example(replace(scene, mentions=plain), gold_query(record, database))


def fit_all(examples: Sequence[Example], penalty: float = PENALTY) -> dict[str, dict[str, float]]:
    """Weights of all parts; examples whose gold conditions are not found in the question teach nothing."""
    known = [(e, found) for e in examples if (found := gold_set(e.scene, e.gold)) is not None]
    conditions = START
    for _ in range(ROUNDS):
        conditions = fit([_set_choice(e.scene, found, conditions) for e, found in known], penalty)
    answers = [_answer_choice(e, found) for e, found in known]
    functions = [_function_choice(e, found) for e, found in known]
    return {
        "conditions": dict(conditions),
        "answer": fit(answers, penalty),
        "function": fit(functions, penalty),
    }


def _set_choice(scene: Scene, gold: ConditionSet, of: Weights) -> Choice:
    """The gold set of conditions among the likeliest others."""
    wanted = _said(gold)
    sets = condition_sets(scene, of)
    same = [found for chosen, found in sets if _said(chosen) == wanted]
    own = summed(scene, gold, {m: condition_features(scene, m) for m in gold})
    right = max(same, key=lambda found: dot(found, of), default=own)
    others = [found for chosen, found in sets if _said(chosen) != wanted]
    return Choice([right, *others[:OTHERS]], 0)


def _said(chosen: ConditionSet) -> frozenset[Condition]:
    return frozenset(condition for mention in chosen for condition in mention.conditions)


def _answer_choice(example: Example, gold: ConditionSet) -> Choice:
    scene = example.scene
    options = [answer_features(scene, gold, n) for n in range(len(scene.index.views))]
    return Choice(options, _answer(example))


def _function_choice(example: Example, gold: ConditionSet) -> Choice:
    options = [function_features(example.scene, gold, _answer(example), f) for f in FUNCTIONS]
    return Choice(options, FUNCTIONS.index(example.gold.aggregation))


def _answer(example: Example) -> int:
    assert example.gold.answer is not None
    return example.scene.index.number_of(example.gold.answer)


def main(out: Path, penalty: float = PENALTY) -> None:
    """Fit on the dev split and write the weights as YAML."""
    own = benchmark("wikisql")
    examples = list(read_examples(questions(own, "dev"), databases(own)))
    found = fit_all(examples, penalty)
    out.write_text(HEADING + yaml.safe_dump(found, sort_keys=True, width=110), encoding="utf-8")
    Console(stderr=True).print(f"fitted on {len(examples):,} questions: {out}")


if __name__ == "__main__":
    typer.run(main)
