"""A knowledge graph as tools of an assistant, by MCP or as LangChain tools. All of them only read."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from copy import copy
from functools import partial, wraps
from inspect import getdoc
from typing import Annotated, Any, TypeAlias

from anyio import to_thread
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from triplewise.graphs import around
from triplewise.graphs.build import build_graph
from triplewise.nodes.models import wait_for
from triplewise.nodes.state import Answer, AnswerStatus
from triplewise.tools.actions.toolset import whole
from triplewise.tools.core.errors import TriplewiseError
from triplewise.tools.kg import Deadline, KnowledgeGraph
from triplewise.tools.linking.search import KINDS, Match, MatchKind, search_kg
from triplewise.tools.pyql.raw_sparql import run_query

Tool: TypeAlias = Any  # A method of `AssistantTools`
Form: TypeAlias = Callable[[BaseModel], Any]
Entity: TypeAlias = Annotated[str, Field(description="The entity's id or its name.")]


class AskResult(BaseModel):
    """An answer with the facts that prove it and its probability of being right (`confidence`).

    Only the status `answered` is to be relied on; `reason` explains others. `labels` are those of `values`.
    """

    status: AnswerStatus
    text: str
    values: tuple[str, ...]
    labels: tuple[str, ...]
    confidence: float | None
    reason: str
    sparql: str
    proof: tuple[str, ...]

    @classmethod
    def of(cls, answer: Answer) -> AskResult:
        """Return what an assistant is shown of an answer."""
        plain = {name: getattr(answer, name) for name in cls.model_fields}
        return cls.model_validate(plain | {"proof": [fact.text for fact in answer.proof]})


class SearchResult(BaseModel):
    """What a text may mean, best first of each kind; what is not `close` is merely near. See `notice` too."""

    matches: tuple[Match, ...]
    notice: str = ""


class QueryResult(BaseModel):
    """Rows of a SELECT by variable, or the `boolean` of an ASK. `notice` says what is missing."""

    variables: tuple[str, ...] = ()
    rows: tuple[dict[str, around.Named], ...] = ()
    boolean: bool | None = None
    notice: str = ""


class AssistantTools:
    """The tools over a knowledge graph, which threads may share; all but `ask` end after `query_timeout`."""

    def __init__(self, kg: Any = "demo", preset: str = "agent", **settings: Any) -> None:
        settings |= {"kg": kg, "interactive": False, "review": False}
        self.served = around.ServedGraph.open(preset, settings)
        self.graph: Any = build_graph(preset)
        self.kg, self.context, self._encoder = self.served.kg, self.served.context, self.served.encoder
        self.all = (self.ask, self.search, self.describe, self.query)
        self._deadline = Deadline(math.inf)  # for a copy that answers one call: ended with it

    def ask(self, question: Annotated[str, Field(description="In plain language.")]) -> AskResult:
        """Answer a question from the knowledge graph, with a confidence, the query, and facts that prove it.

        If the status is not `answered`, look for yourself with the other tools.
        """
        asked = self.graph.ainvoke({"question": question}, context=self.context)
        return AskResult.of(wait_for(asked, self._deadline)["answer"])

    def search(
        self,
        text: Annotated[str, Field(description="A name, or a few words.")],
        kind: Annotated[MatchKind | None, Field(description="Only these; all if left out.")] = None,
        limit: Annotated[int, Field(ge=1, le=50, description="Matches of each kind.")] = 5,
    ) -> SearchResult:
        """Find entities, classes and relations of the knowledge graph by name or by meaning."""
        kg, kinds = self._session(), (kind,) if kind else KINDS
        return SearchResult(matches=search_kg(kg, text, kinds, self._encoder, limit), notice=kg.silence)

    def describe(
        self,
        entity: Entity,
        about: Annotated[str, Field(description="Words; the relations that fit them come first.")] = "",
        values: Annotated[int, Field(ge=1, le=50, description="Values of each relation.")] = 10,
    ) -> around.EntityFacts:
        """Describe an entity: label, description, classes, and its facts by relation, in both directions."""
        return around.facts_around(self._session(), self._encoder, entity, about, values, around.DESCRIBED)

    def query(
        self,
        sparql: Annotated[str, Field(description="One SELECT or ASK; nothing that changes the graph.")],
        limit: Annotated[int, Field(ge=1, le=1_000, description="Most rows.")] = 100,
    ) -> QueryResult:
        """Run a SPARQL query. Prefixes of the graph and the usual ones need no declaration.

        `e:ID` stands for the entity or class and `r:ID` for the relation of an id that another tool gave.
        """
        rows = run_query(self._session(), sparql, timeout=self.served.settings.query_timeout, limit=limit)
        return QueryResult.model_validate(rows)

    def _session(self) -> KnowledgeGraph:
        return self.kg.session(deadline=Deadline(self.served.settings.query_timeout, self._deadline))


def cancellable(tool: Tool, kind: type[Exception], form: Form = copy) -> Callable[..., Awaitable[Any]]:
    """Return a tool `with_errors` that runs in a thread; when it is cancelled, so are its queries."""

    @wraps(tool)
    async def call(**arguments: Any) -> Any:
        own: Any = copy(tool.__self__)
        own._deadline = Deadline(math.inf)
        run = partial(with_errors(getattr(own, tool.__name__), kind, form), **arguments)
        try:
            return await to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            own._deadline.cancel()

    return call


def with_errors(tool: Tool, kind: type[Exception], form: Form = copy) -> Callable[..., Any]:
    """Return a tool with errors of another kind, arguments made `whole`, and its result in another form."""

    @wraps(tool)
    def call(**arguments: Any) -> Any:
        try:
            return form(tool(**{n: whole(v) if isinstance(v, str) else v for n, v in arguments.items()}))
        except TriplewiseError as error:
            raise kind(str(error)) from error

    return call


def tools_for(kg: Any = "demo", *, preset: str = "agent", prefix: str = "", **given: Any) -> list[BaseTool]:
    """Return LangChain tools over a knowledge graph: ask, search, describe, query.

    A tool's message is JSON, its artifact the same as an object; errors of a call are messages too. A
    `prefix` of their names tells graphs apart, e.g. `films_`; the rest is as of `ask`.
    """

    def message(result: BaseModel) -> tuple[str, BaseModel]:
        return result.model_dump_json(exclude_defaults=True), result

    return [
        StructuredTool.from_function(
            with_errors(tool, ToolException, message),
            coroutine=cancellable(tool, ToolException, message),
            name=f"{prefix}{tool.__name__}",
            description=getdoc(tool),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        for tool in AssistantTools(kg, preset, **given).all
    ]
