"""The phases of the agent: one module each, with its interchangeable variants.

`VARIANTS` maps phase -> variant name -> callable `(state, runtime) -> update`. Any callable of that shape
may stand in for a variant (`build_graph(reflect=my_reflect)`).
"""

from collections.abc import Mapping

from triplewise.nodes import act, answer, correct, inspect, link, observe, plan, reflect
from triplewise.nodes.phase import Phase

VARIANTS: Mapping[str, Mapping[str, Phase]] = {
    "link": link.VARIANTS,
    "plan": plan.VARIANTS,
    "observe": observe.VARIANTS,
    "act": act.VARIANTS,
    "inspect": inspect.VARIANTS,
    "correct": correct.VARIANTS,
    "reflect": reflect.VARIANTS,
    "answer": answer.VARIANTS,
}

__all__ = ["VARIANTS"]
