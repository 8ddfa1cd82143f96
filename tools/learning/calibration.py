"""Training of the confidence: from answered questions to a `Calibration`, and its figures.

Gradient boosting of small regression trees (Friedman 2001), monotone in every feature whose direction is
known. Every figure is of graphs that were left out of training; where there is one graph only, of tenths left
out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.parsing.confidence import FEATURES, MODEL_FEATURES, Calibration, Tree

PRECISION = 0.94  # What share of the answers shown as answered shall be right: .92 and a margin
FLOOR = 0.33  # Below the floor, so few answers are right that they help nobody
TREES, DEPTH, LEAF, RATE = 80, 3, 20, 0.4
"""Trees, splits on the way to a leaf, answers of a leaf at least (of few a tenth), factor of every tree."""
FOLDS, BINS, LEAST = 10, 10, 40
"""Folds where there is one graph only, bins of the calibration error, and fewest answers to train on."""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a training question of a graph (`group`)."""

    group: str
    question: str
    is_right: bool
    features: Mapping[str, float] = field(default_factory=dict)  # {} where nothing was answered
    is_answerable: bool = True
    is_clean: bool = True  # gold answers are reliable enough to choose the threshold by
    weight: float = 1.0  # among its graph's rows


def train(rows: Sequence[Row], provenance: Mapping[str, Any] | None = None) -> Calibration:
    """Return the calibration that rows give, with its figures by cross-validation.

    The features are those of the rows: `FEATURES`, or `MODEL_FEATURES` of answers by a language model.
    Raises `ConfigurationError` where too few questions were answered, or all alike.
    """
    answered = [row for row in rows if row.features]
    right = np.array([row.is_right for row in answered])
    if len(answered) < LEAST or min(right.sum(), (~right).sum()) < 5:
        given = f"{len(answered)} questions were answered, {int(right.sum())} of them rightly"
        least_due = f"a calibration takes {LEAST} answers at least, 5 of them right and 5 wrong"
        raise ConfigurationError(f"{given}; {least_due}")
    weights, estimates = weights_of(answered), cross_validated(answered)
    clean = np.array([row.is_clean for row in answered])
    clean = clean if clean.any() else ~clean
    least = threshold(estimates[clean], right[clean], weights[clean])
    found = iter(estimates.tolist())
    confidence = np.array([next(found) if row.features else 0.0 for row in rows])
    left_out = {
        name: figures([rows[i] for i in part], confidence[part], least)
        for name in (*dict.fromkeys(row.group for row in rows), "all")
        if (part := [i for i, row in enumerate(rows) if name in (row.group, "all")])
    }
    bias, trees = _fit(answered, weights)
    lowest = min(floor(estimates, right, weights), least)
    about = {**(provenance or {}), "left out": left_out}
    return Calibration(list(answered[0].features), bias, trees, least, lowest, about)


