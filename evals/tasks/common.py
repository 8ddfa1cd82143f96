"""What the tasks share: the draw of questions, and a task with its graph, scorers and provenance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Scorer

from triplewise.evals.data import Benchmark, DataFile, changed, graph, locate
from triplewise.evals.kgs import LoadedKG, prepared
from triplewise.evals.scorers import effort
from triplewise.evals.solver import agent
from triplewise.tools.errors import ConfigurationError

Linking = Literal["gold", "own"]
"""`gold`: the benchmark's own entity linking is given, as in the papers. `own`: the agent links."""

DEFAULT_N = 1_000
"""Questions that a task draws unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of a task before some are drawn.

    Attributes:
        samples: all of them. answerable: for how many of `asked` questions the graph holds the gold answers.
        files: the files they come from. note: what a reader of the scores has to know besides.
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
    defaults: Mapping[str, Any] | None = None,
) -> Task:
    """The Inspect task: a question that crashes scores 0 and the evaluation goes on.

    Args:
        of: the benchmark. questions: its questions. tested: the agent. kg: the graph it is asked of.
        version: raised whenever the task changes in a way that changes scores.
        scorers: beside `effort`, which every task has.
        n, sample_seed: see `draw`.
        defaults: settings of the context that the task needs, unless `tested` has its own.
    """
    own = {"kg": kg.path, "profile": None if "kg" in tested.settings else kg.profile, "model": tested.model}
    settings = {**own, **(defaults or {}), **tested.settings}
    drawn = draw(questions.samples, n, sample_seed)
    return Task(
        dataset=MemoryDataset(drawn, name=of.name, location=of.published),
        solver=agent(tested.preset, settings, dict(tested.phases)),
        scorer=[*scorers, effort()],
        fail_on_error=False,
        score_on_error=True,
        version=version,
        metadata=_provenance(of, questions, kg, len(drawn))
        | {"preset": tested.preset, "model": tested.model},
    )


def _provenance(of: Benchmark, questions: Questions, kg: LoadedKG, drawn: int) -> dict[str, Any]:
    """Where questions and facts come from: part of every result."""
    return {
        "benchmark": of.title,
        "licence": of.licence,
        "citation": of.citation,
        "published": of.published,
        "data_files": {file.name: file.sha256 for file in questions.files},
        "changed_files": changed([*questions.files, *_kg_files(of, kg)]),
        "drawn": drawn,
        "drawn_from": len(questions.samples),
        "answerable": questions.answerable,
        "asked": questions.asked,
        "note": questions.note,
        "kg": kg.title,
        "kg_profile": kg.profile,
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


def seed_files(files: Sequence[DataFile]) -> str:
    """Seed questions as the context takes them: paths joined by commas."""
    return ",".join(str(locate(file)) for file in files)
