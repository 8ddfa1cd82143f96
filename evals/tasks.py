"""The benchmarks as Inspect AI tasks, as `metaqa(hops=2)`, made from the catalog's entries."""

from __future__ import annotations

import hashlib
import inspect
import platform
import random
import re
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from platformdirs import user_cache_path

from triplewise.evals import data, scorers
from triplewise.evals.baselines import find_system
from triplewise.evals.data import Benchmark, DataFile, LoadedKG, catalog, read_records
from triplewise.evals.scorers import GOLD_NAMES
from triplewise.evals.solver import agent, context_of
from triplewise.evals.training import entities_of, seeds_of
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record, packaged
from triplewise.tools.core.overlap import Compare
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.load import install, scratch_folder
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.learning.exploration import short_answers
from triplewise.tools.linking.linker import without_brackets

__all__ = ["TASKS", "Question", "own_task"]

WIKISQL_TABLES = "wikisql/tables.jsonl.gz"
DEV_PERCENT = 40  # share of WikiSQL's tables that are `dev`
PACKAGES = (
    "langgraph", "langchain-core", "langchain-openai", "inspect-ai", "pyoxigraph", "sentence-transformers",
    "transformers", "torch", "numpy",
)  # fmt: skip
"""Packages whose version can change a figure."""
ROOT = Path(__file__).resolve().parent.parent


class Question(NamedTuple):
    """The question of a record: `gold` are texts, `entities` mention -> id, the benchmark's linking."""

    text: str
    gold: Sequence[str]
    entities: Mapping[str, str] = {}
    metadata: Mapping[str, Any] = {}

    def sample(self, id_: str | int, *, linked: bool = True, **about: Any) -> Sample:
        """Return the question as Inspect has it; `about` goes before its own metadata."""
        metadata = {"entities": dict(self.entities) if linked else {}, **about, **self.metadata}
        return Sample(id=id_, input=self.text, target=list(self.gold), metadata=metadata)


def make_task(of: Benchmark, given: Mapping[str, Any]) -> Task:
    """The Inspect task of a benchmark for values of its parameters, which the catalog explains.

    A question that crashes scores 0 and the evaluation goes on. Raises `ConfigurationError` on an impossible
    value or where no question is left, `DataError` on a missing or broken file.
    """
    options = {**of.defaults, **given}
    for name, legal in {"linking": ("gold", "own"), **of.choices}.items():
        if options.get(name, legal[0]) not in legal:
            raise ConfigurationError.unknown(name, options[name], map(str, legal))
    settings = {"model": options["model"], **(options["settings"] or {})}
    if of.needs_model:
        context_of(settings).require_model()
    kg = _graph_of(of, options, settings)
    samples, about_samples, file = _samples(of, kg, options)
    seeds = seeds_of(of, kg, options.get("seeds", False))
    if file in seeds.files:
        raise ConfigurationError(f"{file.name} holds seeds: pass seeds=false to be asked its questions")
    of_task = {"kg": kg.path, "profile": kg.profile if kg.checksum else "", "seeds": seeds.setting}
    settings = {**{name: value for name, value in of_task.items() if value}, **of.settings, **settings}
    known = options.get("linking") == "gold" and of.link_known
    phases = {**({"link": "known"} if known else {}), **(options["phases"] or {})}
    # The same seed gives the same order whatever n is: a smaller draw is the start of a larger one.
    random.Random(options["sample_seed"]).shuffle(samples)
    asked = [file, *map(of.files.__getitem__, of.more_files), *seeds.files]
    files = list(asked)
    if kg.parts:
        used = catalog().graphs[of.graph.format(**options)]
        files += chain(*map(used.facts.__getitem__, kg.parts), used.labels)
    kept = ("parts", "triples", "checksum", "partial", "gold_derived") if kg.path else ()
    about = {
        "citation": of.citation,
        "licence": of.licence,
        "published": of.published,
        "data_files": {file.name: data.checksum(data.locate(file)) for file in asked},
        "changed_files": [f.name for f in files if data.checksum(data.locate(f)) != f.sha256],
        "seed_questions": seeds.note,
        **about_samples,
        **{f"kg_{name}": getattr(kg, name) for name in kept},
        "sample_seed": options["sample_seed"],
    }
    scored = [getattr(scorers, name)(**arguments) for name, arguments in of.scorers.items()]
    dataset = MemoryDataset(samples[: options["n"] or None], of.name, of.published)
    made = _task(of.title, dataset, scored, (options["preset"], settings, phases), kg.title, about)
    made.version = of.version
    return made


def _graph_of(of: Benchmark, options: Mapping[str, Any], settings: Mapping[str, Any]) -> LoadedKG:
    """The graph of a task: the user's own, that of the catalog, loaded, or none where tables are asked."""
    if "kg" in settings:
        profile = str(settings.get("profile") or "as found")
        return LoadedKG(str(settings["kg"]), profile, f"the user's own graph {settings['kg']}", False)
    if not (name := of.graph.format(**options)):
        return LoadedKG("", "", "each question's own table, as a SQLite file", False)
    left_out = "" if options.get("gold_derived", True) else "gold_derived"
    graph = catalog().graphs[name]
    return data.prepared(graph, [part for part in graph.facts if part != left_out])


