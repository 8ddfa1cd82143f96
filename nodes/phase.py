"""What every phase shares: its signature, its bookkeeping, waiting for a model, and the budget.

A phase is a callable `(state, runtime) -> update`. One that asks a language model is written once, as a
generator that yields what it asks and is sent the reply (`ModelPhase`): run plainly it waits in its thread,
run with `ainvoke` it waits without holding one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cache, update_wrapper
from inspect import iscoroutinefunction
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import LiveRuns, environment
from triplewise.nodes.state import State, Usage
from triplewise.tools.core.errors import ConfigurationError, OutOfTimeError

if TYPE_CHECKING:
    from triplewise.nodes.models import ModelCall, Reply

T = TypeVar("T")
Update: TypeAlias = dict[str, Any]
Phase: TypeAlias = Callable[[State, Runtime[Context]], Update | Awaitable[Update]]
"""What may stand for a phase: any callable of this shape, `async` or not."""
Steps: TypeAlias = "Generator[ModelCall, Reply, Update]"
"""A phase that asks a model: yields each call, is sent the reply, returns the update."""

THREADS = 64
"""Phases that compute or wait for a KG at the same time under `ainvoke`; waiting for a model takes none."""

_runs = LiveRuns()


class ModelPhase:
    """A phase that asks a model.

    Args:
        steps: its generator function. without_model: what takes its place in a run without a model.
    """

    def __init__(
        self,
        steps: Callable[[State, Runtime[Context]], Steps],
        without_model: Callable[[State, Runtime[Context]], Update] | None = None,
    ) -> None:
        self.steps, self.without_model = steps, without_model
        update_wrapper(self, steps)

    def __call__(self, state: State, runtime: Runtime[Context]) -> Update:
        """Run the phase, waiting in this thread."""
        if self.without_model is not None and runtime.context.embedded:
            return self.without_model(state, runtime)
        return drive(self.steps(state, runtime), environment(runtime).ask)


def drive(steps: Generator[ModelCall, Reply, T], ask: Callable[[ModelCall], Reply]) -> T:
    """Run a generator to its end, asking what it yields."""
    try:
        call = next(steps)
        while True:
            call = steps.send(ask(call))
    except StopIteration as end:
        return cast(T, end.value)


class PhaseNode(Runnable[State, Update]):
    """A phase as the graph runs it: under the preset's settings, its cost added to the state's usage.

    Raises `ConfigurationError` when the phase returns a key the state does not have: LangGraph drops such
    keys without a word.
    """

    def __init__(self, phase: Phase, settings: Mapping[str, Any]) -> None:
        self.phase, self.settings = phase, settings
        self.name = getattr(phase, "__name__", type(phase).__name__)
        self._is_async = iscoroutinefunction(phase) or iscoroutinefunction(type(phase).__call__)

    def invoke(
        self,
        input: State,
        config: RunnableConfig | None = None,
        *,
        runtime: Runtime[Context] | None = None,
        **kwargs: Any,
    ) -> Update:
        """Run the phase in this thread, as `graph.invoke` does."""
        with _Run(self, input, runtime or get_runtime(Context)) as run:
            if self._is_async:
                from triplewise.nodes.models import on_loop

                coroutine: Any = self.phase(input, run.runtime)
                run.update = on_loop(coroutine).result()
            else:
                run.update = cast(Update, self._plain(run.runtime)(input, run.runtime))
        return run.result

    def _plain(self, runtime: Runtime[Context]) -> Phase:
        """Return the phase, or what takes its place without a model: one frame less to follow."""
        phase = self.phase
        if isinstance(phase, ModelPhase) and phase.without_model and runtime.context.embedded:
            return phase.without_model
        return phase

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        """Run the phase for `graph.ainvoke`; nothing that takes long runs on the event loop."""
        with _Run(self, input, get_runtime(Context)) as run:
            if self._is_async:
                run.update = await cast(Awaitable[Update], self.phase(input, run.runtime))
            elif isinstance(phase := self._plain(run.runtime), ModelPhase):
                run.update = await _drive_async(phase.steps(input, run.runtime), run)
            else:
                run.update = cast(Update, await _in_thread(phase, input, run.runtime))
        return run.result


async def _drive_async(steps: Steps, run: _Run) -> Update:
    """`drive`, with everything but the model's replies in threads of the pool."""

    def advance(reply: Reply | None) -> tuple[ModelCall | None, Update]:
        try:
            return steps.send(cast(Any, reply)), {}
        except StopIteration as end:
            return None, end.value

    run.environment.replies = {}
    try:
        call, update = await _in_thread(advance, None)
        while call is not None:
            call, update = await _in_thread(advance, await run.environment.model.areply(call))
        return update
    finally:
        run.environment.replies = None


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "triplewise")


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread of the pool; LangGraph's own has six of them on two cores."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), lambda context: context.run(function, *args), copy_context())


class _Run:
    """One phase of one run: its environment before, its update and what it cost after."""

    def __init__(self, node: PhaseNode, state: State, runtime: Runtime[Context]) -> None:
        self._node, self._state, self._given = node, state, runtime
        self.environment = _runs.environment(state.run, runtime, node.settings)
        self.environment.begin_phase(state)
        self.runtime = runtime.override(context=self.environment.context)
        self.update: Update = {}
        self.result: Update = {}

    def __enter__(self) -> Self:
        self._queries, self._start = self.environment.meter.queries, perf_counter()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        # Out of time: the phase changes nothing, and the next inspection ends the run.
        if error is not None and not isinstance(error, OutOfTimeError):
            return False
        if unknown := sorted(set(self.update) - set(State.model_fields)):
            legal = ", ".join(State.model_fields)
            raise ConfigurationError(
                f"phase {self._node.name} returned unknown state keys: {', '.join(unknown)}; "
                f"legal keys: {legal}"
            )
        queries, seconds = self.environment.meter.queries - self._queries, perf_counter() - self._start
        usage = self.update.get("usage", self._state.usage)
        usage += self.environment.usage + Usage(queries=queries, seconds=seconds)
        self.result = {**self.update, "usage": usage}
        if (answer := self.update.get("answer")) is not None:
            self.result["answer"] = replace(answer, usage=usage)
        else:
            run = self.update.get("run", self._state.run)
            self.result["run"] = _runs.keep(run, self._given, self.environment)
        return True


def spent(state: State, context: Context, failed: bool = False) -> str:
    """Return which budget is used up, in words; "" while there is some left.

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
