"""The table of benchmarks: the catalog's entries, and the functions that say what is special about each.

What WikiSQL does with its tables is in `wikisql.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean, mode
from typing import Any

from inspect_ai import Task, task

from triplewise.evals.data import LoadedKG, catalog, graph
from triplewise.evals.scorers import GOLD_NAMES, GOLD_ROWS, SINGLE_GOLD
from triplewise.evals.tasks.benchmark_task import AGENT, OWN_TABLES, BenchmarkTask, Question
from triplewise.evals.tasks.wikisql import over_its_table, read_wikisql, with_databases
from triplewise.evals.training import entities_of
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.learning.questions import short_answers
from triplewise.tools.linking.linker import without_brackets

_MID = re.compile(r"[mg]\.\w+")
_QID = re.compile(r"Q[0-9]+")
_BRACKETS = re.compile(r"\s*\([^()]*\)$")
_WIKIDATA_RELATION = re.compile(r"\b(?:wdt|ps|pq):P\d+")


cached_profile = cache(load_profile)


def _ids_by_mention(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Mention -> id; of several entities of one name the first."""
    ids: dict[str, str] = {}
    for mention, id_ in pairs:
        ids.setdefault(mention, id_)
    return ids


def _topics(record: Record, form: re.Pattern[str] | None = None) -> dict[str, str]:
    """Mention -> id of a record's `topic_entity`, of those whose id has a form."""
    linked = record.get("topic_entity") or {}
    return _ids_by_mention((name, id_) for id_, name in linked.items() if not form or form.fullmatch(id_))


def _gold_names(record: Record) -> dict[str, dict[str, list[str]]]:
    """Return the names of gold ids in a record, as part of a sample's metadata."""
    labels = {str(id_): [str(name)] for id_, name in (record.get("answer_labels") or {}).items() if name}
    names = record.get(GOLD_NAMES) or labels
    return {GOLD_NAMES: names} if names else {}


def _freebase_gold(answers: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, dict[str, list[str]]]]:
    """Gold answers in the form of GrailQA and AgentBench: mids and values, and what mids are called."""
    named = {str(a["answer_argument"]): [str(a["entity_name"])] for a in answers if a.get("entity_name")}
    return [str(a["answer_argument"]) for a in answers], {GOLD_NAMES: named}


# -- MetaQA


def read_metaqa(record: Record) -> Question:
    """The topic entity is given by name."""
    topic, profile = record["topic_entity"], cached_profile("metaqa")
    return Question(
        without_brackets(record["question"]),
        [str(answer) for answer in record["answers"]],
        {topic: profile.short(profile.name_iri(topic))},
        {"hops": record.get("hops"), "type": record.get("qtype")},
    )


# -- over Freebase


def read_webqsp(record: Record) -> Question:
    """Of several right parses the best one counts. The released linking also lists literals of the query."""
    return Question(
        record["question"],
        list(record["answers"]),
        {name: mid for name, mid in record.get("entity_linking", {}).items() if _MID.fullmatch(mid)},
        {"relations": str(record.get("pyql") or "").count("add_fact(") or None},
        {"gold_sets": record["alt_answer_sets"] or [record["answers"]], **_gold_names(record)},
    )


def read_cwq(record: Record) -> Question:
    """Published figures take the first gold answer alone, which is beside the others."""
    return Question(
        record["question"],
        [str(answer) for answer in record["answers"]],
        _topics(record),
        {"type": record.get("compositionality_type")},
        {SINGLE_GOLD: record.get("answer_tog") or "", **_gold_names(record)},
    )


def read_grailqa(record: Record) -> Question:
    """Questions are told apart by level of generalization, function and number of relations."""
    gold, names = _freebase_gold(record["answers"])
    keys = {"level": "level", "function": "function", "relations": "num_edge"}
    return Question(
        record["question"], gold, _topics(record), {tag: record.get(key) for tag, key in keys.items()}, names
    )


