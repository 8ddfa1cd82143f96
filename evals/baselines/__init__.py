"""Baselines: other ways to answer, as graphs over the same state, tools, knowledge graph and budgets.

Each is a LangGraph graph with the state and context of the presets, so that tasks, scorers and reports treat
all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to answer.

    Attributes:
        summary: what it does, in a line. source: the paper, section and year it follows.
        build: compiles it; its keyword parameters are the baseline's own (each with a default, `link` among
            them: the variant of the linking phase). embedded: whether it works without a language model.
    """

    summary: str
    source: str
    build: Callable[..., Any]
    embedded: bool


BASELINES: Mapping[str, Baseline] = {}
"""Name -> baseline."""
