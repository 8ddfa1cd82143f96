"""WikiWebQuestions: WebQuestionsSP annotated anew over Wikidata; here over a partial extract of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.kgs import LoadedKG
from triplewise.evals.scorers import answerable, strict
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
from triplewise.evals.training import entities_of, seeds_of
from triplewise.tools.core.terms import IRI

VERSION = 2
FILE = "wikiwebquestions/test.jsonl.gz"
NOTE = (
    "a question counts as answerable where the gold query gives exactly the gold answers on the graph; "
    "gold linking is the entities of the gold query but the classes it asks for"
)

_RELATION = re.compile(r"\b(?:wdt|ps|pq):P\d+")


@task
def wikiwebquestions(
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
    """WikiWebQuestions test questions; answers are compared by id, literals by value.

    Args:
        linking: `gold` gives the entities of the gold query; with `own` the agent links.
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
    own = benchmark("wikiwebquestions")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    kg = the_graph(own, tested.settings, gold_derived)
    flag = "kg_exact" if gold_derived else "kg_exact_no_gold"
    return build_task(
        own,
        _questions(linking, kg_exact, flag, kg, file),
        tested,
        version=VERSION,
        scorers=[strict(), answerable()],
        kg=kg,
        seeds=seeds_of(own, kg, seeds),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(linking: Linking, kg_exact: bool, flag: str, kg: LoadedKG, given: str | None) -> Questions:
    keys = ("id", "question", "sparql", "answers")
    records, file = records_of(benchmark("wikiwebquestions"), FILE, given, *keys, flag=flag)
    asked = [r for r in records if r.get(flag, True) or not kg_exact]
    linked = {r["id"]: entities_of(r["sparql"]) for r in asked} if linking == "gold" else {}
    names = _names(kg, (qid for ids in linked.values() for qid in ids))
    samples = [_sample(r, {names.get(q, q): q for q in linked.get(r["id"], ())}, flag) for r in asked]
    return Questions(samples, *counted(records, flag), [file], NOTE)


def _names(kg: LoadedKG, ids: Iterable[str]) -> dict[str, str]:
    """What the graph calls entities, so that they are found in the words of the question."""
    if not (wanted := list(dict.fromkeys(ids))):
        return {}
    opened = kg.open()
    nodes = {iri: i for i in wanted if isinstance(iri := opened.profile.expand(i), IRI)}
    return {nodes[iri]: label for iri, label in opened.labels(nodes).items() if isinstance(iri, IRI)}


def _sample(record: Record, entities: Mapping[str, str], flag: str) -> Sample:
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(a) for a in record["answers"]],
        metadata={
            "entities": dict(entities),
            "answerable": bool(record.get(flag)),
            "tags": tags(relations=len(_RELATION.findall(record["sparql"])) or None),
            **names_of(record),
        },
    )
