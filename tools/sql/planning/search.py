"""Which queries are scored at all: sets of conditions, and for each an answer column and a function."""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.sql.planning.features import Scene, condition_features, set_features
from triplewise.tools.sql.planning.mentions import Mention
from triplewise.tools.sql.planning.model import Features, Weights, dot

OPTIONS = 18
"""Places that are tried as conditions, best first."""
BEAM = 80
"""Sets of conditions that are kept."""
MOST = 4
"""Conditions of a query."""

ConditionSet = tuple[Mention, ...]


def condition_sets(scene: Scene, of: Weights) -> list[tuple[ConditionSet, Features]]:
    """Sets of conditions that use no word twice, best first (the empty one among them), with features."""
    features = {mention: condition_features(scene, mention) for mention in scene.mentions}
    score = {mention: dot(found, of) for mention, found in features.items()}
    options = sorted(features, key=lambda m: -score[m])[:OPTIONS]
    beam: list[tuple[float, ConditionSet]] = [(0.0, ())]
    for option in options:
        wider = [
            (total + score[option], (*chosen, option))
            for total, chosen in beam
            if _fits(option, chosen) and _joins(scene, option, chosen)
        ]
        beam = sorted([*beam, *wider], key=lambda pair: -pair[0])[:BEAM]
        if not any(not chosen for _, chosen in beam):
            beam.append((0.0, ()))
    return [(chosen, summed(scene, chosen, features)) for _, chosen in beam]


def summed(scene: Scene, chosen: ConditionSet, features: dict[Mention, Features]) -> Features:
    """The features of a set: those of each condition added up, and its own."""
    total = set_features(scene, chosen)
    for mention in chosen:
        for name, value in features[mention].items():
            total[name] = total.get(name, 0.0) + value
    return total


def _fits(option: Mention, chosen: Sequence[Mention]) -> bool:
    if len(chosen) >= MOST or any(option.overlaps(m) for m in chosen):
        return False
    return not any(m.number == option.number and "=" in _operators(m, option) for m in chosen)


def _operators(first: Mention, second: Mention) -> set[str]:
    return {c.operator for m in (first, second) for c in m.conditions}


def _joins(scene: Scene, option: Mention, chosen: Sequence[Mention]) -> bool:
    table = scene.index.views[option.number].column.table
    return all(
        scene.index.tables.away(scene.index.views[m.number].column.table, table) is not None for m in chosen
    )
