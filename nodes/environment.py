"""The environment of a run: what it works with, how its phases are carried out in it, and its budgets.

An `Environment` is one value, made from the `Context` when a run begins, reached from a phase as
`environment(runtime)`, and let go of when the answer is given. What is costly to open is opened when it is
first used and shared by all runs of the process; what belongs to one run is here and nowhere else.

A phase is a callable `(state, runtime) -> update`. One that asks a language model is written once, as a
generator that yields what it asks and is sent the reply (`ModelPhase`): run plainly it waits in its thread,
run with `ainvoke` it waits without holding one.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cache, cached_property, lru_cache, update_wrapper
from inspect import iscoroutine, iscoroutinefunction
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from uuid import uuid4

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from triplewise.guidelines import Guidelines, load_guidelines
from triplewise.nodes.context import ENVIRONMENT, Context
from triplewise.nodes.state import Answer, State, Usage, Verdict, fresh_state
from triplewise.tools.actions import TOOLSETS, Toolset
from triplewise.tools.core.addresses import whole_url
from triplewise.tools.core.errors import ConfigurationError, OutOfTimeError, QueryFailedError
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.core.parts import find_part
from triplewise.tools.kg import KnowledgeGraph, Meter, load_profile, open_kg
from triplewise.tools.kg.open import open_rdflib
from triplewise.tools.kg.overlay.overlay import overlaid
from triplewise.tools.kg.overlay.store import FactFilter, FactStore, open_facts
from triplewise.tools.kg.protocol import AnswerCache, Deadline, LRUCache, Outcome
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

if TYPE_CHECKING:
    from triplewise.nodes.models import ChatModel, ModelCall, Reply
    from triplewise.nodes.prompting import Prompt
    from triplewise.tools.planning.seeds import Caps, SeedIndex
    from triplewise.tools.retrieval.documents import Documents
    from triplewise.tools.sql.database import RelationalDatabase

T = TypeVar("T")
Update: TypeAlias = dict[str, Any]
Phase: TypeAlias = Callable[[State, Runtime[Context]], Update | Awaitable[Update]]
"""What may stand for a phase: any callable of this shape, `async` or not."""
Steps: TypeAlias = Generator["ModelCall", "Reply", Update]
"""A phase that asks a model: yields each call, is sent the reply, returns the update."""

LIVE_RUNS = 256
"""Runs whose environments are held while they are worked on; beyond that the least recent ones are let go."""
THREADS = 64
"""Phases that compute or wait for a KG at the same time under `ainvoke`; waiting for a model takes none."""
GRACE = 2.0
"""Seconds at least for the answer, which shows what there is when the budget of seconds is spent."""
UNUSABLE = CUT, SILENT = "reply_cut", "reply_empty"
"""Errors of replies that the limit of tokens cut, or that hold no text; another try hardly mends that."""
REPEATED = 6
"""Times in a row that the same action ends a run: a model that wrote it so often writes nothing else."""
NO_SEEDS = "none"
"""What the setting `seeds` says where no seeds are wanted, not even those that are kept for the KG."""


class Environment:
    """What a run works with; it stays with its context. Parts are opened on first use.

    Args:
        context: the settings, those of the preset filled in.
        answers: what the KG answered in this run, to be used again; None asks every time.

    Attributes:
        meter: the queries that this run made of KGs and databases.
        facts: read from documents in this run; laid over the KG as far as they may be used.
        usage: what model calls took since the phase at work began.
        deadline: when the run's budget of seconds ends, for all that waits; cancelled with the run.
    """

    def __init__(self, context: Context, answers: AnswerCache | None = None) -> None:
        vars(context)[ENVIRONMENT] = self
        self.context, self.meter, self.deadline = context, Meter(), Deadline(math.inf)
        self.facts: tuple[ExtractedFact, ...] = ()
        self._answers = answers
        self._kg: tuple[tuple[ExtractedFact, ...], KnowledgeGraph] | None = None
        self.usage, self._queries, self._start = Usage(), 0, perf_counter()

    def begin_phase(self, state: State, least: float = 0.0) -> None:
        """Take over the facts of a run, and how many seconds are left to it: `least` of them at the least."""
        self.facts = state.facts
        self.deadline.restart(max(least, self.context.max_seconds - state.usage.seconds))
        self.usage, self._queries, self._start = Usage(), self.meter.queries, perf_counter()

    def cost(self) -> Usage:
        """Return what the phase at work took so far: model calls, KG queries, seconds."""
        queries, seconds = self.meter.queries - self._queries, perf_counter() - self._start
        return self.usage + Usage(queries=queries, seconds=seconds)

    def record(self, usage: Usage) -> None:
        """Add what a reply of a model or an embedding server used."""
        self.usage += usage

    def ask(self, call: ModelCall) -> Reply:
        """Return a model's reply, waiting for it in this thread."""
        reply = self.model.reply(call, self.deadline)
        self.record(reply.usage)
        return reply

    async def ask_async(self, call: ModelCall) -> Reply:
        """Return a model's reply, without holding a thread while waiting."""
        reply = await self.model.areply(call, self.deadline)
        self.record(reply.usage)
        return reply

    @property
    def kg(self) -> KnowledgeGraph:
        """The KG, with the facts that this run may use over it; empty beside a database.

        Raises `ConfigurationError` or `DataError` if it cannot be opened.
        """
        if self._kg is None or self._kg[0] != self.facts:
            context, base = self.context, self._opened
            usable = ("accepted",) if context.review else ("accepted", "proposed")
            hidden = {f.triple for f in self.facts if f.status not in usable}
            if context.overlay != "none" and context.db is None:
                status: tuple[FactStatus, ...] = ("accepted", "proposed")
                chosen = FactFilter(status=status if context.overlay == "proposed" else ("accepted",))
                stored = [k.fact for k in self.fact_store.facts(chosen) if k.fact.triple not in hidden]
                base = overlaid(base, stored) if stored else base
            own = [f for f in self.facts if f.triple not in hidden]
            session = base.session(
                meter=self.meter,
                answers=self._answers,
                timeout=context.query_timeout,
                limit=context.row_limit,
                deadline=self.deadline,
            )
            self._kg = self.facts, overlaid(session, own) if own else session
        return self._kg[1]

    @cached_property
    def fact_store(self) -> FactStore:
        """Where facts that were read from documents are kept for this KG."""
        return open_facts(self.context.name_of("kg"), self.context.facts)

    @cached_property
    def _opened(self) -> KnowledgeGraph:
        """The graph that all runs share."""
        if self.context.db is not None:
            from pyoxigraph import Store

            from triplewise.tools.kg.embedded import EmbeddedKG

            return EmbeddedKG(Store(), load_profile("generic"), "none")
        source, profile = self.context.kg, self.context.profile
        if isinstance(source, str | Path):
            return open_kg(source, profile=profile, connections=self.context.connections)
        if isinstance(source, KnowledgeGraph):
            return source
        if hasattr(source, "serialize") and hasattr(source, "triples"):
            return open_rdflib(source, profile)
        raise ConfigurationError(f"setting kg is a {type(source).__name__}: give a name or a graph")

    @cached_property
    def database(self) -> RelationalDatabase:
        """The relational database.

        Raises:
            ConfigurationError: no database is named, or the URL, its driver or a table is wrong.
            DataError: no such file. KGUnavailableError: the server does not answer.
        """
        if self.context.db is None:
            raise ConfigurationError(
                'no database is named; name one, e.g. Context(db="sqlite:///data.db") or --db data.db'
            )
        from triplewise.tools.sql.database import open_database

        timeout, limit = self.context.query_timeout, self.context.row_limit
        database = open_database(whole_url(self.context.db), timeout=timeout, limit=limit)
        return database.session(self.meter, timeout, limit)

    @cached_property
    def encoder(self) -> Encoder:
        """The sentence encoder."""
        return open_encoder(self.context.encoder)

    @cached_property
    def ranking_encoder(self) -> Encoder | None:
        """The encoder that ranks relations: an embedding server for `openai`, none for `none`.

        Raises `ConfigurationError` on a missing key or an address that is none.
        """
        context = self.context
        if context.ranking != "openai":
            return None if context.ranking == "none" else self.encoder
        from triplewise.nodes.embeddings import open_embeddings

        return open_embeddings(context.ranking_model, **self._server).session(self.record)

    @property
    def _server(self) -> dict[str, Any]:
        """Where models and embeddings are asked, and for how long."""
        context = self.context
        return {
            "base_url": context.base_url,
            "api_key_env": context.api_key_env,
            "prices": context.prices,
            "timeout": context.model_timeout,
            "max_retries": context.model_retries,
        }

    @cached_property
    def model(self) -> ChatModel:
        """The language model. Raises `ConfigurationError` on a bad name, or a missing package or key."""
        from triplewise.nodes.models import ChatModel, open_model

        context = self.context
        if not isinstance(context.model, str):
            return ChatModel(context.model, prices=context.prices)
        return open_model(
            context.model,
            temperature=context.temperature,
            reasoning_effort=context.reasoning_effort,
            max_tokens=context.max_reply_tokens,
            **self._server,
        )

    @cached_property
    def toolset(self) -> Toolset:
        """The actions the agent may take. Raises `ConfigurationError` on an unknown name."""
        given = self.context.toolset or "pyql"
        toolset: Toolset = find_part("toolset", given, TOOLSETS, lambda part: isinstance(part, Toolset))
        return toolset if self.context.documents is not None else toolset.without("wiki_search")

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt templates."""
        from triplewise.nodes.prompting import load_prompt

        return load_prompt(self.context.prompt or "agent")

    @cached_property
    def guidelines(self) -> Guidelines:
        """ERASER's guidelines, the user's own before the shipped ones."""
        return _load_guidelines(tuple(self.context.guidelines))

    @cached_property
    def documents(self) -> Documents | None:
        """The user's documents, where the context names some. Raises `DataError` if there are none."""
        if self.context.documents is None:
            return None
        from triplewise.tools.retrieval.documents import open_documents

        return open_documents(self.context.documents)

    @cached_property
    def caps(self) -> Caps:
        """How far mining goes."""
        from triplewise.tools.planning.seeds import Caps

        return Caps(hops=self.context.plan_hops, seed=self.context.plan_seed)

    @cached_property
    def seeds(self) -> SeedIndex | None:
        """The index of seed questions: those of a file, or those that are kept for the KG; None without any.

        Raises `DataError` if a file is missing or a line is broken.
        """
        if self.context.seeds == NO_SEEDS or self.context.db is not None:
            return None
        from triplewise.tools.planning.seeds import FOLDER

        if self.context.seeds is None and not any((f / FOLDER).is_dir() for f in self.kg.cache_dirs):
            return None
        from triplewise.tools.planning.seed_store import seeds_for

        return seeds_for(self.context.name_of("kg"), self.kg, self.context.seeds, self.caps)


