"""GraphQuestions: characteristic-rich questions over Freebase; here over a partial extract of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.answerable import Reach, judged
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
FILE = "graphq/test.jsonl.gz"
NOTE = (
    "gold answers are names of 2013, which ids are compared with by label and alias; the linking that is "
    "given is a system's output, not gold; without a gold query, a question counts as answerable where all "
    "that it names is in the graph and all gold answers are near it, which is the least it takes"
)


@task
def graphq(
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
    """GraphQ test questions; gold answers are names and numbers.

    Args:
        linking: `gold` gives the entities that came with the questions; with `own` the agent links.
        answerable: ask only questions whose gold answers are in the graph near what they name.
        gold_derived: whether the graph holds the facts made from gold answers of other benchmarks.
        file: a file of questions in the place of these, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("graphq")
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
    keys = ("id", "question", "answer_names", "entity_linking")
    records, file = records_of(benchmark("graphq"), FILE, given, *keys)
    found = judged("graphq", records, file, kg, _judge)
    return judged_questions(records, found, only, lambda r, ok: _sample(r, linking, ok), file, NOTE)


def _judge(kg: KnowledgeGraph) -> Callable[[Record], bool]:
    reach = Reach(kg)

    def holds(record: Record) -> bool:
        names, relations = record["answer_names"], _relations(record)
        return record.get("function") != "count" and reach.holds(record["entity_linking"], names, relations)

    return holds


def _relations(record: Record) -> int:
    """Relations of the gold query: the second number of its structure, "nodes,edges"."""
    edges = str(record.get("structure") or "").rpartition(",")[2]
    return int(edges) if edges.isdigit() else 1


def _sample(record: Record, linking: Linking, answerable: bool) -> Sample:
    linked = mentions((found["mention"], mid) for mid, found in record["entity_linking"].items())
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(name) for name in record["answer_names"]],
        metadata={
            "entities": linked if linking == "gold" else {},
            "answerable": answerable,
            "tags": tags(function=record.get("function"), relations=_relations(record)),
        },
    )
