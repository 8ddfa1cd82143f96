"""The description of a benchmark's task, `BenchmarkTask`, and the Inspect task that it becomes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import Solver

from triplewise.evals import scorers
from triplewise.evals.data import (
    Benchmark,
    DataFile,
    LoadedKG,
    changed_files,
    checksum,
    graph,
    locate,
    prepared,
    read_data,
    read_records,
)
from triplewise.evals.provenance import of_system
from triplewise.evals.solver import agent, context_of
from triplewise.evals.training import seeds_of
from triplewise.nodes.sql import require_model
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import Record
from triplewise.tools.core.values import Compare

DEFAULT_N = 1_000
"""Questions that a task draws unless told otherwise."""

OWN_TABLES = "each question's own table, as a SQLite file"
"""What WikiSQL is asked of, in place of a graph."""

LINKING = ("gold", "own")
"""`gold`: the benchmark's own entity linking is given, as in the papers. `own`: the agent links."""

AGENT: Mapping[str, Any] = {"model": "embedded", "settings": None, "phases": None}
"""The parameters of every task that say which agent is tested, besides `preset`, with their defaults."""


class Question(NamedTuple):
    """The question of a record.

    Attributes:
        text: the question. gold: its answers, as texts. entities: mention -> id, the benchmark's linking.
        tags: what questions are told apart by in a report (hops, level, ...). metadata: for scorers.
    """

    text: str
    gold: Sequence[str]
    entities: Mapping[str, str] = {}
    tags: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}

    def sample(self, id_: str | int, *, linked: bool = True, **about: Any) -> Sample:
        """Return the question as Inspect has it; `about` goes before its own metadata."""
        metadata = {
            "entities": dict(self.entities) if linked else {},
            "tags": {tag: str(value) for tag, value in self.tags.items() if value not in (None, "", [])},
            **about,
            **self.metadata,
        }
        return Sample(id=id_, input=self.text, target=list(self.gold), metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTask:
    """One benchmark: what it asks, which of it a graph can answer, and how answers are scored.

    The attributes up to `note` are those under `task` in the catalog, where also its files, graph, licence
    and citation are; the others are functions.

    Attributes:
        benchmark: its entry in the catalog. version: raised whenever a change of the task changes scores.
        about: what is asked and compared, in a line. note: what a reader of the scores has to know besides.
        parameters: the task's own, with their defaults. choices: legal values of those that have few.
        preset: the system that is asked by default. needs_model: whether that takes a language model.
        questions: the file, which may name parameters (`{hops}`), or one for each split. more_files: others
            that the questions need. keys: what every record has.
        flag: key of records that says whether the graph can answer them; `flag_observed` whether it can
            without facts made from gold answers. Without either, and where `answerable.yaml` does not say it
            of the benchmark, the graph is complete.
        needs: key that records have to have with gold linking, else they are left out.
        link_known: with gold linking, leave out entities that the graph lacks; nothing is linked instead.
        settings: of the context, unless the caller has others.
        scorers: names with their arguments, beside `effort`, which every task has.
        read: what a record asks. prepare: completes all records from the graph, by the task's parameters,
            before they are read.
        more_note: what else a reader has to know, from all records. solver: asks the system.
    """

    benchmark: Benchmark
    version: int
    about: str
    parameters: Mapping[str, Any]
    questions: str | Mapping[str, str]
    keys: Sequence[str]
    scorers: Mapping[str, Mapping[str, Any]]
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    preset: str = "agent"
    needs_model: bool = False
    more_files: Sequence[str] = ()
    flag: str = ""
    flag_observed: str = ""
    needs: str = ""
    link_known: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    read: Callable[[Record], Question]
    prepare: Callable[[list[Record], LoadedKG, Mapping[str, Any]], list[Record]] | None = None
    more_note: Callable[[Sequence[Record]], str] | None = None
    solver: Callable[..., Solver] = agent

    @property
    def name(self) -> str:
        """The task's name, which is the benchmark's."""
        return self.benchmark.name

    @property
    def defaults(self) -> dict[str, Any]:
        """All parameters of the task with their defaults, its own first."""
        return {**self.parameters, "n": DEFAULT_N, "sample_seed": 0, "preset": self.preset, **AGENT}

    def build(self, **given: Any) -> Task:
        """The Inspect task: a question that crashes scores 0 and the evaluation goes on.

        Args:
            **given: values of its parameters, which the catalog explains (`parameters`).

        Raises:
            ConfigurationError: an impossible value, or no question is left to ask.
            DataError: a missing or broken file.
        """
        options = {**self.defaults, **given}
        for name, legal in {"linking": LINKING, **self.choices}.items():
            if name in options and options[name] not in legal:
                raise ConfigurationError.unknown(name, options[name], map(str, legal))
        settings = {"model": options["model"], **(options["settings"] or {})}
        if self.needs_model:
            require_model(context_of(settings))
        own, gold_linking = self.benchmark, options.get("linking") == "gold"
        own_graph = own.graph.format(**options)
        kg = kg_of_task(own_graph, settings, options.get("gold_derived", True))
        samples, about_samples, file = self._samples(kg, options)
        seeds = seeds_of(own, kg, options.get("seeds", False))
        if file in seeds.files:
            raise ConfigurationError(f"{file.name} holds seeds: pass seeds=false to be asked its questions")
        of_task = {
            "kg": kg.path or None,
            "profile": None if kg.own else kg.profile or None,
            "seeds": seeds.setting,
            **self.settings,
            "closed_world": options.get("closed_world"),
        }
        settings = {name: value for name, value in of_task.items() if value is not None} | settings
        phases = {"link": "known"} if gold_linking and self.link_known else {}
        phases |= options["phases"] or {}
        drawn = draw(samples, options["n"], options["sample_seed"])
        files = [file, *(own.files[name] for name in self.more_files), *seeds.files]
        kg_files = [file for part in kg.parts for file in graph(own_graph).facts[part]]
        kg_files += graph(own_graph).labels if kg_files else ()
        return Task(
            dataset=MemoryDataset(drawn, name=own.name, location=own.published),
            solver=self.solver(options["preset"], settings, phases),
            scorer=[*(getattr(scorers, name)(**of) for name, of in self.scorers.items()), scorers.effort()],
            fail_on_error=False,
            score_on_error=True,
            version=self.version,
            metadata={
                "benchmark": own.title,
                "citation": own.citation,
                **{key: getattr(own, key) for key in ("licence", "published")},
                "data_files": {file.name: checksum(locate(file)) for file in files},
                "changed_files": changed_files([*files, *kg_files]),
                "seed_questions": seeds.note,
                **about_samples,
                "kg": kg.title,
                **({"kg_graph": own_graph, **kg.about()} if kg.path else {}),
                "drawn": len(drawn),
                "sample_seed": options["sample_seed"],
                **of_system(options["preset"], context_of(settings), phases),
            },
        )

    def _samples(
        self, kg: LoadedKG, options: Mapping[str, Any]
    ) -> tuple[list[Sample], dict[str, Any], DataFile]:
        """The questions that the parameters ask for, before some are drawn; what to say of them; the file."""
        gold_linking = options.get("linking") == "gold"
        flag = self.flag if options.get("gold_derived", True) else self.flag_observed or self.flag
        records, file, shipped = self._records(options, flag)
        if self.needs and gold_linking:
            records = [record for record in records if record.get(self.needs)]
        if self.prepare:
            records = self.prepare(records, kg, options)
        flags = {str(r["id"]): bool(r[flag]) if flag else True for r in records if not flag or flag in r}
        if judged := read_data("answerable.yaml").get(self.name):
            parts = ["observed", "gold_derived"] if kg.gold_derived else ["observed"]
            ids = {str(id_) for part in parts for id_ in judged[part]}
            flags = {id_: id_ in ids for id_ in flags} if shipped and not kg.own else {}
        only = options.get("kg_exact") or options.get("answerable") or options.get("asked") == "answerable"
        samples = []
        for record in records:
            if only and not flags.get(str(record["id"]), True):
                continue
            if options.get("asked") == "topic" and not record.get("kg_topic_degree", True):
                continue
            question = self.read(record)
            answerable = flags.get(str(record["id"]), False)
            samples.append(question.sample(record["id"], linked=gold_linking, answerable=answerable))
        if not samples:
            raise ConfigurationError(
                f"no question of {self.name} is left: the graph can answer none that was asked for; ask "
                "all (kg_exact=false, answerable=false) or take the whole graph (gold_derived=true)"
            )
        about = {
            "drawn_from": len(samples),
            "answerable": sum(flags.values()),
            "asked": len(flags),
            "note": "; ".join(filter(None, [self.more_note(records) if self.more_note else "", self.note])),
        }
        return samples, about, file

    def _records(self, options: Mapping[str, Any], flag: str) -> tuple[list[Record], DataFile, bool]:
        """The records of the file of questions, the file, and whether it is the catalog's own.

        Only the catalog's own file has to have the flag.
        """
        own, given, name = self.benchmark, options.get("file"), self.questions
        name = name.format(**options) if isinstance(name, str) else name[options["split"]]
        file = own.files[name]
        if given:
            path = Path(given).expanduser().absolute()
            if not path.is_file():
                raise DataError(
                    f"no such file; questions in this form are published at {own.published}", path
                )
            file = DataFile(str(path), "", own.published)  # no checksum is expected of it
        flags = [flag] if flag and not given else []
        return read_records(locate(file), *self.keys, *flags), file, not given


def own_task(
    title: str,
    questions: Sequence[Question],
    preset: str = "agent",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, Any] | None = None,
    compare: Compare = "names",
) -> Task:
    """Return the Inspect task of questions of one's own, asked and scored as the benchmarks are.

    `preset`, `settings` and `phases` are the system that is asked, as `agent` of `triplewise.evals.solver`
    takes it; `title` is for reports. Raises `ConfigurationError` on an unknown preset, phase or setting.
    """
    samples = [question.sample(number) for number, question in enumerate(questions, 1)]
    context = context_of(settings or {})
    return Task(
        dataset=MemoryDataset(samples, name=title),
        solver=agent(preset, dict(settings or {}), phases),
        scorer=[scorers.strict(compare), scorers.effort()],
        fail_on_error=False,
        score_on_error=True,
        metadata={
            "benchmark": title,
            "kg": context.name_of("kg"),
            "drawn": len(samples),
            "drawn_from": len(samples),
            **of_system(preset, context, phases or {}),
        },
    )


def draw(samples: Sequence[Sample], n: int | None, sample_seed: int) -> list[Sample]:
    """A random subset of n samples (all for None or 0) in random order.

    The same seed gives the same order whatever n is, so that a smaller draw is the start of a larger one.
    """
    order = list(samples)
    random.Random(sample_seed).shuffle(order)
    return order[: n or None]


def kg_of_task(name: str, settings: Mapping[str, Any], gold_derived: bool = True) -> LoadedKG:
    """The KG that the settings name, else the benchmark's own, loaded into the cache where it is not yet.

    A benchmark over databases has none (its name is ""): its path is "".
    """
    if "kg" in settings:
        kg = str(settings["kg"])
        profile = str(settings.get("profile") or "as found")
        return LoadedKG(kg, profile, f"the user's own graph {kg}", partial=False)
    if not name:
        return LoadedKG("", "", OWN_TABLES, partial=False)
    own = graph(name)
    return prepared(own, [part for part in own.facts if gold_derived or part != "gold_derived"])
