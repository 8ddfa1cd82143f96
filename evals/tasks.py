"""The benchmarks as Inspect AI tasks, as `metaqa(hops=2)`, made from the catalog's entries."""

from __future__ import annotations

import hashlib
import inspect
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from platformdirs import user_cache_path

from triplewise.evals import data, scorers
from triplewise.evals.data import Benchmark, DataFile, LoadedKG, catalog, read_data, read_records
from triplewise.evals.provenance import of_system
from triplewise.evals.scorers import GOLD_NAMES, GOLD_ROWS
from triplewise.evals.solver import agent, context_of
from triplewise.evals.training import entities_of, seeds_of
from triplewise.nodes.sql import require_model
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import Record
from triplewise.tools.core.overlap import Compare
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.learning.exploration import short_answers
from triplewise.tools.linking.linker import without_brackets

__all__ = ["TASKS", "Question", "describe", "own_task"]

_BRACKETS = re.compile(r"\s*\([^()]*\)$")
WIKISQL_TABLES = "wikisql/tables.jsonl.gz"
DEV_PERCENT = 40  # share of WikiSQL's tables that are `dev`

cached_profile = cache(load_profile)


OWN_TABLES = "each question's own table, as a SQLite file"  # what WikiSQL is asked of, in place of a graph
AGENT: Mapping[str, Any] = {"model": "embedded", "settings": None, "phases": None}
"""The parameters of every task that say which agent is tested, besides `preset`, with their defaults."""


class Question(NamedTuple):
    """The question of a record: `gold` are texts, `entities` mention -> id, the benchmark's linking.

    Questions are told apart by `tags` in a report; `metadata` is for scorers.
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

    Attributes, which but for the functions stand under `task` in the catalog:
        version: raised whenever scores change. about, note: what is asked, and what else to know.
        parameters, choices: the task's own, with their defaults, and the legal values of some.
        preset, settings: the system that is asked by default. scorers: names with arguments, beside `effort`.
        questions: the file, which may name parameters (`{hops}`), or one a split. more_files: others needed.
        keys: what every record has. text, gold: question and answers; `any_gold`: each is right alone.
        linked: key with mention -> id, in place of `topic_entity` with id -> mention. id_form: their pattern.
        tags, metadata: name -> key, of what else is kept. needs: key that records have with gold linking.
        flag, flag_observed: keys that say whether the graph can answer a record, with and without facts made
            from gold answers; without these, and where `answerable.yaml` has nothing, it is complete.
        link_known: with gold linking, entities that the graph lacks are left out, and nothing else is linked.
        complete, amend: complete all records from the graph; change the question of a record.
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
        return {**self.parameters, "n": 1_000, "sample_seed": 0, "preset": self.preset, **AGENT}

    def build(self, **given: Any) -> Task:
        """The Inspect task for values of its parameters, which the catalog explains.

        A question that crashes scores 0 and the evaluation goes on. Raises `ConfigurationError` on an
        impossible value or where no question is left, `DataError` on a missing or broken file.
        """
        options = {**self.defaults, **given}
        for name, legal in {"linking": ("gold", "own"), **self.choices}.items():
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
            left_out = "" if options.get("gold_derived", True) else "gold_derived"
            parts = [part for part in data.graph(kg_name).facts if part != left_out]
            kg = data.prepared(data.graph(kg_name), parts)
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
        records = read_records(data.locate(file), *required)
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

    `preset`, `settings` and `phases` are as `solver.agent` takes them; `title` is for reports.
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


# -- what is special about some benchmarks


def metaqa(question: Question, record: Record) -> Question:
    """The topic entity is given by name, and in brackets."""
    topic, profile = record["topic_entity"], cached_profile("metaqa")
    linked = {topic: profile.short(profile.name_iri(topic))}
    return question._replace(text=without_brackets(question.text), entities=linked)


def graphq(question: Question, record: Record) -> Question:
    """The linking is id -> mention and what else is known."""
    pairs = ((entity["mention"], mid) for mid, entity in reversed(record["entity_linking"].items()))
    return question._replace(entities=dict(pairs))


def creak(question: Question, record: Record) -> Question:
    """Mentions are Wikipedia titles as a claim writes them: without what tells them from other titles."""
    linked = {_BRACKETS.sub("", name) or name: id_ for name, id_ in question.entities.items()}
    return question._replace(entities=linked)


def ck25(question: Question, record: Record) -> Question:
    """The gold answers are the rows in words, or true and false."""
    result, gold = record["result_rows"], record[GOLD_ROWS]
    functions = [str(f).lower() for f in record.get("features", ()) if f not in ("SELECT", "ASK")]
    is_wide = len(record["result_columns"] or []) > 1
    kind = "yes/no" if isinstance(result, bool) else "table" if is_wide else "column"
    return question._replace(
        gold=[str(result).lower()] if isinstance(result, bool) else [", ".join(row) for row in gold],
        tags={"type": kind, "function": " ".join(functions) or "none"},
    )


def wikisql(question: Question, record: Record) -> Question:
    """Questions are told apart by the gold query's function and number of conditions."""
    tags = {"function": record["sql"]["agg"] or "none", "conditions": len(record["sql"]["conds"])}
    return question._replace(tags=tags)


