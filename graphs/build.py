"""Wires the phases to one LangGraph state machine.

```
START → link → plan → observe → act → inspect ─┬─ error ───────────────────→ correct → act
                                               ├─ progress ────────────────→ reflect → observe | act
                                               ├─ facts to review → review → reflect
                                               └─ finished / budget spent ─→ answer ─┬─ END
                                                     plan | END ← choose ← unsure ───┘
```

A phase named twice is one node; `observe | act` is `observe` after a change of focus, else `act`.

QueryAgent's algorithm 1 is the loop of act, inspect and correct:

| line | here |
|---|---|
| 2 to 4: prompt of question and entities, empty reasoning memory | `link` starts the state anew |
| 5, 21 to 25: until `execute()`, or the iterations are spent | `after_inspect`, by the verdict |
| 6, 7: thought and action of the model, executed | `act` |
| 8 to 10: feedback of KB and interpreter, reasoning memory | `Step.feedback`, `reasoning_memory` |
| 11: detect and distinguish an error | `inspect` |
| 12 to 15: the guideline becomes the observation, the step leaves the memory | `correct` |
| 16 to 18: the result is the observation | `act` wrote it already |
| 20: the prompt gets the thought, action and observation | `act` writes each prompt from all steps |
| 26: return the result | `answer` |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from itertools import pairwise
from typing import Any, Literal, get_args, get_type_hints

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from triplewise.graphs.presets import Preset, choose_phases, find_preset
from triplewise.nodes.context import Context
from triplewise.nodes.converse import Conversation, Messages, read, reply
from triplewise.nodes.phase import Phase, PhaseNode
from triplewise.nodes.review import choose, review
from triplewise.nodes.state import Input, State, Working
from triplewise.tools.kg.protocol import Outcome

RECURSION_LIMIT = 1_000  # Node runs a question may take; the budgets of the context end it long before


def after_inspect(
    state: State, runtime: Runtime[Context]
) -> Literal["error", "facts to review", "progress", "finished, or budget spent"]:
    """Error, facts that wait for a person's word, progress, or the end."""
    status = state.verdict.status if state.verdict else "ok"
    if status == "error":
        return "error"
    if status in ("finished", "spent"):
        return "finished, or budget spent"
    waits = runtime.context is not None and runtime.context.review and state.unreviewed
    return "facts to review" if waits else "progress"


def after_reflect(state: State) -> Literal["new focus", "same focus"]:
    """Observe again only where the task-relevant entities changed (`relations` then does nothing)."""
    return "new focus" if state.focus != state.observed else "same focus"


def after_answer(state: State, runtime: Runtime[Context]) -> Literal["unsure", "done"]:
    """Where the answer is unsure and the run is interactive, a person chooses."""
    is_unsure = state.answer is not None and state.answer.status == "unsure"
    asks = is_unsure and runtime.context is not None and runtime.context.interactive
    return "unsure" if asks else "done"


def after_choose(state: State) -> Literal["another entity", "done"]:
    """Plan anew where a mention means something else now."""
    return "another entity" if state.answer is None else "done"


BRANCHES: dict[str, tuple[Callable[..., str], dict[Hashable, str]]] = {
    "inspect": (
        after_inspect,
        {
            "error": "correct",
            "facts to review": "review",
            "progress": "reflect",
            "finished, or budget spent": "answer",
        },
    ),
    "reflect": (after_reflect, {"new focus": "observe", "same focus": "act"}),
    "answer": (after_answer, {"unsure": "choose", "done": END}),
    "choose": (after_choose, {"another entity": "plan", "done": END}),
}
"""Phase -> (router, {label returned by the router: next node}); drawings show the labels on the edges."""