def read_graphq(record: Record) -> Question:
    """Gold answers are names; the relations are the second number of the query's structure, "nodes,edges"."""
    edges = str(record.get("structure") or "").rpartition(",")[2]
    return Question(
        record["question"],
        [str(name) for name in record["answer_names"]],
        _ids_by_mention((entity["mention"], mid) for mid, entity in record["entity_linking"].items()),
        {"function": record.get("function"), "relations": int(edges) if edges.isdigit() else 1},
    )


def read_simplequestions(record: Record) -> Question:
    """The gold answer is one name, the relation the kind of question."""
    return Question(
        record["question"], [str(record["answer"])], _topics(record), {"type": record["relation"]}
    )


def read_agentbench(record: Record) -> Question:
    """The kind of question is that of its gold actions."""
    gold, names = _freebase_gold(record["answer"])
    actions = [action.partition("(")[0] for action in record["actions"]]
    function = next((name for name in actions if name in ("count", "argmax", "argmin")), "none")
    shown = {
        "source": record.get("source"),
        "function": function,
        "relations": actions.count("get_neighbors"),
    }
    return Question(record["question"], gold, record["entities"], shown, names)


# -- over Wikidata


def read_qald10(record: Record) -> Question:
    """Yes and no are true and false; a trivial question is marked so."""
    gold = [str(a).lower() if isinstance(a, bool) else str(a) for a in record["answers"]]
    return Question(
        record["question"],
        gold,
        {name: qid for qid, name in (record.get("topic_entity") or {}).items()},
        {"type": record.get("answer_type")},
        {"trivial": bool(record.get("trivial")), **_gold_names(record)},
    )


def read_wikiwebquestions(record: Record) -> Question:
    """The linking is that of `link_by_gold_query`."""
    return Question(
        record["question"],
        [str(answer) for answer in record["answers"]],
        record.get("linked", {}),
        {"relations": len(_WIKIDATA_RELATION.findall(record["sparql"])) or None},
        _gold_names(record),
    )


