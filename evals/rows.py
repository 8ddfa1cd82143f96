"""A scorer of answers that are tables: rows are compared as wholes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from triplewise.evals.record import Run
from triplewise.evals.scorers import count
from triplewise.evals.scorers.answers import listed, strict_overlap, why
from triplewise.evals.values import NOTHING, Overlap, overlap, read_value
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.profile import Profile

GOLD_ROWS = "gold_rows"
"""Key of a sample's metadata with the gold rows: lists of cells, "" where one is unbound."""
MOST_COLUMNS = 6
"""Wider results are compared in the order in which their columns stand."""
_BETWEEN = "\x1f"

Row = Sequence[str]


@scorer(
    metrics={
        "f1": [mean(), stderr(), count()],
        "hits_at_1": [mean(), stderr()],
        "exact_match": [mean(), stderr()],
        "precision": [mean()],
        "recall": [mean()],
    }
)
def rows() -> Scorer:
    """F1, Hits@1 and exact match of the rows of an answer, each per question, macro-averaged.

    Gold rows of one cell are compared with the answer's values as `strict` does it. Wider ones are compared
    with the result of the answer's query: all cells of a row have to be right (numbers without
    tolerance); in which order the columns stand is left open: the one that fits best is taken. An answer
    without a query has no rows of several cells. A question that crashed scores 0.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), state.metadata.get(GOLD_ROWS) or []
        if all(len(row) < 2 for row in gold):
            found = await strict_overlap(state, list(target))
        elif run.crashed:
            found = NOTHING
        else:
            found = compare_rows(await to_thread.run_sync(rows_of, run), gold)
        return Score(value=found._asdict(), answer=listed(run.labels or run.values), explanation=why(run))

    return score


def rows_of(run: Run) -> list[list[str]]:
    """The rows that a run's query gives on the graph that was asked; none without query or graph."""
    if not run.sparql or not run.kg or not run.values:
        return []
    kg = open_kg(run.kg, profile=run.profile or None)
    result = kg.query(run.sparql)
    return [[_cell(value, kg.profile) for value in row] for row in result.rows]


def _cell(value: Term | None, profile: Profile) -> str:
    return "" if value is None else profile.short(value)


def compare_rows(given: Sequence[Row], gold: Sequence[Row]) -> Overlap:
    """How rows agree with gold rows, as sets, in the order of columns that fits best."""
    wanted = [_key(row) for row in gold]
    return max((overlap(keys, wanted) for keys in _ordered(given)), default=NOTHING, key=lambda o: o.f1)


def _ordered(given: Sequence[Row]) -> Iterator[list[str]]:
    """The rows with their columns in every order."""
    width = max((len(row) for row in given), default=0)
    orders: Any = permutations(range(width)) if width <= MOST_COLUMNS else [tuple(range(width))]
    for order in orders:
        yield [_key([row[i] for i in order]) for row in given]


def _key(row: Row) -> str:
    """A row as one text that is the same for cells that are written differently but are the same."""
    return _BETWEEN.join(read_value(cell).key if cell else "" for cell in row)
