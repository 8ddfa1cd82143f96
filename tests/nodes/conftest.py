"""A small graph, and phases called as plain functions on states made for them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State
from triplewise.nodes.environment import Environment, Update
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.reading import Reading

GRAPH = Path(__file__).parent.parent / "cases" / "oda" / "graph.ttl"
WILD, FANG, GOETHE = "Q476871", "Q844836", "Q5879"


@pytest.fixture
def context() -> Context:
    """A run on the graph of ODA's case studies."""
    return Context(kg=str(GRAPH), profile="wikidata", toolset="pyql", prompt="agent", max_steps=40)


@pytest.fixture
def runtime(context: Context) -> Runtime[Context]:
    return Runtime(context=context)


@pytest.fixture
def kg(context: Context) -> KnowledgeGraph:
    return Environment(context).kg


@pytest.fixture
def triple() -> Callable[[str, str, str], Triple]:
    """Facts by short ids: `triple("Q476871", "P840", "Q16")`."""

    def make(subject: str, relation: str, object_: str) -> Triple:
        entity, direct = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
        return Triple(IRI(entity + subject), IRI(direct + relation), IRI(entity + object_))

    return make


def linked(*ids: str) -> tuple[LinkedEntity, ...]:
    """Entities as a caller gives them."""
    return tuple(LinkedEntity(i, -1, -1, i, i, 1.0) for i in ids)


def reading(*lines: str, **values: Any) -> Reading:
    """A reading by hand: the lines of its program."""
    given: dict[str, Any] = {"text": " and ".join(lines), "score": 0.0, "confidence": 0.0}
    return Reading("\n".join(lines), **{**given, "provenance": "by hand", **values})


def chain(anchor: str, *relations: str, **values: Any) -> Reading:
    """A reading of forward relations from a node; `^P1` walks one backward."""
    nodes = [anchor, *(f"?x{i}" for i in range(1, len(relations) + 1))]
    steps = zip(relations, pairwise(nodes), strict=True)
    facts = [(end, r[1:], start) if r.startswith("^") else (start, r, end) for r, (start, end) in steps]
    lines = [f"add_fact({', '.join(fact)})" for fact in facts]
    return reading(*lines, f"set_answer({nodes[-1]})", **values)


def planned(*readings: Reading) -> Callable[[State, Runtime[Context]], Update]:
    """A plan phase that gives some readings."""

    def plan(state: State, runtime: Runtime[Context]) -> Update:
        return {"readings": readings}

    return plan


@pytest.fixture
def state() -> Callable[..., State]:
    """A state with entities linked: `state(GOETHE, question="...")`."""

    def make(*ids: str, question: str = "Where?", **values: Any) -> State:
        return State(question=question, linked=linked(*ids), **{"focus": ids, **values})

    return make
