"""Scorers and metrics of question answering over knowledge graphs, named as the field names them.

All are strict (`triplewise.tools.core.overlap`): Think-on-Graph's public scripts match substrings and call
that "Exact Match" or "Hits@1", which is neither. A question that crashed scores 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState

from triplewise.evals.solver import Run
from triplewise.tools.core.overlap import NOTHING, Compare, best_overlap, overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.vocabulary import node_texts

GOLD_NAMES = "gold_names"
"""Key of a sample's metadata with the names that the benchmark itself has for gold ids: id -> names."""
MAIN = ("f1", "accuracy", "hits_at_1", "exact_match")
"""The first of these that was scored says whether an answer is right, and is a task's main measure."""
COUNTS = ("seconds", "queries", "steps", "model_calls", "input_tokens", "output_tokens", "rolled_back")
"""Attributes of a run that are figures as they are."""
_SHOWN, _MOST_NAMES = 20, 100_000


@metric
def answerable() -> Metric:
    """The mean over the questions that the graph can answer (`answerable` of the samples' metadata)."""

    def of(scores: list[SampleScore]) -> float:
        asked = [s.score.as_float() for s in scores if (s.sample_metadata or {}).get("answerable")]
        return sum(asked) / len(asked) if asked else math.nan

    return of


FIGURE = [mean(), stderr(), answerable()]


def _scored(run: Run, value: dict[str, Any]) -> Score:
    """Figures (NaN where one is not taken of the question) with the first answers, and how the run ended."""
    values = run.labels or run.values
    more = f"; and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    ending = f"{run.status}: {run.reason}" if run.reason else run.status
    return Score(value=value, answer="; ".join(values[:_SHOWN]) + more, explanation=ending)


@scorer(metrics={"*": FIGURE})
def strict(compare: Compare = "ids", only: Sequence[str] = ()) -> Scorer:
    """F1 of the answer set, Hits@1 and exact match, each per question, macro-averaged; `only` some of them.

    Gold answers are the target, or `gold_sets` of the metadata (the best one counts). Values of answers are
    compared (`ids`; with names by labels and aliases), or their labels as texts (`names`). Where not all are
    ids, labels and aliases are looked up once and stay with the run: a log is scored anew without the graph.
    Raises `QueryFailedError` where it does not answer: no score rather than a wrong one.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold_sets = state.store_as(Run), state.metadata.get("gold_sets") or [list(target)]
        gold = list(dict.fromkeys(str(value) for one in gold_sets for value in one))
        answers = run.labels if compare == "names" else run.values
        given: Mapping[str, Sequence[str]] = state.metadata.get(GOLD_NAMES) or {}
        names = {str(id_): [str(name) for name in known] for id_, known in given.items()}
        if run.kg and answers and not overlap(answers, gold, compare, names).exact_match:
            if run.names is None:
                run.names = await to_thread.run_sync(_look_up, run, gold, compare)
            if compare == "names":
                names = {}
                for value, label in zip(run.values, run.labels, strict=True):
                    names.setdefault(label, []).extend(run.names.get(value, ()))
            else:
                ids = {*run.values, *gold} & (names.keys() | run.names.keys())
                names = {id_: [*names.get(id_, ()), *run.names.get(id_, ())] for id_ in ids}
        found = NOTHING if run.crashed else best_overlap(answers, gold_sets, compare, names)
        return _scored(run, {name: getattr(found, name) for name in only or found._fields})

    return score


def _look_up(run: Run, gold: Collection[str], compare: Compare) -> dict[str, list[str]]:
    """Labels and aliases in the profile's language or in none; none where they cannot change anything."""
    kg = open_kg(run.kg, profile=run.profile or None).session(limit=_MOST_NAMES)
    profile = kg.profile
    texts = run.values if compare == "names" else [*run.values, *gold]
    ids = {t for t in texts if profile.entity_pattern and profile.expand(t) is not None}
    if not profile.alias_predicates if compare == "names" else ids.issuperset(texts):
        return {}  # labels are there already; or there are only ids
    iris = {iri: text for text in texts if isinstance(iri := profile.expand(text), IRI)}
    names: dict[str, list[str]] = {text: [] for text in iris.values() if text in ids}
    for node, name in node_texts(kg, iris, (*profile.label_predicates, *profile.alias_predicates)):
        names.setdefault(iris[node], []).append(name)
    return names


@scorer(metrics={"accuracy": FIGURE, "proven_accuracy": FIGURE, "proven": [mean()]})
def accuracy() -> Scorer:
    """Share of yes/no questions and claims that were judged right; what is neither true nor false is wrong.

    `proven` is the share for which facts of the graph were given, `proven_accuracy` that of these judged
    right.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, gold = state.store_as(Run), list(target)
        if gold not in (["true"], ["false"]):
            return Score.unscored(reason="not a yes/no question")
        is_right = not run.crashed and len(run.values) == 1 and overlap(run.values, gold).exact_match == 1.0
        proven = float(is_right) if run.proof else math.nan
        value = {"accuracy": float(is_right), "proven_accuracy": proven, "proven": float(run.proof > 0)}
        return _scored(run, value)

    return score


@scorer(metrics={"*": [mean()]})
def effort() -> Scorer:
    """What a question cost and how it ended (QueryAgent's table 4: TPQ, QPQ, CPQ); goes behind the others."""

    async def score(state: TaskState, target: Target) -> Score:
        run, figures = state.store_as(Run), figures_of(state.scores or {})
        is_right = next((figures[name] for name in MAIN if name in figures), 0.0) == 1.0
        value = {name: getattr(run, name) for name in COUNTS}
        value |= {"cost": math.nan if run.cost is None else run.cost, "notes": len(run.notes)}
        value |= {"corrections": len(run.corrections), "corrected": float(bool(run.corrections))}
        value["corrected_right"] = float(bool(run.corrections) and is_right)
        endings = ("not_found", "budget_spent", "crashed")
        return Score(value=value | {status: float(run.status == status) for status in endings})

    return score


def figures_of(scores: Mapping[str, Score]) -> dict[str, float]:
    """Return the scores of a question by figure; of two with one name the first, without those not scored."""
    figures: dict[str, float] = {}
    for scorer_name, score in scores.items():
        value = score.value if isinstance(score.value, Mapping) else {plain_name(scorer_name): score.value}
        for name, figure in value.items():
            if isinstance(figure, int | float) and not math.isnan(figure):
                figures.setdefault(name, float(figure))
    return figures


def plain_name(name: str) -> str:
    """Return the name of a task or scorer without the package that Inspect puts before it."""
    return name.rpartition("/")[2]
