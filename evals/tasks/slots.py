"""What the slot-filling benchmarks share: a subject and a relation are given, the object is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspect_ai import Task
from inspect_ai.dataset import Sample

from triplewise.evals.data import Record, benchmark
from triplewise.evals.scorers import slot
from triplewise.evals.tasks.common import (
    Agent,
    Linking,
    Questions,
    build_task,
    check_linking,
    counted,
    records_of,
    tags,
    the_graph,
)
from triplewise.tools.core.errors import ConfigurationError

ASKED = ("all", "answerable", "topic")
NOTE = (
    "a slot counts as answerable where the asked fact is in the whole partial graph; an accepted answer is "
    "the gold one or any of its aliases; the topic entity's other objects may be among these"
)

_QID = re.compile(r"Q[0-9]+")


def slot_task(
    name: str,
    tested: Agent,
    *,
    version: int,
    linking: Linking,
    asked: str,
    gold_derived: bool,
    file: str | None,
    n: int | None,
    sample_seed: int,
) -> Task:
    """A slot-filling benchmark by its name in the catalog; the arguments are those of its task.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    check_linking(linking)
    if asked not in ASKED:
        raise ConfigurationError.unknown("asked", asked, ASKED)
    own = benchmark(name)
    return build_task(
        own,
        _questions(name, linking, asked, file),
        tested,
        version=version,
        scorers=[slot()],
        kg=the_graph(own, tested.settings, gold_derived),
        n=n,
        sample_seed=sample_seed,
    )


def _questions(name: str, linking: Linking, asked: str, given: str | None) -> Questions:
    (own,) = benchmark(name).files
    keys = ("id", "input", "answer", "alias", "topic_entity")
    records, file = records_of(benchmark(name), own, given, *keys, flag="kg_has_fact")
    flag = {"answerable": "kg_has_fact", "topic": "kg_topic_degree"}.get(asked)
    samples = [_sample(r, linking) for r in records if flag is None or r.get(flag, True)]
    return Questions(samples, *counted(records, "kg_has_fact"), [file], _note(records))


def _note(records: Sequence[Record]) -> str:
    """What a reader has to know, with how many subjects the graph knows at all."""
    known = sum(r.get("kg_topic_degree", 0) > 0 for r in records)
    return f"the graph has any fact of the subject for {known} of {len(records)} slots; {NOTE}"


def _sample(record: Record, linking: Linking) -> Sample:
    linked = {name: qid for qid, name in record["topic_entity"].items() if _QID.fullmatch(qid)}
    return Sample(
        id=record["id"],
        input=record["input"],
        target=list(dict.fromkeys([record["answer"], *(record["alias"] or [])])),
        metadata={
            "entities": linked if linking == "gold" else {},
            "relation": record.get("relation") or "",
            "answerable": bool(record.get("kg_has_fact")),
            "tags": tags(type=record.get("relation")),
            "topic_known": record.get("kg_topic_degree", 0) > 0,
        },
    )
