"""The environment of a run: KG, encoder, model, toolset, prompt, guidelines, and the budgets.

An `Environment` is made from the `Context` when a run begins (`nodes/phase.py`). A phase gets it from
`environment(runtime)` and passes it to the functions it calls. What is costly to open is opened on first use
and shared by all runs of the process; what belongs to one run is kept here and nowhere else.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.runtime import Runtime
from pyoxigraph import Store

from triplewise.guidelines import Guidelines, load_guidelines
from triplewise.nodes import models
from triplewise.nodes.context import Context
from triplewise.nodes.prompting import Prompt, load_prompt
from triplewise.nodes.state import State, Usage
from triplewise.tools.actions import TOOLSETS, Toolset
from triplewise.tools.core.addresses import whole_url
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.core.taught import right_answers
from triplewise.tools.federation.sources import open_sources
from triplewise.tools.kg import Deadline, KnowledgeGraph, Meter, load_profile
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import open_rdflib
from triplewise.tools.overlay.overlay import overlaid
from triplewise.tools.overlay.store import FactStore, open_facts
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.planning.examples import examples_for
from triplewise.tools.planning.seed_store import seeds_for
from triplewise.tools.planning.seeds import FOLDER, Seed, SeedIndex
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

if TYPE_CHECKING:  # slow to import
    from triplewise.tools.retrieval.documents import Documents
    from triplewise.tools.sql.database import RelationalDatabase

Update: TypeAlias = dict[str, Any]  # What a phase returns: the keys of the state that it changes
UNUSABLE = REPLY_CUT, REPLY_EMPTY = "reply_cut", "reply_empty"
"""Errors of replies that the token limit cut off, or that have no text: retrying rarely helps."""


class Environment:
    """What a run works with. Parts are opened on first use, and raise `ConfigurationError` or `DataError`.

    `usage` is that of model calls in the current phase; `deadline` ends and is cancelled with the run;
    `restored`: the run continues from a checkpoint (see `State.restored`).
    """

    def __init__(self, context: Context, restored: bool = False) -> None:
        self.context, self.meter, self.deadline = context, Meter(), Deadline(math.inf)
        self.restored, self.facts = restored, tuple[ExtractedFact, ...]()
        self.nearest = dict[Any, list[Seed]]()  # cache of the solved questions most similar to a question
        self.readings = dict[Any, tuple[Reading, ...]]()  # the same of what a question may mean
        self._kg: tuple[tuple[ExtractedFact, ...], KnowledgeGraph] | None = None
        self.usage, self._queries, self._start = Usage(), 0, perf_counter()

    def begin_phase(self, state: State, least: float = 0.0) -> None:
        """Take the facts and the seconds left from the state, at least `least`; start counting usage."""
        self.facts = state.facts
        self.deadline.restart(max(least, self.context.max_seconds - state.usage.seconds))
        self.usage, self._queries, self._start = Usage(), self.meter.queries, perf_counter()

    def phase_usage(self) -> Usage:
        """Return the usage of the current phase so far: model calls, KG queries, seconds."""
        queries, seconds = self.meter.queries - self._queries, perf_counter() - self._start
        return self.usage + Usage(queries=queries, seconds=seconds)

    def ask(self, messages: models.Messages, **request: Any) -> models.Reply:
        """Return a model's reply; see `ChatModel.reply`."""
        reply = self.model.reply(messages, self.deadline, **request)
        self.usage += reply.usage
        return reply

    @property
    def kg(self) -> KnowledgeGraph:
        """The KG, overlaid with the facts that this run may use; empty where a database is queried."""
        if self._kg is None or self._kg[0] != self.facts:
            context, base = self.context, self._opened
            usable = ("accepted",) if context.review else ("accepted", "proposed")
            hidden = {f.triple for f in self.facts if f.status not in usable}
            if context.overlay != "none" and context.db is None:
                status: tuple[FactStatus, ...] = ("accepted", "proposed")
                kept = self.fact_store.facts(*status[: 1 + (context.overlay == "proposed")])
                stored = [k.fact for k in kept if k.fact.triple not in hidden]
                base = overlaid(base, stored) if stored else base
            own = [f for f in self.facts if f.triple not in hidden]
            limits: dict[str, Any] = {"timeout": context.query_timeout, "limit": context.row_limit}
            session = base.session(meter=self.meter, remember=True, deadline=self.deadline, **limits)
            self._kg = self.facts, overlaid(session, own) if own else session
        return self._kg[1]

    @cached_property
    def fact_store(self) -> FactStore:
        """The store of facts that were read from documents for this KG."""
        return open_facts(self.context.name_of("kg"), self.context.facts)

    @cached_property
    def _opened(self) -> KnowledgeGraph:
        """The graph without facts of this run, shared by all runs."""
        source, profile = self.context.kg, self.context.profile
        if self.context.db is not None:
            return LocalKG(Store(), load_profile("generic"), "none")
        if isinstance(source, str):
            connections = self.context.connections
            return open_sources(source, profile=profile, connections=connections, deadline=self.deadline)
        if isinstance(source, KnowledgeGraph):
            return source
        if hasattr(source, "serialize") and hasattr(source, "triples"):
            return open_rdflib(source, profile)
        raise ConfigurationError(f"setting kg is a {type(source).__name__}: give a name or a graph")

    @cached_property
    def database(self) -> RelationalDatabase:
        """The relational database. Raises `KGUnavailableError` too, if its server does not answer."""
        if self.context.db is None:
            example = 'Context(db="sqlite:///data.db") or --db data.db'
            raise ConfigurationError(f"no database is named; name one, e.g. {example}")
        from triplewise.tools.sql.database import open_database

        timeout, limit = self.context.query_timeout, self.context.row_limit
        database = open_database(whole_url(self.context.db), timeout=timeout, limit=limit)
        return database.session(self.meter, timeout, limit, self.deadline)

    @cached_property
    def encoder(self) -> Encoder:
        """The sentence encoder."""
        return open_encoder(self.context.encoder)

    @cached_property
    def ranking_encoder(self) -> Encoder | None:
        """The encoder that ranks relations: an embedding server for `openai`, None for `none`."""
        if self.context.ranking != "openai":
            return None if self.context.ranking == "none" else self.encoder
        encoder = copy(models.open_embeddings(self.context))
        encoder.deadline = self.deadline
        return encoder

    @cached_property
    def model(self) -> models.ChatModel:
        """The language model."""
        return models.open_model(self.context)

    @cached_property
    def toolset(self) -> Toolset:
        """The actions the agent may take."""
        given = self.context.toolset or "pyql"
        toolset: Toolset = find_part("toolset", given, TOOLSETS, lambda part: isinstance(part, Toolset))
        return toolset if self.context.documents is not None else toolset.without("wiki_search")

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt templates."""
        return load_prompt(self.context.prompt or "agent")

    @cached_property
    def guidelines(self) -> Guidelines:
        """The guidelines of ERASER, after those of the user."""
        return _load_guidelines(tuple(self.context.guidelines))

    @cached_property
    def documents(self) -> Documents | None:
        """The documents of the setting `documents`; None without any."""
        if self.context.documents is None:
            return None
        from triplewise.tools.retrieval.documents import open_documents

        return open_documents(self.context.documents)

    @cached_property
    def examples(self) -> SeedIndex | None:
        """Solved questions to show a model: from a file, else those marked right; None without any."""
        context = self.context
        if context.examples == "none" or context.offline or context.db is not None:
            return None
        return examples_for(context.name_of("kg"), self.kg, context.examples)

    @cached_property
    def seeds(self) -> SeedIndex | None:
        """The index of seed questions: from a file, else those stored with the KG; None without any."""
        context, name = self.context, self.context.name_of("kg")
        if context.seeds == "none" or context.db is not None:
            return None
        is_kept = context.seeds is not None or any((f / FOLDER).is_dir() for f in self.kg.cache_dirs)
        if not is_kept and not right_answers(name):
            return None
        return seeds_for(name, self.kg, context.seeds, context.plan_hops)


_load_guidelines = lru_cache(maxsize=16)(load_guidelines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run(Runtime[Context]):  # type: ignore[misc]  # mypy does not see that Runtime is frozen
    """LangGraph's runtime with the environment of the run, as phases get it."""

    env: Environment


def environment(runtime: Runtime[Context]) -> Environment:
    """Return the environment of a run; a new one where a phase is called on its own, as in tests."""
    return runtime.env if isinstance(runtime, Run) else Environment(runtime.context or Context())


def spent_budget(state: State, context: Context, failed: bool = False) -> str:
    """Return which budget is spent, or ""; the one of corrections only if the last step `failed`."""
    usage, last = state.usage, [step.feedback.error for step in state.steps[-2:]]
    if len(last) == 2 and set(last) <= set(UNUSABLE):
        return f"two replies in a row held no action: {state.last.feedback.message}"
    limits = (
        (len(state.steps), context.max_steps or 0, "steps"),
        (len(state.corrections), context.max_corrections if failed else 0, "corrections"),
        (usage.calls, context.max_model_calls, "model calls"),
        (usage.tokens, context.max_tokens, "model tokens"),
        (usage.queries, context.max_queries, "KG queries"),
        (usage.seconds, context.max_seconds, "seconds"),
    )
    over = (f"{limit:g} {what}" for used, limit, what in limits if limit and used >= limit)
    return next((f"the budget of {budget} is spent" for budget in over), "")
