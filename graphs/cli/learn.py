"""`triplewise learn`: the agent learns from its own trajectories (SymAgent 4.3)."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.nodes.context import Context
    from triplewise.nodes.learning.config import LearningConfig, LearningState

PATHS = ("kg", "profile", "prompt", "seeds", "documents", "facts", "prices", "encoder", "db")
"""Settings that may name a file or a folder."""

Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS",
        help="JSON lines with `question`, `answers` (ids, literals or names), and optionally `id`, and "
        "`entities` or `topic_entity`: a name, a list of names, or a mapping mention -> id.",
        show_default=False,
    ),
]
Into = Annotated[
    Path, typer.Option("--into", metavar="DIR", help="Where everything is kept; made if missing.")
]
PolicyName = Annotated[
    Literal["embedded", "model"],
    typer.Option(
        "--policy",
        help="What learns: the embedded encoder (no language model, two cores, minutes), or a LoRA adapter "
        "of the language model (a GPU).",
    ),
]
BaseModel = Annotated[
    str | None,
    typer.Option(
        "--base-model",
        metavar="NAME|DIR",
        help="Weights of the language model: a folder, or a name on the model hub. [dim](as --model)[/dim]",
    ),
]
Validation = Annotated[
    str,
    typer.Option(
        metavar="FILE|SHARE", help="Questions to validate on, or the share of QUESTIONS that is held out."
    ),
]
Iterations = Annotated[int, typer.Option(min=1, help="Most rounds of exploring and training.")]
Epsilon = Annotated[
    float, typer.Option(help="A gain in mean validation F1 below this is negligible and ends the run.")
]
Variant = Annotated[
    Literal["full", "no-refine", "no-merge", "distilled"],
    typer.Option(
        help="How the training set is made (SymAgent, table 4): explored and refined trajectories merged; "
        "explored ones only, by rejection sampling; refined ones directly; or another model's."
    ),
]
Distill = Annotated[
    Path | None,
    typer.Option(
        "--distill", metavar="FILE", help="Another model's trajectories. Implies --variant distilled."
    ),
]
Attempts = Annotated[
    int,
    typer.Option(
        min=1, help="A language model's attempts at each question when exploring; the best is kept."
    ),
]
Jobs = Annotated[int, typer.Option(min=0, help="Questions at a time; 0: 1 (embedded policy) or 8 (model).")]
Seed = Annotated[int, typer.Option(help="Of the held-out share, the attempts and the training.")]
LoraSet = Annotated[
    list[str] | None,
    typer.Option(
        "--lora",
        metavar="NAME=VALUE",
        help="A setting of LoRA, e.g. epochs=1; defaults are the paper's (table 6). Repeatable.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what DIR holds, as it was ordered.")]

SCHEMA = (
    "Trajectories (DIR/trajectories.jsonl, and what --distill reads) are JSON lines:\n\n"
    "  id, question, entities (mention -> id), answers (gold), predicted, reward (recall), f1,\n\n"
    "  turns (list of thought, call, observation), choices (list of chosen, offered, before: relations by\n\n"
    "  id, ^ before one walked backwards), system and prompt (what a model was shown first), iteration,\n\n"
    "  origin (explored, refined, distilled, validated), policy, status, rule.\n\n"
    "Needed are id, question and answers."
)
EPILOG = examples(
    "triplewise learn train.jsonl --kg KG --into learned",
    "triplewise learn --resume --into learned",
    'triplewise ask "..." --config learned/settings.yaml',
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve Qwen/Qwen2-7B-Instruct --enable-lora "
    "--max-lora-rank 32 --max-loras 2",
    "triplewise learn train.jsonl --kg KG --into learned --policy model --preset symagent "
    "--model openai:Qwen/Qwen2-7B-Instruct --base-url http://localhost:8000/v1",
)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command(epilog=f"{EPILOG}\n\n{SCHEMA}")(learn)


def learn(
    questions: Questions = None,
    *,
    into: Into,
    kg: o.Kg = None,
    profile: o.Profile = None,
    policy: PolicyName = "embedded",
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    base_model: BaseModel = None,
    preset: o.Preset = None,
    seeds: o.Seeds = None,
    validation: Validation = "0.1",
    iterations: Iterations = 2,
    epsilon: Epsilon = 0.001,
    variant: Variant = "full",
    distill: Distill = None,
    attempts: Attempts = 1,
    jobs: Jobs = 0,
    seed: Seed = 0,
    lora: LoraSet = None,
    settings: o.Settings = None,
    resume: Resume = False,
) -> None:
    """Let the agent learn from its own trajectories, given nothing but questions and their answers.

    It explores: answers every question and is told the recall of its answer. It refines: tries again, given
    its trajectory and that reward. The better of the two is kept, what found nothing is left out, and the
    policy is trained on the rest; until questions held out are no longer answered better.

    A run that was killed goes on with --resume, and no question is explored twice. DIR/settings.yaml then
    holds the settings of the best policy, for `triplewise ask --config`.
    """
    if resume and questions is not None:
        raise ConfigurationError("--resume takes its questions and settings from the folder; leave them out")
    if not resume and questions is None:
        raise ConfigurationError("no questions; give a file of them, or --resume to go on with a run")
    config = None
    if questions is not None:
        named = o.given(kg=kg, profile=profile, model=model, base_url=base_url, seeds=seeds)
        context = o.context_of(named, settings or [])
        config = _config(
            questions,
            validation,
            policy=policy,
            preset=preset or o.DEFAULT_PRESET,
            context=_changed(context, policy),
            recipe="distilled" if distill else variant,
            distill=str(distill.resolve()) if distill else "",
            iterations=iterations,
            epsilon=epsilon,
            attempts=attempts,
            jobs=jobs,
            seed=seed,
            learner=_learner(base_model, lora or []),
        )
    _run(config, into)


def _changed(context: Context, policy: str) -> dict[str, Any]:
    """The settings of a context that are not the default, paths made absolute."""
    plain = type(context)()
    names = [f.name for f in fields(context)]
    changed = {n: getattr(context, n) for n in names if getattr(context, n) != getattr(plain, n)}
    for name in PATHS:
        if isinstance(value := changed.get(name), str) and Path(value).exists():
            changed[name] = str(Path(value).resolve())
    return {"history": "chat", **changed} if policy == "model" else changed


def _learner(base_model: str | None, pairs: list[str]) -> dict[str, Any]:
    """Settings of what trains a model."""
    import yaml

    given: dict[str, Any] = {"base_model": base_model} if base_model else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigurationError(f"--lora {pair!r} needs the form NAME=VALUE, e.g. --lora epochs=1")
        given[name.strip().replace("-", "_")] = yaml.safe_load(value)
    return given


def _config(questions: Path, validation: str, **values: Any) -> LearningConfig:
    """The configuration, its validation read as a share where it is a number."""
    from triplewise.nodes.learning.config import LearningConfig

    try:
        share = float(validation)
    except ValueError:
        held: dict[str, Any] = {"validation": str(Path(validation).resolve())}
    else:
        held = {"share": share}
    return LearningConfig(questions=str(questions.resolve()), **held, **values)


def _run(config: LearningConfig | None, into: Path) -> None:
    """Run to the end, with a progress display, and print what came of it."""
    from triplewise.graphs.cli.console import learning_progress
    from triplewise.graphs.learning import SETTINGS
    from triplewise.graphs.learning import learn as run_learning

    try:
        with learning_progress() as tell:
            *_, state = run_learning(config, into, report=tell, notify=lambda m: say(m, "notice"))
    except KeyboardInterrupt:
        say(f"what is done is kept; `triplewise learn --resume --into {into}` goes on", "notice")
        raise
    out().print(_table(state))
    if crashed := sum(done.get("explored", {}).get("crashed", 0) for done in state.rounds):
        say(f"{crashed} attempts failed with an error: see their `status` in {into}", "notice")
    say(f"{state.stopped}; settings of the best policy: {into / SETTINGS}")


def _table(state: LearningState) -> Table:
    """A line an iteration: mean rewards, shares with a reward, trajectories trained on, and the gain."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("iteration", "explored", "> 0", "refined", "> 0", "kept", "validation F1"):
        table.add_column(name, justify="left" if name == "iteration" else "right")
    for number, done in enumerate(state.rounds):
        before, after = (
            f"{state.scores[i]['f1']:.3f}" if i < len(state.scores) else "-" for i in (number, number + 1)
        )
        table.add_row(
            str(number + 1),
            *_means(done.get("explored")),
            *_means(done.get("refined")),
            str(done.get("kept", "-")),
            f"{before} -> {after}",
        )
    return table


def _means(figures: dict[str, float] | None) -> tuple[str, str]:
    """Mean reward, and the share with a reward above 0."""
    if figures is None:
        return "-", "-"
    return f"{figures['reward']:.3f}", f"{figures['rewarded']:.0%}"