def threshold(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest estimate above a half whose answers are right as often as `PRECISION` asks for."""
    order = np.argsort(-estimates, kind="stable")
    precision = np.cumsum((weights * right)[order]) / np.cumsum(weights[order])
    is_last = np.diff(estimates[order], append=0.0) < 0  # of those with the same estimate
    good = np.flatnonzero((precision >= PRECISION) & is_last & (estimates[order] > 0.5))
    return math.floor(estimates[order][good[-1]] * 10_000) / 10_000 if len(good) else 1.0


def floor(estimates: np.ndarray, right: np.ndarray, weights: np.ndarray) -> float:
    """Return the lowest estimate at which, by isotonic regression, `FLOOR` of the answers are right."""
    from sklearn.isotonic import IsotonicRegression

    share = IsotonicRegression(out_of_bounds="clip").fit_transform(estimates, right, sample_weight=weights)
    good = estimates[share >= FLOOR]
    return round(float(good.min() if len(good) else 1.0), 4)


def cross_validated(rows: Sequence[Row], others: Sequence[Row] | None = None) -> np.ndarray:
    """Return the probability of each others answer (of each row) by trees that have not seen its graph.

    Where the rows are of one graph, those of a tenth are by trees of the other nine.
    """
    given = rows if others is None else others
    is_one = len({row.group for row in rows}) == 1 and others is None
    names = [f"{i % FOLDS}" if is_one else row.group for i, row in enumerate(rows)]
    folds = names if others is None else [row.group for row in others]
    weights, estimates = weights_of(rows), np.zeros(len(given))
    for fold in dict.fromkeys(folds):
        kept = [i for i, name in enumerate(names) if name != fold]
        bias, trees = _fit([rows[i] for i in kept], weights[kept])
        model = Calibration((), bias, trees, 1.0)
        for i in (i for i, name in enumerate(folds) if name == fold):
            estimates[i] = model.probability(given[i].features)
    return estimates


def figures(rows: Sequence[Row], confidence: np.ndarray, least: float) -> dict[str, float]:
    """Return the figures of some questions.

    Of the answerable: `right`, answered rightly at any confidence, and `answered`, at `least`, rightly or
    not. `precision`: of all answers at `least`. `refused`: of unanswerable questions. `ece`: expected
    calibration error, `auc`: area under the ROC curve.
    """
    from sklearn.metrics import roc_auc_score

    right = np.array([row.is_right for row in rows], bool)
    given = np.array([bool(row.features) for row in rows], bool)
    answerable = np.array([row.is_answerable for row in rows], bool)
    sure, mixed = given & (confidence >= least), len(set(right[given])) > 1

    def share(values: np.ndarray, among: np.ndarray) -> float:
        return round(float(values[among].mean()), 4) if among.any() else 1.0

    return {
        "questions": len(rows),
        "answerable": int(answerable.sum()),
        "right": share(right, answerable),
        "precision": share(right, sure),
        "answered": share(sure, answerable),
        "refused": share(~sure, ~answerable),
        "ece": calibration_error(confidence[given], right[given]),
        "auc": round(float(roc_auc_score(right[given], confidence[given])), 4) if mixed else math.nan,
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the expected calibration error over bins of equal width."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum((confidence - right)[bins == b])) for b in range(BINS)]
    return round(float(sum(gaps) / max(len(right), 1)), 4)


def weights_of(rows: Sequence[Row]) -> np.ndarray:
    """Return what each row counts: n rows of a graph as the root of n in all, so that none drowns another."""
    sizes = Counter(row.group for row in rows)
    balance = np.array([sizes[row.group] ** -0.5 for row in rows])
    return np.asarray(balance / balance.mean() * np.array([row.weight for row in rows]))


def _fit(rows: Sequence[Row], weights: np.ndarray) -> tuple[float, list[Tree]]:
    """Return log odds and the trees that add to them, monotone in the features with a known direction."""
    from sklearn.tree import DecisionTreeRegressor

    names, known = list(rows[0].features), {**FEATURES, **MODEL_FEATURES}
    table = np.array([[row.features[name] for name in names] for row in rows])
    right = np.array([row.is_right for row in rows], float)
    mean = np.clip(np.average(right, weights=weights), 0.01, 0.99)
    bias = round(float(np.log(mean / (1 - mean))), 4)
    trees: list[Tree] = []
    scores, leaf = np.full(len(rows), bias), min(LEAF, len(rows) // 10)
    for _ in range(TREES):
        tree = DecisionTreeRegressor(
            max_depth=DEPTH, min_samples_leaf=leaf, monotonic_cst=[known[n] for n in names], random_state=0
        ).fit(table, right - 1 / (1 + np.exp(-scores)), sample_weight=weights)
        scores += RATE * tree.predict(table)
        trees.append(_nested(tree.tree_, names))
    return bias, trees


def _nested(tree: Any, names: Sequence[str], node: int = 0) -> Tree:
    """A tree of scikit-learn from one of its nodes on."""
    if (low := tree.children_left[node]) < 0:
        return round(RATE * float(tree.value[node][0][0]), 4)
    split = names[tree.feature[node]], round(float(tree.threshold[node]), 6)
    return (*split, _nested(tree, names, low), _nested(tree, names, tree.children_right[node]))
