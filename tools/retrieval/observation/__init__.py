"""Observation of a knowledge graph (ODA, section 2.1): Algorithm 1, and the ranking of many candidates."""

from __future__ import annotations

from triplewise.tools.retrieval.observation.algorithm import (
    Neighbourhood,
    Observation,
    ObserveSettings,
    ScoredFact,
    observe,
)
from triplewise.tools.retrieval.observation.preselect import PairRanker

__all__ = ["Neighbourhood", "Observation", "ObserveSettings", "PairRanker", "ScoredFact", "observe"]
