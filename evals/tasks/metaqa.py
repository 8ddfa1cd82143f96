"""MetaQA: film questions of one, two and three hops over a complete KG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Benchmark, Record, benchmark, locate
from triplewise.evals.scorers import strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    records_of,
    tags,
    the_graph,
)
from triplewise.evals.training import Seeds
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.linking.linker import without_brackets

VERSION = 2
HOPS = (1, 2, 3)
ROW_LIMIT = 20_000
"""Rows of a query: a three-hop question may have thousands of bindings on its way."""


@task
def metaqa(
    hops: int = 1,
    split: str = "test",
    linking: Linking = "gold",
    seeds: bool | str = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """MetaQA with as many hops, over its whole knowledge base; answers are compared by name.

    Args:
        hops: 1, 2, or 3. split: `test`, or `dev` (whose questions are the seeds: then pass seeds=False).
        linking: `gold` gives the topic entity; with `own` the agent finds it, no brackets around it.
        seeds: whether the planner reads the dev questions of all hops; or a file of your own.
        file: a file of questions in the place of these, in our form or as the benchmark publishes it.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    if hops not in HOPS or split not in ("test", "dev"):
        raise ConfigurationError(
            f"MetaQA has 1, 2 and 3 hops in splits test and dev, not {hops!r} in {split!r}"
        )
    if seeds is True and split == "dev":
        raise ConfigurationError(
            "the dev questions are the seeds: pass seeds=false to be asked the dev split"
        )
    own = benchmark("metaqa")
    tested = Agent(preset, model, settings or {}, phases or {})
    return build_task(
        own,
        _questions(hops, split, linking, file),
        tested,
        version=VERSION,
        scorers=[strict(compare="names")],
        kg=the_graph(own, tested.settings),
        n=n,
        sample_seed=sample_seed,
        seeds=_seeds(own, seeds),
        defaults={"row_limit": ROW_LIMIT},
    )


def _seeds(of: Benchmark, asked: bool | str) -> Seeds:
    """The dev questions, whose files have answers; without them not even those kept for the graph."""
    if isinstance(asked, str):
        return Seeds(asked, note=asked)
    if not asked:
        return Seeds("none")
    files = list(of.seeds.values())
    return Seeds(",".join(str(locate(file)) for file in files), files, "the dev questions of all hops")


def _questions(hops: int, split: str, linking: Linking, given: str | None) -> Questions:
    name = f"metaqa/{split}_{hops}hop.jsonl.gz"
    records, file = records_of(benchmark("metaqa"), name, given, "id", "question", "topic_entity", "answers")
    profile = load_profile("metaqa")
    samples = [_sample(record, profile, linking, hops) for record in records]
    return Questions(samples, len(samples), len(samples), [file])


def _sample(record: Record, profile: Profile, linking: Linking, hops: int) -> Sample:
    topic = record["topic_entity"]
    entities = {topic: profile.short(profile.name_iri(topic))} if linking == "gold" else {}
    return Sample(
        id=record["id"],
        input=without_brackets(record["question"]),
        target=[str(answer) for answer in record["answers"]],
        metadata={
            "entities": entities,
            "qtype": record.get("qtype", ""),
            "tags": tags(hops=hops, type=record.get("qtype")),
        },
    )
