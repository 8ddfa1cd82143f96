"""Logs of real runs on the graph of films, for the tests of reports; one question of each crashes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog
from inspect_ai.solver import Generate, Solver, TaskState, solver

from tests.support.films import write_graph, write_questions
from tests.support.opened import close_all
from triplewise.evals.evaluation import run
from triplewise.evals.scorers import effort, plain_name, strict
from triplewise.evals.solver import agent

CRASHING = "Psycho"


@solver
def crashing(inner: Solver) -> Solver:
    """Asks the system, and fails at one question before it is asked."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if str(state.sample_id) == CRASHING:
            raise RuntimeError("the graph fell over")
        return await inner(state, generate)

    return solve


def films_task(folder: Path, preset: str = "agent", **more: Any) -> Task:
    """Who directed a film, of ten films and one question that nothing answers; Psycho's crashes."""
    kg, questions = folder / "films.nt", folder / "films.jsonl"
    if not kg.exists():
        write_graph(kg)
        write_questions(questions)
    records = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    settings = {"kg": str(kg), "model": "embedded", "seeds": "none"}
    return Task(
        name="films",
        dataset=MemoryDataset([sample(record) for record in records], name="films"),
        solver=crashing(agent(preset, settings)),
        scorer=[strict(compare="names"), effort()],
        fail_on_error=False,
        score_on_error=True,
        version=3,
        metadata={**ABOUT, "preset": preset, "drawn": len(records), **more},
    )


def sample(record: Mapping[str, Any]) -> Sample:
    """A question; the graph cannot answer the last one."""
    return Sample(
        id=record["id"],
        input=record["question"],
        target=record["answers"],
        metadata={
            "entities": record["entities"],
            "answerable": record["id"] != "none",
            "trivial": record["id"] == "none",
        },
    )


def cell(row: str, column: str = "GrailQA", **more: Any) -> dict[str, Any]:
    """Metadata of a cell of a grid after QueryAgent's table 3."""
    grid = {"name": "modes", "title": "Ways of correcting", "published": "queryagent-table-3"}
    return {"grid": {**grid, "row": row, "column": column, **more}}


def run_films(folder: Path, preset: str = "agent", **more: Any) -> EvalLog:
    """The log of one run, in the folder `logs`."""
    log = run(films_task(folder, preset, **more), log_dir=folder / "logs")
    close_all()
    return log


def logs_in(folder: Path) -> list[Path]:
    """The logs of a folder, the oldest first."""
    return sorted(folder.rglob("*.eval"), key=lambda path: path.name)


ABOUT: Mapping[str, Any] = {
    "benchmark": "Films",
    "model": "embedded",
    "kg": "ten films",
    "kg_parts": ["observed", "gold_derived"],
    "kg_triples": 60,
    "kg_checksum": "abcdef0123456789",
    "kg_partial": True,
    "kg_gold_derived": True,
    "data_files": {"films.jsonl": "0123456789abcdef"},
    "changed_files": [],
    "drawn_from": 40,
    "answerable": 30,
    "asked": 40,
    "note": "made up",
    "licence": "CC0",
    "citation": "nobody",
    "commit": "1234567890",
    "commit_clean": True,
}


def scores_of(log: EvalLog) -> dict[str, float]:
    """Every figure of a log as `score.metric`."""
    scores = log.results.scores if log.results else []
    figures = {f"{s.name}.{plain_name(n)}": float(m.value) for s in scores for n, m in s.metrics.items()}
    return {name: value for name, value in figures.items() if not math.isnan(value)}
