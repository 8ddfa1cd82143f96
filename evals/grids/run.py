"""Runs the cells of a grid, one log each; what is done with the same configuration is not done again.

What a cell is asked of, an incomplete graph or an encoder that learned, is kept in the user's cache folder by
what it was made from: made once, an interrupted one again.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyoxigraph as ox
from inspect_ai import Task
from inspect_ai.log import EvalLog
from platformdirs import user_cache_path

from triplewise.evals.data import benchmark, checksum, graph, prepared, read_data
from triplewise.evals.evaluation import crashes, default_log_dir, digest, find_log, make_task, run, scores_of
from triplewise.evals.grids.grid import EMBEDDED, Cell, GridFile, Learn, Thin
from triplewise.evals.training import seeds_of
from triplewise.graphs import learning as self_learning
from triplewise.nodes.learning import LearningConfig
from triplewise.tools.core.errors import ConfigurationError, TriplewiseError
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.rdf import Progress, from_ox, safe_iri
from triplewise.tools.kg.subset.incomplete import (
    DROPPED,
    MANIFEST,
    IncompleteSpec,
    TopicQuestion,
    make_incomplete,
)
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


State = Literal["done", "complete before", "skipped", "failed"]
"""`complete before`: by an earlier run's log."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell: `why` it was skipped or failed, the seconds it took now, its log's header."""

    cell: Cell
    state: State
    why: str = ""
    seconds: float = 0.0
    log: EvalLog | None = None


def run_grid(
    file: GridFile,
    cells: Sequence[Cell],
    *,
    log_dir: Path | None = None,
    jobs: int = 1,
    notify: Callable[[str], None] = lambda stage: None,
) -> Iterator[Outcome]:
    """Run the cells in their order, an outcome as soon as it is there; `jobs` questions are in flight.

    A cell that fails is listed and the next one is run. An interrupt (KeyboardInterrupt) leaves the logs of
    all finished cells; the one at work goes on where it was when the grid is run again. `notify` gets the
    cell at work and what is made for it.
    """
    folder = log_dir or default_log_dir() / "grids" / file.grid.name
    for cell in cells:
        notify(cell.name)
        if cell.why_not:
            yield Outcome(cell, "skipped", cell.why_not)
            continue
        start = time.perf_counter()
        try:
            log, finished = _run_cell(file, cell, folder, jobs, notify)
        except Exception as error:  # noqa: BLE001 - one cell must not end the grid; it is listed with its error
            words = str(error) if isinstance(error, TriplewiseError) else f"{type(error).__name__}: {error}"
            yield Outcome(cell, "failed", words)
            continue
        why = _why_failed(log)
        state: State = "failed" if why else "complete before" if finished else "done"
        yield Outcome(cell, state, why, time.perf_counter() - start, log)


def _run_cell(
    file: GridFile, cell: Cell, folder: Path, jobs: int, notify: Callable[[str], None]
) -> tuple[EvalLog, bool]:
    """Run one cell, or take its finished log; also whether it was finished before."""
    task = prepared_task(cell, lambda stage, done, total: notify(f"{cell.name}: {stage}"))
    task.metadata = {**(task.metadata or {}), "grid": about(file, cell)}
    earlier = find_log(folder, task)
    # Where every question crashed a server was down: all are asked again.
    again = earlier is not None and _why_failed(earlier).startswith(ALL_CRASHED)
    log = run(
        task, jobs=jobs, log_dir=folder, retry_crashed=again, samples=False,
        notify=lambda line: notify(f"{cell.name}: {line}"),
    )  # fmt: skip
    return log, earlier is not None and earlier.status == "success" and not again


def _why_failed(log: EvalLog) -> str:
    """Why an evaluation has no figures, "" if it has."""
    if log.status != "success":
        return log.error.message if log.error else f"the evaluation ended with status {log.status}"
    asked = log.results.total_samples if log.results else 0
    if not asked or scores_of(log).get("crashed.total", 0.0) < asked:
        return ""
    return f"{ALL_CRASHED}: {next((message for _, message in crashes(log)), 'no question was answered')}"


def about(file: GridFile, cell: Cell) -> dict[str, Any]:
    """Return what the log of a cell records of its grid: all that its table is made from."""
    grid, row = file.grid, cell.row
    return {
        **{key: getattr(grid, key) for key in ("name", "title", "layout", "notes")},
        "table": grid.published,
        "note": cell.spec.note,
        "group": row.group,
        "row": row.row,
        "column": cell.column,
        "seed": cell.seed,
        "metrics": list(cell.metrics),
        "rows": [one.row for one in grid.rows],
        "columns": [column.column for column in grid.columns],
    }


def task_of(cell: Cell, **more: Any) -> Task:
    """Return the task of a cell on the graph of its benchmark; `more` is set besides what the cell sets."""
    spec = cell.spec
    given = {"preset": spec.system or None, "n": spec.limit, "model": cell.model}
    given = {name: value for name, value in given.items() if value is not None}
    return make_task(spec.task, {**given, **spec.set, **more})


def prepared_task(cell: Cell, progress: Progress) -> Task:
    """Return the task of a cell with all that is made before its questions are asked."""
    base, spec = task_of(cell), cell.spec
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {}
    if spec.thin:
        settings, about = incomplete_graph(cell, spec.thin, base, progress)
    if spec.learn and spec.learn.iterations and cell.model == EMBEDDED:
        settings["encoder"] = learned_encoder(spec.learn, cell.seed, progress)
        about["learned"] = spec.learn.model_dump()
    if not settings:
        return base
    task = task_of(cell, **settings)
    task.metadata = {**(task.metadata or {}), **about}
    return task


def learned_encoder(learn: Learn, seed: int, progress: Progress) -> str:
    """Return the folder of an encoder that learned from training questions, as `triplewise learn` does it.

    The graph that is learned on holds no facts made from gold answers, whichever graph is tested.
    """
    of = benchmark(learn.benchmark)
    own = graph(of.graph)
    kg = prepared(own, [part for part in own.facts if part != "gold_derived"])
    training = Path(str(seeds_of(of, kg, True).setting))
    lines = training.read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(lines)
    identity = digest([learn.model_dump(), seed, checksum(training), kg.checksum])
    folder = user_cache_path("triplewise") / "evals" / f"learned-{identity}"
    folder.mkdir(parents=True, exist_ok=True)
    questions = folder / "questions.jsonl"
    questions.write_text("".join(lines[: learn.train or None]), encoding="utf-8")
    config = LearningConfig(
        str(questions),
        context={"kg": kg.path, "profile": kg.profile, "plan_hops": LEARNED_HOPS},
        iterations=learn.iterations,
        seed=seed,
    )
    *_, final = self_learning.learn(
        config,
        folder / "run",
        report=lambda p: progress(f"learning: {p.phase} {p.iteration}", p.done, p.total),
    )
    return str(final.best.get("encoder", EMBEDDED))


def incomplete_graph(
    cell: Cell, thin: Thin, base: Task, progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings that ask the incomplete graph, and what the log records of it."""
    about, own = base.metadata or {}, cell.spec.set
    profile = None
    if "kg" in own:
        kg, profile = str(own["kg"]), own.get("profile")
    else:
        kg = prepared(graph(str(about["kg_graph"])), about.get("kg_parts")).path
    records = []
    for sample in base.dataset:
        metadata = sample.metadata or {}
        targets = [sample.target] if isinstance(sample.target, str) else sample.target
        answers = list(dict.fromkeys(str(a) for gold in metadata.get("gold_sets") or [targets] for a in gold))
        entities = metadata.get("entities", {})
        records.append({"question": str(sample.input), "entities": entities, "answers": answers})
    spec = IncompleteSpec(thin.share, thin.seed, thin.hops)
    config = {"thin": [thin.share, thin.seed, thin.hops], "kg": about.get("kg_checksum") or kg}
    identity = digest({**config, "questions": records})
    folder = user_cache_path("triplewise") / "evals" / f"thin-{cell.spec.task}-{identity}"
    if not (folder / "kg").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        questions = folder / "questions.jsonl"
        questions.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        topics = [
            TopicQuestion(s.question, [t for _, t in s.named], s.answers) for s in read_seeds(questions)
        ]
        make_incomplete(
            kg, topics, folder / "kg", spec, questions_file=questions, profile=profile, progress=progress
        )
    report = json.loads((folder / "kg" / MANIFEST).read_text(encoding="utf-8"))
    settings: dict[str, Any] = {"kg": str(folder / "kg")}
    if seeds := about.get("settings", {}).get("seeds"):
        settings["seeds"] = seeds  # their answers are those of the whole graph
    if thin.documents or thin.read:
        settings |= dropped_documents(cell, thin, settings, folder, progress)
    about_graph = {
        "kg": f"{about.get('kg', kg)}, made incomplete for these questions: {report['dropped']:,} of "
        f"{report['collected']:,} triples on their paths dropped (seed {thin.seed})",
        "kg_partial": True,
        "kg_checksum": identity,
        **{key: about[key] for key in _OF_BASE if key in about},
        "thinned": {name: report[name] for name in ("collected", "dropped", "questions", "hit_questions")},
    }
    return settings, about_graph


