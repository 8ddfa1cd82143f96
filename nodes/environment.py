"""What one run works with: graph, encoders, model, actions, guidelines, prompt, documents and seeds.

It is one value, made from the `Context` when a run begins, reached from a phase as `environment(runtime)`,
and let go of when the answer is given. What is costly to open (a store, a model's connections) is opened when
it is first used and shared by all runs of the process; what belongs to one run (its query meter, the answers
the graph gave it, the facts it read, what its model calls cost) is here and nowhere else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.runtime import Runtime

from triplewise.guidelines import Guidelines, load_guidelines
from triplewise.nodes.context import ENVIRONMENT, Context
from triplewise.nodes.state import State, Usage
from triplewise.tools.actions import TOOLSETS, Toolset
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.kg import KnowledgeGraph, Meter, open_kg
from triplewise.tools.kg.engine import AnswerCache
from triplewise.tools.kg.open import open_rdflib
from triplewise.tools.kg.overlay.overlay import overlaid
from triplewise.tools.kg.overlay.store import FactFilter, FactStore, open_facts
from triplewise.tools.kg.unbatched import UnbatchedLabels
from triplewise.tools.retrieval.encoder import Encoder, open_encoder
from triplewise.tools.sql.nograph import NoGraph

if TYPE_CHECKING:
    from triplewise.nodes.models import ChatModel, ModelCall, Reply
    from triplewise.nodes.prompting import Prompt
    from triplewise.tools.planning.seeds import Caps, SeedIndex
    from triplewise.tools.retrieval.documents import Documents
    from triplewise.tools.sql.database import RelationalDatabase

LIVE_RUNS = 256
"""Runs whose environments are held while they are worked on; beyond that the least recent ones are let go."""

NO_SEEDS = "none"
"""What the setting `seeds` says where no seeds are wanted, not even those that are kept for the KG."""


class ModelNeeded(Exception):  # noqa: N818 - not an error: the phase asks and goes on
    """An action waits for a model's reply to `call`."""

    def __init__(self, call: ModelCall) -> None:
        super().__init__("a model has to be asked")
        self.call = call


class Environment:
    """What a run works with. Parts are opened on first use.

    Args:
        context: the settings, those of the preset filled in.
        answers: what the KG answered in this run, to be used again; None asks every time.

    Attributes:
        meter: the queries that this run made of KGs and databases.
        usage: what model calls took since the phase at work began.
        facts: read from documents in this run; laid over the KG as far as they may be used.
        replies: of the model, by the messages asked, while a phase is run without holding a thread.
    """

    def __init__(self, context: Context, answers: AnswerCache | None = None) -> None:
        self.context = context
        self.meter = Meter()
        self.usage = Usage()
        self.replies: dict[tuple[tuple[str, str], ...], Reply] | None = None
        self._answers = answers
        self._ends: float | None = None
        self._facts: tuple[ExtractedFact, ...] = ()
        self._overlaid: KnowledgeGraph | None = None

    def begin_phase(self, state: State) -> None:
        """Take over what the state says of the run: its facts, and how many seconds are left to it."""
        self.facts, self.usage = state.facts, Usage()
        self._ends = perf_counter() + self.context.max_seconds - state.usage.seconds

    def seconds_left(self) -> float | None:
        """Seconds until the run's budget ends; None outside a run."""
        return None if self._ends is None else self._ends - perf_counter()

    def ask(self, call: ModelCall) -> Reply:
        """Return a model's reply, for code that an action reaches: it cannot yield its calls as a phase does.

        Raises `ModelNeeded` where the run must not hold a thread: the phase then asks, and does it again.
        """
        if self.replies is None:
            return self.model.reply(call)
        if call.messages not in self.replies:
            raise ModelNeeded(call)
        return self.replies[call.messages]

    def record(self, usage: Usage) -> None:
        """Add what a reply of a model or an embedding server used."""
        self.usage += usage

    @property
    def facts(self) -> tuple[ExtractedFact, ...]:
        """Facts read from documents in this run."""
        return self._facts

    @facts.setter
    def facts(self, facts: Sequence[ExtractedFact]) -> None:
        if tuple(facts) != self._facts:
            self._facts, self._overlaid = tuple(facts), None

    @property
    def kg(self) -> KnowledgeGraph:
        """The KG, with the facts that this run may use over it; empty beside a database.

        Raises `ConfigurationError` or `DataError` if it cannot be opened.
        """
        if self._overlaid is None:
            usable = ("accepted",) if self.context.review else ("accepted", "proposed")
            hidden = {f.triple for f in self._facts if f.status not in usable}
            stored = [f for f in self._stored_facts if f.triple not in hidden]
            own = [f for f in self._facts if f.triple not in hidden]
            base = (overlaid(self._opened, stored) if stored else self._opened).session(
                meter=self.meter,
                answers=self._answers,
                timeout=self.context.query_timeout,
                limit=self.context.row_limit,
            )
            self._overlaid = overlaid(base, own) if own else base
        return self._overlaid

    @cached_property
    def fact_store(self) -> FactStore:
        """Where facts that were read from documents are kept for this KG."""
        return open_facts(self.context.name_of("kg"), self.context.facts)

    @property
    def _stored_facts(self) -> tuple[ExtractedFact, ...]:
        """Facts of other runs that the context asks for."""
        if self.context.overlay == "none" or self.context.db is not None:
            return ()
        path = self.fact_store.path
        files = (path, path.with_name(f"{path.name}-wal"))
        version = tuple((f.stat().st_size, f.stat().st_mtime_ns) if f.exists() else (0, 0) for f in files)
        return _read_facts(path, self.context.overlay == "proposed", version)

    @cached_property
    def _opened(self) -> KnowledgeGraph:
        """The graph that all runs share."""
        if self.context.db is not None:
            return NoGraph()
        source, profile = self.context.kg, self.context.profile
        if isinstance(source, str | Path):
            return open_kg(source, profile=profile)
        if isinstance(source, KnowledgeGraph):
            return source
        if hasattr(source, "serialize") and hasattr(source, "triples"):
            return open_rdflib(source, profile)
        raise ConfigurationError(f"setting kg is a {type(source).__name__}: give a name or a graph")

    @property
    def action_kg(self) -> KnowledgeGraph:
        """The KG as actions see it: with labels one by one where the published loop is compared with."""
        return self.kg if self.context.label_batch else UnbatchedLabels(self.kg)

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
        database = open_database(self.context.db, timeout=timeout, limit=limit)
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
        if context.ranking == "none":
            return None
        if context.ranking != "openai":
            return self.encoder
        from triplewise.nodes.embeddings import open_embeddings

        return open_embeddings(
            context.ranking_model, context.base_url, api_key_env=context.api_key_env, prices=context.prices
        ).session(self.record)

    @cached_property
    def model(self) -> ChatModel:
        """The language model. Raises `ConfigurationError` on a bad name or a missing key."""
        from triplewise.nodes.models import chat_model, open_model

        context = self.context
        if isinstance(context.model, str):
            model = open_model(
                context.model,
                base_url=context.base_url,
                api_key_env=context.api_key_env,
                temperature=context.temperature,
                max_tokens=context.max_reply_tokens,
                prices=context.prices,
            )
        else:
            model = chat_model(context.model, context.prices)
        return model.session(self.record, self.seconds_left)

    @cached_property
    def toolset(self) -> Toolset:
        """The actions the agent may take. Raises `ConfigurationError` on an unknown name."""
        name = self.context.toolset or "pyql"
        if name not in TOOLSETS:
            raise ConfigurationError.unknown("toolset", name, TOOLSETS)
        return TOOLSETS[name]

    @cached_property
    def prompt(self) -> Prompt:
        """The prompt templates."""
        from triplewise.nodes.prompting import load_prompt

        return load_prompt(self.context.prompt or "agent")

    @cached_property
    def guidelines(self) -> Guidelines:
        """ERASER's guidelines, the user's own before the shipped ones."""
        return _guidelines(tuple(self.context.guidelines))

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

        context = self.context
        return Caps(
            hops=context.plan_hops,
            samples=context.plan_samples,
            answers=context.plan_answers,
            frontier=context.plan_frontier,
            bodies=context.plan_paths,
            seed=context.plan_seed,
        )

    @cached_property
    def seeds(self) -> SeedIndex | None:
        """The index of seed questions: those of a file, or those that are kept for the KG; None without any.

        Raises `DataError` if a file is missing or a line is broken.
        """
        if self.context.seeds == NO_SEEDS or self.context.db is not None:
            return None
        from triplewise.tools.planning.seed_store import seeds_for

        return seeds_for(self.context.name_of("kg"), self.kg, self.context.seeds, self.caps)