_load_guidelines = lru_cache(maxsize=16)(load_guidelines)


def environment(source: Runtime[Context] | Context) -> Environment:
    """Return the environment of a run, by the runtime that a phase is given, or by its context.

    For a context that belongs to no run, one is made that asks the KG every time, and stays with the context.
    """
    context = source.context if isinstance(source, Runtime) else source
    attached: Environment | None = vars(context).get(ENVIRONMENT)
    return attached or Environment(context)


class ModelPhase:
    """A phase that asks a model, made from its generator function."""

    def __init__(self, steps: Callable[[State, Runtime[Context]], Steps]) -> None:
        self.steps = steps
        update_wrapper(self, steps)

    def __call__(self, state: State, runtime: Runtime[Context]) -> Update:
        """Run the phase, waiting in this thread."""
        steps, ask = self.steps(state, runtime), environment(runtime).ask
        try:
            call = next(steps)
            while True:
                call = steps.send(ask(call))
        except StopIteration as end:
            return cast(Update, end.value)


_live_runs: LRUCache[tuple[str, Any], Environment] = LRUCache(LIVE_RUNS)
"""The environments of the runs that are being worked on, by the run's id and LangGraph's control object.

That is another one for every invocation: two runs share nothing, and one that is resumed asks the KG anew.
"""


