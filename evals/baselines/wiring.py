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
from contextlib import ExitStack
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from triplewise.evals.baselines import without_model
from triplewise.graphs.build import RECURSION_LIMIT
from triplewise.graphs.presets import PRESETS, choose_phases
from triplewise.nodes.context import Context
from triplewise.nodes.phase import Phase, Update, metered_phase, spent
from triplewise.nodes.plan import none
from triplewise.nodes.prompting import Prompt, load_prompt
from triplewise.nodes.state import Input, State, Verdict

Graph = CompiledStateGraph[State, Context, Any, Any]
Need = Callable[[Context], None]
"""Raises `ConfigurationError` where a context lacks what a baseline needs."""

_kept = ExitStack()
"""Holds files of the package where they lie in an archive, as long as the process lasts."""


def wire(
    name: str,
    act: Phase,
    answer: Phase,
    *,
    link: str = "index",
    plan: Phase = none,
    settings: Mapping[str, Any] | None = None,
    need: Need | None = None,
) -> Graph:
    """Compile a baseline.

    Args:
        name: of the baseline, and of the graph.
        act: one more step; a run ends with the first whose feedback is finished.
        answer: what makes the answer of the steps, finished or not.
        link: variant of the linking phase. plan: runs once before the first step.
        settings: values for what a context leaves at its defaults, as a preset has them.
        need: checks the context before anything else is done.

    Raises:
        ConfigurationError: unknown variant of the linking phase.
    """
    given = settings or {}
    linking = choose_phases(PRESETS["agent"], {"link": link})["link"]
    graph: StateGraph[State, Context, Any, Any] = StateGraph(
        State, context_schema=Context, input_schema=Input
    )
    graph.add_node("link", metered_phase(_checked(linking, need), given))
    for phase, run in (("plan", plan), ("check", check), ("act", act), ("answer", answer)):
        graph.add_node(phase, metered_phase(run, given))
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


def _checked(linking: Phase, need: Need | None) -> Phase:
    """The linking phase, preceded by a look at the context."""

    def link(state: State, runtime: Runtime[Context]) -> Any:
        if need is not None:
            need(runtime.context)
        return linking(state, runtime)

    return link


def needs_model(baseline: str) -> Need:
    """The need of a language model."""

    def check_model(context: Context) -> None:
        if context.embedded:
            raise without_model(baseline)

    return check_model


@lru_cache(maxsize=16)
def own_prompt_path(name: str) -> str:
    """The path of a prompt of this package, `prompts_NAME.yaml`, as the setting `prompt` takes it."""
    return str(_kept.enter_context(as_file(files(__package__ or "") / f"prompts_{name}.yaml")))


def own_prompt(name: str, context: Context | None = None) -> Prompt:
    """The prompt of a run: the file that its context names, else `prompts_NAME.yaml` of this package."""
    given = context.prompt if context is not None else None
    return load_prompt(given or own_prompt_path(name))
