"""Training of the calibration: which answers of training questions were right, and by what evidence.

Every graph weighs the same, however many questions it has. The honest estimate of how good the probabilities
are comes from leaving each graph out once: what is said of its questions was learned on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.planning.confidence import FEATURES, MODEL_FEATURES, Calibration, most_probable

PRECISION = 0.9
"""What share of the answers shown as answered shall be right."""
STRENGTHS = (0.01, 0.03, 0.1, 0.3)
"""Regularisations tried (scikit-learn's C), weak ones last."""
NEAR = 1.05
"""Losses up to so many times the least are as good: of those the graphs' mean calibration error decides."""
FOLDS, BINS, LEAST = 10, 10, 40
"""Folds where there is one graph only, bins of the calibration error, and fewest answers to train on."""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a training question.

    Attributes:
        group: its graph. is_right: whether the answer was exactly right.
        features: the evidence; {} where nothing was answered.
        is_answerable: whether the graph holds an answer.
    """

    group: str
    question: str
    is_right: bool
    features: Mapping[str, float] = field(default_factory=dict)
    is_answerable: bool = True


def train(rows: Sequence[Row], provenance: Mapping[str, Any] | None = None) -> Calibration:
    """Return the calibration that rows give, with its figures by cross-validation.

    The features are those of the rows: `FEATURES`, or `MODEL_FEATURES` of answers by a language model.
    Raises `ConfigurationError` where too few questions were answered, or all alike.
    """
    answered = [row for row in rows if row.features]
    right = np.array([row.is_right for row in answered])
    if len(answered) < LEAST or min(right.sum(), (~right).sum()) < 5:
        raise ConfigurationError(
            f"{len(answered)} questions were answered, {int(right.sum())} of them rightly; a calibration "
            f"takes {LEAST} answers at least, 5 of them right and 5 wrong"
        )
    names, weights = list(answered[0].features), _weights(answered)
    by_strength = {c: cross_validated(answered, c) for c in STRENGTHS}
    losses = {c: _loss(estimates, right, weights) for c, estimates in by_strength.items()}
    near = [c for c, loss in losses.items() if loss <= NEAR * min(losses.values())]
    strength = min(near, key=lambda c: _mean_error(answered, by_strength[c]))
    estimates = by_strength[strength]
    coefficients, bias, means, scales = _fit(_table(answered), right, weights, strength, names)
    least = _least_confidence(estimates, right, weights)
    return Calibration(
        weights=_rounded(names, coefficients),
        means=_rounded(names, means),
        scales=_rounded(names, scales),
        bias=round(bias, 4),
        min_confidence=least,
        provenance={**(provenance or {}), "C": strength, "left out": figures(rows, estimates, least)},
    )


def cross_validated(rows: Sequence[Row], strength: float) -> np.ndarray:
    """Return the probability of each answer by a model that has not seen its graph (of one: its fold)."""
    table, names = _table(rows), list(rows[0].features)
    right, weights = np.array([row.is_right for row in rows]), _weights(rows)
    groups = np.array([row.group for row in rows])
    if len(set(groups)) == 1:
        groups = np.arange(len(rows)) % FOLDS
    estimates = np.zeros(len(rows))
    for group in np.unique(groups):
        inside, rest = groups == group, groups != group
        coefficients, bias, means, scales = _fit(table[rest], right[rest], weights[rest], strength, names)
        estimates[inside] = 1 / (1 + np.exp(-bias - ((table[inside] - means) / scales) @ coefficients))
    return np.minimum(estimates, [most_probable(row.features) for row in rows])


def figures(rows: Sequence[Row], estimates: np.ndarray, least: float) -> dict[str, dict[str, float]]:
    """Return the figures of each graph and of all, each graph weighing the same.

    `right` is the share of answerable questions that are answered rightly whatever the confidence, `answered`
    of those answered at `least`, `precision` the share of right ones among all answers at `least`, `refused`
    the share of unanswerable questions that get none, `ece` the expected calibration error, `aurc` the area
    under the risk-coverage curve.
    """
    by_row = dict(zip((id(row) for row in rows if row.features), estimates.tolist(), strict=True))
    result = {}
    for group in (*dict.fromkeys(row.group for row in rows), "all"):
        part = [row for row in rows if group in (row.group, "all")]
        weights = _weights(part)
        confidence = np.array([by_row.get(id(row), 0.0) for row in part])
        right, given = np.array([r.is_right for r in part]), np.array([bool(r.features) for r in part])
        answerable = np.array([r.is_answerable for r in part])
        shown = given & (confidence >= least)
        result[group] = {
            "questions": len(part),
            "right": _mean(right, weights, answerable),
            "precision": _mean(right, weights, shown),
            "answered": _mean(shown, weights, answerable),
            "refused": _mean(~shown, weights, ~answerable),
            "ece": calibration_error(confidence[given], right[given], weights[given]),
            "aurc": risk_coverage(confidence[given], right[given], weights[given]),
        }
    return result


def _mean_error(rows: Sequence[Row], estimates: np.ndarray) -> float:
    """Return the mean calibration error of the graphs, where one too sure makes up for no other."""
    groups, right = np.array([row.group for row in rows]), np.array([row.is_right for row in rows])
    parts = [groups == group for group in np.unique(groups)]
    return float(np.mean([calibration_error(estimates[p], right[p], np.ones(p.sum())) for p in parts]))


def calibration_error(confidence: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the expected calibration error over bins of equal width."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum((weights * (confidence - right))[bins == b])) for b in range(BINS)]
    return round(float(sum(gaps) / weights.sum()), 4) if len(weights) else 0.0


def risk_coverage(confidence: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the area under the risk-coverage curve: the mean share of wrong answers over all thresholds."""
    order = np.argsort(-confidence, kind="stable")
    covered = np.cumsum(weights[order])
    risk = np.cumsum((weights * ~right)[order]) / covered
    return round(float(np.sum(risk * weights[order]) / covered[-1]), 4) if len(weights) else 0.0


def _least_confidence(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest threshold above a half whose answers are right as often as `PRECISION` asks for."""
    order = np.argsort(-estimates, kind="stable")
    precision = np.cumsum((weights * right)[order]) / np.cumsum(weights[order])
    is_last = np.diff(estimates[order], append=0.0) < 0  # of those with the same estimate
    good = np.flatnonzero((precision >= PRECISION) & is_last & (estimates[order] > 0.5))
    return round(float(estimates[order][good[-1]]), 4) if len(good) else 1.0


def _weights(rows: Sequence[Row]) -> np.ndarray:
    """Return weights by which every graph counts the same, 1 on average."""
    groups = [row.group for row in rows]
    sizes = {group: groups.count(group) for group in set(groups)}
    return np.array([len(rows) / len(sizes) / sizes[group] for group in groups])


def _table(rows: Sequence[Row]) -> np.ndarray:
    """Return the features of rows, a column each in the order of the first row's."""
    return np.array([[row.features[name] for name in rows[0].features] for row in rows])


def _fit(
    table: np.ndarray, right: np.ndarray, weights: np.ndarray, strength: float, names: Sequence[str]
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Return coefficients, bias, and the means and scales of the features.

    A feature whose coefficient contradicts what is known of it (`FEATURES`) has learned the ways of one
    graph: it is left out, the worst one first.
    """
    from sklearn.linear_model import LogisticRegression

    means = np.average(table, axis=0, weights=weights)
    scales = np.sqrt(np.average((table - means) ** 2, axis=0, weights=weights))
    scales = np.where(scales > 1e-6, scales, 1.0)
    known = {**FEATURES, **MODEL_FEATURES}
    scaled, signs = (table - means) / scales, np.array([known[name][0] for name in names])
    chosen, coefficients = np.ones(len(signs), bool), np.zeros(len(signs))
    while True:
        model = LogisticRegression(C=strength, max_iter=2_000)
        model.fit(scaled[:, chosen], right, sample_weight=weights)
        coefficients[:] = 0.0
        coefficients[chosen] = model.coef_[0]
        if (coefficients * signs).min() >= 0:
            return coefficients, float(model.intercept_[0]), means, scales
        chosen[(coefficients * signs).argmin()] = False


def _loss(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean log loss."""
    chosen = np.clip(np.where(right, estimates, 1 - estimates), 1e-6, 1.0)
    return float(np.average(-np.log(chosen), weights=weights))


def _mean(values: np.ndarray, weights: np.ndarray, of: np.ndarray) -> float:
    """Return the weighted share of what holds among some; 1 of none."""
    return round(float(np.average(values[of], weights=weights[of])), 4) if of.any() else 1.0


def _rounded(names: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in zip(names, values, strict=True)}
