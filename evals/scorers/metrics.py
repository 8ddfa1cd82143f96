"""Figures over the questions of an evaluation, beside Inspect's own mean and standard error."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from inspect_ai.scorer import Metric, SampleScore, Value, grouped, mean, metric


def _numbers(scores: Sequence[SampleScore]) -> list[float]:
    return [score.score.as_float() for score in scores]


@metric
def median() -> Metric:
    """The median over questions; 0 without any."""

    def middle(scores: list[SampleScore]) -> float:
        return statistics.median(_numbers(scores)) if scores else 0.0

    return middle


@metric
def total() -> Metric:
    """The sum over questions."""

    def add(scores: list[SampleScore]) -> float:
        return float(sum(_numbers(scores)))

    return add


@metric
def count() -> Metric:
    """The number of questions scored."""

    def n(scores: list[SampleScore]) -> int:
        return len(scores)

    return n


@metric
def by_guideline() -> Metric:
    """The sum over the questions that each guideline corrected: a question counts for each, and once."""

    def sums(scores: list[SampleScore]) -> Value:
        sums_by_id: dict[str, float] = defaultdict(float)
        for score in scores:
            for guideline in dict.fromkeys((score.score.metadata or {}).get("guidelines", ())):
                sums_by_id[guideline] += score.score.as_float()
        return dict(sorted(sums_by_id.items()))

    return sums


@metric
def by_aggregation() -> Metric:
    """The mean for each function of the gold query (`aggregation` of the samples' metadata)."""
    return grouped(mean(), "aggregation", all=False)


@metric
def by_conditions() -> Metric:
    """The mean for each number of conditions of the gold query (`conditions` of the samples' metadata)."""
    return grouped(mean(), "conditions", all=False)
