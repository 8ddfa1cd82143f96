"""The loop that baselines share: link, then one action at a time while a budget is left, then the answer.

```
START → link → plan → check ─┬─ goes on ──────────────→ act → check
                             └─ finished, budget spent → answer → END
```

What a baseline does is its `act`: each run of it adds one step, so that budgets hold between any two calls of
a model, and the trace of a run shows what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from triplewise.evals.baselines import check_model
from triplewise.graphs.build import RECURSION_LIMIT
from triplewise.graphs.presets import PRESETS, choose_phases
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Phase, PhaseNode, Update, spent
from triplewise.nodes.plan import none
from triplewise.nodes.state import Input, State, Verdict
from triplewise.tools.core.errors import ConfigurationError

Graph = CompiledStateGraph[State, Context, Any, Any]


def build_loop(
    name: str,
    act: Phase,
    answer: Phase,
    *,
    link: str = "index",
    plan: Phase = none,
    settings: Mapping[str, Any] | None = None,
    check_context: Callable[[Context], None] = lambda context: None,
) -> Graph:
    """Compile a baseline.

    Args:
        name: of the baseline, and of the graph.
        act: one more step; a run ends with the first whose feedback is finished.
        answer: what makes the answer of the steps, finished or not.
        link: variant of the linking phase. plan: runs once before the first step.
        settings: values for what a context leaves at its defaults, as a preset has them.
        check_context: raises `ConfigurationError` where the context lacks what the baseline needs; called
            before anything else is done.

    Raises:
        ConfigurationError: unknown variant of the linking phase.
    """
    linking = choose_phases(PRESETS["agent"], {"link": link})["link"]

    def checked_link(state: State, runtime: Runtime[Context]) -> Any:
        check_context(runtime.context)
        check_model(name, runtime.context)
        return linking(state, runtime)

    graph: StateGraph[State, Context, Any, Any] = StateGraph(
        State, context_schema=Context, input_schema=Input
    )
    phases = {"link": checked_link, "plan": plan, "check": check, "act": act, "answer": answer}
    for phase, run in phases.items():
        graph.add_node(phase, PhaseNode(run, settings or {}))
    graph.add_edge(START, "link")
    graph.add_edge("link", "plan")
    graph.add_edge("plan", "check")
    graph.add_conditional_edges("check", after_check)
    graph.add_edge("act", "check")
    graph.add_edge("answer", END)
    return graph.compile(name=name).with_config(recursion_limit=RECURSION_LIMIT)


def check(state: State, runtime: Runtime[Context]) -> Update:
    """Whether the run has ended, or has used up a budget; the end goes before a spent budget."""
    if state.steps and state.last.feedback.finished:
        return {"verdict": Verdict("finished")}
    reason = spent(state, runtime.context)
    return {"verdict": Verdict("spent", note=reason) if reason else Verdict("ok")}


def after_check(state: State) -> Literal["act", "answer"]:
    """One more step, or the answer."""
    return "act" if state.verdict is not None and state.verdict.status == "ok" else "answer"


def check_number(name: str, value: object, least: int = 1) -> None:
    """Raise `ConfigurationError` where a parameter is no whole number of `least` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"{name} must be a whole number above {least - 1}, got {value!r}")
