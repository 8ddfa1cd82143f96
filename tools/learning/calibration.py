"""Training of the confidence: from answered questions to a `Calibration`, and its figures.

A logistic regression on scaled evidence whose coefficients keep the sign that is known of each feature: what
contradicts it has learned the ways of one graph. Every figure is of questions of graphs that it was not
trained on; where there is one graph only, of tenths left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.parsing.confidence import FEATURES, MODEL_FEATURES, Calibration
from triplewise.tools.parsing.learn import balance

PRECISION = 0.92
"""What share of the answers shown as answered shall be right."""
FLOOR = 0.25
"""Below the floor, so few answers are right that they help nobody."""
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Strengths of regularisation that are tried: factors of the squared coefficients."""
FOLDS, BINS, LEAST = 10, 10, 40
"""Folds where there is one graph only, bins of the calibration error, and fewest answers to train on."""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a training question.

    Attributes:
        group: its graph. is_right: whether the answer was exactly right.
        features: the evidence; {} where nothing was answered.
        is_answerable: whether the graph holds an answer.
        is_clean: whether gold answers are reliable enough to choose the threshold by.
        weight: what it counts among the rows of its graph.
    """

    group: str
    question: str
    is_right: bool
    features: Mapping[str, float] = field(default_factory=dict)
    is_answerable: bool = True
    is_clean: bool = True
    weight: float = 1.0


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
    weights = _weights(answered)
    by_strength = {c: cross_validated(answered, c) for c in STRENGTHS}
    losses = {}
    for c, estimates in by_strength.items():
        chosen = np.clip(np.where(right, estimates, 1 - estimates), 1e-6, 1.0)
        losses[c] = np.average(-np.log(chosen), weights=weights)
    strength = min(STRENGTHS, key=losses.__getitem__)
    estimates = by_strength[strength]
    clean = np.array([row.is_clean for row in answered])
    clean = clean if clean.any() else ~clean
    least = threshold(estimates[clean], right[clean], weights[clean])
    model = _fit(answered, weights, strength)

    def rounded(values: Mapping[str, float]) -> dict[str, float]:
        return {name: round(value, 4) for name, value in values.items()}

    return Calibration(
        weights=rounded(model.weights),
        means=rounded(model.means),
        scales=rounded(model.scales),
        bias=round(model.bias, 4),
        min_confidence=least,
        floor=min(floor(estimates, right, weights), least),
        provenance={**(provenance or {}), "strength": strength, "left out": figures(rows, estimates, least)},
    )


def threshold(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest estimate above a half whose answers are right as often as `PRECISION` asks for."""
    order = np.argsort(-estimates, kind="stable")
    precision = np.cumsum((weights * right)[order]) / np.cumsum(weights[order])
    is_last = np.diff(estimates[order], append=0.0) < 0  # of those with the same estimate
    good = np.flatnonzero((precision >= PRECISION) & is_last & (estimates[order] > 0.5))
    return math.floor(estimates[order][good[-1]] * 10_000) / 10_000 if len(good) else 1.0


def floor(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the highest estimate below which fewer answers are right than `FLOOR` says."""
    order = np.argsort(estimates, kind="stable")
    precision = np.cumsum((weights * right)[order]) / np.cumsum(weights[order])
    poor = np.flatnonzero(precision < FLOOR)
    return round(float(estimates[order][poor[-1]]), 4) if len(poor) else 0.0


def cross_validated(rows: Sequence[Row], strength: float, asked: Sequence[Row] | None = None) -> np.ndarray:
    """Return the probability of each asked answer (of each row) by a model that has not seen its graph.

    Where the rows are of one graph, those of a tenth are by a model of the other nine.
    """
    given = rows if asked is None else asked
    is_one = len({row.group for row in rows}) == 1 and asked is None
    names = [f"{i % FOLDS}" if is_one else row.group for i, row in enumerate(rows)]
    folds = names if asked is None else [row.group for row in asked]
    weights, estimates = _weights(rows), np.zeros(len(given))
    for fold in dict.fromkeys(folds):
        kept = [i for i, name in enumerate(names) if name != fold]
        model = _fit([rows[i] for i in kept], weights[kept], strength)
        for i in (i for i, name in enumerate(folds) if name == fold):
            estimates[i] = model.probability(given[i].features)
    return estimates


def figures(rows: Sequence[Row], estimates: np.ndarray, least: float) -> dict[str, dict[str, float]]:
    """Return the figures of each graph and of all, each graph weighing the same.

    `right` is the share of answerable questions that are answered rightly whatever the confidence, `answered`
    of those answered at `least`, `precision` the share of right ones among all answers at `least`, `refused`
    the share of unanswerable questions that get none, `ece` the expected calibration error, `aurc` the area
    under the risk-coverage curve.
    """
    groups, right = np.array([row.group for row in rows]), np.array([row.is_right for row in rows])
    given, answerable = np.array([bool(r.features) for r in rows]), np.array([r.is_answerable for r in rows])
    confidence = np.zeros(len(rows))
    confidence[given] = estimates
    shown = given & (confidence >= least)
    result = {}

    def share(values: np.ndarray, among: np.ndarray, weights: np.ndarray) -> float:
        total = weights[among].sum()
        return round(float(weights[among & values].sum() / total), 4) if total else 1.0

    for group in (*dict.fromkeys(row.group for row in rows), "all"):
        part = (groups == group) | (group == "all")
        weights = np.zeros(len(rows))
        weights[part] = balance(groups[part].tolist(), 1.0)
        answers = confidence[part & given], right[part & given], weights[part & given]
        result[group] = {
            "questions": int(part.sum()),
            "right": share(right, answerable, weights),
            "precision": share(right, shown, weights),
            "answered": share(shown, answerable, weights),
            "refused": share(~shown, ~answerable, weights),
            "ece": calibration_error(*answers),
            "aurc": risk_coverage(*answers),
        }
    return result


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


def _weights(rows: Sequence[Row]) -> np.ndarray:
    """Return what each row counts: large graphs do not drown small ones."""
    return np.asarray(balance([row.group for row in rows]) * np.array([row.weight for row in rows]))


def _fit(rows: Sequence[Row], weights: np.ndarray, strength: float) -> Calibration:
    """Return a logistic regression on scaled features, its coefficients bounded by known signs."""
    from scipy.optimize import minimize

    names, known = list(rows[0].features), {**FEATURES, **MODEL_FEATURES}
    table = np.array([[row.features[name] for name in names] for row in rows])
    sides = np.where([row.is_right for row in rows], 1.0, -1.0)
    means = np.average(table, axis=0, weights=weights)
    scales = np.sqrt(np.average((table - means) ** 2, axis=0, weights=weights))
    scales = np.where(scales > 1e-6, scales, 1.0)
    scaled = np.column_stack([np.ones(len(table)), (table - means) / scales])
    free = np.array([0.0, *[1.0] * len(names)])

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        margins = sides * (scaled @ coefficients)
        wrong = weights * sides / (1 + np.exp(np.clip(margins, -30, 30)))
        pull = strength * free * coefficients
        return float(weights @ np.logaddexp(0, -margins) + pull @ coefficients), 2 * pull - scaled.T @ wrong

    signs = [known[name] for name in names]
    bounds = [(None, None), *((0 if s > 0 else None, 0 if s < 0 else None) for s in signs)]
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    weighed, mean, scale = (
        dict(zip(names, values, strict=True)) for values in (found[1:], means.tolist(), scales.tolist())
    )
    return Calibration(weighed, mean, scale, bias=found[0], min_confidence=0.0)
