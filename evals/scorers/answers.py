"""Scorers of sets of answers: strict figures per question, denotation and accuracy; of tables, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from triplewise.evals.record import Run
from triplewise.evals.scorers.metrics import by_aggregation, by_conditions, count
from triplewise.evals.scorers.names import names_for
from triplewise.evals.scorers.substring import substring_figures
from triplewise.tools.core.overlap import NOTHING, Overlap, best_overlap, overlap, same_multiset
from triplewise.tools.core.values import Compare, read_value
from triplewise.tools.kg import open_kg

UNSCORED = float("nan")
"""What a figure is for a question that it is not taken of: Inspect leaves it out of averages."""
GOLD_ROWS = "gold_rows"
"""Key of a sample's metadata with the gold rows: lists of cells, "" where one is unbound."""
MOST_COLUMNS = 6
"""Wider results are compared in the order in which their columns stand."""
MACRO = [mean(), stderr()]
PART = [mean(), stderr(), count()]
OVERLAP = {"f1": PART, "hits_at_1": MACRO, "exact_match": MACRO, "precision": [mean()], "recall": [mean()]}
_SHOWN = 20


@scorer(metrics={**OVERLAP, "substring_hits_at_1": MACRO, "substring_hits_at_1_single": PART})
def strict(compare: Compare = "ids") -> Scorer:
    """F1 of the answer set, Hits@1 and exact match, each per question, macro-averaged.

    The gold answers are the sample's target, or `gold_sets` of its metadata where several sets are right
    (the best one counts). Ids are compared with ids, and with names by their labels and aliases, which come
    from the graph and from `gold_names` of the metadata (id -> names). A question that crashed scores 0.
    Beside them what published code would call Hits@1, under its own name: see `substring_figures`.

    Args:
        compare: `ids` compares answer values, `names` their labels as texts.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        figures = await strict_overlap(state, target, compare)
        texts = [str(value) for gold in _gold_sets(state, target) for value in gold]
        return Score(
            value={
                **figures._asdict(),
                **substring_figures(run, state.metadata, texts, figures.hits_at_1 == 1.0),
            },
            answer=shown(run.labels or run.values),
            explanation=run.ending,
        )

    return score


async def strict_overlap(state: TaskState, target: Sequence[str], compare: Compare = "ids") -> Overlap:
    """How the answers of a question agree with its gold answers; nothing of a question that crashed."""
    run, gold_sets = state.store_as(Run), _gold_sets(state, target)
    if run.crashed:
        return NOTHING
    names = await names_for(state, list(dict.fromkeys(str(v) for gold in gold_sets for v in gold)), compare)
    return best_overlap(run.labels if compare == "names" else run.values, gold_sets, compare, names)


def _gold_sets(state: TaskState, target: Sequence[str]) -> Sequence[Sequence[Any]]:
    """The sets of gold answers, any of which is right."""
    return state.metadata.get("gold_sets") or [list(target)]


@scorer(metrics={"answerable_f1": PART, "answerable_hits_at_1": MACRO})
def answerable(compare: Compare = "ids") -> Scorer:
    """What `strict` says of the questions that the graph can answer (`answerable` of the metadata).

    Args:
        compare: as for `strict`.
    """

    async def score(state: TaskState, target: Target) -> Score:
        f1 = hits_at_1 = UNSCORED
        if state.metadata.get("answerable"):
            _, _, f1, hits_at_1, _ = await strict_overlap(state, target, compare)
        return Score(value={"answerable_f1": f1, "answerable_hits_at_1": hits_at_1})

    return score


@scorer(metrics={"nontrivial_f1": PART, "nontrivial_hits_at_1": MACRO, "nontrivial_accuracy": PART})
def nontrivial() -> Scorer:
    """What `strict` and `accuracy` say without the questions that are `trivial` by their metadata.

    Trivial is what a partial graph that knows nothing answers right: "no", 0, or nothing.
    """

    async def score(state: TaskState, target: Target) -> Score:
        f1 = hits_at_1 = accurate = UNSCORED
        if not state.metadata.get("trivial"):
            _, _, f1, hits_at_1, _ = await strict_overlap(state, target)
            if (gold := list(target)) in YES_NO:
                accurate = float(is_verdict(state.store_as(Run), gold))
        figures = {"f1": f1, "hits_at_1": hits_at_1, "accuracy": accurate}
        return Score(value={f"nontrivial_{name}": figure for name, figure in figures.items()})

    return score


YES_NO = (["true"], ["false"])
"""Gold answers of yes/no questions."""


@scorer(metrics=PART)
def accuracy() -> Scorer:
    """Share of yes/no questions that were answered right; other questions are not scored."""

    async def score(state: TaskState, target: Target) -> Score:
        if (gold := list(target)) not in YES_NO:
            return Score.unscored(reason="not a yes/no question")
        run = state.store_as(Run)
        return Score(value=float(is_verdict(run, gold)), answer=shown(run.values))

    return score


def is_verdict(run: Run, gold: Sequence[str]) -> bool:
    """Whether a run says true or false, whichever the gold answer is ("yes" is true, "1" is not)."""
    return not run.crashed and len(run.values) == 1 and overlap(run.values, gold).exact_match == 1.0


@scorer(
    metrics={
        "denotation": [*PART, by_aggregation(), by_conditions()],
        "multiset": [mean()],
    }
)
def denotation() -> Scorer:
    """Denotation accuracy: the answers are the gold answers, as sets, and as multisets.

    Numbers are compared with a tolerance, texts without case and spacing. Samples say in their metadata
    which `aggregation` and how many `conditions` the gold query has.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), list(target)
        return Score(
            value={
                "denotation": float(not run.crashed and overlap(run.values, gold).exact_match == 1.0),
                "multiset": float(not run.crashed and same_multiset(run.values, gold)),
            },
            explanation=run.sparql,
        )

    return score


@scorer(metrics=OVERLAP)
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
            figures = await strict_overlap(state, target)
        else:
            figures = compare_rows([] if run.crashed else await to_thread.run_sync(rows_of, run), gold)
        return Score(value=figures._asdict(), answer=shown(run.labels or run.values), explanation=run.ending)

    return score


def rows_of(run: Run) -> list[list[str]]:
    """The rows that a run's query gives on the graph that was asked; none without query or graph."""
    if not run.sparql or not run.kg or not run.values:
        return []
    kg = open_kg(run.kg, profile=run.profile or None)
    result = kg.query(run.sparql)
    return [["" if value is None else kg.profile.short(value) for value in row] for row in result.rows]


def compare_rows(given: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Overlap:
    """Return how rows agree with gold rows, as sets, in the order of columns that fits best."""

    def key(row: Sequence[str]) -> str:  # the same for cells that are written differently but are the same
        return "\x1f".join(read_value(cell).key if cell else "" for cell in row)

    width = max((len(row) for row in given), default=0)
    orders: Any = permutations(range(width)) if width <= MOST_COLUMNS else [tuple(range(width))]
    gold_keys = [key(row) for row in gold]
    overlaps = (overlap([key([row[i] for i in order]) for row in given], gold_keys) for order in orders)
    return max(overlaps, default=NOTHING, key=lambda o: o.f1)


def shown(values: Sequence[str]) -> str:
    """The first answers in one line."""
    more = len(values) - _SHOWN
    return "; ".join(values[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
