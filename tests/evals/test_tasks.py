"""Tasks, solver and scorers through Inspect, on a tiny MetaQA and a stand-in for the agent's graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.log import EvalLog, read_eval_log

from tests.evals.conftest import write_data
from tests.evals.reported import scores_of
from triplewise.evals import Run, metaqa, run, solver
from triplewise.evals.evaluation import log_path, make_task, parse_settings
from triplewise.evals.logs import read_logs
from triplewise.evals.report.tables import markdown
from triplewise.graphs import Answer
from triplewise.nodes.context import Context
from triplewise.nodes.state import Correction, Input, Usage
from triplewise.tools.core.errors import ConfigurationError

Reply = Callable[[Input], Answer]

ANSWERS = {
    "who directed Alien": Answer("answered", ("Ridley Scott",), ("Ridley Scott",), usage=Usage(queries=3)),
    "what films did Ridley Scott direct": Answer("answered", ("Alien",), ("Alien",), usage=Usage(queries=5)),
    "what language is Amélie in": Answer("not_found", reason="no path"),
}


def reply(asked: Input) -> Answer:
    """Right, half right, not found, and a crash."""
    if asked.question not in ANSWERS:
        raise KeyError("boom")
    fixed = (Correction(1, "get(x)", "kb_empty", "kb", "again"),)
    return ANSWERS[asked.question] if "Alien" not in asked.question else _corrected(asked, fixed)


def _corrected(asked: Input, fixed: tuple[Correction, ...]) -> Answer:
    good = ANSWERS[asked.question]
    return Answer(good.status, good.values, good.labels, corrections=fixed, usage=good.usage)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Input, Context]]:
    """Puts `reply` in the place of the graph; returns preset, input and context of each question asked."""
    return put_stub(monkeypatch)


def put_stub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Input, Context]]:
    asked: list[tuple[str, Input, Context]] = []

    def build(preset: str, **phases: Any) -> SimpleNamespace:
        def invoke(question: Input, *, context: Context) -> dict[str, Any]:
            asked.append((preset, question, context))
            return {"answer": reply(question), "steps": ()}

        return SimpleNamespace(invoke=invoke)

    monkeypatch.setattr(solver, "build_graph", build)
    monkeypatch.setattr(solver, "find_system", str)
    return asked


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    """The log of all four questions."""
    folder = tmp_path_factory.mktemp("tasks")
    with pytest.MonkeyPatch.context() as monkeypatch:
        write_data(folder, monkeypatch)
        put_stub(monkeypatch)
        return read_eval_log(run(metaqa(hops=1), log_dir=folder / "logs").location)


def test_scores_of_right_half_right_not_found_and_crashed(log: EvalLog) -> None:
    scores = scores_of(log)
    assert log.status == "success"
    assert scores["f1.mean"] == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)
    assert (scores["hits_at_1.mean"], scores["exact_match.mean"]) == (0.5, 0.25)
    assert (scores["queries.mean"], scores["corrections.mean"]) == (2.0, 0.25)
    assert (scores["not_found.mean"], scores["crashed.mean"]) == (0.25, 0.25)


def test_each_question_leaves_its_run_in_the_log(log: EvalLog) -> None:
    assert log.samples is not None
    runs = {s.id: s.store_as(Run) for s in log.samples}
    assert runs["test-0"].values == ["Ridley Scott"]
    assert runs["test-0"].corrections == ["kb_empty"]
    assert runs["test-0"].seconds > 0
    assert (runs["test-3"].status, runs["test-3"].reason) == ("not_found", "no path")
    assert runs["test-2"].crashed
    assert (runs["test-2"].reason, runs["test-2"].values) == ("KeyError('boom')", [])


def test_a_log_says_what_it_was_measured_on(log: EvalLog) -> None:
    about = log.eval.metadata or {}
    assert log.eval.task_version == 2
    assert (about["kg_triples"], about["kg_partial"], about["kg_gold_derived"]) == (7 + 9, False, False)
    assert (about["answerable"], about["asked"], about["drawn"]) == (4, 4, 4)
    dev = [f"metaqa/dev_{hops}hop.jsonl.gz" for hops in (1, 2, 3)]
    assert about["changed_files"] == ["metaqa/test_1hop.jsonl.gz", *dev, "metaqa/kb.txt.gz"]
    assert "AAAI 2018" in about["citation"]
    assert about["licence"] == "CC BY 3.0"


def test_the_report_shows_scores_graph_changed_files_and_crashes(log: EvalLog) -> None:
    text = markdown(read_logs([log_path(log)]))
    for words in ("41.7", "50.0", "25.0", "metaqa", "16 triples", "test-2", "KeyError('boom')"):
        assert words in text
    assert "Changed files, so no results of the published benchmark: metaqa/" in text


def test_gold_linking_gives_the_topic_entity_and_own_linking_a_bare_question(
    data: Path, stub: list[tuple[str, Input, Context]], tmp_path: Path
) -> None:
    run(metaqa(hops=1, linking="gold", preset="oda", settings={"plan_rules": 3}), log_dir=tmp_path)
    run(metaqa(hops=1, linking="own", seeds=False), log_dir=tmp_path)
    by_question = {(i, q.question): (p, q, c) for i, (p, q, c) in enumerate(stub)}
    assert all("[" not in question for _, question in by_question)
    with_gold, with_own = stub[:4], stub[4:]
    assert {tuple(q.entities.items()) for _, q, _ in with_gold} >= {(("Amélie", "Amélie"),)}
    assert all(p == "oda" and c.plan_rules == 3 and c.row_limit == 20_000 for p, _, c in with_gold)
    assert all(c.seeds and c.seeds.count("dev_") == 3 for _, _, c in with_gold)
    assert all(q.entities == {} and c.seeds == "none" for _, q, c in with_own)


def test_a_draw_is_random_repeatable_and_nested(data: Path) -> None:
    def ids(task: Task) -> list[Any]:
        return [sample.id for sample in task.dataset]

    assert ids(metaqa(n=2)) == ids(metaqa(n=4))[:2]
    assert ids(metaqa(n=4)) == ids(metaqa(n=0)) != ids(metaqa(sample_seed=1))
    assert sorted(ids(metaqa(n=0))) == [f"test-{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hops": 4}, "unknown hops 4; choose one of: 1, 2, 3"),
        ({"split": "train"}, "unknown split 'train'; choose one of: dev, test"),
        ({"split": "dev"}, "pass seeds=false"),
        ({"linking": "silver"}, "unknown linking 'silver'; choose one of: gold, own"),
        ({"preset": "none"}, "unknown preset"),
        ({"phases": {"reflect": "nothing"}}, "reflect"),
        ({"settings": {"beams": 3}}, "unknown setting 'beams'"),
        ({"settings": {"plan_rules": -1}}, "plan_rules: input should be greater than 0"),
    ],
)
def test_impossible_arguments_are_refused_before_anything_runs(
    data: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        metaqa(**given)


def test_names_in_set_go_to_task_phases_or_settings(data: Path) -> None:
    given = parse_settings(["hops=2", "reflect=none", "plan_rules=4", "seeds=false"])
    task = make_task("metaqa", {**given, "n": 1})
    assert len(task.dataset) == 1
    with pytest.raises(ConfigurationError, match="unknown name to set 'hop'"):
        make_task("metaqa", {"hop": 2})
    with pytest.raises(
        ConfigurationError, match="unknown task 'triviaqa'; choose one of: agentbench_kg, creak"
    ):
        make_task("triviaqa", {})
    for pair in ("hops", "=2", "hops=["):
        with pytest.raises(ConfigurationError, match="--set"):
            parse_settings([pair])
