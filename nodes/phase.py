"""What every phase shares: its signature, its bookkeeping, and the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.state import State
from triplewise.nodes.usage import Usage, recording
from triplewise.tools.kg.base import metered

Update: TypeAlias = dict[str, Any]
Phase: TypeAlias = Callable[[State, Runtime[Context]], Update]


def fill(context: Context | None, defaults: Mapping[str, Any]) -> Context:
    """The context of a run with the preset's values where the caller set none."""
    context = context or Context()
    return replace(context, **{k: v for k, v in defaults.items() if getattr(context, k) is None})


def metered_phase(phase: Phase, defaults: Mapping[str, Any]) -> Phase:
    """A phase that runs under the preset's settings and adds what it cost to the state's usage.

    Raises KeyError if the phase returns a key the state does not have, which LangGraph would drop silently.
    """

    def run(state: State, runtime: Runtime[Context]) -> Update:
        start = time.perf_counter()
        with metered() as queries, recording() as calls:
            update = phase(state, runtime.override(context=fill(runtime.context, defaults)))
        if unknown := set(update) - set(State.model_fields):
            raise KeyError(
                f"phase {phase.__name__} returned unknown state keys: {', '.join(sorted(unknown))}"
            )
        cost = Usage(queries=queries.queries, seconds=time.perf_counter() - start) + calls.total
        usage = update.get("usage", state.usage) + cost
        if "answer" in update and update["answer"] is not None:
            update["answer"] = replace(update["answer"], usage=usage)
        return {**update, "usage": usage}

    run.__name__ = phase.__name__
    run.__doc__ = phase.__doc__
    return run


def spent(state: State, context: Context) -> str:
    """Which budget is used up, in words; "" while there is some left."""
    usage = state.usage
    limits = (
        (len(state.steps), context.max_steps or 0, "steps"),
        (len(state.corrections), context.max_corrections, "corrections"),
        (usage.calls, context.max_model_calls, "model calls"),
        (usage.input_tokens + usage.output_tokens, context.max_tokens, "model tokens"),
        (usage.queries, context.max_queries, "KG queries"),
        (usage.seconds, context.max_seconds, "seconds"),
    )
    over = (
        f"the budget of {limit:g} {what} is spent" for used, limit, what in limits if limit and used >= limit
    )
    return next(over, "")