def question_of(of: Benchmark, record: Record) -> Question:
    """Return what a record asks."""
    gold, names = _gold_of(of, record)
    pairs = record.get(of.linked or "topic_entity")
    linked = dict[str, str]()
    if isinstance(pairs, Mapping):  # of several entities of one name the first
        for name, id_ in pairs.items() if of.linked else ((name, id_) for id_, name in pairs.items()):
            if re.fullmatch(of.id_form, id_):
                linked.setdefault(name, id_)
    about = {name: record[key] for name, key in of.metadata.items() if record.get(key) is not None}
    about |= {GOLD_NAMES: names} if names else {}
    about |= {"gold_sets": [[one] for one in gold]} if of.any_gold else {}
    return Question(record[of.text], list(dict.fromkeys(gold)), linked, about)


def _gold_of(of: Benchmark, record: Record) -> tuple[list[str], dict[str, list[str]]]:
    """The gold answers of a record, and the names that the benchmark has for them."""
    gold, names = list[str](), dict[str, list[str]]()
    for key in of.gold:
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
    return gold, record.get(GOLD_NAMES) or names


def _samples(
    of: Benchmark, kg: LoadedKG, options: Mapping[str, Any]
) -> tuple[list[Sample], dict[str, Any], DataFile]:
    """The questions that the parameters ask for, before some are drawn; what to say of them; the file."""
    is_linked, given, name = options.get("linking") == "gold", options.get("file"), of.questions
    flag = of.flag if options.get("gold_derived", True) else of.flag_observed or of.flag
    file = of.files[name.format(**options) if isinstance(name, str) else name[options["split"]]]
    if given:  # no checksum is expected of it
        file = DataFile(str(Path(given).expanduser().absolute()), "", of.published)
    # Only the catalog's own file has to have the flag.
    records = read_records(data.locate(file), *of.keys, *([flag] if flag and not given else []))
    if of.needs and is_linked:
        records = [record for record in records if record.get(of.needs)]
    if of.name in COMPLETED:
        records = COMPLETED[of.name](records, kg, options)
    judged = _judged(of, kg, records, flag, bool(given))
    only = options.get("kg_exact") or options.get("answerable") or options.get("asked") == "answerable"
    samples = []
    for record in records:
        has_topic = options.get("asked") != "topic" or record.get("kg_topic_degree", True)
        if has_topic and (judged.get(str(record["id"]), True) or not only):
            answerable = judged.get(str(record["id"]), False)
            question = question_of(of, record)
            samples.append(question.sample(record["id"], linked=is_linked, answerable=answerable))
    if not samples:
        raise ConfigurationError(
            f"no question of {of.name} is left: the graph can answer none of those requested; ask "
            "all (kg_exact=false, answerable=false) or take the whole graph (gold_derived=true)"
        )
    counts = {"drawn_from": len(samples), "answerable": sum(judged.values()), "asked": len(judged)}
    return samples, {**counts, "note": of.note}, file


def _judged(of: Benchmark, kg: LoadedKG, records: list[Record], flag: str, is_own: bool) -> dict[str, bool]:
    """Return question id -> whether the graph can answer it, as its record or `answerable.yaml` has it."""
    known = packaged("triplewise.evals", "answerable.yaml").get(of.name)
    if known is None:
        return {str(r["id"]): bool(r[flag]) if flag else True for r in records if not flag or flag in r}
    if is_own or not kg.checksum:
        return {}
    parts = ["observed", "gold_derived"] if kg.gold_derived else ["observed"]
    ids = {str(id_) for part in parts for id_ in known[part]}
    return {id_: id_ in ids for id_ in (str(r["id"]) for r in records)}


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
    """The task of a dataset, asked of a system: a question that crashes scores 0.

    A preset lays its own settings over those that still have their default.
    """
    preset, settings, phases = system
    context, chosen = context_of(settings), find_system(preset)
    used = {
        **software(),
        "preset": preset,
        "model": context.model,
        "settings": asdict(context),
        "preset_settings": dict(chosen.settings),
        "phases": {n: getattr(part, "__name__", part) for n, part in {**chosen.phases, **phases}.items()},
    }
    return Task(
        dataset=dataset,
        solver=agent(preset, settings, phases),
        scorer=[*scored, scorers.effort()],
        fail_on_error=False,
        score_on_error=True,
        metadata={"benchmark": title, **about, "kg": kg, "drawn": len(dataset), **used},
    )


