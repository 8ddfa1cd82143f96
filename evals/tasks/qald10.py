"""QALD-10: multilingual questions over Wikidata; here the English ones, over a partial extract of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import accuracy, answerable, strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    counted,
    names_of,
    records_of,
    tags,
    the_graph,
    with_known,
)
from triplewise.evals.training import seeds_of

VERSION = 2
FILE = "qald10/test_en.jsonl.gz"
NOTE = (
    "yes/no questions whose gold answer is no hold trivially on a partial graph; "
    "with gold linking only the questions that have it are asked (those of ToG and ODA)"
)


@task
def qald10(
    linking: Linking = "own",
    kg_exact: bool = True,
    gold_derived: bool = True,
    seeds: bool | str = False,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """QALD-10 test questions in English; answers are compared by id, literals by value.

    Args:
        linking: `own`: the agent links; `gold`: linked entities are given, questions without them left out.
        kg_exact: ask only questions whose gold query gives the gold answers on the graph.
        gold_derived: whether the graph holds the facts that were made from gold answers.
        seeds: whether the planner reads training questions, answered by their gold query on the graph; or
            a file of your own.
        file: a file of questions in the place of these, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("qald10")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    kg = the_graph(own, tested.settings, gold_derived)
    return build_task(
        own,
        _questions(linking, kg_exact, "kg_exact" if gold_derived else "kg_exact_no_gold", file),
        tested,
        version=VERSION,
        scorers=[strict(), accuracy(), answerable()],
        kg=kg,
        seeds=seeds_of(own, kg, seeds),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str, given: str | None) -> Questions:
    records, file = records_of(benchmark("qald10"), FILE, given, "id", "question", "answers", flag=flag)
    fitting = [r for r in records if linking == "own" or r.get("topic_entity")]
    asked = [r for r in fitting if r.get(flag, True) or not kg_exact]
    samples = [_sample(record, linking, bool(record.get(flag))) for record in asked]
    return Questions(samples, *counted(fitting, flag), [file], NOTE)


def _sample(record: Record, linking: Linking, answerable: bool) -> Sample:
    linked = record.get("topic_entity") or {}
    entities = {name: qid for qid, name in linked.items()} if linking == "gold" else {}
    gold = [str(a).lower() if isinstance(a, bool) else str(a) for a in record["answers"]]
    return Sample(
        id=record["id"],
        input=record["question"],
        target=gold,
        metadata={
            "entities": entities,
            "answer_type": record.get("answer_type", ""),
            "answerable": answerable,
            "tags": tags(type=record.get("answer_type")),
            **names_of(record),
        },
    )
