"""The solver that asks the agent's state machine, and the `Run` that each question leaves in the log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import StoreModel
from pydantic import Field

from triplewise.evals.baselines import NEED_MODEL, find_system
from triplewise.graphs import Answer, Context, State, build_graph
from triplewise.graphs.trace import trace_of
from triplewise.nodes.environment import Environment
from triplewise.nodes.phase import Phase
from triplewise.nodes.state import Input
from triplewise.tools.core.errors import RunError, TriplewiseError

CRASHED = "crashed"
# Codes of the interpreter for a reply that does not call one action of the tool set, and for a well-formed
# call at a time or on a program where it makes no sense.
INVALID = {"unknown_action", "no_action", "several_actions", "several_thoughts", "reply_cut", "reply_empty"}
NOT_OF_ARGUMENTS = {"execute_before_answer", "bad_query", "bad_program", "no_database"}


class Run(StoreModel):
    """The answer to one question and what it cost; `status` stays `crashed` until there is an answer."""

    status: str = CRASHED
    reason: str = ""
    values: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    sparql: str = ""
    proof: int = 0
    seconds: float = 0.0
    queries: int = 0
    steps: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0  # USD at list price
    corrections: list[str] = Field(default_factory=list)  # ids of guidelines, as in `notes`
    notes: list[str] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)
    rolled_back: int = 0
    trace_json: str = ""  # one text: Inspect copies and compares what a store holds at every step
    kg: str = ""
    profile: str = ""
    names: dict[str, list[str]] | None = None  # looked up by a scorer

    @property
    def crashed(self) -> bool:
        """Whether the run ended in an error."""
        return self.status == CRASHED


def error_class(run: Run, score: float) -> str:
    """Return the class of a question's error by SymAgent's section 5.5; "" if it was answered right.

    The first that fits counts, also for what a correction took back.
    """
    if run.crashed:
        return CRASHED
    if score >= 1.0:
        return ""
    if any(code in INVALID for code in run.errors):
        return "invalid_action"
    if any(code and code not in NOT_OF_ARGUMENTS for code in run.errors):
        return "argument_error"
    if run.status == "budget_spent":
        return "exceeded_steps"
    return "not_found" if run.status == "not_found" else "reasoning_error"


def context_of(settings: Mapping[str, Any]) -> Context:
    """Return the context with some settings; without `min_confidence` every answer counts as answered."""
    return Context(**{"min_confidence": 0.0, **settings})


@solver
def agent(
    preset: str = "agent",
    settings: dict[str, Any] | None = None,
    phases: Mapping[str, str | Phase] | None = None,
) -> Solver:
    """Answers each sample's question with the compiled graph, entities of the sample's metadata given.

    Leaves a `Run` in the sample's store; errors are Inspect's to handle (`score_on_error`). `phases` are
    those that are swapped. A sample with a `db` of its own is asked of that.
    Raises `ConfigurationError` on an unknown name or value, or a missing model.
    """
    graph = build_graph(find_system(preset), **(phases or {}))
    of_all = context_of(settings or {})
    if preset in NEED_MODEL:
        of_all.require_model(f"baseline {preset}")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        own = {"db": state.metadata["db"]} if "db" in state.metadata else {}
        context = context_of({**(settings or {}), **own}) if own else of_all
        question = Input(question=state.input_text, entities=dict(state.metadata.get("entities", {})))
        limit, start = CapacityLimiter(1), time.perf_counter()  # Inspect says how many run at a time
        try:
            if context.offline:
                invoke = partial(graph.invoke, question, context=context)
                values: Any = await to_thread.run_sync(invoke, abandon_on_cancel=True, limiter=limit)
            else:  # no thread waits for the model
                values = await graph.ainvoke(question, context=context)
            seconds = time.perf_counter() - start
            read = partial(_run_fields, {"question": question.question, **values}, context)
            fields = await to_thread.run_sync(read, abandon_on_cancel=True, limiter=limit)
        except Exception as error:  # of any kind: what it took is noted, and Inspect handles the error
            Run(store=state.store, reason=repr(error), seconds=time.perf_counter() - start)
            if isinstance(error, TriplewiseError):  # Inspect takes seconds to draw a traceback
                raise error.with_traceback(None) from None
            raise
        Run(store=state.store, seconds=seconds, **fields)
        text = "; ".join(fields["labels"]) or fields["reason"]
        state.output = ModelOutput.from_content(model=context.model, content=text)
        state.completed = True
        return state

    return solve


def _run_fields(values: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """What a question came to and cost, as the fields of a `Run`, from the final state."""
    answer: Answer | None = values.get("answer")
    if answer is None:
        raise ValueError("the graph ended without an answer")
    steps, usage, state = values.get("steps", ()), answer.usage, State.model_construct(**values)
    try:
        trace = trace_of(state, Environment(context).kg)
    except RunError:  # the graph gives no labels any more, but the answer is there and counts
        trace = trace_of(state)
    return {
        **{name: getattr(answer, name) for name in ("status", "reason", "sparql")},
        **{name: list(getattr(answer, name)) for name in ("values", "labels")},
        **{name: getattr(usage, name) for name in ("queries", "input_tokens", "output_tokens", "cost")},
        "model_calls": usage.calls,
        "proof": len(answer.proof),
        "steps": len(steps),
        "corrections": [correction.guideline for correction in answer.corrections],
        "errors": [step.feedback.error for step in steps],
        "rolled_back": sum(step.rolled_back for step in steps),
        "notes": [step.guideline for step in steps if step.guideline and not step.rolled_back],
        "trace_json": json.dumps(trace, ensure_ascii=False),
        "kg": "" if context.db is not None else context.kg,
        "profile": (context.db is None and context.profile) or "",
    }
