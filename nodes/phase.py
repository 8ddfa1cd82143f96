"""What every phase shares: its signature, its bookkeeping, and the budget."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Protocol, Self, TypeAlias, cast

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import LiveRuns
from triplewise.nodes.state import State
from triplewise.nodes.usage import Usage
from triplewise.tools.core.errors import ConfigurationError

Update: TypeAlias = dict[str, Any]
Phase: TypeAlias = Callable[[State, Runtime[Context]], Update | Awaitable[Update]]
"""What may stand for a phase: any callable of this shape, `async` or not."""


_runs = LiveRuns()


class Node(Protocol):
    """A phase as the graph calls it, with its parameters by name."""

    def __call__(self, state: State, *, runtime: Runtime[Context]) -> Update:
        """Run the phase."""
        ...


def metered_phase(phase: Phase, defaults: Mapping[str, Any]) -> Node:
    """A phase that runs under the preset's settings and adds what it cost to the state's usage.

    An `async` phase becomes an asynchronous node, for graphs that are run with `ainvoke` or `astream`.
    Raises `ConfigurationError` when the phase returns a key the state does not have: LangGraph drops such
    keys without a word.
    """

    def run(state: State, *, runtime: Runtime[Context]) -> Update:
        with _Run(name, state, runtime, defaults) as own:
            own.update = cast(Update, phase(state, own.runtime))
        return own.result

    async def run_async(state: State, *, runtime: Runtime[Context]) -> Update:
        with _Run(name, state, runtime, defaults) as own:
            own.update = await cast(Awaitable[Update], phase(state, own.runtime))
        return own.result

    name = getattr(phase, "__name__", type(phase).__name__)
    asynchronous = iscoroutinefunction(phase) or iscoroutinefunction(type(phase).__call__)
    node: Any = run_async if asynchronous else run
    node.__name__, node.__doc__ = name, phase.__doc__
    return cast(Node, node)


class _Run:
    """One phase of one run: its environment before, its update and what it cost after."""

    def __init__(
        self, name: str, state: State, runtime: Runtime[Context], defaults: Mapping[str, Any]
    ) -> None:
        self.name, self.state, self._given = name, state, runtime
        self.environment = _runs.environment(state.run, runtime, defaults)
        self.environment.facts = state.facts
        self.runtime = runtime.override(context=self.environment.context)
        self.update: Update = {}
        self.result: Update = {}

    def __enter__(self) -> Self:
        self.environment.usage = Usage()
        self._queries, self._start = self.environment.meter.queries, time.perf_counter()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            return
        if unknown := sorted(set(self.update) - set(State.model_fields)):
            legal = ", ".join(State.model_fields)
            raise ConfigurationError(
                f"phase {self.name} returned unknown state keys: {', '.join(unknown)}; legal keys: {legal}"
            )
        queries = self.environment.meter.queries - self._queries
        cost = Usage(queries=queries, seconds=time.perf_counter() - self._start)
        usage = self.update.get("usage", self.state.usage) + self.environment.usage + cost
        answer, run = self.update.get("answer"), self.update.get("run", self.state.run)
        if answer is None:
            run = _runs.keep(run, self._given, self.environment)
            self.result = {**self.update, "usage": usage, "run": run}
        else:
            self.result = {**self.update, "usage": usage, "answer": replace(answer, usage=usage)}


def spent(state: State, context: Context, failed: bool = False) -> str:
    """Which budget is used up, in words; "" while there is some left.

    `failed`: the last step has to be corrected; only then does it matter that no correction is left.
    """
    usage = state.usage
    limits = (
        (len(state.steps), context.max_steps or 0, "steps"),
        (len(state.corrections), context.max_corrections if failed else 0, "corrections"),
        (usage.calls, context.max_model_calls, "model calls"),
        (usage.input_tokens + usage.output_tokens, context.max_tokens, "model tokens"),
        (usage.queries, context.max_queries, "KG queries"),
        (usage.seconds, context.max_seconds, "seconds"),
    )
    over = (
        f"the budget of {limit:g} {what} is spent" for used, limit, what in limits if limit and used >= limit
    )
    return next(over, "")
