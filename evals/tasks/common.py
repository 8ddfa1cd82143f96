"""What the tasks share: the draw of questions, and a task with its graph, scorers and provenance."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Scorer

from triplewise.evals.data import (
    Benchmark,
    DataFile,
    Record,
    changed,
    checksum,
    graph,
    locate,
    own_file,
    read_records,
)
from triplewise.evals.formats import read_public, sniff
from triplewise.evals.kgs import LoadedKG, prepared
from triplewise.evals.provenance import of_system
from triplewise.evals.scorers import GOLD_NAMES, effort
from triplewise.evals.solver import agent, context_of
from triplewise.evals.training import Seeds
from triplewise.tools.core.errors import ConfigurationError

Linking = Literal["gold", "own"]
"""`gold`: the benchmark's own entity linking is given, as in the papers. `own`: the agent links."""

NO_SEEDS = Seeds()
DEFAULT_N = 1_000
"""Questions that a task draws unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of a task before some are drawn.

    Attributes:
        samples: all of them. answerable: for how many of `asked` questions the graph holds the gold answers
            (both 0 where that is not judged: a graph of the user's own). files: the files they come from.
        note: what a reader of the scores has to know besides.
    """

    samples: Sequence[Sample]
    answerable: int
    asked: int
    files: Sequence[DataFile]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent under test: preset, swapped phases, and settings of its `Context`."""

    preset: str = "agent"
    model: str = "embedded"
    settings: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, str] = field(default_factory=dict)


def check_linking(linking: str) -> None:
    """Raise `ConfigurationError` on anything but `gold` or `own`."""
    if linking not in ("gold", "own"):
        raise ConfigurationError.unknown("linking", linking, ("gold", "own"))


def with_known(phases: Mapping[str, str] | None, linking: Linking) -> dict[str, str]:
    """The swapped phases; with the benchmark's linking, entities that a partial graph lacks are left out.

    Nothing else is linked in their place: what the graph does not know is not found.
    """
    return {**({"link": "known"} if linking == "gold" else {}), **(phases or {})}


def records_of(
    of: Benchmark, name: str, given: str | None, *required: str, flag: str = ""
) -> tuple[list[Record], DataFile]:
    """The records of one of a benchmark's files, and the file.

    Where it is not in the data folder, the file that the benchmark's authors publish in its place is read, if
    that is there.

    Args:
        of: the benchmark. name: its file in the catalog.
        given: a file of the user's own in its place, in our form or the published one.
        *required: keys that every record must have. flag: another, which only the catalog's file has to have.

    Raises:
        DataError: a missing or broken file, a record without one of the keys.
    """
    file = own_file(given, of.published) if given else of.files[name]
    path = locate(file)
    if not given and path.name == Path(name).name:
        return read_records(path, *required, *filter(None, [flag])), file
    return (read_public(of.name, path) if sniff(path) else read_records(path, *required)), file


def counted(records: Sequence[Record], flag: str) -> tuple[int, int]:
    """Of how many questions a flag says that the graph can answer them, and how many have it at all."""
    flagged = [bool(record[flag]) for record in records if flag in record]
    return sum(flagged), len(flagged)


def mentions(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Mention -> id; of several entities of one name the first."""
    found: dict[str, str] = {}
    for mention, id_ in pairs:
        found.setdefault(mention, id_)
    return found


def tags(**given: Any) -> dict[str, str]:
    """What questions are told apart by in a report (hops, level, ...), as texts, without empty ones."""
    return {name: str(value) for name, value in given.items() if value not in (None, "", [])}


def draw(samples: Sequence[Sample], n: int | None, sample_seed: int) -> list[Sample]:
    """A random subset of n samples (all for None or 0) in random order.

    The same seed gives the same order whatever n is, so that a smaller draw is the start of a larger one.
    """
    order = list(samples)
    random.Random(sample_seed).shuffle(order)
    return order[: n or None]


def the_graph(of: Benchmark, settings: Mapping[str, Any], gold_derived: bool = True) -> LoadedKG:
    """The KG that the settings name, else the benchmark's own, loaded into the cache where it is not yet.

    `gold_derived`: whether its own one holds the facts that were made from gold answers.
    """
    if "kg" in settings:
        kg = str(settings["kg"])
        return LoadedKG(
            kg, str(settings.get("profile") or "as found"), f"the user's own graph {kg}", partial=False
        )
    own = graph(of.graph)
    return prepared(own, [part for part in own.facts if gold_derived or part != "gold_derived"])


