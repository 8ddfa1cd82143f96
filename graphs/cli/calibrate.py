"""`triplewise calibrate`: train the confidence of answers, and the parser, on questions of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import columns, out, pairs, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from triplewise.tools.learning.calibration import Row
    from triplewise.tools.learning.parser_training import Labelled
    from triplewise.tools.parsing.confidence import Calibration

AT_ONCE = 4
"""Questions that a language model is asked at a time."""

commands = typer.Typer()


@o.command(commands)
def calibrate(
    options: o.SettingOptions,
    files: list[Path] = o.argument(
        "QUESTIONS...",
        "JSON lines (plain or .gz) with `question`, `answers` ([] where the graph holds none) and, if "
        "you like, `entities`.",
    ),
    out_: Path | None = o.option(
        "FILE", "Where to write it.", None, "--out", shown="the folder of the graph"
    ),
    weights: bool = o.flag(
        "Train the parser's weights too, on every other question; the confidence is trained on the rest."
    ),
) -> None:
    """Train the confidence of answers on questions of your own.

    All questions are asked, and boosted trees learn by what evidence answers were right. They are kept as
    confidence.json in the folder of a graph that `triplewise kg load` made, and used from then on; for other
    graphs --set calibration=FILE names it. Takes 40 answers at least, better 200, of every kind of
    question, a fifth of them with no answer.

    With --model, that language model is asked, and its answers get a confidence of their own, kept in the
    same file: by whether a reading without a model has the same answers, by the words which that reading
    leaves uncovered, and by what went wrong on the way. Without this its answers have none.

    Examples:
        triplewise calibrate questions.jsonl --kg films
        triplewise calibrate a.jsonl b.jsonl --kg films --out films.confidence.json
        triplewise calibrate questions.jsonl --kg films --model openai:gpt-4o-mini
    """
    from triplewise.nodes.context import Context
    from triplewise.nodes.environment import Environment
    from triplewise.tools.core.files import json_lines
    from triplewise.tools.learning.calibration import train
    from triplewise.tools.learning.parser_training import Labelled, learned_weights
    from triplewise.tools.parsing.confidence import FILE
    from triplewise.tools.parsing.learn import own_file, shipped_weights, write_weights
    from triplewise.tools.planning.seeds import question_parts

    settings = options.context_settings()
    context = Context(**settings)
    env = Environment(context)
    path, weights_path = out_ or own_file(env.kg, FILE), own_file(env.kg)
    if path is None:
        raise ConfigurationError(
            f"{context.kg} is no folder that could keep a calibration; name a file with --out, and give it "
            "to later questions by --set calibration=FILE"
        )
    questions = []
    for file in files:
        for number, record in json_lines(file):
            text, entities, answers = question_parts(record, file, number)
            questions.append(Labelled(text, entities, (answers, *map(tuple, record.get("also") or ()))))
    if weights:
        if weights_path is None:
            raise ConfigurationError(
                f"{context.kg} is no folder that could keep weights; load it by `triplewise kg load`"
            )
        write_weights(learned_weights(questions[::2], env.kg, env.encoder, shipped_weights()), weights_path)
        questions = questions[1::2]
    rows = _ask(str(context.kg), questions, {**settings, "kg": env.kg})
    calibration = train(rows, {"questions": [file.name for file in files], "count": len(rows)})
    _keep(calibration, path, None if context.embedded else context.name_of("model"))
    measured: Mapping[str, float] = calibration.provenance["left out"]["all"]
    out().print(columns(tuple(measured), [tuple(f"{value:g}" for value in measured.values())]))
    kept = [("min_confidence", f"{calibration.min_confidence:g}"), ("kept in", str(path))]
    out().print(pairs("Calibrated", kept))
    say("figures are of held-out tenths of the questions")


def _ask(group: str, questions: Sequence[Labelled], settings: Mapping[str, Any]) -> list[Row]:
    """Ask questions; return whether each answer is right, and by what evidence."""
    from triplewise.graphs.build import build_graph
    from triplewise.nodes.context import Context
    from triplewise.nodes.environment import Environment
    from triplewise.nodes.result import reading_of_query
    from triplewise.nodes.state import State
    from triplewise.tools.core.overlap import best_overlap
    from triplewise.tools.learning.calibration import Row
    from triplewise.tools.learning.questions import short_answers

    context = Context(**{"seeds": "none", **settings, "min_confidence": 0.0, "cascade": None})
    env, graph = Environment(context), build_graph()

    def ask(labelled: Labelled) -> Row:
        question, entities, gold = labelled
        run: Any = {"question": question, "entities": dict(entities)}
        state = State.model_validate(graph.invoke(run, context=context))
        answer = state.answer
        assert answer is not None, "a run that ends has an answer"
        reading = state.followed if context.embedded else reading_of_query(state, env, answer.values)
        ids = [short_answers(env.kg, answers) for answers in gold]
        # Yes-or-no answers may stand in words.
        f1 = max(best_overlap(answer.values, ids).f1, best_overlap(answer.labels, gold, "names").f1)
        features = reading.features if reading is not None and answer.values else {}
        return Row(group, question, f1 == 1.0 and any(gold), features, any(gold))

    rows: list[Row] = []
    with ThreadPoolExecutor(1 if context.embedded else AT_ONCE) as pool, progress_bars() as report:
        for row in pool.map(ask, questions):
            rows.append(row)
            report("asking", len(rows), len(questions))
    return rows


def _keep(calibration: Calibration, path: Path, model: str | None) -> None:
    """Write a calibration, or that of a language model, into a file, which keeps what else it has.

    What is no calibration of this version is overwritten.
    """
    from triplewise.tools.core.files import read_text
    from triplewise.tools.parsing.confidence import read_calibration, shipped

    before = shipped()
    if path.is_file():
        with suppress(DataError):
            before = read_calibration(read_text(path), path)
    if model is None:
        replace(calibration, models=before.models).write(path)
    else:
        replace(before, models={**before.models, model: calibration}).write(path)
