"""`triplewise calibrate`: train the confidence of answers on questions of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import columns, examples, out, pairs, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.tools.kg import KnowledgeGraph
    from triplewise.tools.learning.calibration import Row

EXAMPLES = examples(
    "triplewise calibrate questions.jsonl --kg films",
    "triplewise calibrate a.jsonl b.jsonl --kg films --out films.calibration.yaml",
)


class Labelled(NamedTuple):
    """A training question: text, entities (mention -> id or None), and complete sets of right answers."""

    question: str
    entities: Mapping[str, str | None]
    answers: tuple[tuple[str, ...], ...]


def collect(
    group: str, questions: Iterable[Labelled], kg: KnowledgeGraph, least: float = 1.0
) -> Iterator[Row]:
    """Ask questions without a model; return whether each answer is right, and by what evidence.

    `least` is the F1 of a right answer: 1 where gold answers and graph are complete.
    """
    from triplewise.graphs.build import build_graph
    from triplewise.nodes.context import Context
    from triplewise.tools.core.overlap import best_overlap
    from triplewise.tools.learning.calibration import Row
    from triplewise.tools.learning.questions import short_answers

    graph: Any = build_graph()
    for question, entities, gold in questions:
        settings = Context(kg=kg, seeds="none", min_confidence=0.0)
        state = graph.invoke({"question": question, "entities": dict(entities)}, context=settings)
        answer, readings, attempt = state["answer"], state.get("readings", ()), state.get("attempt", 0)
        ids = [short_answers(kg, answers) for answers in gold]
        # Yes-or-no answers may stand in words.
        f1 = max(best_overlap(answer.values, ids).f1, best_overlap(answer.labels, gold, "names").f1)
        has_reading = bool(answer.values) and attempt < len(readings)
        yield Row(
            group,
            question,
            f1 >= least and any(gold),
            readings[attempt].features if has_reading else {},
            any(gold),
        )


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="QUESTIONS...",
            help="JSON lines (plain or .gz) with `question`, `answers` ([] where the graph holds none) "
            "and, if you like, `entities`.",
        ),
    ],
    kg: o.Kg = None,
    profile: o.Profile = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to write it. [dim](the folder of the graph)[/dim]"),
    ] = None,
) -> None:
    """Train the confidence of answers without a language model on questions of your own.

    All questions are asked, and a logistic regression learns by what evidence answers were right. It is kept
    as calibration.yaml in the folder of a graph that `triplewise kg load` made, and used from then on; for
    other graphs --set calibration=FILE names it. Takes 40 answers at least, better 200, of every kind of
    question, a fifth of them with no answer.
    """
    from triplewise.nodes.context import Context
    from triplewise.nodes.environment import environment
    from triplewise.tools.core.files import json_lines
    from triplewise.tools.learning.calibration import train
    from triplewise.tools.planning.confidence import own_file
    from triplewise.tools.planning.seeds import question_parts

    context = Context(**o.RunOptions(kg=kg, profile=profile).context_settings())
    graph = environment(context).kg
    if (path := to or own_file(graph)) is None:
        raise ConfigurationError(
            f"{context.kg} is no folder that could keep a calibration; name a file with --out, and give it "
            "to later questions by --set calibration=FILE"
        )
    questions = []
    for file in files:
        for number, record in json_lines(file):
            text, entities, answers = question_parts(record, file, number)
            questions.append(Labelled(text, entities, (answers, *map(tuple, record.get("also") or ()))))
    rows: list[Row] = []
    with progress_bars() as report:
        for row in collect(str(context.kg), questions, graph):
            rows.append(row)
            report("asking", len(rows), len(questions))
    calibration = train(rows, {"questions": [file.name for file in files], "count": len(rows)})
    calibration.write(path)
    measured: Mapping[str, float] = calibration.provenance["left out"]["all"]
    out().print(columns(tuple(measured), [tuple(f"{value:g}" for value in measured.values())]))
    out().print(
        pairs("Calibrated", [("min_confidence", f"{calibration.min_confidence:g}"), ("kept in", str(path))])
    )
    say("figures are of held-out tenths of the questions")
