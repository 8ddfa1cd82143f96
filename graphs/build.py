"""Wires the phases to one LangGraph state machine.

```
START → link → plan → observe → act → inspect ─┬─ error ──→ correct → act
                        ▲                      ├─ progress → reflect → observe | act
                        │                      ├─ facts to review → review → reflect
                        └──────────────────────┤
                                               └─ finished / budget spent → answer ─┬─ END
                                                    plan | END ← choose ← unsure ───┘
```
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from triplewise.graphs.presets import choose_phases, find_preset
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Phase, PhaseNode
from triplewise.nodes.review import choose, review
from triplewise.nodes.state import Input, State

RECURSION_LIMIT = 1_000
"""Node runs a question may take; the budgets of the context end it long before."""


def after_inspect(
    state: State, runtime: Runtime[Context]
) -> Literal["correct", "review", "reflect", "answer"]:
    """Error, facts that wait for a person's word, progress, or the end."""
    match state.verdict.status if state.verdict else "ok":
        case "error":
            return "correct"
        case "finished" | "spent":
            return "answer"
        case _:
            waits = runtime.context is not None and runtime.context.review and state.unreviewed
            return "review" if waits else "reflect"


def after_reflect(state: State) -> Literal["observe", "act"]:
    """Observe again only where the task-relevant entities changed."""
    return "observe" if state.focus != state.observed else "act"


def after_answer(state: State, runtime: Runtime[Context]) -> Literal["choose", "__end__"]:
    """Where a person wants to be asked and the answer is unsure, ask."""
    is_unsure = state.answer is not None and state.answer.status == "unsure"
    asks = is_unsure and runtime.context is not None and runtime.context.interactive
    return "choose" if asks else "__end__"


def after_choose(state: State) -> Literal["plan", "__end__"]:
    """Plan anew where a mention means something else now."""
    return "plan" if state.answer is None else "__end__"


def build_graph(
    preset: str = "agent",
    *,
    checkpointer: Any = None,
    context_schema: Any = Context,
    **phases: str | Phase,
) -> QuestionGraph:
    """Compile the state machine of a preset, with some phases swapped.

    Args:
        preset: a name of `PRESETS`.
        checkpointer: any LangGraph checkpointer; None for none, as `langgraph dev` wants it.
        context_schema: what makes the settings of a run from those that a server's client sends.
        **phases: phase name -> variant name, or a callable `(state, runtime) -> update`.

    Raises:
        ConfigurationError: unknown preset, phase or variant; the message lists the legal ones.
    """
    settings = find_preset(preset).settings
    # Inputs and outputs are dictionaries; their keys are those of `Input` and `State`.
    graph: StateGraph[State, Context, Any, Any] = StateGraph(
        State, context_schema=context_schema, input_schema=Input
    )
    for name, phase in choose_phases(find_preset(preset), phases).items():
        graph.add_node(name, PhaseNode(phase, settings, name))
    graph.add_node("review", PhaseNode(review, settings))
    graph.add_node("choose", PhaseNode(choose, settings))
    graph.add_edge(START, "link")
    graph.add_edge("link", "plan")
    graph.add_edge("plan", "observe")
    graph.add_edge("observe", "act")
    graph.add_edge("act", "inspect")
    graph.add_conditional_edges("inspect", after_inspect)
    graph.add_edge("correct", "act")
    graph.add_edge("review", "reflect")
    graph.add_conditional_edges("reflect", after_reflect)
    graph.add_conditional_edges("answer", after_answer)
    graph.add_conditional_edges("choose", after_choose)
    compiled = graph.compile(checkpointer=checkpointer, name=preset)
    attributes = {name: value for name, value in vars(compiled).items() if name != "__orig_class__"}
    limited: QuestionGraph = QuestionGraph(**attributes).with_config(recursion_limit=RECURSION_LIMIT)
    return limited


class QuestionGraph(CompiledStateGraph[State, Context, Any, Any]):
    """A compiled machine whose limit of node runs holds for `batch` and `abatch` too.

    They fill in LangChain's own limit of 25, which then wins over that of the graph.
    """

    def batch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        """Answer several questions in threads."""
        return super().batch(inputs, _with_limit(config), **kwargs)

    async def abatch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        """Answer several questions at a time; no thread waits for a model."""
        return await super().abatch(inputs, _with_limit(config), **kwargs)


def _with_limit(config: Any) -> Any:
    """Return one config or a list of them, with the limit where none is given."""
    if isinstance(config, list):
        return [_with_limit(c) for c in config]
    return {"recursion_limit": RECURSION_LIMIT, **(config or {})}
