"""`triplewise learn`: the agent learns from its own trajectories (SymAgent 4.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import out, progress_bars, say
from triplewise.tools.core.errors import ConfigurationError

PATHS = {"kg", "profile", "prompt", "seeds", "examples", "documents", "facts", "encoder", "db"}
"""Settings that may name a file or a folder."""
FORMAT = """\
Trajectories (DIR/trajectories.jsonl) are JSON lines with: id, question, entities \
(mention -> id), answers (gold), predicted, reward (recall), f1, turns (list of thought, call, observation), \
choices (list of chosen, offered, before: relations by id, ^ before one walked backwards), system and prompt \
(what a model was shown first), iteration, origin (explored, refined, validated), policy, status, rule."""

commands = typer.Typer()


@o.command(commands, after=FORMAT)
def learn(
    options: o.RunOptions,
    policy: Literal["embedded", "model"] = o.option(
        "",
        "What learns: the embedded encoder (no language model, two cores, minutes), or a LoRA adapter "
        "of the language model (a GPU).",
        "embedded",
    ),
    iterations: int = o.option("N", "Most rounds of exploring and training.", 2, min=1),
    epsilon: float = o.option(
        "GAIN", "A gain in mean validation F1 below this is negligible and ends the run.", 0.001
    ),
    jobs: int = o.option("N", "Questions at a time; 0: 1 (embedded policy) or 8 (model).", 0, min=0),
    seed: int = o.option("N", "Of the held-out share, the attempts and the training.", 0),
    questions: Path | None = o.argument(
        "QUESTIONS",
        "JSON lines with `question`, `answers` (ids, literals or names), and optionally `id`, and "
        "`entities` or `topic_entity`: a name, a list of names, or a mapping mention -> id.",
        None,
    ),
    into: Path = o.option("DIR", "Where everything is kept; made if missing.", ...),
    base_model: str | None = o.option(
        "NAME|DIR", "Weights of the language model: a folder, or a name on the model hub.", shown="as --model"
    ),
    validation: float = o.option("SHARE", "Share of QUESTIONS that is held out to validate on.", 0.1),
    lora: list[str] | None = o.option(
        "NAME=VALUE", "A setting of LoRA, e.g. epochs=1; defaults are the paper's (table 6). Repeatable."
    ),
    resume: bool = o.flag("Go on with what DIR holds, as it was ordered.", "--resume"),
) -> None:
    """Let the agent learn from its own trajectories, given nothing but questions and their answers.

    It explores: answers every question and is given the recall of its answer. It refines: tries again, given
    its trajectory and that reward. The better of the two is kept, what found nothing is left out, and the
    policy is trained on the rest; until questions held out are no longer answered better.

    A run that was killed goes on with --resume, and no question is explored twice. DIR/settings.yaml then
    holds the settings of the best policy, for `triplewise ask --config`.

    Examples:
        triplewise learn train.jsonl --kg KG --into learned
        triplewise learn --resume --into learned
        triplewise ask "..." --config learned/settings.yaml
        vllm serve Qwen/Qwen2-7B-Instruct
        triplewise learn train.jsonl --kg KG --into learned --policy model --preset symagent \
--model openai:Qwen/Qwen2-7B-Instruct --base-url http://localhost:8000/v1
    """
    if resume and questions is not None:
        raise ConfigurationError("--resume takes its questions and settings from the folder; leave them out")
    if not resume and questions is None:
        raise ConfigurationError("no questions; give a file of them, or --resume to go on with a run")
    import yaml

    from triplewise.graphs import learning
    from triplewise.tools.learning.trajectory import read_trajectories

    config = None
    if questions is not None:
        context = ({"history": "chat"} if policy == "model" else {}) | options.context_settings()
        for name in PATHS & context.keys():  # it may be resumed from another folder
            if Path(context[name]).exists():
                context[name] = str(Path(context[name]).resolve())
        pairs = dict(o.split_pair("--lora", pair, "epochs=1") for pair in lora or ())
        settings = {name: yaml.safe_load(value) for name, value in pairs.items()}
        config = learning.LearningConfig(
            questions=str(questions.resolve()),
            share=validation,
            policy=policy,
            preset=options.preset or o.DEFAULT_PRESET,
            context=context,
            iterations=iterations,
            epsilon=epsilon,
            jobs=jobs,
            seed=seed,
            learner=({"base_model": base_model} if base_model else {}) | settings,
        )
    with progress_bars(f"what is done is kept; `triplewise learn --resume --into {into}` goes on") as show:

        def report(phase: str, iteration: int, done: int, total: int | None, note: str) -> None:
            number = iteration + (phase != "validated")
            show(f"{phase} {number}", done, total, f"{done} of {total}  {note}")

        state = learning.learn(config, into, report=report, notify=lambda text: say(text, "notice"))
    scores = [f"{score['f1']:.3f}" for score in state.scores] + ["-"]
    for number, done in enumerate(state.rounds):
        explored, refined = (
            f"{phase} {done[phase]['reward']:.3f} ({done[phase]['rewarded']:.0%} above 0)"
            for phase in ("explored", "refined")
        )
        gain = f"validation F1 {scores[number]} -> {scores[number + 1]}"
        out().print(f"iteration {number + 1}: {explored}, {refined}, {done['kept']} kept, {gain}")
    files = (into / learning.TRAJECTORIES, into / learning.VALIDATED)
    made = [t for file in files for t in read_trajectories(file)]
    if failed := {t.id: t for t in made if t.status.startswith("crashed")}:
        first = next(iter(failed.values()))
        why = f"e.g. {first.question!r}, {first.status}; all are in {files[0]} and {files[1].name}"
        say(f"{len(failed)} questions failed with an error, {why}", "notice")
    say(f"{state.stopped}; settings of the best policy: {into / learning.SETTINGS}")
