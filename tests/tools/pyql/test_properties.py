"""What holds for every program that valid actions can build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tests.support.pyql_programs import (
    ENTITIES,
    EX,
    Evaluation,
    Step,
    build,
    graph_of,
    graphs,
    programs,
    steps,
    wild_steps,
)
from tests.support.virtuoso import Virtuoso
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import RDFS, Literal, Term, Triple
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.literals import NUMERIC
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.program import Aggregate, Filter, PyQL
from triplewise.tools.pyql.sparql import write_proof

PROFILE = Profile(
    entity_namespaces=(EX,),
    relation_namespaces=(EX,),
    subclass_predicates=(RDFS + "subClassOf",),
    prefixes={"ex": EX},
)
GRAPH = "http://example.org/graph"


def store(graph: set[Triple]) -> ox.Store:
    loaded = ox.Store()
    loaded.load("\n".join(t.n3() for t in graph).encode(), format=ox.RdfFormat.N_TRIPLES)
    return loaded


def forms(program: PyQL) -> list[str]:
    """Everything PyQL writes for a program."""
    where = program.where(PROFILE)
    return [
        program.sparql(PROFILE),
        program.sparql(PROFILE, 5),
        write_proof(program, PROFILE, ENTITIES[:2])[0],
        f"SELECT * WHERE {{ {where} }}",
    ]


@settings(max_examples=60, deadline=None)
@given(programs(wild=True))
def test_all_that_it_writes_parses(program: PyQL) -> None:
    assume(program.clauses)
    for sparql in forms(program):
        ox.Store().query(sparql)


@settings(max_examples=60, deadline=None)
@given(programs(wild=True))
def test_text_reads_back_as_the_same_program(program: PyQL) -> None:
    assert PyQL.parse(program.text(PROFILE), PROFILE) == program


@settings(max_examples=60, deadline=None)
@given(st.lists(steps() | wild_steps(), max_size=6), steps() | wild_steps())
def test_an_action_never_changes_the_program_it_extends(actions: list[Step], action: Step) -> None:
    before = build(actions)
    text, parts = before.text(PROFILE), (before.clauses, before.answer, before.boolean, before.order)
    with suppress(ActionError):
        after = action(before)
        least = min(len(before.clauses), len(after.clauses))
        assert after.clauses[:least] == before.clauses[:least]
    assert (before.text(PROFILE), (before.clauses, before.answer, before.boolean, before.order)) == (
        text,
        parts,
    )


def rounded(row: Iterable[Term | None]) -> tuple[object, ...]:
    """A row with its numbers to so many digits as every engine gives, whatever their datatype."""
    return tuple(
        round(float(t.value), 6) if isinstance(t, Literal) and t.datatype in NUMERIC else t for t in row
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), programs())
def test_results_equal_a_plain_evaluation(graph: set[Triple], program: PyQL) -> None:
    assume(program.answer)
    expected = {rounded(row) for row in Evaluation(graph).run(program)}
    result = LocalKG(store(graph), PROFILE, "memory").query(program.sparql(PROFILE))
    assert result.outcome.ok, result.message
    assert {rounded(row) for row in result.rows} == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), programs())
def test_the_proof_holds_facts_of_the_graph_that_name_the_answers(graph: set[Triple], program: PyQL) -> None:
    assume(program.answer)
    Evaluation(graph).run(program)  # leaves out what no engine's memory would hold
    kg = LocalKG(store(graph), PROFILE, "memory")
    answers = kg.query(program.sparql(PROFILE)).column(program.answer[0].name)
    proof = program.prove(kg, (), 10_000)
    assert set(proof) <= graph
    ends: set[Term] = {end for triple in proof for end in (triple.subject, triple.object)}
    if not any(isinstance(c, Aggregate) for c in program.clauses):
        assert set(answers) <= ends


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalKG, EndpointKG]]:
    """The same graph in memory and in a real Virtuoso."""
    if reason := Virtuoso.missing():
        pytest.skip(reason)
    graph = graph_of(0)
    folder: Path = tmp_path_factory.mktemp("virtuoso-pyql")
    (folder / "facts.nt").write_text("".join(t.n3() + "\n" for t in graph), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, Virtuoso(folder) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        server.load(folder / "facts.nt", GRAPH)
        yield (
            LocalKG(store(graph), PROFILE, "memory"),
            EndpointKG(f"{server.url}?default-graph-uri={GRAPH}", PROFILE),
        )


def _beyond_virtuoso(program: PyQL) -> bool:
    """What Virtuoso 7.2.5 gets wrong however it is written: joined transitive paths, and equal ends."""
    filters = (c for c in program.clauses if isinstance(c, Filter))
    equal = any(f.operator == "=" and len(f.mentions) == 2 for f in filters)
    return equal or "Typed(" in repr(program.clauses)


@pytest.mark.virtuoso
@settings(max_examples=100, deadline=None, derandomize=True)
@given(program=programs())
def test_virtuoso_finds_the_same(both: tuple[LocalKG, EndpointKG], program: PyQL) -> None:
    assume(program.answer and not _beyond_virtuoso(program))
    Evaluation(graph_of(0)).run(program)  # as above
    embedded, endpoint = (kg.query(program.sparql(PROFILE)) for kg in both)
    assert endpoint.outcome.ok, endpoint.message
    assert set(endpoint.rows) == set(embedded.rows)
