"""SimpleQuestions: questions for one fact of Freebase; here over a partial extract of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.answerable import has_fact, judged
from triplewise.evals.data import Record, benchmark
from triplewise.evals.kgs import LoadedKG
from triplewise.evals.scorers import answerable as answerable_part
from triplewise.evals.scorers import strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    judged_questions,
    mentions,
    records_of,
    tags,
    the_graph,
    with_known,
)
from triplewise.tools.kg.protocol import KnowledgeGraph

VERSION = 1
FILE = "simplequestions/test1000.jsonl.gz"
NOTE = (
    "the graph was not made for these questions and holds the asked fact of hardly any; the gold answer is "
    "one name, although the relation may have other values, which count as wrong"
)


@task
def simplequestions(
    linking: Linking = "gold",
    answerable: bool = False,
    gold_derived: bool = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """SimpleQuestions test questions of ToG's sample; the gold answer is a name.

    Args:
        linking: `gold` gives the topic entity; with `own` the agent links.
        answerable: ask only questions whose fact is in the graph.
        gold_derived: whether the graph holds the facts made from gold answers of other benchmarks.
        file: a file of questions in the place of these, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("simplequestions")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    kg = the_graph(own, tested.settings, gold_derived)
    return build_task(
        own,
        _questions(linking, answerable, kg, file),
        tested,
        version=VERSION,
        scorers=[strict(), answerable_part()],
        kg=kg,
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, only: bool, kg: LoadedKG, given: str | None) -> Questions:
    keys = ("id", "question", "answer", "topic_entity", "relation")
    records, file = records_of(benchmark("simplequestions"), FILE, given, *keys)
    found = judged("simplequestions", records, file, kg, _judge)
    return judged_questions(records, found, only, lambda r, ok: _sample(r, linking, ok), file, NOTE)


def _judge(kg: KnowledgeGraph) -> Callable[[Record], bool]:
    return lambda r: any(has_fact(kg, mid, r["relation"], r["answer"]) for mid in r["topic_entity"])


def _sample(record: Record, linking: Linking, answerable: bool) -> Sample:
    linked = mentions((name, mid) for mid, name in record["topic_entity"].items())
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(record["answer"])],
        metadata={
            "entities": linked if linking == "gold" else {},
            "answerable": answerable,
            "tags": tags(type=record["relation"]),
        },
    )
