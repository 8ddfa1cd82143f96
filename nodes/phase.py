"""What every phase shares: its signature, its bookkeeping, and the budget."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeAlias, cast

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.facts import reading
from triplewise.nodes.state import State
from triplewise.nodes.usage import Usage, recording
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.answer_cache import Answers, reusing
from triplewise.tools.kg.protocol import metered

Update: TypeAlias = dict[str, Any]
Phase: TypeAlias = Callable[[State, Runtime[Context]], Update | Awaitable[Update]]
"""What may stand for a phase: any callable of this shape, `async` or not."""


QUESTIONS = 256
"""Questions whose answers of the KG are kept while they are worked on, the least recent ones leave first."""

_kept: OrderedDict[str, Answers] = OrderedDict()
_lock = threading.Lock()


class Node(Protocol):
    """A phase as the graph calls it, with its parameters by name."""

    def __call__(self, state: State, *, runtime: Runtime[Context]) -> Update:
        """Run the phase."""
        ...


def fill(context: Context | None, defaults: Mapping[str, Any]) -> Context:
    """The context of a run with the preset's values where the caller set none.

    A setting counts as not set while it holds its default, which is None for most that presets give.
    """
    plain = _plain()
    context = context or plain
    return replace(
        context, **{k: v for k, v in defaults.items() if getattr(context, k) in (None, getattr(plain, k))}
    )


@cache
def _plain() -> Context:
    """Every setting at its default; built once, since each phase of each step compares with it."""
    return Context()


def metered_phase(phase: Phase, defaults: Mapping[str, Any]) -> Node:
    """A phase that runs under the preset's settings and adds what it cost to the state's usage.

    An `async` phase becomes an asynchronous node, for graphs that are run with `ainvoke` or `astream`.
    Raises `ConfigurationError` when the phase returns a key the state does not have: LangGraph drops such
    keys without a word.
    """

    def run(state: State, *, runtime: Runtime[Context]) -> Update:
        settled = _settled(runtime, defaults)
        with _charged(state) as bill, reusing(_answers_of(state, settled.context)), reading(state.facts):
            bill.update = cast(Update, phase(state, settled))
        return _settle(state, bill.total(name))

    async def run_async(state: State, *, runtime: Runtime[Context]) -> Update:
        settled = _settled(runtime, defaults)
        with _charged(state) as bill, reusing(_answers_of(state, settled.context)), reading(state.facts):
            bill.update = await cast(Awaitable[Update], phase(state, settled))
        return _settle(state, bill.total(name))

    name = getattr(phase, "__name__", type(phase).__name__)
    asynchronous = iscoroutinefunction(phase) or iscoroutinefunction(type(phase).__call__)
    node: Any = run_async if asynchronous else run
    node.__name__, node.__doc__ = name, phase.__doc__
    return cast(Node, node)


def _answers_of(state: State, context: Context) -> Answers | None:
    """The KG's answers to this question so far, none yet when a run begins; None to ask every time."""
    if not context.reuse_answers:
        return None
    begins = not (state.linked or state.rules or state.steps)
    with _lock:
        answers = Answers() if begins else _kept.pop(state.question, Answers())
        _kept[state.question] = answers
        while len(_kept) > QUESTIONS:
            _kept.popitem(last=False)
        return answers


def _settle(state: State, update: Update) -> Update:
    """An update; with the answer to a question, what the KG said about it is no longer needed."""
    if update.get("answer") is not None:
        with _lock:
            _kept.pop(state.question, None)
    return update


def _settled(runtime: Runtime[Context], defaults: Mapping[str, Any]) -> Runtime[Context]:
    """The runtime with the preset's values filled in."""
    return runtime.override(context=fill(runtime.context, defaults))


@dataclass
class _Bill:
    """What one run of a phase gave and what it cost."""

    state: State
    update: Update | None = None
    cost: Usage = field(default_factory=Usage)

    def total(self, name: str) -> Update:
        """The update, with the usage so far in it and in the answer."""
        update = dict(self.update or {})
        if unknown := sorted(set(update) - set(State.model_fields)):
            legal = ", ".join(State.model_fields)
            raise ConfigurationError(
                f"phase {name} returned unknown state keys: {', '.join(unknown)}; legal keys: {legal}"
            )
        usage = update.get("usage", self.state.usage) + self.cost
        if update.get("answer") is not None:
            update["answer"] = replace(update["answer"], usage=usage)
        return {**update, "usage": usage}


@contextmanager
def _charged(state: State) -> Iterator[_Bill]:
    """Measure what happens inside: KG queries, model calls, seconds."""
    bill, start = _Bill(state), time.perf_counter()
    with metered() as queries, recording() as calls:
        yield bill
    bill.cost = Usage(queries=queries.queries, seconds=time.perf_counter() - start) + calls.total


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