def link_by_gold_query(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """With gold linking, add `linked`: entities of the gold query by what the graph calls them."""
    if options["linking"] != "gold":
        return records
    linked = {record["id"]: entities_of(record["sparql"]) for record in records}
    opened = kg.open()
    qids = dict.fromkeys(qid for ids in linked.values() for qid in ids)
    nodes = {iri: qid for qid in qids if isinstance(iri := opened.profile.expand(qid), IRI)}
    names = {nodes[iri]: label for iri, label in opened.labels(nodes).items() if isinstance(iri, IRI)}
    return [{**r, "linked": {names.get(qid, qid): qid for qid in linked[r["id"]]}} for r in records]


def with_gold_rows(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Add `gold_rows`: results as answers are written, short ids and values, "" for what is unbound."""
    short = kg.open().profile.short

    def cell(value: str | None) -> str:
        text = value or ""
        return short(IRI(text)) if text.startswith(("http://", "https://")) else text

    def cells(result: Any) -> list[list[str]]:
        return [] if isinstance(result, bool) else [[cell(value) for value in row] for row in result]

    return [{**record, GOLD_ROWS: cells(record["result_rows"])} for record in records]


def with_short_answers(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Write gold answers that are full IRIs as answers are written, by their short ids, with their labels."""
    opened, completed = kg.open(), []
    for record in records:
        answers = short_answers(opened, [str(answer) for answer in record["answers"]])
        pairs = zip(answers, record.get("answer_labels", ()), strict=False)
        names = {answer: [label] for answer, label in pairs if answer != label}
        completed.append({**record, "answers": answers, GOLD_NAMES: names})
    return completed


# -- WikiSQL: questions over one table each; every table becomes a SQLite file in the user's cache folder. The
# questions are from its train split (tables of the others were not to be had), so scores are not those of its
# test split. Tables are parted by a hash of their id into `dev` and `test`.


def split_of(table_id: str) -> Literal["dev", "test"]:
    """Which split a table is in: by a hash of its id, so that no table is in both."""
    digest = hashlib.sha256(f"triplewise 0 {table_id}".encode()).hexdigest()
    return "dev" if int(digest[:8], 16) % 100 < DEV_PERCENT else "test"


def with_databases(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The records of the split, with the `db` of each: a SQLite file a table, all columns TEXT."""
    source = data.locate(data.benchmark("wikisql").files[WIKISQL_TABLES])
    folder = user_cache_path("triplewise") / "evals" / f"wikisql-{data.checksum(source)[:16]}"
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for table in read_records(source, "id", "header", "rows"):
            names: list[str] = []
            for number, given in enumerate(table["header"], 1):
                plain = given.strip() or f"column {number}"
                is_taken = plain.casefold() in {other.casefold() for other in names}
                names.append(f"{plain} {number}" if is_taken else plain)
            rows = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
            with closing(sqlite3.connect(unfinished / f"{table['id']}.sqlite")) as database, database:
                database.execute("PRAGMA synchronous = OFF")
                frame, types = pd.DataFrame(rows, columns=names), dict.fromkeys(names, "TEXT")
                frame.to_sql(f"table {table['id']}", database, index=False, dtype=types)
        unfinished.rename(folder)
    split = [record for record in records if split_of(record["table_id"]) == options["split"]]
    return [{**record, "db": str(folder / f"{record['table_id']}.sqlite")} for record in split]


# -- the table


FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "ck25": {"amend": ck25, "complete": with_gold_rows},
    "creak": {"amend": creak},
    "geoquery": {"complete": with_short_answers},
    "graphq": {"amend": graphq},
    "metaqa": {"amend": metaqa},
    "overnight": {"complete": with_short_answers},
    "wikisql": {"amend": wikisql, "complete": with_databases},
    "wikiwebquestions": {"complete": link_by_gold_query},
}
"""Task -> the functions among the attributes of `BenchmarkTask`: what is special about a benchmark."""

BENCHMARK_TASKS: Mapping[str, BenchmarkTask] = {
    name: BenchmarkTask(benchmark=own, **own.task, **FUNCTIONS.get(name, {}))
    for name, own in sorted(catalog().benchmarks.items())
}
"""Name -> task."""


def task_function(name: str) -> Callable[..., Task]:
    """A benchmark as Inspect registers tasks: a function with its name, parameters, defaults and docs."""
    of = BENCHMARK_TASKS[name]

    def build(*args: Any, **given: Any) -> Task:
        return of.build(**signature.bind(*args, **given).arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in of.defaults.items()]
    signature = inspect.Signature(parameters, return_annotation=Task)
    arguments = "\n".join(f"    {key}: {catalog().parameters[key]}" for key in of.defaults)
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{of.about}\n\nArgs:\n{arguments}\n\nRaises what `BenchmarkTask.build` raises."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return task(build)


TASKS: Mapping[str, Callable[..., Task]] = {name: task_function(name) for name in BENCHMARK_TASKS}
"""Name of a benchmark -> the function that makes its task."""


def describe(name: str) -> dict[str, Any]:
    """Return all of one task, as plain JSON; it stands in the catalog, so that no data is read.

    Raises `ConfigurationError` on an unknown task.
    """
    if name not in BENCHMARK_TASKS:
        raise ConfigurationError.unknown("task", name, BENCHMARK_TASKS)
    of = BENCHMARK_TASKS[name]
    own = of.benchmark
    kg = data.graph(own.graph.format(**of.defaults)) if own.graph else None
    kg_files = [*(file for files in kg.facts.values() for file in files), *kg.labels] if kg else []
    return {
        "name": name,
        "title": own.title,
        **{key: getattr(of, key) for key in ("version", "about", "note", "needs_model")},
        "scores": [catalog().scorers[scorer] for scorer in of.scorers],
        "asked": {which: {**asked, "observed": asked.get("observed")} for which, asked in own.counts.items()},
        "judged": own.answerable_if,
        "graph": kg.title if kg else OWN_TABLES,
        "partial": bool(kg and kg.partial),
        "gold_derived": bool(kg and "gold_derived" in kg.facts),
        "profile": (kg.profile or "inferred") if kg else "none",
        "seeds": list(own.seeds),
        "system": of.preset,
        "parameters": {key: value for key, value in of.defaults.items() if key not in AGENT},
        "files": [*own.files, *own.seeds, *(file.name for file in kg_files)],
        **{key: getattr(own, key) for key in ("licence", "published")},
        "citation": own.citation,
        "graph_licence": kg.licence if kg else own.licence,
    }