@cache
def software() -> dict[str, Any]:
    """Return the product's version and commit ("" outside a checkout), and what it runs on."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    commit = changes = ""
    if (ROOT / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            commit = git("rev-parse", "HEAD")
            changes = git("status", "--porcelain", "--untracked-files=no")
    return {
        "triplewise": version("triplewise"),
        "commit": commit,
        "commit_clean": bool(commit) and not changes,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


# -- what is special about some benchmarks: records completed by the keys that the catalog names


def metaqa(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The topic entity is given by name, and in brackets."""
    profile = load_profile("metaqa")
    for record in records:
        topic = record["topic_entity"]
        record["question"] = without_brackets(record["question"])
        record["linked"] = {topic: profile.short(profile.name_iri(topic))}
    return records


def graphq(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The linking is id -> mention and what else is known; of two ids of one mention the first counts."""
    for record in records:
        pairs = [(one["mention"], id_) for id_, one in record["entity_linking"].items()]
        record["linked"] = dict(pairs[::-1])
    return records


def creak(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Mentions are Wikipedia titles as a claim writes them: without what tells them from other titles."""
    for record in records:
        topics = record["topic_entity"] if isinstance(record["topic_entity"], dict) else {}
        plain = {id_: re.sub(r"\s*\([^()]*\)$", "", title) or title for id_, title in topics.items()}
        record["topic_entity"] = plain
    return records


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


def with_short_answers(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Write gold answers that are full IRIs as answers are written, by their short ids, with their labels."""
    opened = kg.open()
    for record in records:
        record["answers"] = answers = short_answers(opened, [str(answer) for answer in record["answers"]])
        pairs = zip(answers, record.get("answer_labels", ()), strict=False)
        record[GOLD_NAMES] = {answer: [label] for answer, label in pairs if answer != label}
    return records


# -- WikiSQL: questions over one table each; every table becomes a SQLite file in the user's cache folder. The
# questions are from its train split (tables of the others were not to be had), so scores are not those of its
# test split. Tables are parted by a hash of their id into `dev` and `test`.


def split_of(table_id: str) -> Literal["dev", "test"]:
    """Which split a table is in: by a hash of its id, so that no table is in both."""
    digest = hashlib.sha256(f"triplewise 0 {table_id}".encode()).hexdigest()
    return "dev" if int(digest[:8], 16) % 100 < DEV_PERCENT else "test"


def with_databases(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The records of the split, with the `db` of each: a SQLite file a table, all columns TEXT."""
    source = data.locate(catalog().benchmarks["wikisql"].files[WIKISQL_TABLES])
    folder = user_cache_path("triplewise") / "evals" / f"wikisql-{data.checksum(source)[:16]}"
    if not folder.is_dir():
        with scratch_folder(folder, None) as unfinished:
            for table in read_records(source, "id", "header", "rows"):
                names: dict[str, str] = {}  # without case -> name; of two the second has its number
                for number, given in enumerate(table["header"], 1):
                    plain = given.strip() or f"column {number}"
                    plain = f"{plain} {number}" if plain.casefold() in names else plain
                    names[plain.casefold()] = plain
                rows = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
                with closing(sqlite3.connect(unfinished / f"{table['id']}.sqlite")) as database, database:
                    database.execute("PRAGMA synchronous = OFF")
                    frame = pd.DataFrame(rows, columns=list(names.values()))
                    types = dict.fromkeys(frame.columns, "TEXT")
                    frame.to_sql(f"table {table['id']}", database, index=False, dtype=types)
            install(unfinished, folder)
    split = [record for record in records if split_of(record["table_id"]) == options["split"]]
    for record in split:
        record["db"] = str(folder / f"{record['table_id']}.sqlite")
        record["function"], record["conditions"] = record["sql"]["agg"] or "none", len(record["sql"]["conds"])
    return split


COMPLETED: Mapping[str, Callable[[list[Record], LoadedKG, Mapping[str, Any]], list[Record]]] = {
    "creak": creak,
    "geoquery": with_short_answers,
    "graphq": graphq,
    "metaqa": metaqa,
    "overnight": with_short_answers,
    "wikisql": with_databases,
    "wikiwebquestions": link_by_gold_query,
}
"""Benchmark -> what completes its records, from the graph and the task's parameters, before they are read."""


def task_function(of: Benchmark) -> Callable[..., Task]:
    """A benchmark as Inspect registers tasks: a function with its name, parameters, defaults and docs."""

    def build(*args: Any, **given: Any) -> Task:
        return make_task(of, signature.bind(*args, **given).arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in of.defaults.items()]
    signature = inspect.Signature(parameters, return_annotation=Task)
    arguments = "\n".join(f"    {key}: {catalog().parameters[key]}" for key in of.defaults)
    build.__name__ = build.__qualname__ = of.name
    build.__doc__ = f"{of.about}\n\nArgs:\n{arguments}\n\nRaises what `make_task` raises."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return task(build)


TASKS: Mapping[str, Callable[..., Task]] = {n: task_function(of) for n, of in catalog().benchmarks.items()}
