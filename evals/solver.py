"""The solver that asks the agent's state machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

from triplewise.evals.baselines import check_model
from triplewise.evals.record import Run
from triplewise.evals.systems import build_system
from triplewise.graphs import Answer, Context, State
from triplewise.graphs.trace import trace_of
from triplewise.nodes.environment import Phase, environment
from triplewise.nodes.state import Input
from triplewise.tools.core.errors import ConfigurationError, RunError

T = TypeVar("T")


def context_of(settings: Mapping[str, Any]) -> Context:
    """The context with some settings. Raises `ConfigurationError` on unknown or impossible ones."""
    known = Context.__dataclass_fields__
    if unknown := set(settings) - set(known):
        raise ConfigurationError.unknown("setting", unknown.pop(), known)
    return Context(**settings)


@solver
def agent(
    preset: str = "agent",
    settings: dict[str, Any] | None = None,
    phases: Mapping[str, str | Phase] | None = None,
) -> Solver:
    """Answers each sample's question with the compiled graph, entities of the sample's metadata given.

    The run leaves a `Run` in the sample's store. Its errors are Inspect's to handle: a task with
    `fail_on_error=False, score_on_error=True` goes on and counts the question as wrong.

    Args:
        preset: a preset of `triplewise.graphs`, or a baseline of `triplewise.evals.baselines`.
        settings: of the `Context`, as plain JSON.
        phases: phase -> variant, to swap some of the preset's; a baseline's own parameters by name.

    Raises:
        ConfigurationError: unknown preset, phase, variant or setting; a baseline without the model it needs.
    """
    graph = build_system(preset, **(phases or {}))
    context = context_of(settings or {})
    check_model(preset, context)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        start = time.perf_counter()
        question = Input(question=state.input_text, entities=dict(state.metadata.get("entities", {})))
        try:
            values: Any
            if context.embedded:
                values = await _in_thread(partial(graph.invoke, question, context=context))
            else:  # no thread waits for the model
                values = await graph.ainvoke(question, context=context)
            seconds = time.perf_counter() - start
            fields = await _in_thread(
                partial(run_fields, {"question": question.question, **values}, seconds, context)
            )
        except Exception as error:
            Run(store=state.store, reason=repr(error), seconds=time.perf_counter() - start)
            raise
        Run(store=state.store, **fields)
        text = "; ".join(fields["labels"]) or fields["reason"]
        state.output = ModelOutput.from_content(model=context.model, content=text)
        state.completed = True
        return state

    return solve


async def _in_thread(work: Callable[[], T]) -> T:
    """Run something in a thread; how many run at a time is for Inspect's `max_samples` to say."""
    return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=CapacityLimiter(1))


def run_fields(values: Mapping[str, Any], seconds: float, context: Context) -> dict[str, Any]:
    """Return what a question came to and cost, as the fields of a `Run`.

    Args:
        values: the final state. seconds: the wall-clock time. context: the settings of the run.

    Raises:
        ValueError: there is no answer.
    """
    answer: Answer | None = values.get("answer")
    if answer is None:
        raise ValueError("the graph ended without an answer")
    steps, usage, state = values.get("steps", ()), answer.usage, State.model_construct(**values)
    try:
        trace = trace_of(state, environment(context).kg)
    except RunError:  # the graph gives no labels any more, but the answer is there and counts
        trace = trace_of(state)
    return {
        "status": answer.status,
        "reason": answer.reason,
        "values": list(answer.values),
        "labels": list(answer.labels),
        "sparql": answer.sparql,
        "proof": len(answer.proof),
        "seconds": seconds,
        "queries": usage.queries,
        "steps": len(steps),
        "model_calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
        "hallucinated": usage.hallucinated,
        "corrections": [correction.guideline for correction in answer.corrections],
        "outcomes": [str(s.feedback.outcome) for s in steps],
        "errors": [s.feedback.error for s in steps],
        "rolled_back": sum(s.rolled_back for s in steps),
        "notes": [s.guideline for s in steps if s.guideline and not s.rolled_back],
        "trace_json": json.dumps(trace, ensure_ascii=False),
        "kg": "" if context.db is not None else context.kg,
        "profile": (context.db is None and context.profile) or "",
    }