def dropped_documents(
    cell: Cell, thin: Thin, settings: Mapping[str, Any], folder: Path, progress: Progress
) -> dict[str, Any]:
    """Return settings to read what was dropped, or to use what another system has read of it.

    Facts that are read go to a file of the cell's own, not among those that a person reviews.
    """
    documents = folder / "documents"
    if not (documents / DONE).is_file():
        write_documents(folder / "kg", documents)
        (documents / DONE).touch()
    if not thin.read:
        spec = cell.spec
        name = digest([cell.row.row, cell.column, cell.seed, spec.system, spec.set, cell.model])[:8]
        return {"documents": str(documents), "facts": str(folder / f"facts-{name}.sqlite")}
    name = digest([cell.model, cell.seed])[:8]
    facts, logs = folder / f"read-{name}.sqlite", folder / f"read-{name}"
    if not (logs / DONE).is_file():
        progress("reading documents", 0, None)
        reader = {**settings, "preset": READER, "documents": str(documents), "facts": str(facts)}
        run(task_of(cell, **reader), log_dir=logs)
        (logs / DONE).touch()
    return {"facts": str(facts), "overlay": "proposed"}


# -- documents that state the facts that were dropped from a graph (SymAgent, section 5 and appendix A.1).
# The sentences (`dropped_facts.yaml`) share no word with the names of the relations: what a document says has
# to be understood, not matched.


