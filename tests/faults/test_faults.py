"""Every faulty step of the corpus is detected, told apart from its neighbours, and given its guideline.

The corpus is a file a graph: `scenes` (question, linked entities, correct steps) and `faults`. A fault adds
`steps` to those of its scene; a step `{call, fails}` is itself a fault, caught before. `call` is the faulty
step, or `reply` where it is no single call; `expect` is the guideline that must win and `says` what its text
must name. `endpoint` is what the graph's endpoint does at the fault; without it the graph is in the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
import yaml

from tests.faults.trajectory import FILES, Trajectory, graph_store
from tests.support.sparql_server import Asked, Scripted, SparqlServer
from triplewise.guidelines import load_guidelines
from triplewise.nodes.context import Context

APART = (
    {"fact_empty_reversed", "fact_empty_subject_known", "fact_empty_object_known", "fact_empty_not_looked_up",
     "fact_before_lookup"},
    {"fact_empty_subject_known", "fact_empty_object_known", "fact_empty_not_looked_up", "fact_empty"},
    {"timeout_lookup", "timeout_query", "kg_unavailable", "engine_error", "lookup_empty",
     "lookup_empty_untried", "fact_empty", "filter_empty", "final_empty", "answer_truncated",
     "relations_truncated"},
    {"filter_empty", "extreme_empty", "step_empty", "exploration_empty", "final_empty"},
    {"lookup_unbound_variable", "lookup_unknown"},
    {"lookup_unbound_variable", "lookup_relation", "lookup_label"},
    {"no_action", "several_actions", "several_thoughts", "unknown_action", "arity"},
    {"filter_unknown", "max_unknown", "count_unknown", "unknown_variable", "answer_unknown"},
    {"step_before_fact", "filter_before_fact", "filter_before_lookup", "answer_before_fact",
     "execute_before_answer"},
    {"two_new_variables", "two_new_variables_before_lookup"},
)  # fmt: skip
"""Neighbours: of each set at most one fits a step."""
NOT_IN_CORPUS = {"other_error"}
"""It catches what no other guideline covers; every error of these toolsets has its own."""

Fault = Mapping[str, Any]


def read_corpus(kg: str) -> list[Fault]:
    """The faults on a graph, each with what its scene says."""
    text = yaml.safe_load((Path(__file__).parent / f"{kg}.yaml").read_text(encoding="utf-8"))
    scenes = {name: {"kg": kg, **scene} for name, scene in text["scenes"].items()}
    return [
        {**(scene := scenes[fault["scene"]]), **fault, "steps": [*scene["steps"], *fault.get("steps", ())]}
        for fault in text["faults"]
    ]


CORPUS = [fault for kg in FILES for fault in read_corpus(kg)]


@pytest.mark.parametrize("fault", CORPUS, ids=lambda fault: f"{fault['kg']}-{fault['expect']}")
def test_a_fault_gets_its_guideline(fault: Fault, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    settings = {"ranking": "none", "relation_cut": 1000, "max_steps": 40, **fault.get("settings", {})}
    with ExitStack() as stack:
        if "endpoint" in fault:
            endpoint = stack.enter_context(FailingEndpoint(graph_store(data, fault["kg"])))
            context = Context(kg=endpoint.url, profile=fault["kg"], **settings)
        else:
            context = Context(kg=fault["kg"], **settings)
        trajectory = Trajectory(context, fault["question"], fault["linked"])
        for step in fault["steps"]:
            call, fails = (step, "") if isinstance(step, str) else (step["call"], step["fails"])
            verdict = trajectory.call(call)
            assert (verdict.guideline if verdict.status == "error" else "") == fails, f"{call}: {verdict}"
        if "endpoint" in fault:
            endpoint.fault = fault["endpoint"]
        verdict = trajectory.call(fault["call"]) if "call" in fault else trajectory.step(fault["reply"])
    assert verdict.guideline == fault["expect"], trajectory.state.last.feedback
    text = verdict.text or verdict.note
    assert [words for words in fault["says"] if words not in text] == [], text
    triggered = trajectory.triggered()
    assert all(len(triggered & neighbours) <= 1 for neighbours in APART), triggered


def test_every_guideline_for_graphs_has_a_faulty_step() -> None:
    toolsets = {"pyql", "explore", "symbolic"}
    shipped = {g.id for g in load_guidelines() if not g.toolset or toolsets.intersection(g.toolset)}
    assert shipped - {fault["expect"] for fault in CORPUS} == NOT_IN_CORPUS


class FailingEndpoint(SparqlServer):
    """A SPARQL endpoint on loopback that answers from a store.

    `fault`: "" answers; "timeout" hangs until the client has gone; "unavailable" cuts the connection;
    "refused" says that the query cannot be run; "empty" finds nothing.
    """

    def __init__(self, graph: ox.Store) -> None:
        self.graph, self.fault = graph, ""
        super().__init__([])

    def next_reply(self, asked: Asked) -> Scripted:
        """The results as SPARQL JSON, or the fault."""
        match self.fault:
            case "unavailable":
                return Scripted(hang_up=True)
            case "timeout":
                return Scripted(hang_up=True, delay=10)
            case "refused":
                message = "37000 Error SP030: SPARQL compiler: incomparable types"
                return Scripted(message, 400, content_type="text/plain")
        results = self.graph.query(asked.parameters["query"][0])
        assert not isinstance(results, ox.QueryTriples)
        if self.fault == "empty" and isinstance(results, ox.QuerySolutions):
            names = [v.value for v in results.variables]
            return Scripted(json.dumps({"head": {"vars": names}, "results": {"bindings": []}}))
        return Scripted((results.serialize(format=ox.QueryResultsFormat.JSON) or b"").decode())