def build_graph(
    preset: str | Preset = "agent",
    *,
    checkpointer: Any = None,
    context_schema: Any = Context,
    **phases: str | Phase,
) -> QuestionGraph:
    """Compile the state machine of a preset, with some phases swapped.

    Args:
        preset: a name of `PRESETS`, `module:name` of one's own, or a `Preset`.
        checkpointer: any LangGraph checkpointer, which gives back the types of the state.
        context_schema: what makes the settings of a run from those that a server's client sends.
        **phases: phase name -> variant name, `module:name`, or a callable `(state, runtime) -> update` or
            `(state) -> update`, `async` or not.

    Raises `ConfigurationError`: an unknown preset, phase or variant, or a callable that cannot be called so.
    """
    chosen = find_preset(preset)
    # Inputs and outputs are dictionaries; their keys are those of `Input` and `State`.
    graph = StateGraph[State, Context, Any, Any](State, context_schema=context_schema, input_schema=Input)
    for name, phase in {**choose_phases(chosen, phases), "review": review, "choose": choose}.items():
        graph.add_node(name, PhaseNode(phase, chosen.settings, name), input_schema=Working)
    for start, end in pairwise((START, "link", "plan", "observe", "act", "inspect")):
        graph.add_edge(start, end)
    graph.add_edge("correct", "act")
    graph.add_edge("review", "reflect")
    for name, (router, places) in BRANCHES.items():
        graph.add_conditional_edges(name, router, places)
    name = preset if isinstance(preset, str) else "own"
    compiled: Any = graph.compile(checkpointer=with_types(checkpointer), name=name)
    # `compile` cannot return a subclass; ours overrides `batch` and `abatch`, and adds no attributes.
    compiled.__class__ = QuestionGraph
    # Streams show the state without the environment of the run.
    shown: QuestionGraph = compiled.copy({"stream_channels": compiled.output_channels})
    return shown.with_config(recursion_limit=RECURSION_LIMIT)


def build_chat(
    preset: str = "agent",
    *,
    checkpointer: Any = None,
    context_schema: type[Context] = Context,
    **phases: str | Phase,
) -> CompiledStateGraph[Conversation, Context, Any, Any]:
    """Compile a conversation, with `messages` in its state and a thread for each; as `build_graph`.

    Each message is read with those before it. A question goes to the machine; why, or the query, ends it.
    """
    graph = StateGraph[Conversation, Context, Any, Any](Conversation, context_schema, input_schema=Messages)
    graph.add_node("read", read, destinations={"ask": "a question", END: "why, show the query"})
    graph.add_node("ask", build_graph(preset, context_schema=context_schema, **phases), input_schema=Input)
    graph.add_node("reply", reply, destinations={END: "answered"})
    graph.add_edge(START, "read")
    graph.add_edge("ask", "reply")
    compiled = graph.compile(checkpointer=with_types(checkpointer, Conversation), name="chat")
    return compiled.with_config(recursion_limit=RECURSION_LIMIT)


def serializer(*states: type) -> JsonPlusSerializer:
    """Return a checkpoint serializer for our state's types, and for the `states` of a graph around ours."""
    types: set[type] = {Outcome}  # an outcome's type hint in the state is only `str`
    waiting: list[Any] = [State, *states]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and kind.__module__.startswith("triplewise.") and kind not in types:
            types.add(kind)
            waiting += get_type_hints(kind).values()
    return JsonPlusSerializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__) for kind in types])


def with_types(checkpointer: Any, *states: type) -> Any:
    """Return a checkpointer with our serializer in place of LangGraph's own, which warns of our types."""
    if type(getattr(checkpointer, "serde", None)) is JsonPlusSerializer:
        checkpointer = copy(checkpointer)
        checkpointer.serde = serializer(*states)
    return checkpointer


class QuestionGraph(CompiledStateGraph[State, Context, Any, Any]):
    """A compiled machine whose limit holds for `batch` and `abatch`, where LangChain's 25 would win."""

    def batch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        """Answer several questions in threads."""
        return super().batch(inputs, _with_limit(config), **kwargs)

    async def abatch(self, inputs: Any, config: Any = None, **kwargs: Any) -> Any:
        """Answer several questions at a time; no thread waits for a model."""
        return await super().abatch(inputs, _with_limit(config), **kwargs)


def _with_limit(config: Any) -> Any:
    if isinstance(config, list):
        return [_with_limit(c) for c in config]
    return {"recursion_limit": RECURSION_LIMIT, **(config or {})}
