"""`triplewise learn`: the agent learns from its own trajectories (SymAgent 4.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import out, progress_bars, say

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
        "What learns: the embedded encoder (no language model, two cores, minutes), or a LoRA adapter "
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
    config = learning.LearningConfig(
        str(questions.resolve()), validation, policy, preset, context, iterations
    )
    with progress_bars("what is done is kept; the same command goes on") as show:

        def report(phase: str, iteration: int, done: int, total: int | None, note: str) -> None:
            number = iteration + (phase != "validated")
            show(f"{phase} {number}", done, total, f"{done} of {total}  {note}")

        state = learning.learn(config, into, report=report)
    scores = [f"{score['f1']:.3f}" for score in state.scores] + ["-"]
    for number, done in enumerate(state.rounds):
        explored, refined = (f"{name} {done[name]['reward']:.3f}" for name in ("explored", "refined"))
        gain = f"validation F1 {scores[number]} -> {scores[number + 1]}"
        out().print(f"iteration {number + 1}: {explored}, {refined}, {done['kept']} kept, {gain}")
    for file in (into / learning.TRAJECTORIES, into / learning.VALIDATED):
        if failed := [t for t in read_trajectories(file) if t.status.startswith("crashed")]:
            example = f"e.g. {failed[0].question!r}, {failed[0].status}"
            say(f"{len(failed)} attempts in {file} failed with an error, {example}", "notice")
    say(f"{state.stopped}; settings of the best policy: {into / learning.SETTINGS}")
