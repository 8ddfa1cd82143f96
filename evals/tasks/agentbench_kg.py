"""AgentBench's knowledge graph task: questions of several actions over Freebase, here a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.answerable import Reach, judged
from triplewise.evals.data import Record, benchmark
from triplewise.evals.kgs import LoadedKG
from triplewise.evals.scorers import GOLD_NAMES, strict
from triplewise.evals.scorers import answerable as answerable_part
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    gold_names,
    gold_values,
    judged_questions,
    records_of,
    tags,
    the_graph,
    with_known,
)
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import KnowledgeGraph

VERSION = 1
FILES = {
    "std": "agentbench_kg/std.jsonl.gz",
    "dev": "agentbench_kg/dev.jsonl.gz",
    "rl": "agentbench_kg/kg_rl_all.jsonl.gz",
}
NOTE = (
    "on this graph not one gold sequence of actions leads to its gold answers; a question counts as "
    "answerable where all that it names is in the graph and all gold answers are near it, which is the least "
    "it takes; rl repeats questions of dev, and of the test questions of CWQ, GrailQA and WebQSP"
)


@task
def agentbench_kg(
    split: str = "std",
    linking: Linking = "gold",
    answerable: bool = False,
    gold_derived: bool = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agentbench",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """AgentBench's questions; answers are compared by mid, literals by value.

    Args:
        split: `std` (the test), `dev`, or `rl` (its training questions).
        linking: `gold` gives the entities of the task; with `own` the agent links.
        answerable: ask only questions whose gold answers are in the graph near what they name.
        gold_derived: whether the graph holds the facts made from gold answers of other benchmarks.
        file: a file of questions in the place of the split, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset: `agentbench` (with ERASER), `agentbench-plain` (as published), or any other.
        model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    if split not in FILES:
        raise ConfigurationError.unknown("split", split, FILES)
    own = benchmark("agentbench_kg")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    kg = the_graph(own, tested.settings, gold_derived)
    return build_task(
        own,
        _questions(split, linking, answerable, kg, file),
        tested,
        version=VERSION,
        scorers=[strict(), answerable_part()],
        kg=kg,
        n=n,
        sample_seed=sample_seed,
    )


def _questions(split: str, linking: Linking, only: bool, kg: LoadedKG, given: str | None) -> Questions:
    keys = ("id", "question", "answer", "entities", "actions")
    records, file = records_of(benchmark("agentbench_kg"), FILES[split], given, *keys)
    found = judged(f"agentbench-{split}", records, file, kg, _judge)
    return judged_questions(records, found, only, lambda r, ok: _sample(r, linking, ok), file, NOTE)


def _judge(kg: KnowledgeGraph) -> Callable[[Record], bool]:
    reach = Reach(kg)

    def holds(record: Record) -> bool:
        called = list(_called(record))
        entities, answers = record["entities"].values(), gold_values(record["answer"])
        return "count" not in called and reach.holds(entities, answers, called.count("get_neighbors"))

    return holds


def _called(record: Record) -> Iterator[str]:
    """The names of the gold actions."""
    return (action.partition("(")[0] for action in record["actions"])


def _sample(record: Record, linking: Linking, answerable: bool) -> Sample:
    called = list(_called(record))
    return Sample(
        id=record["id"],
        input=record["question"],
        target=gold_values(record["answer"]),
        metadata={
            "entities": dict(record["entities"]) if linking == "gold" else {},
            "answerable": answerable,
            GOLD_NAMES: gold_names(record["answer"]),
            "tags": tags(
                source=record.get("source"),
                function=_function(called),
                relations=called.count("get_neighbors"),
            ),
        },
    )


def _function(called: list[str]) -> str:
    """What the gold actions compute besides following relations."""
    found = (name for name in called if name in ("count", "argmax", "argmin"))
    return next(found, "none")
