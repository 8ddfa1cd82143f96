"""A phase as a node of the graph: with the preset's settings, within the budgets, its usage added up.

A phase is a callable `(state, runtime) -> update` or `(state) -> update`, sync or `async`. `ainvoke` runs a
sync one in a thread, where it may wait for a KG or a model; hundreds of questions may wait at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from inspect import iscoroutine, iscoroutinefunction, signature
from typing import Any, TypeAlias

from anyio import CapacityLimiter, to_thread
from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime, get_runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Run, Update
from triplewise.nodes.models import wait_for
from triplewise.nodes.state import Answer, State, Verdict, Working, fresh_state
from triplewise.tools.core.errors import ConfigurationError, OutOfTimeError, QueryFailedError
from triplewise.tools.kg.protocol import Outcome

Phase: TypeAlias = Callable[..., Update | Awaitable[Update]]
"""What may stand for a phase: a callable of state and runtime, or of the state alone, `async` or not."""

GRACE = 2.0  # Seconds that `answer` has in any case, to show what was found when the time is up


class PhaseNode(Runnable[State, Update]):
    """A phase as the graph runs it; `link` begins a run, and `answer` always ends it.

    If the time of the run is up, or a query has timed out, the following phases do nothing and the answer
    gives the reason. Unknown keys in an update raise an error: LangGraph would drop them silently.
    """

    def __init__(self, phase: Phase, settings: Mapping[str, Any], place: str = "") -> None:
        self.phase, self.settings, self.place = phase, settings, place
        self.name = getattr(phase, "__name__", type(phase).__name__)
        self._is_async = iscoroutinefunction(phase) or iscoroutinefunction(type(phase).__call__)
        self._takes_runtime = _takes(phase, 2)
        if not (self._takes_runtime or _takes(phase, 1)):
            form = f"{self.name}{signature(phase)}"
            raise ConfigurationError(f"phase {form}: a phase takes (state, runtime) or (state)")

    def invoke(self, input: State, config: Any = None, *, runtime: Any = None, **kwargs: Any) -> Update:
        """Run the phase in this thread, as `graph.invoke` does."""
        state, run = self._begin(input, runtime or get_runtime(Context), config)
        try:
            update = self._call(state, run)
            if iscoroutine(update):
                update = wait_for(update, run.env.deadline)
        except (OutOfTimeError, QueryFailedError) as error:
            update = self._over(run.env, error)
        return self._end(input, run.env, update)

    async def ainvoke(self, input: State, config: Any = None, **kwargs: Any) -> Update:
        """Run the phase for `graph.ainvoke`, without blocking the event loop."""
        state, run = self._begin(input, get_runtime(Context), config)
        try:
            if self._is_async:
                update = self._call(state, run)
                update = await update if iscoroutine(update) else update
            else:
                alone = CapacityLimiter(1)  # how many questions are asked at a time is the caller's choice
                run_sync = partial(to_thread.run_sync, abandon_on_cancel=True, limiter=alone)
                update = await run_sync(self._call, state, run)
        except (OutOfTimeError, QueryFailedError) as error:
            update = self._over(run.env, error)
        except asyncio.CancelledError:
            run.env.deadline.cancel()  # wakes the threads that wait for a KG or a model
            raise
        return self._end(input, run.env, update)

    def _begin(self, state: State, runtime: Runtime[Context], config: Any) -> tuple[State, Run]:
        """Return the state, and the runtime with the environment of the run, made by its first phase."""
        env: Environment | None = getattr(state, "env", None) or getattr(runtime, "env", None)
        if env is None:
            context = runtime.context or Context()
            if not isinstance(context, Context):
                raise ConfigurationError(f"context is given as Context(kg=..., ...), got {context!r:.80}")
            # Settings in the config are read by nothing; a LangGraph server repeats the context there.
            names = {setting.name for setting in fields(Context)} - vars(context)["_given"]
            if wrong := sorted(names & (config or {}).get("configurable", {}).keys()):
                fix = f"settings are given as context=Context({wrong[0]}=...)"
                raise ConfigurationError(f'{wrong[0]} in config={{"configurable": ...}} is not read: {fix}')
            env = Environment(context.resolved(self.settings), restored=self.place != "link")
        env.begin_phase(state, GRACE if self.place == "answer" else 0.0)
        given = {f.name: getattr(runtime, f.name) for f in fields(Runtime)}
        return state.restored() if env.restored else state, Run(**{**given, "context": env.context}, env=env)

    def _call(self, state: State, run: Run) -> Any:
        """Call the phase, unless an earlier one has ended the run."""
        if state.is_spent and self.place not in ("link", "answer"):
            return {}
        return self.phase(state, run) if self._takes_runtime else self.phase(state)

    def _over(self, env: Environment, error: OutOfTimeError | QueryFailedError) -> Update:
        """Return the update that ends a run whose time is up; raise errors of other kinds again."""
        note, update = f"the budget of {env.context.max_seconds:g} seconds is spent", Update()
        if isinstance(error, QueryFailedError):
            if not env.deadline.passed:
                if error.outcome != Outcome.TIMEOUT:
                    raise error
                note = str(error)
            # A query timed out: there is no answer yet.
            update = {"program": "", **(fresh_state() if self.place == "link" else {})}
        if self.place == "answer":
            update["answer"] = Answer("budget_spent", text=f"Not found: {note}.", reason=note)
        return {**update, "verdict": Verdict("spent", note=note)}

    def _end(self, state: State, env: Environment, update: Any) -> Update:
        """Return the update with the usage of the phase, and the environment for the following phases."""
        if not isinstance(update, Mapping):
            due = "a phase returns a dictionary of the state keys that it changes, {} for none"
            raise ConfigurationError(f"phase {self.name} returned {update!r}; {due}")
        if unknown := sorted(set(update) - set(State.model_fields)):
            keys = f"{', '.join(unknown)}; legal keys: {', '.join(State.model_fields)}"
            raise ConfigurationError(f"phase {self.name} returned unknown state keys: {keys}")
        added: Update = {"usage": (usage := update.get("usage", state.usage) + env.phase_usage())}
        if (answer := update.get("answer")) is not None:
            added["answer"] = replace(answer, usage=usage)
        if isinstance(state, Working) and state.env is None:
            added["env"] = env
        return {**update, **added}


def _takes(phase: Phase, count: int) -> bool:
    """Return whether a phase can be called with `count` arguments; True if it has no signature."""
    with suppress(ValueError):
        try:
            signature(phase).bind(*[None] * count)
        except TypeError:
            return False
    return True
