"""Wires self-learning (SymAgent 4.3) to a LangGraph graph of its own.

```
START → validate ─┬─→ explore → refine → merge → update → validate
                  │      └── no-refine ──→ │       └── nothing to learn from → END
                  ├── distilled ─────────→ merge
                  └── gain negligible, or iterations spent → END
```
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from triplewise.nodes.learning.config import LearningContext, LearningState
from triplewise.nodes.learning.explore import explore
from triplewise.nodes.learning.merge import merge
from triplewise.nodes.learning.refine import refine
from triplewise.nodes.learning.update import update
from triplewise.nodes.learning.validate import validate


def after_validate(
    state: LearningState, runtime: Runtime[LearningContext]
) -> Literal["explore", "merge", "__end__"]:
    """Learn on, from another model's trajectories or one's own, or stop."""
    if state.stopped:
        return "__end__"
    return "merge" if runtime.context.config.recipe == "distilled" else "explore"


def after_explore(state: LearningState, runtime: Runtime[LearningContext]) -> Literal["refine", "merge"]:
    """Refine, but in the ablation without."""
    return "merge" if runtime.context.config.recipe == "no-refine" else "refine"


def after_update(state: LearningState) -> Literal["validate", "__end__"]:
    """Validate what was learned; without anything learned, stop."""
    return "__end__" if state.stopped else "validate"


def build_self_learning(
    *, checkpointer: Any = None
) -> CompiledStateGraph[LearningState, LearningContext, Any, Any]:
    """Compile the graph of self-learning.

    Args:
        checkpointer: any LangGraph checkpointer; with one, a killed run goes on in the phase it was in, and
            inside it after the last question that is in the journal.
    """
    graph: StateGraph[LearningState, LearningContext, Any, Any] = StateGraph(
        LearningState, context_schema=LearningContext
    )
    for phase in (validate, explore, refine, merge, update):
        graph.add_node(phase.__name__, phase)
    graph.add_edge(START, "validate")
    graph.add_conditional_edges("validate", after_validate)
    graph.add_conditional_edges("explore", after_explore)
    graph.add_edge("refine", "merge")
    graph.add_edge("merge", "update")
    graph.add_conditional_edges("update", after_update)
    return graph.compile(checkpointer=checkpointer, name="self-learning")
