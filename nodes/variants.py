"""Every phase with its variants, in the order of the state machine."""

from __future__ import annotations

from collections.abc import Mapping

from triplewise.nodes import act, answer, correct, inspect, link, observe, plan, reflect, sql
from triplewise.nodes.phase import Phase

VARIANTS: Mapping[str, Mapping[str, Phase]] = {
    "link": {**link.VARIANTS, "none": sql.start},
    "plan": plan.VARIANTS,
    "observe": observe.VARIANTS,
    "act": act.VARIANTS,
    "inspect": inspect.VARIANTS,
    "correct": correct.VARIANTS,
    "reflect": reflect.VARIANTS,
    "answer": {**answer.VARIANTS, "sql": sql.answer},
}
"""Phase -> variant name -> callable `(state, runtime) -> update`."""
