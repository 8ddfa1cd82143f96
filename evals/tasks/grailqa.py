"""GrailQA: three levels of generalization over Freebase; ToG's sample, over a partial extract of Freebase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import GOLD_NAMES, answerable, strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    counted,
    gold_names,
    gold_values,
    mentions,
    records_of,
    tags,
    the_graph,
    with_known,
)

VERSION = 1
FILE = "grailqa/dev1000.jsonl.gz"
NOTE = (
    "the graph's facts for these questions were made from their gold queries and answers, so that there is "
    "little else to choose from"
)


@task
def grailqa(
    linking: Linking = "gold",
    kg_exact: bool = False,
    gold_derived: bool = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """GrailQA dev questions of ToG's sample; answers are compared by mid, literals by value.

    Args:
        linking: `gold` gives the linked entities; with `own` the agent links.
        kg_exact: ask only questions whose gold query gives the gold answers on the graph.
        gold_derived: whether the graph holds the facts that were made from gold answers.
        file: a file of questions in the place of its questions, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("grailqa")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    return build_task(
        own,
        _questions(linking, kg_exact, "kg_exact" if gold_derived else "kg_exact_observed_only", file),
        tested,
        version=VERSION,
        scorers=[strict(), answerable()],
        kg=the_graph(own, tested.settings, gold_derived),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str, given: str | None) -> Questions:
    keys = ("id", "question", "answers")
    records, file = records_of(benchmark("grailqa"), FILE, given, *keys, flag=flag)
    asked = [r for r in records if r.get(flag, True) or not kg_exact]
    samples = [_sample(record, linking, flag) for record in asked]
    return Questions(samples, *counted(records, flag), [file], NOTE)


def _sample(record: Record, linking: Linking, flag: str) -> Sample:
    linked = mentions((name, mid) for mid, name in record.get("topic_entity", {}).items())
    told = {"level": "level", "function": "function", "relations": "num_edge"}
    return Sample(
        id=record["id"],
        input=record["question"],
        target=gold_values(record["answers"]),
        metadata={
            "entities": linked if linking == "gold" else {},
            "answerable": bool(record.get(flag)),
            GOLD_NAMES: gold_names(record["answers"]),
            "tags": tags(**{tag: record.get(key) for tag, key in told.items()}),
        },
    )
