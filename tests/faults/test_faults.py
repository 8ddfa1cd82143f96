"""Every faulty step of the corpus is detected, told apart from its neighbours, and given its guideline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.agent import Trajectory, react
from tests.faults.corpus import KGS, Fault, corpus
from tests.faults.graphs import Endpoint, store
from triplewise.guidelines import load_guidelines
from triplewise.nodes.context import Context

LEAST = 150
APART = (
    {"fact_empty_reversed", "fact_empty_subject_known", "fact_empty_object_known", "fact_empty_not_looked_up",
     "fact_before_lookup"},
    {"fact_empty_subject_known", "fact_empty_object_known", "fact_empty_not_looked_up", "fact_empty"},
    {"timeout_lookup", "timeout_query", "kg_unavailable", "engine_error", "lookup_empty",
     "lookup_empty_untried", "fact_empty", "filter_empty", "final_empty", "answer_truncated",
     "relations_truncated"},
    {"filter_empty", "extreme_empty", "window_empty", "step_empty", "exploration_empty", "final_empty"},
    {"lookup_unbound_variable", "lookup_unknown"},
    {"lookup_unbound_variable", "lookup_relation", "lookup_label"},
    {"no_action", "several_actions", "several_thoughts", "unknown_action", "arity"},
    {"filter_unknown", "max_unknown", "count_unknown", "unknown_variable", "answer_unknown"},
    {"step_before_fact", "filter_before_fact", "filter_before_lookup", "answer_before_fact",
     "execute_before_answer"},
    {"two_new_variables", "two_new_variables_before_lookup"},
)  # fmt: skip
"""Neighbours: of each set at most one fits a step."""
NOT_IN_CORPUS: dict[str, str] = {
    "other_error": "catches what no other guideline covers; every error of these toolsets has its own",
}
"""Shipped guidelines for KGs without a faulty step here, and why."""


@pytest.mark.parametrize("fault", corpus(), ids=lambda fault: fault.id)
def test_a_fault_gets_its_guideline(
    fault: Fault, data: Path, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with _graph(fault, data) as (kg, endpoint):
        trajectory = _before(fault, kg)
        if endpoint:
            endpoint.fault = fault.endpoint or ""
        verdict = trajectory.step(fault.reply)
    assert verdict.guideline == fault.expect, f"{fault.reply!r}: {trajectory.last.feedback}"
    text = verdict.text or verdict.note
    missing = [words for words in fault.says if words not in text]
    assert not missing, f"{missing} not in: {text}"
    triggered = set(trajectory.triggered())
    assert all(len(triggered & neighbours) <= 1 for neighbours in APART), triggered


@contextmanager
def _graph(fault: Fault, data: Path) -> Iterator[tuple[str, Endpoint | None]]:
    """What to open, and the endpoint if there is one."""
    if fault.endpoint is None:
        yield fault.kg, None
        return
    with Endpoint(store(data, fault.kg)) as endpoint:
        yield endpoint.url, endpoint


def _before(fault: Fault, kg: str) -> Trajectory:
    """The trajectory up to the fault: every step before it is judged as the corpus says."""
    settings = {"ranking": "none", "relation_cut": 1000, "max_steps": 40, **fault.settings}
    context = Context(kg=kg, profile=None if kg in KGS else fault.kg, **settings)
    trajectory = Trajectory.begin(context, fault.question, fault.linked, fault.rules)
    for call, fails in fault.steps:
        verdict = trajectory.step(react(len(trajectory.state.steps) + 1, call))
        caught = verdict.guideline if verdict.status == "error" else ""
        assert caught == fails, f"{call}: {verdict}"
    return trajectory


def test_the_corpus_is_large_and_on_three_graphs() -> None:
    by_graph = Counter(fault.kg for fault in corpus())
    assert len(corpus()) >= LEAST
    assert min(by_graph[kg] for kg in KGS) >= LEAST / 5
    assert len({fault.id for fault in corpus()}) == len(corpus())


def test_every_guideline_for_graphs_has_a_faulty_step() -> None:
    toolsets = ("pyql", "explore", "symbolic")
    shipped = {g.id for g in load_guidelines() if any(map(g.serves, toolsets))}
    covered = {fault.expect for fault in corpus()}
    assert shipped - covered <= set(NOT_IN_CORPUS)
    assert not covered & set(NOT_IN_CORPUS), "take it off the list"
    assert covered <= {g.id for g in load_guidelines()}
