"""WebQuestionsSP: questions of search engine users over Freebase; here over a partial extract of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import strict
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
)
from triplewise.evals.training import seeds_of

VERSION = 2
FILE = "webqsp/test.jsonl.gz"
NOTE = "a question with several right parses counts with its best one, as in the official scorer"

_MID = re.compile(r"[mg]\.\w+")


@task
def webqsp(
    linking: Linking = "gold",
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
    """WebQSP test questions; answers are compared by mid, literals by value.

    Args:
        linking: `gold` gives the linked entities; with `own` the agent links.
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
    own = benchmark("webqsp")
    tested = Agent(preset, model, settings or {}, phases or {})
    kg = the_graph(own, tested.settings, gold_derived)
    return build_task(
        own,
        _questions(linking, kg_exact, "kg_exact" if gold_derived else "kg_exact_observed_only", file),
        tested,
        version=VERSION,
        scorers=[strict()],
        kg=kg,
        seeds=seeds_of(own, kg, seeds),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str, given: str | None) -> Questions:
    keys = ("id", "question", "answers", "alt_answer_sets")
    records, file = records_of(benchmark("webqsp"), FILE, given, *keys, flag=flag)
    asked = [r for r in records if r.get(flag, True) or not kg_exact]
    samples = [_sample(record, linking) for record in asked]
    return Questions(samples, *counted(records, flag), [file], NOTE)


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
            "tags": tags(relations=str(record.get("pyql") or "").count("add_fact(") or None),
            **names_of(record),
        },
    )