@lru_cache(maxsize=4)
def _read_facts(path: Path, proposed: bool, _version: object) -> tuple[ExtractedFact, ...]:
    """Return the accepted facts of a store, and the proposed ones; read again when its files change."""
    status: tuple[FactStatus, ...] = ("accepted", "proposed") if proposed else ("accepted",)
    return tuple(k.fact for k in FactStore(path).facts(FactFilter(status=status)))


@lru_cache(maxsize=16)
def _guidelines(files: tuple[str, ...]) -> Guidelines:
    return load_guidelines(files)


def environment(source: Runtime[Context] | Context) -> Environment:
    """Return the environment of a run, by the runtime that a phase is given, or by its context.

    For a context that belongs to no run (a phase called as a plain function, a script), one is made that asks
    the KG every time, and stays with the context.
    """
    context = source.context if isinstance(source, Runtime) else source
    attached: Environment | None = vars(context).get(ENVIRONMENT)
    return attached or _attach(context, None)


def _attach(context: Context, answers: AnswerCache | None) -> Environment:
    vars(context)[ENVIRONMENT] = attached = Environment(context, answers)
    return attached


class LiveRuns:
    """The environments of the runs that are being worked on, at most `size` of them.

    A run is known by the id in its state and by LangGraph's control object, which is another one for every
    invocation: two runs of one question share nothing, and a run that is resumed asks the KG anew.
    """

    def __init__(self, size: int = LIVE_RUNS) -> None:
        self._size = size
        self._live: OrderedDict[tuple[str, Any], Environment] = OrderedDict()
        self._lock = Lock()

    def environment(self, run: str, runtime: Runtime[Context], settings: Mapping[str, Any]) -> Environment:
        """Return the environment of a run; made now if it begins, or is resumed.

        Args:
            run: its id, "" for one that begins. settings: of the preset.
        """
        with self._lock:
            live = self._live.pop((run, runtime.control), None)
        if live is not None:
            return live
        context = (runtime.context or Context()).resolved(settings)
        return _attach(context, AnswerCache() if context.reuse_answers else None)

    def keep(self, run: str, runtime: Runtime[Context], environment: Environment) -> str:
        """Hold the environment of a run until its next phase; returns the id of the run."""
        run = run or uuid4().hex
        with self._lock:
            self._live[run, runtime.control] = environment
            while len(self._live) > self._size:
                self._live.popitem(last=False)
        return run