def build_task(
    of: Benchmark,
    questions: Questions,
    tested: Agent,
    *,
    version: int,
    scorers: Sequence[Scorer],
    kg: LoadedKG,
    n: int | None,
    sample_seed: int,
    seeds: Seeds = NO_SEEDS,
    defaults: Mapping[str, Any] | None = None,
) -> Task:
    """The Inspect task: a question that crashes scores 0 and the evaluation goes on.

    Args:
        of: the benchmark. questions: its questions. tested: the agent. kg: the graph it is asked of.
        version: raised whenever the task changes in a way that changes scores.
        scorers: beside `effort`, which every task has.
        n, sample_seed: see `draw`. seeds: its seed questions.
        defaults: settings of the context that the task needs, unless `tested` has its own.

    Raises:
        ConfigurationError: no question is left to ask, or the system cannot be as it is given.
    """
    if not questions.samples:
        raise ConfigurationError(
            f"no question of {of.name} is left: the graph can answer none of those that were asked for; ask "
            "all (kg_exact=false, answerable=false) or take the whole graph (gold_derived=true)"
        )
    own = {"kg": kg.path, "profile": None if kg.own else kg.profile or None, "model": tested.model}
    seeded = {} if seeds.setting is None else {"seeds": seeds.setting}
    settings = {**own, **seeded, **(defaults or {}), **tested.settings}
    drawn = draw(questions.samples, n, sample_seed)
    system = of_system(tested.preset, context_of(settings), tested.phases)
    return Task(
        dataset=MemoryDataset(drawn, name=of.name, location=of.published),
        solver=agent(tested.preset, settings, dict(tested.phases)),
        scorer=[*scorers, effort()],
        fail_on_error=False,
        score_on_error=True,
        version=version,
        metadata={
            **_provenance(of, questions, kg, seeds),
            "drawn": len(drawn),
            "sample_seed": sample_seed,
            **system,
        },
    )


def _provenance(of: Benchmark, questions: Questions, kg: LoadedKG, seeds: Seeds) -> dict[str, Any]:
    """Where questions and facts come from: part of every result."""
    files = [*questions.files, *seeds.files]
    return {
        "benchmark": of.title,
        "licence": of.licence,
        "citation": of.citation,
        "published": of.published,
        "data_files": {file.name: checksum(locate(file)) for file in files},
        "changed_files": changed([*files, *_kg_files(of, kg)]),
        "seed_questions": seeds.note,
        "drawn_from": len(questions.samples),
        "answerable": questions.answerable,
        "asked": questions.asked,
        "note": questions.note,
        "kg": kg.title,
        "kg_profile": kg.profile or "inferred",
        "kg_parts": list(kg.parts),
        "kg_triples": kg.triples,
        "kg_checksum": kg.checksum,
        "kg_partial": kg.partial,
        "kg_gold_derived": kg.gold_derived,
    }


def _kg_files(of: Benchmark, kg: LoadedKG) -> list[DataFile]:
    """The source files of the benchmark's own graph that are in the loaded one."""
    own = graph(of.graph)
    files = [file for part in kg.parts for file in own.facts[part]]
    return [*files, *own.labels] if files else []


def judged_questions(
    records: Sequence[Record],
    found: Collection[str] | None,
    only: bool,
    sample: Callable[[Record, bool], Sample],
    file: DataFile,
    note: str,
) -> Questions:
    """The questions of a benchmark that was judged: see `triplewise.evals.answerable.judged`.

    Args:
        records: all questions. found: ids of those that the graph can answer (None: not judged).
        only: whether only these are asked. sample: makes one, told whether the graph can answer it.
        file, note: as of `Questions`.
    """
    known = {str(record["id"]) for record in records} if found is None else found
    asked = [record for record in records if not only or str(record["id"]) in known]
    samples = [sample(record, found is not None and str(record["id"]) in found) for record in asked]
    counts = (0, 0) if found is None else (len(found), len(records))
    return Questions(samples, *counts, [file], note)


def gold_values(answers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Gold answers in GrailQA's form: mids and values."""
    return [str(answer["answer_argument"]) for answer in answers]


def names_of(record: Record) -> dict[str, dict[str, list[str]]]:
    """What a record says that gold ids are called, as part of a sample's metadata."""
    labels = {str(id_): [str(name)] for id_, name in (record.get("answer_labels") or {}).items() if name}
    found = record.get(GOLD_NAMES) or labels
    return {GOLD_NAMES: found} if found else {}


def gold_names(answers: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What gold answers in GrailQA's form are called: mid -> names."""
    named = ((str(a["answer_argument"]), a.get("entity_name")) for a in answers)
    return {mid: [str(name)] for mid, name in named if name}
