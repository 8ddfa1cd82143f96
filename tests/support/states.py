"""States of a run, as tests follow them from phase to phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from triplewise.nodes.state import REDUCERS, State

S = TypeVar("S", bound=State)


def after(state: S, update: Mapping[str, Any]) -> S:
    """The state after an update of a phase, as the graph would have it."""
    merged = {n: reducer(getattr(state, n), update[n]) for n, reducer in REDUCERS.items() if n in update}
    return state.model_copy(update={**update, **merged})
