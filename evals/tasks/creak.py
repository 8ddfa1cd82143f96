"""CREAK: claims of common sense about entities, true or false; here over a partial extract of Wikidata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import verdict
from triplewise.evals.tasks.common import (
    DEFAULT_N,
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    counted,
    records_of,
    tags,
    the_graph,
    with_known,
)

VERSION = 1
FILE = "creak/dev.jsonl.gz"
FLAG = "kg_topic_degree"
NOTE = (
    "a claim counts as answerable where the graph has any fact of its topic, which is the most that can be "
    "decided: most claims of common sense follow from no fact of it. With closed_world a claim that no fact "
    "decides is assumed to be untrue, unless the graph links all that it names by some other relation; the "
    "share of claims that facts decide is `proven`"
)

_QID = re.compile(r"Q[0-9]+")
_BRACKETS = re.compile(r"\s*\([^()]*\)$")


@task
def creak(
    linking: Linking = "gold",
    answerable: bool = False,
    closed_world: bool = True,
    gold_derived: bool = True,
    file: str | None = None,
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "oda",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """CREAK's dev claims, each judged true or false.

    Args:
        linking: `gold` gives the topic entity, as ToG and ODA do; with `own` the agent links.
        answerable: ask only claims of whose topic the graph has any fact.
        closed_world: a claim that no fact decides is judged by what is linked at all, which the
            reason says; otherwise it stays undecided, and counts as wrong.
        gold_derived: whether the graph holds the facts made from gold answers of other benchmarks.
        file: a file of claims in the place of its claims, in our form or as the benchmark publishes it.
        n, sample_seed: how many claims are drawn (0 for all), and with which seed.
        preset, model, settings, phases: the agent under test; `settings.kg` asks another graph.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    own = benchmark("creak")
    tested = Agent(preset, model, settings or {}, with_known(phases, linking))
    return build_task(
        own,
        _questions(linking, answerable, file),
        tested,
        version=VERSION,
        scorers=[verdict()],
        kg=the_graph(own, tested.settings, gold_derived),
        n=n,
        sample_seed=sample_seed,
        defaults={"closed_world": closed_world},
    )


def _questions(linking: Linking, answerable: bool, given: str | None) -> Questions:
    keys = ("id", "sentence", "label", "topic_entity")
    records, file = records_of(benchmark("creak"), FILE, given, *keys, flag=FLAG)
    majority, most = Counter(r["label"] for r in records).most_common(1)[0]
    asked = [r for r in records if r.get(FLAG, True) or not answerable]
    samples = [_sample(r, linking, majority) for r in asked]
    note = f'always saying "{majority}" is right for {most / len(records):.1%} of all claims; {NOTE}'
    return Questions(samples, *counted(records, FLAG), [file], note)


def _sample(record: Record, linking: Linking, majority: str) -> Sample:
    linked = {_mention(n): qid for qid, n in record["topic_entity"].items() if _QID.fullmatch(qid)}
    return Sample(
        id=record["id"],
        input=record["sentence"],
        target=[record["label"]],
        metadata={
            "entities": linked if linking == "gold" else {},
            "answerable": bool(record.get(FLAG)),
            "majority": majority,
            "tags": tags(type=record["label"]),
        },
    )


def _mention(name: str) -> str:
    """A Wikipedia title as a claim writes it: without what tells it from other titles."""
    return _BRACKETS.sub("", name) or name
