"""Runs the cells of a grid, one log each; what is done with the same configuration is not done again.

What a cell is asked of, an incomplete graph or an encoder that learned, is kept in the user's cache folder by
what it was made from: made once, an interrupted one again.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyoxigraph as ox
from inspect_ai import Task
from inspect_ai.log import EvalLog
from platformdirs import user_cache_path

from triplewise.evals import evaluation
from triplewise.evals.data import benchmark, checksum, graph, prepared, read_data
from triplewise.evals.grids.grid import EMBEDDED, Cell, GridFile, Learn
from triplewise.evals.training import seeds_of
from triplewise.graphs import learning as self_learning
from triplewise.nodes.learning import LearningConfig
from triplewise.tools.core.errors import ConfigurationError, TriplewiseError
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.rdf import from_ox, safe_iri
from triplewise.tools.kg.subset import incomplete
from triplewise.tools.planning.seeds import read_seeds

LEARNED_HOPS = 2
"""Longest path that is learned from: WebQuestionsSP needs no more (SymAgent, table 2)."""
READER = "symagent"
"""The preset that reads documents for `thin.read`."""
ALL_CRASHED = "every question crashed"
DONE = ".complete"
"""A file that marks its folder as complete."""
_OF_BASE = ("seed_questions", "data_files", "changed_files", "kg_parts", "kg_gold_derived", "kg_profile")
"""What the log of an incomplete graph takes from the task on the whole one."""


class Outcome(NamedTuple):
    """What became of a cell: `why` it was skipped or failed, the seconds it took now, its log's header."""

    cell: Cell
    state: Literal["done", "complete before", "skipped", "failed"]
    why: str = ""
    seconds: float = 0.0
    log: EvalLog | None = None


