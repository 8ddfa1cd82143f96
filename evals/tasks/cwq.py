"""ComplexWebQuestions: compositions of WebQSP questions over Freebase; here over a partial extract of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import SINGLE_GOLD, answerable, strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    counted,
    mentions,
    names_of,
    records_of,
    tags,
    the_graph,
    with_known,
)
from triplewise.evals.training import seeds_of

VERSION = 1
FILE = "cwq/test.jsonl.gz"
NOTE = "gold answers are names, which ids are compared with by label and alias; gold linking is that of ToG"


@task
def cwq(
    linking: Linking = "gold",
    kg_exact: bool = False,
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
    """CWQ test questions; gold answers are names.

    Args:
        linking: `gold` gives the topic entities; with `own` the agent links.
        kg_exact: ask only questions whose gold query gives the gold answers on the graph.
        gold_derived: whether the graph holds the facts that were made from gold answers (of WebQSP, GrailQA).
        seeds: whether the planner reads dev questions, answered by their gold query on the graph; or a file
            of your own.
        file: a file of questions in the place of these, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("cwq")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    kg = the_graph(own, tested.settings, gold_derived)
    return build_task(
        own,
        _questions(linking, kg_exact, "kg_exact" if gold_derived else "kg_exact_observed_only", file),
        tested,
        version=VERSION,
        scorers=[strict(), answerable()],
        kg=kg,
        seeds=seeds_of(own, kg, seeds),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str, given: str | None) -> Questions:
    keys = ("id", "question", "answers")
    records, file = records_of(benchmark("cwq"), FILE, given, *keys, flag=flag)
    asked = [r for r in records if r.get(flag, True) or not kg_exact]
    samples = [_sample(record, linking, flag) for record in asked]
    return Questions(samples, *counted(records, flag), [file], NOTE)


def _sample(record: Record, linking: Linking, flag: str) -> Sample:
    linked = mentions((name, mid) for mid, name in record.get("topic_entity", {}).items())
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(answer) for answer in record["answers"]],
        metadata={
            "entities": linked if linking == "gold" else {},
            "answerable": bool(record.get(flag)),
            SINGLE_GOLD: record.get("answer_tog") or "",
            "tags": tags(type=record.get("compositionality_type")),
            **names_of(record),
        },
    )