def sentences_of(profile: str) -> Mapping[str, Sequence[str]]:
    """Return the sentences for each relation of a graph, with {s} and {o} for subject and object.

    Raises `ConfigurationError` where there are none for graphs of this profile.
    """
    by_profile: dict[str, dict[str, list[str]]] = read_data("dropped_facts.yaml")
    if profile not in by_profile:
        raise ConfigurationError("there are sentences for documents of MetaQA's relations only")
    return by_profile[profile]


def write_documents(kg_folder: Path, folder: Path) -> None:
    """Write the facts that were dropped from a graph, one document about each subject, into a folder.

    Raises `ConfigurationError` where there are no sentences for the graph's relations.
    """
    kg = open_kg(kg_folder)
    short, sentences = kg.profile.short, sentences_of(kg.profile.name)
    text = (kg_folder / DROPPED).read_text(encoding="utf-8")
    triples = [(q.subject, q.predicate, q.object) for q in ox.parse(text, format=ox.RdfFormat.N_TRIPLES)]
    terms = (from_ox(end) for s, _, o in triples for end in (s, o))
    labels = kg.labels([term for term in terms if term is not None])
    by_subject: dict[str, list[str]] = defaultdict(list)
    for s, p, o in triples:
        subject, value = (labels.get(t) or short(t) for t in map(from_ox, (s, o)) if t is not None)
        draw = random.Random(f"1 {s} {p} {o}")
        sentence = draw.choice(sentences[short(safe_iri(p.value))])
        by_subject[subject].append(sentence.format(s=subject, o=value))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (subject, parts) in enumerate(sorted(by_subject.items())):
        (folder / f"{number:05}.md").write_text(f"# {subject}\n\n{' '.join(parts)}\n", encoding="utf-8")
