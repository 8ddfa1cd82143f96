"""A knowledge graph as tools of an assistant: ask, search, describe, relations, paths, query. All only read.

One implementation serves `triplewise serve mcp` and, as LangChain tools, agents of one's own:

>>> import triplewise
>>> [tool.name for tool in triplewise.tools_for("demo")]
['ask', 'search', 'describe', 'relations', 'paths', 'query']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import Annotated, Any, TypeAlias
from typing import Literal as OneOf

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from triplewise.graphs.build import build_graph
from triplewise.graphs.presets import find_preset
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import Answer, AnswerStatus
from triplewise.tools.actions.terms import triple_lines
from triplewise.tools.core.errors import TriplewiseError
from triplewise.tools.core.terms import IRI, Literal, whole_number
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.kg.vocabulary import node_descriptions, node_labels, relation_texts, triple_labels
from triplewise.tools.linking.linker import link
from triplewise.tools.linking.search import KINDS, Match, MatchKind, node_types, search_kg
from triplewise.tools.pyql.raw_sparql import run_query
from triplewise.tools.pyql.text import read_iri
from triplewise.tools.retrieval.surroundings import closest_relations, facts_by_relation

DESCRIBED = 30
"""Relations that a description has at most."""
COUNT_SECONDS = 5.0
"""Seconds that counting the facts of an entity may take; then its relations are listed without."""

Side: TypeAlias = tuple[IRI, bool]
"""A relation of an entity, and whether it leaves it."""
Entity: TypeAlias = Annotated[str, Field(description="The entity's id or its name.")]


class Named(BaseModel):
    """An entity, relation or literal. The id of a literal is its value."""

    id: str
    label: str


class LinkedNode(Named):
    """The entity that a name was taken for. `others` are called so too."""

    description: str = ""
    types: tuple[str, ...] = ()
    others: tuple[Named, ...] = ()


class RelationFacts(Named):
    """A relation that leaves the entity (`out`) or arrives at it (`in`), with some of its values."""

    direction: OneOf["out", "in"]
    count: int | None = Field(None, description="Its facts about the entity; null if they are too many.")
    values: tuple[Named, ...] = ()


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
    """What a text may mean, best first within each kind. What is not `close` is merely the nearest."""

    matches: tuple[Match, ...]


class EntityFacts(BaseModel):
    """Relations of an entity. `notice` says what was left out."""

    entity: LinkedNode
    relations: tuple[RelationFacts, ...]
    notice: str = ""


class PathsResult(BaseModel):
    """Paths of facts between two entities, shortest first. `notice` says if there may be more."""

    source: LinkedNode
    target: LinkedNode
    paths: tuple[tuple[str, ...], ...]
    notice: str = ""


class QueryResult(BaseModel):
    """Rows of a SELECT by variable, or the `boolean` of an ASK. `notice` says if rows were cut off."""

    variables: tuple[str, ...] = ()
    rows: tuple[dict[str, Named], ...] = ()
    boolean: bool | None = None
    notice: str = ""


class AssistantTools:
    """The tools over one knowledge graph; threads may share them. Arguments and errors are those of `ask`.

    A call of any tool but `ask` takes `query_timeout` seconds at most.
    """

    def __init__(self, kg: Any = "demo", preset: str = "agent", **settings: Any) -> None:
        self.context = Context(**{**settings, "kg": kg, "interactive": False, "review": False})
        self.graph: Any = build_graph(preset)
        opened = Environment(self.context.resolved(find_preset(preset).settings))
        self.kg, self._encoder, self._seconds = opened.kg, opened.encoder, opened.context.query_timeout
        self.all = (self.ask, self.search, self.describe, self.relations, self.paths, self.query)

    def ask(self, question: Annotated[str, Field(description="In plain language.")]) -> AskResult:
        """Answer a question from the knowledge graph, with a confidence, the query, and facts that prove it.

        If the status is not `answered`, look for yourself with the other tools.
        """
        return AskResult.of(self.graph.invoke({"question": question}, context=self.context)["answer"])

    def search(
        self,
        text: Annotated[str, Field(description="A name, or a few words.")],
        kind: Annotated[MatchKind | None, Field(description="Only these; all if left out.")] = None,
        limit: Annotated[int, Field(ge=1, le=50, description="Matches of each kind.")] = 5,
    ) -> SearchResult:
        """Find entities, classes and relations of the knowledge graph by name or by meaning."""
        kinds = (kind,) if kind else KINDS
        return SearchResult(matches=search_kg(self._session(), text, kinds, self._encoder, limit))

    def describe(
        self,
        entity: Entity,
        about: Annotated[str, Field(description="Words; the relations that fit them come first.")] = "",
        values: Annotated[int, Field(ge=1, le=50, description="Values of each relation.")] = 10,
    ) -> EntityFacts:
        """Describe an entity: label, description, classes, and its facts by relation, in both directions."""
        return self._around(entity, about, values, DESCRIBED)

    def relations(self, entity: Entity) -> EntityFacts:
        """List all relations of an entity in both directions, with the number of its facts by each."""
        return self._around(entity)

    def paths(
        self,
        source: Entity,
        target: Entity,
        hops: Annotated[int, Field(ge=1, le=4, description="Longest path, in facts.")] = 3,
        limit: Annotated[int, Field(ge=1, le=100, description="Most paths.")] = 10,
    ) -> PathsResult:
        """Find how two entities are connected: the paths of facts between them, shortest first."""
        kg = self._session()
        (start, linked_source), (end, linked_target) = _link(kg, source), _link(kg, target)
        result = kg.paths(start, end, hops, limit=limit)
        triples = [hop.triple for path in result.paths for hop in path]
        lines = iter(triple_lines(kg, triples, len(triples)))
        paths = tuple(tuple(next(lines) for _ in path) for path in result.paths)
        return PathsResult(source=linked_source, target=linked_target, paths=paths, notice=result.message)

    def query(
        self,
        sparql: Annotated[str, Field(description="One SELECT or ASK; nothing that changes the graph.")],
        limit: Annotated[int, Field(ge=1, le=1_000, description="Most rows.")] = 100,
    ) -> QueryResult:
        """Run a SPARQL query. Prefixes of the graph and the usual ones need no declaration.

        `e:ID` stands for the entity or class and `r:ID` for the relation of an id that another tool gave.
        """
        rows = run_query(self._session(), sparql, timeout=self._seconds, limit=limit)
        return QueryResult.model_validate(rows)

    def _session(self) -> KnowledgeGraph:
        return self.kg.session(deadline=Deadline(self._seconds))

    def _around(self, entity: str, about: str = "", values: int = 0, most: int | None = None) -> EntityFacts:
        """Return some relations of an entity, all for None, with some values of each."""
        kg = self._session()
        node, linked = _link(kg, entity)
        counts = _relation_counts(kg, node)
        sides = list(counts)[:most]
        if about:
            sides = closest_relations(kg, about, list(counts), self._encoder, DESCRIBED)
        facts = facts_by_relation(kg, node, sides, values) if sides and values else []
        # What an entity is called; a mediator, by what it holds.
        names: dict[Side, dict[str, list[str]]] = {side: {} for side in sides}
        labels = triple_labels(kg, [fact.triple for fact in facts], exact=False)
        for fact, (subject, relation, obj) in zip(facts, labels, strict=True):
            hop = fact.through or fact.triple
            out = hop.subject == node
            end, name = (hop.object, obj) if out else (hop.subject, subject)
            id = end.value if isinstance(end, Literal) else kg.profile.short(end)
            name = f"{relation}: {obj}" if fact.through else name
            names[hop.relation, out].setdefault(id, []).append(name)
        ids, relations = {side: kg.profile.short(side[0]) for side in sides}, []
        texts = relation_texts(kg, list(ids.values()))
        for side, ends in names.items():
            shown = [Named(id=end, label="; ".join(parts)) for end, parts in ends.items()]
            about_it: dict[str, Any] = {
                "id": ids[side],
                "label": texts[ids[side]].label,
                "count": counts[side],
            }
            relations.append(about_it | {"direction": "out" if side[1] else "in", "values": shown})
        left = len(counts) - len(sides)
        notice = f"{left} more relations: say what it is `about`, or call `relations`" if left else ""
        return EntityFacts.model_validate({"entity": linked, "relations": relations, "notice": notice})


def _link(kg: KnowledgeGraph, text: str) -> tuple[IRI, LinkedNode]:
    """Return the entity of an id or a name. Raises `ConfigurationError` if there is none."""
    node, others = read_iri(text, kg.profile), list[Named]()
    exists = "ASK {{ {{ {0} ?p ?o }} UNION {{ ?s ?q {0} }} }}"
    if node is None or not kg.query(exists.format(node.n3())).boolean:
        (linked,) = link(text, kg, {text: None})
        node = read_iri(linked.id, kg.profile)
        assert node is not None, "what is linked by its name is no literal"
        others = [Named(id=c.id, label=c.label) for c in linked.candidates if c.id != linked.id]
    return node, LinkedNode(
        id=kg.profile.short(node),
        label=node_labels(kg, [node])[node],
        description=node_descriptions(kg, [node]).get(node, ""),
        types=node_types(kg, [node]).get(node, ()),
        others=tuple(others),
    )


def _relation_counts(kg: KnowledgeGraph, node: IRI) -> dict[Side, int | None]:
    """Return how many facts an entity has by each relation, outgoing ones first; None if unknown."""
    n = node.n3()
    result = kg.query(
        f"SELECT ?p ?out (COUNT(*) AS ?n) WHERE {{ {{ {n} ?p ?x BIND(1 AS ?out) }} UNION "
        f"{{ ?x ?p {n} BIND(0 AS ?out) }} }} GROUP BY ?p ?out ORDER BY DESC(?out) ?p",
        timeout=min(COUNT_SECONDS, kg.timeout),
    )
    if not result.outcome.ok:
        around = kg.relations(node)
        return dict.fromkeys([*((r, True) for r in around.forward), *((r, False) for r in around.backward)])
    return {
        (relation, whole_number(out) == 1): whole_number(number)
        for relation, out, number in result.rows
        if isinstance(relation, IRI) and not kg.profile.excludes(relation)
    }


def with_errors(
    tool: Callable[..., BaseModel],
    kind: type[Exception],
    form: Callable[[BaseModel], Any] = lambda result: result,
) -> Callable[..., Any]:
    """Return a tool whose errors are of another kind, in their own words, and its result in another form."""

    @wraps(tool)
    def call(**arguments: Any) -> Any:
        try:
            return form(tool(**arguments))
        except TriplewiseError as error:
            raise kind(str(error)) from error

    return call


def tools_for(
    kg: Any = "demo", *, preset: str = "agent", prefix: str = "", **settings: Any
) -> list[BaseTool]:
    """Return LangChain tools over a knowledge graph: ask, search, describe, relations, paths, query.

    A tool's message is JSON, its artifact the same as an object. Errors of a call are messages too.

    Args:
        prefix: of the tools' names, e.g. `films_`, for an agent with several graphs.
        kg, preset, settings, and what is raised: as of `ask`.
    """
    return [
        StructuredTool.from_function(
            with_errors(tool, ToolException, lambda r: (r.model_dump_json(exclude_defaults=True), r)),
            name=f"{prefix}{tool.__name__}",
            description=getdoc(tool),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        for tool in AssistantTools(kg, preset, **settings).all
    ]
