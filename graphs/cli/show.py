"""Commands that show how things are made: plan, presets, graph, demo."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.graphs.cli.names import Names
    from triplewise.tools.rules import Rule

PresetName = Annotated[str, typer.Option("--preset", metavar="P", help="See `triplewise presets`.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command(
        epilog=examples(
            'triplewise plan "Who wrote Dracula?"', 'triplewise plan "..." --kg films --seeds train.jsonl'
        )
    )(plan)
    app.command(epilog=examples("triplewise presets"))(presets)
    app.command(epilog=examples("triplewise graph", "triplewise graph --preset oda > oda.mmd"))(graph)
    app.command(epilog=examples("triplewise demo"))(demo)


def plan(
    question: o.Question,
    kg: o.Kg = None,
    profile: o.Profile = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    preset: o.Preset = None,
    entity: o.Entities = None,
    seeds: o.Seeds = None,
    settings: o.Settings = None,
) -> None:
    """Show the rules that would lead the search, best first, without running it."""
    named = o.given(kg=kg, profile=profile, model=model, base_url=base_url, seeds=seeds)
    from triplewise.graphs.cli.names import Names
    from triplewise.graphs.cli.report import Report
    from triplewise.graphs.cli.running import Run

    order = o.order_of(question, preset, entity or [], o.context_of(named, settings or []))
    run, console = Run(order), out()
    names = Names(run.kg, run.toolset)
    report = Report(console, names)
    for phase, update in run.updates(False, lambda doing: None):
        if phase == "link":
            report.phase(phase, update)
        elif phase == "plan":
            names.learn_rules(update["rules"])
            console.print(_rules(names, update["rules"]))
            return


def _rules(names: Names, rules: Sequence[Rule]) -> Table | str:
    """Rules with their figures; those that only seeds give stay out where no rule comes from one."""
    if not rules:
        return "No rule fits: no relation path from the entities reads like the question."
    mined = any(rule.support for rule in rules)
    table = _table("", "Rule", "Support", *(("Precision", "Recall") if mined else ()), "Score", "From")
    for number, rule in enumerate(rules, 1):
        figures = (f"{rule.precision:.2f}", f"{rule.recall:.2f}") if mined else ()
        text = names.readable(rule.text())
        table.add_row(f"{number}", text, f"{rule.support}", *figures, f"{rule.score:.2f}", rule.provenance)
    return table


def _table(*heads: str) -> Table:
    """A plain table that wraps instead of cutting."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def presets() -> None:
    """List the presets: what each is made of, and the variants of each phase."""
    from triplewise.graphs.presets import FAITHFUL, PRESETS
    from triplewise.nodes import VARIANTS

    console = out()
    faithful = {f"{name}-faithful": preset for name, preset in FAITHFUL.items()}
    for name, preset in (PRESETS | faithful).items():
        phases, settings = (
            ", ".join(f"{key}={value}" for key, value in part.items())
            for part in ({p: preset.phases[p] for p in VARIANTS}, preset.settings)
        )
        console.print(pairs(name, (("is", preset.summary), ("phases", phases), ("settings", settings))))
        console.print()
    heading = "Variants of each phase, for build_graph(preset, phase=variant)"
    console.print(pairs(heading, [(phase, ", ".join(variants)) for phase, variants in VARIANTS.items()]))


def graph(preset: PresetName = o.DEFAULT_PRESET) -> None:
    """Print the state machine as a Mermaid drawing."""
    from triplewise.graphs.build import build_graph

    typer.echo(build_graph(preset).get_graph().draw_mermaid())


def demo() -> None:
    """Say what the demo graph is about, with questions to try."""
    import yaml

    data = yaml.safe_load((files("triplewise.graphs.cli") / "demo.yaml").read_text(encoding="utf-8"))
    console = out()
    console.print(data["about"].strip() + "\n")
    for topic in data["topics"]:
        console.print(topic["topic"], style="bold")
        for question in topic["questions"]:
            console.print(f'  triplewise ask "{question}"', soft_wrap=True)
