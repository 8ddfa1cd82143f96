"""What a cell of a grid is asked of: its task, on an incomplete graph or with an encoder that learned.

All of it is kept in the user's cache folder, by what it was made from: made once, an interrupted one again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspect_ai import Task
from platformdirs import user_cache_path

from triplewise.evals.data import benchmark, checksum, graph
from triplewise.evals.dropped_facts import write_documents
from triplewise.evals.evaluation import TASKS, digest, run
from triplewise.evals.grids.cells import EMBEDDED, Cell
from triplewise.evals.grids.grid import Learn, Thin
from triplewise.evals.kgs import prepared
from triplewise.evals.training import seeds_of
from triplewise.graphs import learning as self_learning
from triplewise.nodes.learning.config import LearningConfig
from triplewise.tools.kg.rdf import Progress
from triplewise.tools.kg.subset.incomplete import MANIFEST, IncompleteSpec, TopicQuestion, make_incomplete
from triplewise.tools.planning.seeds import read_seeds

LEARNED_HOPS = 2
"""Longest rule body that is learned from: WebQuestionsSP needs no more (SymAgent, table 2)."""
READER = "symagent"
"""The preset that reads documents for `thin.read`."""

ELSEWHERE = ("base_url", "api_key_env")
"""Settings that say where a model is, not which."""
_FILES = ("seeds", "documents", "prompt", "prices", "profile", "facts")
DONE = ".complete"
"""A file that says that its folder is whole."""
_OF_BASE = ("seed_questions", "data_files", "changed_files", "kg_parts", "kg_gold_derived", "kg_profile")
"""What the log of a thinned graph takes from the task on the whole one."""


def task_of(cell: Cell, settings: Mapping[str, Any] | None = None) -> Task:
    """Return the task of a cell on the graph of its benchmark; `settings` are added to the cell's own.

    Seed questions among them take the place of those that the task itself would take.

    Raises:
        UserError: a value that the task refuses, a missing file.
    """
    limit = {} if cell.limit is None else {"n": cell.limit}
    merged = {**cell.settings, **(settings or {})}
    seeds = {"seeds": False} if settings and "seeds" in merged and "seeds" in cell.arguments else {}
    return TASKS[cell.task](
        **{**cell.arguments, **seeds},
        **limit,
        preset=cell.system,
        model=cell.model,
        settings=merged,
        phases=dict(cell.phases),
    )


def digest_of(cell: Cell, task: Task) -> str:
    """Return a checksum of all that the scores of a cell depend on but the code.

    That is its configuration, the version of the task, which questions were drawn, and the checksums of the
    files that questions, graph and settings come from.
    """
    about = task.metadata or {}
    parts = {
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "task": [cell.task, task.version, dict(cell.arguments)],
        "questions": [str(sample.id) for sample in task.dataset],
        "system": [cell.system, dict(cell.phases), cell.model],
        "settings": {
            name: [value, checksum(Path(value))]
            if name in _FILES and isinstance(value, str) and Path(value).is_file()
            else value
            for name, value in cell.settings.items()
            if name not in ELSEWHERE
        },
        "thin": cell.thin.model_dump() if cell.thin else None,
        "learn": cell.learn.model_dump() if cell.learn else None,
        "data": [about.get("data_files", {}), about.get("kg_checksum", ""), list(about.get("kg_parts", ()))],
    }
    return digest(parts)


def prepared_task(cell: Cell, base: Task, progress: Progress) -> Task:
    """Return the task of a cell with all that is made before its questions are asked, `base` without it.

    Args:
        cell: the cell. base: what `task_of` gives for it. progress: gets stage, done, total.
    """
    settings: dict[str, Any] = {}
    about: dict[str, Any] = {}
    if cell.thin:
        settings, about = incomplete_graph(cell, cell.thin, base, progress)
    if cell.learn and cell.learn.iterations and cell.model == EMBEDDED:
        settings["encoder"] = learned_encoder(cell.learn, cell.seed, progress)
        about["learned"] = cell.learn.model_dump()
    if not settings:
        return base
    task = task_of(cell, settings)
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
        recipe=learn.recipe,
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
    about = base.metadata or {}
    profile = None
    if "kg" in cell.settings:
        kg, profile = str(cell.settings["kg"]), cell.settings.get("profile")
    else:
        kg = prepared(graph(benchmark(str(base.dataset.name)).graph), about.get("kg_parts")).path
    records = []
    for sample in base.dataset:
        metadata = sample.metadata or {}
        targets = [sample.target] if isinstance(sample.target, str) else sample.target
        answers = list(dict.fromkeys(str(a) for gold in metadata.get("gold_sets") or [targets] for a in gold))
        entities = metadata.get("entities", {})
        records.append({"question": str(sample.input), "entities": entities, "answers": answers})
    config = {
        "thin": thin.model_dump(include={"share", "seed", "hops"}),
        "kg": about.get("kg_checksum") or kg,
    }
    identity = digest({**config, "questions": records})
    folder = user_cache_path("triplewise") / "evals" / f"thin-{cell.task}-{identity}"
    if not (folder / "kg").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        questions = folder / "questions.jsonl"
        questions.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        topics = [
            TopicQuestion(s.question, [t for _, t in s.named], s.answers) for s in read_seeds(questions)
        ]
        spec = IncompleteSpec(thin.share, thin.seed, thin.hops)
        make_incomplete(
            kg, topics, folder / "kg", spec, questions_file=questions, profile=profile, progress=progress
        )
    report = json.loads((folder / "kg" / MANIFEST).read_text(encoding="utf-8"))
    settings: dict[str, Any] = {"kg": str(folder / "kg")}
    seeds = about.get("settings", {}).get("seeds")  # their answers are those of the whole graph
    if seeds and "seeds" not in cell.settings:
        settings["seeds"] = seeds
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
    """Return settings that let a system read what was dropped, or see what another one has read of it.

    Facts that are read go to a file of the cell's own, not among those that a person reviews.
    """
    documents = folder / "documents"
    if not (documents / DONE).is_file():
        write_documents(folder / "kg", documents)
        (documents / DONE).touch()
    if not thin.read:
        name = digest([cell.row, cell.column, cell.seed, cell.system, dict(cell.phases), cell.model])[:8]
        return {"documents": str(documents), "facts": str(folder / f"facts-{name}.sqlite")}
    name = digest([cell.model, cell.seed])[:8]
    facts, logs = folder / f"read-{name}.sqlite", folder / f"read-{name}"
    if not (logs / DONE).is_file():
        progress("reading documents", 0, None)
        reader = replace(cell, system=READER, phases={})
        run(task_of(reader, {**settings, "documents": str(documents), "facts": str(facts)}), log_dir=logs)
        (logs / DONE).touch()
    return {"facts": str(facts), "overlay": "proposed"}
