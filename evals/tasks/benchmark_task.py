"""The description of a benchmark's task, `BenchmarkTask`, and the Inspect task that it becomes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample

from triplewise.evals import data, scorers
from triplewise.evals.data import Benchmark, DataFile, LoadedKG, read_data
from triplewise.evals.provenance import of_system
from triplewise.evals.scorers import GOLD_NAMES
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

    All attributes but the functions are those under `task` in the catalog, where also its files, graph,
    licence and citation are.

    Attributes:
        benchmark: its entry in the catalog. version: raised whenever a change of the task changes scores.
        about: what is asked and compared, in a line. note: what a reader of the scores has to know besides.
        parameters: the task's own, with their defaults. choices: legal values of those that have few.
        preset: the system that is asked by default. needs_model: whether that takes a language model.
        questions: the file, which may name parameters (`{hops}`), or one for each split. more_files: others
            that the questions need. keys: what every record has.
        text, gold: the keys of a record with the question and with its answers. linked: the key with mention
            -> id, in place of `topic_entity` with id -> mention. id_form: pattern of the ids that are linked.
        any_gold: whether each gold answer is right alone. tags, metadata: name -> key of a record, of what is
            kept of it besides.
        flag: key of records that says whether the graph can answer them; `flag_observed` whether it can
            without facts made from gold answers. Without either, and where `answerable.yaml` does not say it
            of the benchmark, the graph is complete.
        needs: key that records have to have with gold linking, else they are left out.
        link_known: with gold linking, leave out entities that the graph lacks; nothing is linked instead.
        settings: of the context, unless the caller has others.
        scorers: names with their arguments, beside `effort`, which every task has.
        complete: completes all records from the graph, by the task's parameters, before they are read.
        amend: what is special about the question of a record, beyond what the keys say.
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
    text: str = "question"
    gold: Sequence[str] = ("answers",)
    linked: str = ""
    id_form: str = ".*"
    any_gold: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    flag: str = ""
    flag_observed: str = ""
    needs: str = ""
    link_known: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    complete: Callable[[list[Record], LoadedKG, Mapping[str, Any]], list[Record]] | None = None
    amend: Callable[[Question, Record], Question] | None = None

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
        own, kg_name = self.benchmark, self.benchmark.graph.format(**options)
        if "kg" in settings:
            profile = str(settings.get("profile") or "as found")
            kg = LoadedKG(str(settings["kg"]), profile, f"the user's own graph {settings['kg']}", False)
        elif not kg_name:
            kg = LoadedKG("", "", OWN_TABLES, False)
        else:
            parts = data.graph(kg_name).facts
            with_derived = options.get("gold_derived", True)
            kg = data.prepared(
                data.graph(kg_name), [part for part in parts if with_derived or part != "gold_derived"]
            )
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
        known = options.get("linking") == "gold" and self.link_known
        phases = {**({"link": "known"} if known else {}), **(options["phases"] or {})}
        # The same seed gives the same order whatever n is: a smaller draw is the start of a larger one.
        random.Random(options["sample_seed"]).shuffle(samples)
        drawn = samples[: options["n"] or None]
        files = [file, *(own.files[name] for name in self.more_files), *seeds.files]
        kg_files = [kg_file for part in kg.parts for kg_file in data.graph(kg_name).facts[part]]
        kg_files += data.graph(kg_name).labels if kg_files else ()
        about = {
            "citation": own.citation,
            **{key: getattr(own, key) for key in ("licence", "published")},
            "data_files": {file.name: data.checksum(data.locate(file)) for file in files},
            "changed_files": data.changed_files([*files, *kg_files]),
            "seed_questions": seeds.note,
            **about_samples,
            **({"kg_graph": kg_name, **kg.about()} if kg.path else {}),
            "sample_seed": options["sample_seed"],
        }
        scored = [getattr(scorers, name)(**arguments) for name, arguments in self.scorers.items()]
        dataset, system = MemoryDataset(drawn, own.name, own.published), (options["preset"], settings, phases)
        made = _task(own.title, dataset, scored, system, kg.title, about)
        made.version = self.version
        return made

    def question_of(self, record: Record) -> Question:
        """Return what a record asks."""
        gold, names = [], dict[str, list[str]]()
        for key in self.gold:
            value = record[key]
            for one in value if isinstance(value, list) else [] if value is None else [value]:
                if isinstance(one, Mapping):  # as GrailQA has it
                    gold.append(str(one["answer_argument"]))
                    names |= {gold[-1]: [str(one["entity_name"])]} if one.get("entity_name") else {}
                else:
                    gold.append(str(one).lower() if isinstance(one, bool) else str(one))
        labels = record.get("answer_labels")
        if isinstance(labels, Mapping):
            names = {str(id_): [str(name)] for id_, name in labels.items() if name}
        names = record.get(GOLD_NAMES) or names
        pairs = record.get(self.linked or "topic_entity")
        linked = dict[str, str]()
        if isinstance(pairs, Mapping):  # of several entities of one name the first
            for name, id_ in pairs.items() if self.linked else ((name, id_) for id_, name in pairs.items()):
                if re.fullmatch(self.id_form, id_):
                    linked.setdefault(name, id_)
        tags = {tag: record.get(key) for tag, key in self.tags.items()}
        kept = {name: record.get(key) for name, key in self.metadata.items()}
        about = {**kept, **({GOLD_NAMES: names} if names else {})}
        about |= {"gold_sets": [[one] for one in gold]} if self.any_gold else {}
        question = Question(record[self.text], list(dict.fromkeys(gold)), linked, tags, about)
        return self.amend(question, record) if self.amend else question

    def _samples(
        self, kg: LoadedKG, options: Mapping[str, Any]
    ) -> tuple[list[Sample], dict[str, Any], DataFile]:
        """The questions that the parameters ask for, before some are drawn; what to say of them; the file."""
        own, gold_linking, given = self.benchmark, options.get("linking") == "gold", options.get("file")
        flag = self.flag if options.get("gold_derived", True) else self.flag_observed or self.flag
        name = self.questions
        file = own.files[name.format(**options) if isinstance(name, str) else name[options["split"]]]
        if given:
            path = Path(given).expanduser().absolute()
            if not path.is_file():
                message = f"no such file; questions in this form are published at {own.published}"
                raise DataError(message, path)
            file = DataFile(str(path), "", own.published)  # no checksum is expected of it
        # Only the catalog's own file has to have the flag.
        required = [*self.keys, *([flag] if flag and not given else [])]
        records = data.read_records(data.locate(file), *required)
        if self.needs and gold_linking:
            records = [record for record in records if record.get(self.needs)]
        if self.complete:
            records = self.complete(records, kg, options)
        flags = {str(r["id"]): bool(r[flag]) if flag else True for r in records if not flag or flag in r}
        if judged := read_data("answerable.yaml").get(own.name):
            parts = ["observed", "gold_derived"] if kg.gold_derived else ["observed"]
            ids = {str(id_) for part in parts for id_ in judged[part]}
            flags = {id_: id_ in ids for id_ in flags} if not given and not kg.own else {}
        only = options.get("kg_exact") or options.get("answerable") or options.get("asked") == "answerable"
        samples = []
        for record in records:
            if only and not flags.get(str(record["id"]), True):
                continue
            if options.get("asked") == "topic" and not record.get("kg_topic_degree", True):
                continue
            answerable = flags.get(str(record["id"]), False)
            question = self.question_of(record)
            samples.append(question.sample(record["id"], linked=gold_linking, answerable=answerable))
        if not samples:
            raise ConfigurationError(
                f"no question of {own.name} is left: the graph can answer none that was asked for; ask "
                "all (kg_exact=false, answerable=false) or take the whole graph (gold_derived=true)"
            )
        counts = {"drawn_from": len(samples), "answerable": sum(flags.values()), "asked": len(flags)}
        return samples, {**counts, "note": self.note}, file


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
    system = preset, dict(settings or {}), dict(phases or {})
    kg = context_of(settings or {}).name_of("kg")
    dataset, about = MemoryDataset(samples, title), {"drawn_from": len(samples)}
    return _task(title, dataset, [scorers.strict(compare)], system, kg, about)


def _task(
    title: str,
    dataset: MemoryDataset,
    scored: Sequence[Any],
    system: tuple[str, dict[str, Any], dict[str, Any]],
    kg: str,
    about: Mapping[str, Any],
) -> Task:
    """The task of a dataset, asked of a system: a question that crashes scores 0."""
    preset, settings, phases = system
    used = of_system(preset, context_of(settings), phases)
    return Task(
        dataset=dataset,
        solver=agent(preset, settings, phases),
        scorer=[*scored, scorers.effort()],
        fail_on_error=False,
        score_on_error=True,
        metadata={"benchmark": title, **about, "kg": kg, "drawn": len(dataset), **used},
    )
