"""The log-linear model that scores the parts of a query; its weights are data (`weights.yaml`).

A query is scored as conditions, answer column given the conditions, and function given both, each a softmax
over what else could stand there; its score is the product. Weights are fitted by `triplewise.evals.fit_sql`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

Features = dict[str, float]
Weights = Mapping[str, float]
PARTS = ("conditions", "answer", "function")


@lru_cache(maxsize=1)
def weights() -> Mapping[str, Weights]:
    """Part -> feature -> weight."""
    return with_priors(_read("weights.yaml"))


def with_priors(fitted: Mapping[str, Weights]) -> Mapping[str, Weights]:
    """Fitted weights with those added that are set by hand (`priors.yaml`)."""
    priors = _read("priors.yaml")
    return {part: _added(fitted[part], priors[part]) for part in PARTS}


def _added(first: Weights, second: Weights) -> Weights:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {*first, *second}}


def _read(name: str) -> Mapping[str, Weights]:
    data: dict[str, Any] = yaml.safe_load(files(__package__).joinpath(name).read_text("utf-8"))
    return {part: {name: float(w) for name, w in (data.get(part) or {}).items()} for part in PARTS}


def dot(features: Features, of: Weights) -> float:
    """The score of features; unknown ones count nothing."""
    return sum(of.get(name, 0.0) * value for name, value in features.items())


def log_softmax(scores: Sequence[float]) -> list[float]:
    """Logarithms of the shares of each score's exponential."""
    if not scores:
        return []
    top = max(scores)
    total = top + math.log(sum(math.exp(s - top) for s in scores))
    return [s - total for s in scores]