def run_grid(
    file: GridFile,
    cells: Sequence[Cell],
    *,
    log_dir: Path | None = None,
    jobs: int = 1,
    display: Literal["rich", "none"] = "none",
    notify: Callable[[str], None] = lambda stage: None,
) -> Iterator[Outcome]:
    """Run the cells in their order, an outcome as soon as it is there; `jobs` questions are in flight.

    A cell that fails is listed and the next one is run. An interrupt (KeyboardInterrupt) leaves the logs of
    all finished cells; the one at work goes on where it was when the grid is run again. `notify` gets what
    is made for a cell, and what is known of an earlier run.
    """
    folder, grid = log_dir or evaluation.default_log_dir() / "grids" / file.grid.name, file.grid
    for cell in cells:
        if cell.why_not:
            yield Outcome(cell, "skipped", cell.why_not)
            continue
        start = time.perf_counter()
        try:
            task = prepared_task(cell, notify)
            place = {
                **{key: getattr(grid, key) for key in ("name", "title", "layout", "notes")},
                "table": grid.published,
                "note": cell.spec.note,
                "group": cell.row.group,
                "row": cell.row.row,
                "column": cell.column,
                "seed": cell.seed,
                "metrics": list(cell.metrics),
                "rows": [row.row for row in grid.rows],
                "columns": [column.column for column in grid.columns],
            }
            task.metadata = {**(task.metadata or {}), "grid": place}
            earlier = evaluation.latest_log(evaluation.folder_of(folder, task))
            # Where every question crashed a server was down: all are asked again.
            again = earlier is not None and _why_failed(earlier).startswith(ALL_CRASHED)
            finished = earlier is not None and earlier.status == "success" and not again
            log = evaluation.run(
                task, jobs=jobs, log_dir=folder, retry_crashed=again, display=display,
                notify=(lambda line: None) if finished else notify,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - one cell must not end the grid; it is listed with its error
            words = str(error) if isinstance(error, TriplewiseError) else f"{type(error).__name__}: {error}"
            yield Outcome(cell, "failed", words)
            continue
        why, seconds = _why_failed(log), time.perf_counter() - start
        yield Outcome(cell, "failed" if why else "complete before" if finished else "done", why, seconds, log)


def _why_failed(log: EvalLog) -> str:
    """Why an evaluation has no figures, "" if it has."""
    if log.status != "success":
        return log.error.message if log.error else f"the evaluation ended with status {log.status}"
    if log.results and log.results.total_samples and evaluation.scores_of(log).get("crashed.mean", 0.0) < 1:
        return ""
    first = next((message for _, message in evaluation.crashes(log)), "no question was answered")
    return f"{ALL_CRASHED}: {first}"


def task_of(cell: Cell, **more: Any) -> Task:
    """Return the task of a cell on the graph of its benchmark; `more` is set besides what the cell sets."""
    spec = cell.spec
    given = {"preset": spec.system or None, "n": spec.limit, "model": cell.model}
    given = {name: value for name, value in given.items() if value is not None}
    return evaluation.make_task(spec.task, {**given, **spec.set, **more})


def prepared_task(cell: Cell, notify: Callable[[str], None]) -> Task:
    """Return the task of a cell with all that is made before its questions are asked."""
    base, spec = task_of(cell), cell.spec
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {}
    if spec.thin:
        settings, about = incomplete_graph(cell, base, notify)
    if spec.learn and spec.learn.iterations and cell.model == EMBEDDED:
        notify(f"{cell.name}: learning")
        settings["encoder"] = learned_encoder(spec.learn, cell.seed)
        about["learned"] = spec.learn.model_dump()
    if not settings:
        return base
    task = task_of(cell, **settings)
    task.metadata = {**(task.metadata or {}), **about}
    return task


def learned_encoder(learn: Learn, seed: int) -> str:
    """Return the folder of an encoder that learned from training questions, as `triplewise learn` does it.

    The graph that is learned on holds no facts made from gold answers, whichever graph is tested.
    """
    of = benchmark(learn.benchmark)
    own = graph(of.graph)
    kg = prepared(own, [part for part in own.facts if part != "gold_derived"])
    training = Path(str(seeds_of(of, kg, True).setting))
    lines = training.read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    identity = evaluation.digest([learn.model_dump(), seed, checksum(training), kg.checksum])
    folder = user_cache_path("triplewise") / "evals" / f"learned-{identity}"
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "questions.jsonl"
    questions.write_text("".join(lines[: learn.train or None]), encoding="utf-8")
    context = {"kg": kg.path, "profile": kg.profile, "plan_hops": LEARNED_HOPS}
    config = LearningConfig(str(questions), context=context, iterations=learn.iterations, seed=seed)
    *_, final = self_learning.learn(config, folder / "run")
    return str(final.best.get("encoder", EMBEDDED))


def incomplete_graph(
    cell: Cell, base: Task, notify: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings that ask the incomplete graph of a cell, and what the log records of it."""
    about, own, thin = base.metadata or {}, cell.spec.set, cell.spec.thin
    assert thin is not None
    profile = own.get("profile") if "kg" in own else None
    kg = own.get("kg") or prepared(graph(str(about["kg_graph"])), about.get("kg_parts")).path
    records = []
    for sample in base.dataset:
        metadata = sample.metadata or {}
        gold_sets = metadata.get("gold_sets") or [list(sample.target)]
        answers = list(dict.fromkeys(str(answer) for gold in gold_sets for answer in gold))
        entities = metadata.get("entities", {})
        records.append({"question": str(sample.input), "entities": entities, "answers": answers})
    made_from = {"thin": [thin.share, thin.seed, thin.hops], "kg": about.get("kg_checksum") or kg}
    identity = evaluation.digest({**made_from, "questions": records})
    folder = user_cache_path("triplewise") / "evals" / f"thin-{cell.spec.task}-{identity}"
    if not (folder / "kg").is_dir():
        notify(f"{cell.name}: making the graph incomplete")
        folder.mkdir(parents=True, exist_ok=True)
        questions = folder / "questions.jsonl"
        questions.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        topics = [
            incomplete.TopicQuestion(seed.question, [term for _, term in seed.named], seed.answers)
            for seed in read_seeds(questions)
        ]
        spec = incomplete.IncompleteSpec(thin.share, thin.seed, thin.hops)
        incomplete.make_incomplete(kg, topics, folder / "kg", spec, questions_file=questions, profile=profile)
    report = json.loads((folder / "kg" / incomplete.MANIFEST).read_text(encoding="utf-8"))
    settings: dict[str, Any] = {"kg": str(folder / "kg")}
    if seeds := about.get("settings", {}).get("seeds"):
        settings["seeds"] = seeds  # their answers are those of the whole graph
    documents = folder / "documents"
    if (thin.documents or thin.read) and not (documents / DONE).is_file():
        write_documents(folder / "kg", documents)
        (documents / DONE).touch()
    if thin.read:  # facts that are read go to a file of the cell's own, not among those a person reviews
        name = evaluation.digest([cell.model, cell.seed])[:8]
        facts, logs = folder / f"read-{name}.sqlite", folder / f"read-{name}"
        if not (logs / DONE).is_file():
            notify(f"{cell.name}: {READER} reads the documents")
            reader = {**settings, "preset": READER, "documents": str(documents), "facts": str(facts)}
            evaluation.run(task_of(cell, **reader), log_dir=logs)
            (logs / DONE).touch()
        settings |= {"facts": str(facts), "overlay": "proposed"}
    elif thin.documents:
        of = [cell.row.row, cell.column, cell.seed, cell.spec.system, own, cell.model]
        facts = folder / f"facts-{evaluation.digest(of)[:8]}.sqlite"
        settings |= {"documents": str(documents), "facts": str(facts)}
    about_graph = {
        "kg": f"{about.get('kg', kg)}, made incomplete for these questions: {report['dropped']:,} of "
        f"{report['collected']:,} triples on their paths dropped (seed {thin.seed})",
        "kg_partial": True,
        "kg_checksum": identity,
        **{key: about[key] for key in _OF_BASE if key in about},
        "thinned": {name: report[name] for name in ("collected", "dropped", "questions", "hit_questions")},
    }
    return settings, about_graph


def write_documents(kg_folder: Path, folder: Path) -> None:
    """Write the facts that were dropped from a graph, one document about each subject, into a folder.

    SymAgent, section 5 and appendix A.1. The sentences (`dropped_facts.yaml`) share no word with the names of
    the relations: what a document says has to be understood, not matched. Raises `ConfigurationError` where
    there are no sentences for the graph's relations.
    """
    kg = open_kg(kg_folder)
    short, by_profile = kg.profile.short, read_data("dropped_facts.yaml")
    if kg.profile.name not in by_profile:
        raise ConfigurationError("there are sentences for documents of MetaQA's relations only")
    text = (kg_folder / incomplete.DROPPED).read_text(encoding="utf-8")
    triples = [(q.subject, q.predicate, q.object) for q in ox.parse(text, format=ox.RdfFormat.N_TRIPLES)]
    terms = (from_ox(end) for s, _, o in triples for end in (s, o))
    labels = kg.labels([term for term in terms if term is not None])
    by_subject: dict[str, list[str]] = defaultdict(list)
    for s, p, o in triples:
        subject, value = (labels.get(t) or short(t) for t in map(from_ox, (s, o)) if t is not None)
        sentences = by_profile[kg.profile.name][short(safe_iri(p.value))]
        sentence = random.Random(f"1 {s} {p} {o}").choice(sentences)
        by_subject[subject].append(sentence.format(s=subject, o=value))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (subject, parts) in enumerate(sorted(by_subject.items())):
        (folder / f"{number:05}.md").write_text(f"# {subject}\n\n{' '.join(parts)}\n", encoding="utf-8")