def link_by_gold_query(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """With gold linking, add `linked`: the entities of the gold query by what the graph calls them.

    By these names they are found in the words of the question.
    """
    if options["linking"] != "gold":
        return records
    linked = {record["id"]: entities_of(record["sparql"]) for record in records}
    graph = kg.open()
    qids = dict.fromkeys(qid for ids in linked.values() for qid in ids)
    nodes = {iri: qid for qid in qids if isinstance(iri := graph.profile.expand(qid), IRI)}
    names = {nodes[iri]: label for iri, label in graph.labels(nodes).items() if isinstance(iri, IRI)}
    return [{**r, "linked": {names.get(qid, qid): qid for qid in linked[r["id"]]}} for r in records]


def read_creak(record: Record) -> Question:
    """Mentions are Wikipedia titles as a claim writes them: without what tells them from other titles."""
    linked = {_BRACKETS.sub("", name) or name: qid for name, qid in _topics(record, _QID).items()}
    label = record["label"]
    return Question(record["sentence"], [label], linked, {"type": label}, {"majority": record["majority"]})


def with_majority(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Add `majority`: the commoner verdict of the claims."""
    majority = mode(record["label"] for record in records) if records else ""
    return [{**record, "majority": majority} for record in records]


def creak_note(records: Sequence[Record]) -> str:
    """Say how often the commoner verdict is right."""
    share = fmean(record["label"] == record["majority"] for record in records)
    return f'always saying "{records[0]["majority"]}" is right for {share:.1%} of all claims'


def read_slot(record: Record) -> Question:
    """Accepted are the answer and its aliases."""
    return Question(
        record["input"],
        list(dict.fromkeys([record["answer"], *(record["alias"] or [])])),
        _topics(record, _QID),
        {"type": record.get("relation")},
    )


def slot_note(records: Sequence[Record]) -> str:
    """Say of how many subjects the graph has any fact."""
    subjects = sum(record.get("kg_topic_degree", 0) > 0 for record in records)
    return f"the graph has any fact of the subject for {subjects} of {len(records)} slots"


# -- CK25


def with_gold_rows(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Add `gold_rows`: results as answers are written, short ids and values, "" for what is unbound."""
    graph = kg.open()

    def cell(value: str | None) -> str:
        text = value or ""
        return graph.profile.short(IRI(text)) if text.startswith(("http://", "https://")) else text

    def cells(rows_: Any) -> list[list[str]]:
        return [] if isinstance(rows_, bool) else [[cell(value) for value in row] for row in rows_]

    return [{**record, GOLD_ROWS: cells(record["result_rows"])} for record in records]


def read_ck25(record: Record) -> Question:
    """The gold answers are the rows in words, or true and false."""
    result, gold = record["result_rows"], record[GOLD_ROWS]
    functions = [str(f).lower() for f in record.get("features", ()) if f not in ("SELECT", "ASK")]
    wide = len(record["result_columns"] or []) > 1
    kind = "yes/no" if isinstance(result, bool) else "table" if wide else "column"
    return Question(
        record["question"],
        [str(result).lower()] if isinstance(result, bool) else [", ".join(row) for row in gold],
        tags={"type": kind, "function": " ".join(functions) or "none"},
        metadata={GOLD_ROWS: gold},
    )


# -- over small graphs of their own


def with_short_answers(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Write gold answers that are full IRIs as answers are written, by their short ids."""
    graph = kg.open()
    return [{**r, "answers": short_answers(graph, [str(a) for a in r["answers"]])} for r in records]


def read_small(record: Record) -> Question:
    """Nothing is linked; gold answers are names, ids or numbers."""
    pairs = zip(record["answers"], record.get("answer_labels", ()), strict=False)
    names = {answer: [label] for answer, label in pairs if answer != label}
    metadata = {GOLD_NAMES: names} if names else {}
    return Question(record["question"], record["answers"], {}, {"type": record.get("kind")}, metadata)


# -- the table


FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "agentbench_kg": {"read": read_agentbench},
    "ck25": {"read": read_ck25, "prepare": with_gold_rows},
    "creak": {"read": read_creak, "prepare": with_majority, "more_note": creak_note},
    "cwq": {"read": read_cwq},
    "grailqa": {"read": read_grailqa},
    "geoquery": {"read": read_small, "prepare": with_short_answers},
    "graphq": {"read": read_graphq},
    "metaqa": {"read": read_metaqa},
    "overnight": {"read": read_small, "prepare": with_short_answers},
    "qald10": {"read": read_qald10},
    "simplequestions": {"read": read_simplequestions},
    "trex": {"read": read_slot, "more_note": slot_note},
    "webqsp": {"read": read_webqsp},
    "wikisql": {"read": read_wikisql, "prepare": with_databases, "solver": over_its_table},
    "wikiwebquestions": {"read": read_wikiwebquestions, "prepare": link_by_gold_query},
    "zeroshot_re": {"read": read_slot, "more_note": slot_note},
}
"""Task -> the functions among the attributes of `BenchmarkTask`: what is special about each."""

BENCHMARK_TASKS: Mapping[str, BenchmarkTask] = {
    name: BenchmarkTask(benchmark=own, **own.task, **FUNCTIONS[name])
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

    `asked` has, by the task's parameters ("hops=2"; "" where there is one set only), the number of questions,
    how many the graph can answer, and how many without the facts made from gold answers. `files` is what has
    to lie in the data folder. Raises `ConfigurationError` on an unknown task.
    """
    if name not in BENCHMARK_TASKS:
        raise ConfigurationError.unknown("task", name, BENCHMARK_TASKS)
    of = BENCHMARK_TASKS[name]
    own = of.benchmark
    kg = graph(own.graph.format(**of.defaults)) if own.graph else None
    kg_files = [*(file for files in kg.facts.values() for file in files), *kg.labels] if kg else []
    return {
        "name": name,
        "title": own.title,
        **{key: getattr(of, key) for key in ("version", "about", "note", "needs_model")},
        "scores": [catalog().scorers[scorer] for scorer in of.scorers],
        "asked": {which: {"observed": None, **asked} for which, asked in own.counts.items()},
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
