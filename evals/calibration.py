"""Train the calibration that is shipped, by training questions of several graphs.

    python -m triplewise.evals.calibration [--questions 60] [--rows rows.jsonl]
    python -m triplewise.evals.calibration --report

WebQSP (Freebase), WikiWebQuestions and QALD-10 (Wikidata) with training questions, MetaQA with its dev
questions, `demo_training.jsonl`, and every other question of small graphs of other shapes. No test file is
read. Half of the questions have their entities given where the set names them, the rest is linked; those of
the first four are asked a second time, with all other questions of their set as seeds. Writes
`tools/planning/calibration.yaml`. `--report` measures it on questions kept apart: the other halves of the
small graphs and the demo's published questions. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from triplewise.evals.choose_thresholds import labelled, sets_of_questions, small_graphs
from triplewise.evals.data import read_records
from triplewise.graphs.cli.calibrate import collect
from triplewise.tools.kg import open_kg
from triplewise.tools.learning.calibration import Row, figures, train
from triplewise.tools.planning.confidence import FILE, shipped

SETS = (
    "WebQSP, WikiWebQuestions and QALD-10: training; MetaQA: dev; the demo graph: demo_training.jsonl; "
    "cars, units and elements: every other question, from the first; the first four also with seeds"
)
PARTIAL = 0.5
"""F1 from which an answer counts as right where neither graph nor gold answers are complete."""
_log = logging.getLogger(__name__)


def rows_of(count: int, seed: int) -> Iterator[Row]:
    """Ask at most `count` questions of each set. Sets of one graph are one group."""
    for name, graph, kg, questions in sets_of_questions():
        drawn = random.Random(seed).sample(questions, min(count, len(questions)))
        asked = [q if i % 2 else q._replace(entities={}) for i, q in enumerate(drawn)]
        group, least = (graph.name, PARTIAL if graph.partial else 1.0) if graph else (name, 1.0)
        rows = list(collect(group, asked, kg, least))
        _log.info("%s: %d of %d right", name, sum(row.is_right for row in rows), len(rows))
        yield from rows
        if graph is not None:  # the entities of the others are not given
            with TemporaryDirectory() as folder:
                seeds = Path(folder) / "seeds.jsonl"
                others = (q for q in questions if q not in drawn)
                records = ({**q._asdict(), "answers": q.answers[0]} for q in others)
                seeds.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
                rows = list(collect(group, drawn, kg, least, seeds=str(seeds)))
            _log.info("%s with seeds: %d of %d right", name, sum(row.is_right for row in rows), len(rows))
            yield from rows


def report() -> dict[str, dict[str, float]]:
    """Return the figures of the shipped calibration on questions that took no part in its training."""
    rows: list[Row] = []
    for name, source, path in small_graphs():
        records = read_records(path)[1::2]
        rows += collect(name, labelled(records), open_kg(source))
    demo = read_records(Path(str(files("triplewise.tools.kg.demo"))) / "questions.jsonl")
    rows += collect("demo", labelled(demo), open_kg("demo"))
    estimates = np.array([shipped().probability(row.features) for row in rows if row.features])
    return figures(rows, estimates, shipped().min_confidence)


def main(
    questions: Annotated[int, typer.Option(help="Questions of each set.")] = 60,
    seed: Annotated[int, typer.Option(help="Of the questions drawn.")] = 1,
    rows: Annotated[Path | None, typer.Option(help="File that keeps what was asked, to train again.")] = None,
    only_report: Annotated[bool, typer.Option("--report", help="Measure what is shipped.")] = False,
) -> None:
    """Ask, train, write; or report."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if only_report:
        for group, measured in report().items():
            _log.info("%s %s", group, measured)
        return
    if rows is not None and rows.is_file():
        asked = [Row(**json.loads(line)) for line in rows.read_text("utf-8").splitlines()]
    else:
        asked = list(rows_of(questions, seed))
        if rows is not None:
            rows.write_text("".join(json.dumps(asdict(row)) + "\n" for row in asked), "utf-8")
    calibration = train(asked, {"questions": SETS, "command": "python -m triplewise.evals.calibration"})
    for group, measured in calibration.provenance["left out"].items():
        _log.info("%s %s", group, measured)
    calibration.write(Path(str(files("triplewise.tools.planning"))) / FILE)


if __name__ == "__main__":
    typer.run(main)
