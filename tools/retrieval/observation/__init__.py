"""Observation of a knowledge graph (ODA, section 2.1, Algorithm 1): what around entities fits a question.

`observe` makes the turns of update and refine; `PairRanker` finds the best of many candidates without
encoding each of them.
"""

from __future__ import annotations

from triplewise.tools.retrieval.observation.reading import Candidate
from triplewise.tools.retrieval.observation.turns import Observation, ObserveSettings, Seen, observe

__all__ = ["Candidate", "Observation", "ObserveSettings", "Seen", "observe"]