class PhaseNode(Runnable[State, Update]):
    """A phase as the graph runs it: under the preset's settings, its cost added to the state's usage.

    Where the run's seconds end or a query is not answered in time, the run is over: the phases that follow do
    nothing, and the answer says why.

    Args:
        place: the name of the phase in the graph; `link` begins a run and `answer` ends it, whatever was.

    Raises `ConfigurationError` when the phase returns a key the state does not have: LangGraph drops such
    keys without a word.
    """

    def __init__(self, phase: Phase, settings: Mapping[str, Any], place: str = "") -> None:
        self.phase, self.settings, self.place = phase, settings, place
        self.name = getattr(phase, "__name__", type(phase).__name__)

    def invoke(
        self,
        input: State,
        config: RunnableConfig | None = None,
        *,
        runtime: Runtime[Context] | None = None,
        **kwargs: Any,
    ) -> Update:
        """Run the phase in this thread, as `graph.invoke` does."""
        runtime, env = self._begin(input, runtime or get_runtime(Context))
        try:
            update: Any = {} if self._is_over(input) else self.phase(input, runtime)
            if iscoroutine(update):
                from triplewise.nodes.models import wait_for

                update = wait_for(update, env.deadline)
        except (OutOfTimeError, QueryFailedError) as error:
            update = self._over(env, error)
        return self._end(input, runtime, env, update)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        """Run the phase for `graph.ainvoke`; nothing that takes long runs on the event loop."""
        (runtime, env), phase = self._begin(input, get_runtime(Context)), self.phase
        try:
            if self._is_over(input):
                update: Update = {}
            elif isinstance(phase, ModelPhase):
                update = await _advance(phase.steps(input, runtime), env)
            elif iscoroutinefunction(phase) or iscoroutinefunction(type(phase).__call__):
                update = await cast(Awaitable[Update], phase(input, runtime))
            else:
                update = cast(Update, await _in_thread(phase, input, runtime))
        except (OutOfTimeError, QueryFailedError) as error:
            update = self._over(env, error)
        except asyncio.CancelledError:
            env.deadline.cancel()  # wakes the threads that wait for a KG or a model
            raise
        return self._end(input, runtime, env, update)

    def _is_over(self, state: State) -> bool:
        """Whether an earlier phase has ended the run."""
        spent = state.verdict is not None and state.verdict.status == "spent"
        return spent and self.place not in ("link", "answer")

    def _over(self, env: Environment, error: OutOfTimeError | QueryFailedError) -> Update:
        """Return the end of a run that has no time left; raise what is no matter of time."""
        note, update = f"the budget of {env.context.max_seconds:g} seconds is spent", Update()
        if isinstance(error, QueryFailedError):
            if not env.deadline.passed:
                if error.outcome != Outcome.TIMEOUT:
                    raise error
                note = str(error)
            # What the program would find is not known.
            update = {"program": "", **(fresh_state() if self.place == "link" else {})}
        if self.place == "answer":
            update["answer"] = Answer("budget_spent", text=f"Not found: {note}.", reason=note)
        return {**update, "verdict": Verdict("spent", note=note)}

    def _begin(self, state: State, runtime: Runtime[Context]) -> tuple[Runtime[Context], Environment]:
        """Return the runtime with the preset's settings, and the environment: a new one for a new run."""
        env = _live_runs.pop((state.run, runtime.control), None)
        if env is None:
            context = (runtime.context or Context()).resolved(self.settings)
            env = Environment(context, AnswerCache() if context.reuse_answers else None)
        env.begin_phase(state, GRACE if self.place == "answer" else 0.0)
        return runtime.override(context=env.context), env

    def _end(self, state: State, runtime: Runtime[Context], env: Environment, update: Update) -> Update:
        """Return the update with what the phase cost; the environment is held until the next phase."""
        if unknown := sorted(set(update) - set(State.model_fields)):
            legal = ", ".join(State.model_fields)
            raise ConfigurationError(
                f"phase {self.name} returned unknown state keys: {', '.join(unknown)}; legal keys: {legal}"
            )
        usage = update.get("usage", state.usage) + env.cost()
        if (answer := update.get("answer")) is not None:
            return {**update, "usage": usage, "answer": replace(answer, usage=usage)}
        id_ = update.get("run", state.run) or uuid4().hex
        _live_runs[id_, runtime.control] = env
        return {**update, "usage": usage, "run": id_}


