"""`triplewise learn` (SymAgent 4.3) and `calibrate`: what is learned from questions with answers."""

from __future__ import annotations

from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import columns, out, pairs, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.tools.learning.calibration import Row
    from triplewise.tools.learning.parser_training import Labelled

LABELLED = "JSON lines with `question`, `answers` ([] where the graph holds none), and maybe `entities`."

commands = typer.Typer()


@o.command(commands)
def learn(
    options: o.RunOptions,
    questions: Path = o.argument(
        "QUESTIONS",
        "JSON lines with `question`, `answers` (ids, literals or names), and optionally `id`, and "
        "`entities` or `topic_entity`: a name, a list of names, or a mapping mention -> id.",
    ),
    into: Path = o.option("DIR", "Where everything is kept; made if missing.", ...),
    policy: Literal["embedded", "model"] = o.option(
        "",
        "What learns: the MiniLM encoder (no language model, two cores, minutes), or a LoRA adapter "
        "of the language model (a GPU).",
        "embedded",
    ),
    iterations: int = o.option("N", "Most rounds of exploring and training.", 2, min=1),
    validation: float = o.option("SHARE", "Share of QUESTIONS that is held out to validate on.", 0.1),
) -> None:
    """Let the agent learn from its own trajectories, given nothing but questions and their answers.

    It explores: answers every question and is given the recall of its answer. It refines: tries again, given
    its trajectory and that reward. The better of the two is kept, what found nothing is left out, and the
    policy is trained on the rest; until questions held out are no longer answered better.

    The same command goes on with a run that was killed, and explores no question twice. DIR/settings.yaml
    then holds the settings of the best policy, for `triplewise ask --config`.

    Examples:
        triplewise learn train.jsonl --kg KG --into learned
        triplewise ask "..." --config learned/settings.yaml
        vllm serve Qwen/Qwen2-7B-Instruct
        triplewise learn train.jsonl --kg KG --into learned --policy model --preset symagent \
--model openai:Qwen/Qwen2-7B-Instruct --base-url http://localhost:8000/v1
    """
    from triplewise.graphs import learning
    from triplewise.tools.learning.trajectory import read_trajectories

    context = ({"history": "chat"} if policy == "model" else {}) | options.context_settings()
    preset = options.preset or o.DEFAULT_PRESET
    whole = realpath(questions)  # of a link to itself, as it is
    config = learning.LearningConfig(whole, validation, policy, preset, context, iterations)
    with progress_bars("what is done is kept; the same command goes on") as report:
        state = learning.learn(config, into, report=report)
    scores = [f"{score['f1']:.3f}" for score in state.scores] + ["-"]
    for number, done in enumerate(state.rounds):
        explored, refined = (f"{name} {done[name]['reward']:.3f}" for name in ("explored", "refined"))
        gain = f"validation F1 {scores[number]} -> {scores[number + 1]}"
        out().print(f"iteration {number + 1}: {explored}, {refined}, {done['kept']} kept, {gain}")
    attempts = into / learning.TRAJECTORIES
    if failed := [t for t in read_trajectories(attempts) if t.status.startswith("crashed")]:
        example = f"e.g. {failed[0].question!r}, {failed[0].status}"
        say(f"{len(failed)} attempts in {attempts} failed with an error, {example}", "notice")
    say(f"{state.stopped}; settings of the best policy: {into / learning.SETTINGS}")


@o.command(commands)
def calibrate(
    options: o.SettingOptions,
    files: list[Path] = o.argument("QUESTIONS...", LABELLED),
    out_: Path | None = o.option("FILE", "Where to write it.", None, "--out", shown="the graph's folder"),
    weights: bool = o.flag("Train the parser's weights too, on every other question."),
) -> None:
    """Train the confidence of answers on questions of your own.

    All questions are asked, and boosted trees learn by what evidence answers were right. They are kept in the
    folder of a loaded graph, and used from then on; for others --set calibration=FILE names them. Takes 40
    answers at least, better 200, a fifth of them with no answer. No language model is asked: how sure the
    answers of one are comes with the package. With --weights, every other question first trains the parser;
    what it learned is kept where the others are then answered no worse.

    Examples:
        triplewise calibrate questions.jsonl --kg films
        triplewise calibrate a.jsonl b.jsonl --kg films --weights
    """
    from triplewise.nodes.context import Context
    from triplewise.nodes.environment import Environment
    from triplewise.tools.core.files import json_lines
    from triplewise.tools.learning.calibration import train
    from triplewise.tools.learning.parser_training import Labelled, improved_weights
    from triplewise.tools.parsing import confidence, learn
    from triplewise.tools.planning.seeds import question_parts

    context = Context(**options.context_settings())
    if not context.offline:
        raise ConfigurationError("calibrate asks no language model: leave --model out")
    env = Environment(context)
    path, weights_path = out_ or learn.own_file(env.kg, confidence.FILE), learn.own_file(env.kg)
    if path is None or (weights and weights_path is None):
        fix = "or name a file with --out (without --weights), and give it later by --set calibration=FILE"
        what = f"{context.kg} is not a folder that could keep what is trained"
        raise ConfigurationError(f"{what}: load it by `triplewise kg load`, {fix}")
    questions = []
    for file in files:
        for number, record in json_lines(file):
            text, entities, answers = question_parts(record, file, number)
            questions.append(Labelled(text, entities, (answers, *map(tuple, record.get("also") or ()))))
    if weights and weights_path is not None and len(questions) > 1:
        learned, before, after = improved_weights(questions, env.kg, env.encoder, learn.shipped_weights())
        if after >= before:
            learn.write_weights(learned, weights_path)
        kept_in = weights_path if after >= before else "no file: they are no better"
        figures = [("right before", f"{before:.1%}"), ("right after", f"{after:.1%}"), ("kept in", kept_in)]
        out().print(pairs("Parser, on every other question", figures))
        questions = questions[1::2]
    rows = _ask(context, env, questions)
    trained = train(rows, {"questions": [file.name for file in files], "count": len(rows)})
    trained.write(path)
    measured: dict[str, float] = trained.provenance["left out"]["all"]
    out().print(columns(tuple(measured), [tuple(f"{value:g}" for value in measured.values())]))
    out().print(pairs("Calibrated", [("min_confidence", f"{trained.min_confidence:g}"), ("kept in", path)]))
    say("figures are of held-out tenths of the questions")


def _ask(context: Any, env: Any, questions: list[Labelled]) -> list[Row]:
    """Ask questions; return whether each answer is right, and by what evidence."""
    from triplewise.graphs.build import build_graph
    from triplewise.nodes.state import State
    from triplewise.tools.learning.calibration import Row
    from triplewise.tools.learning.exploration import agreements

    graph: Any = build_graph()
    asked = context.changed(kg=env.kg, seeds=context.seeds or "none", min_confidence=0.0, cascade=None)
    rows: list[Row] = []
    with progress_bars() as report:
        for question, entities, gold in questions:
            values = graph.invoke({"question": question, "entities": dict(entities)}, context=asked)
            state = State.model_validate(values)
            answer, reading = state.answer, state.followed
            assert answer is not None, "a run that ends has an answer"
            # Yes-or-no answers may stand in words.
            f1 = max(one.f1 for one in agreements(env.kg, answer.values, answer.labels, gold))
            features = reading.features if reading is not None and answer.values else {}
            rows.append(Row(str(context.kg), question, f1 == 1.0 and any(gold), features, any(gold)))
            report("asking", len(rows), len(questions))
    return rows
