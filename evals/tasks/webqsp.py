"""WebQuestionsSP: questions of search engine users over Freebase; here over a partial extract of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark, locate, read_records
from triplewise.evals.scorers import strict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    the_graph,
)

VERSION = 1
FILE = "webqsp/test.jsonl.gz"
NOTE = "a question with several right parses counts with its best one, as in the official scorer"

_MID = re.compile(r"[mg]\.\w+")


@task
def webqsp(
    linking: Linking = "gold",
    kg_exact: bool = True,
    gold_derived: bool = True,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "agent",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """WebQSP test questions; answers are compared by mid, literals by value.

    Args:
        linking: `gold` gives the linked entities; with `own` the agent links.
        kg_exact: ask only questions whose gold query gives the gold answers on the graph.
        gold_derived: whether the graph holds the facts that were made from gold answers.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("webqsp")
    tested = Agent(preset, model, settings or {}, phases or {})
    return build_task(
        own,
        _questions(linking, kg_exact, "kg_exact" if gold_derived else "kg_exact_observed_only"),
        tested,
        version=VERSION,
        scorers=[strict()],
        kg=the_graph(own, tested.settings, gold_derived),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str) -> Questions:
    file = benchmark("webqsp").files[FILE]
    records = read_records(locate(file), "id", "question", "answers", "alt_answer_sets", flag)
    asked = [r for r in records if r[flag] or not kg_exact]
    samples = [_sample(record, linking) for record in asked]
    return Questions(samples, sum(bool(r[flag]) for r in records), len(records), [file], NOTE)


def _sample(record: Record, linking: Linking) -> Sample:
    # The released linking also lists literals of the gold query, which are no entities.
    linked = {m: id_ for m, id_ in record.get("entity_linking", {}).items() if _MID.fullmatch(id_)}
    return Sample(
        id=record["id"],
        input=record["question"],
        target=list(record["answers"]),
        metadata={
            "entities": linked if linking == "gold" else {},
            "gold_sets": record["alt_answer_sets"] or [record["answers"]],
        },
    )