async def _advance(steps: Steps, env: Environment) -> Update:
    """Run a generator to its end, with everything but the model's replies in threads of the pool."""

    def send(reply: Reply | None) -> tuple[ModelCall | None, Update]:
        try:
            return steps.send(cast(Any, reply)), {}
        except StopIteration as end:
            return None, end.value

    call, update = await _in_thread(send, None)
    while call is not None:
        call, update = await _in_thread(send, await env.ask_async(call))
    return update


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "triplewise")


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread of the pool; LangGraph's own has six of them on two cores."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool(), lambda context: context.run(function, *args), copy_context())


def spent(state: State, context: Context, failed: bool = False) -> str:
    """Return why a run has to end, in words: which budget is used up; "" while there is some left.

    `failed`: the last step has to be corrected; only then does it matter that no correction is left.
    """
    usage, last = state.usage, [step.feedback.error for step in state.steps[-2:]]
    if len(last) == 2 and set(last) <= set(UNUSABLE):
        return f"two replies in a row held no action: {state.last.feedback.message}"
    again = [step.call for step in state.steps[-REPEATED:] if step.call]
    if len(again) == REPEATED and len(set(again)) == 1:
        return f"the same action came {REPEATED} times in a row: {again[0]}"
    limits = (
        (len(state.steps), context.max_steps or 0, "steps"),
        (len(state.corrections), context.max_corrections if failed else 0, "corrections"),
        (usage.calls, context.max_model_calls, "model calls"),
        (usage.tokens, context.max_tokens, "model tokens"),
        (usage.queries, context.max_queries, "KG queries"),
        (usage.seconds, context.max_seconds, "seconds"),
    )
    over = (
        f"the budget of {limit:g} {what} is spent" for used, limit, what in limits if limit and used >= limit
    )
    return next(over, "")
