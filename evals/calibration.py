"""Train the calibration that is shipped, by training questions of several graphs.

    python -m triplewise.evals.calibration [--questions 100] [--rows rows.jsonl]

WebQSP (Freebase) and WikiWebQuestions (Wikidata) with training questions, MetaQA with its dev questions and
without seeds, the demo's own, and every other question of small graphs of other shapes. No test file is read.
Half of the questions have their entities given where the set names them, the rest is linked. Writes
`tools/planning/calibration.yaml`. Needs TRIPLEWISE_DATA.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from triplewise.evals.choose_thresholds import sets_of_questions
from triplewise.graphs.cli.calibrate import collect
from triplewise.tools.learning.calibration import Row, train
from triplewise.tools.planning.confidence import FILE

PARTIAL = 0.5
"""F1 from which an answer counts as right where neither graph nor gold answers are complete."""
_log = logging.getLogger(__name__)


def rows_of(count: int, seed: int) -> Iterator[Row]:
    """Ask at most `count` questions of each set. Sets of one graph are one group."""
    for name, graph, kg, questions in sets_of_questions():
        drawn = random.Random(seed).sample(questions, min(count, len(questions)))
        asked = [q if i % 2 else q._replace(entities={}) for i, q in enumerate(drawn)]
        partial = graph is not None and graph.partial
        rows = list(collect(graph.name if graph else name, asked, kg, PARTIAL if partial else 1.0))
        _log.info("%s: %d of %d right", name, sum(row.is_right for row in rows), len(rows))
        yield from rows


def main(
    questions: Annotated[int, typer.Option(help="Questions of each set.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the questions drawn.")] = 1,
    rows: Annotated[Path | None, typer.Option(help="File that keeps what was asked, to train again.")] = None,
) -> None:
    """Ask, train, write."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if rows is not None and rows.is_file():
        asked = [Row(**json.loads(line)) for line in rows.read_text("utf-8").splitlines()]
    else:
        asked = list(rows_of(questions, seed))
        if rows is not None:
            rows.write_text("".join(json.dumps(asdict(row)) + "\n" for row in asked), "utf-8")
    calibration = train(asked, {"questions": "python -m triplewise.evals.calibration", "seed": seed})
    for group, figures in calibration.provenance["left out"].items():
        _log.info("%s %s", group, figures)
    calibration.write(Path(str(files("triplewise.tools.planning"))) / FILE)


if __name__ == "__main__":
    typer.run(main)
