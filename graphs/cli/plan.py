"""`triplewise plan`: what a question may mean, the rules that would lead a search, and seeds mined ahead."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.commands import with_default
from triplewise.graphs.console import Json, echo_json, out, pairs, progress_bars, say

SHOWN = 8  # Readings, rules and dropped rules printed
SEEDS = "JSON lines with `question`, `answers`, and `topic_entity`, `entities` or `entity`: names or ids."

commands = typer.Typer(cls=with_default("question"), help="Show what a question may mean without running it.")


@o.command(commands, "question", after="See also: triplewise plan index --help")
def show(
    options: o.RunOptions,
    question: str = o.argument("QUESTION", "The question, in quotes."),
    entity: o.Entities = None,
    as_json: Json = False,
) -> None:
    """Show what a question may mean, best first, without running it; with a model, the rules it is shown.

    A reading is a query, with the probability that its answer is exactly right. A rule is a path of relations
    from an entity to the answer. Support: seed questions whose answers it reproduces; precision and recall:
    how well. What was dropped is listed with the reason.

    Examples:
        triplewise plan "Who wrote Dracula?"
        triplewise plan "..." --kg films --seeds train.jsonl
        triplewise plan index train.jsonl --kg films
    """
    from triplewise.graphs.cli.run import Report, Run

    run, console = Run(options.request(question, entity)), out()
    with console.status("planning") if console.is_terminal else nullcontext():
        run.follow(until="observe")
    state = run.state
    if not as_json:
        report = Report(console, run.served)
        report.plan(state, SHOWN, "--json gives all")
        if not state.readings and not state.rules:
            report.row("Plan", "No reading: nothing in the graph is like what the question asks.")
        return
    names = {"linked": "entities", "readings": "readings", "rules": "rules", "dropped": "dropped"}
    document = {shown: [asdict(value) for value in getattr(state, name)] for name, shown in names.items()}
    echo_json({"question": question, **document})


@o.command(commands)
def index(options: o.SettingOptions, files: list[Path] = o.argument("SEEDS...", SEEDS)) -> None:
    """Mine answered questions of a graph once, and keep the rules they give for every later question.

    They are kept in the folder of a loaded graph, else in your cache folder; a changed graph has none until
    they are indexed again. What is broken off goes on when the same command is run again.

    Examples:
        triplewise plan index train.jsonl --kg films
        triplewise ask "..." --kg films
    """
    from triplewise.nodes.context import Context
    from triplewise.nodes.environment import Environment
    from triplewise.tools.planning.seed_store import index_seeds

    context = Context(**options.context_settings())
    env, source = Environment(context), ",".join(map(str, files))
    with progress_bars("what is done is kept: run the same command again to go on") as progress:
        report = index_seeds(source, context.kg, env.kg, context.plan_hops, progress)
    if report.empty:
        reason = "the graph lacks their entities or answers, or no path joins them"
        say(f"{report.empty:,} of the seeds mined gave no rule: {reason}", "notice")
    rows = {"seeds": f"{report.seeds:,} usable, of {report.groups:,} structures"}
    rows |= {"mined": f"{report.mined:,} drawn from them", "kept in": str(report.path)}
    out().print(pairs(f"Indexed the seeds of {context.kg}", rows.items()))
