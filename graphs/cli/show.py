"""Commands that show how things are made: plan, guidelines, presets, graph, demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, say
from triplewise.tools.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.graphs.cli.names import Names
    from triplewise.guidelines import Guideline, Guidelines
    from triplewise.tools.rules import Rule

PresetName = Annotated[str, typer.Option("--preset", metavar="P", help="See `triplewise presets`.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="As `triplewise guidelines list` shows it.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A YAML file of guidelines.")]
Extra = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="FILE", help="Your own guidelines, which come first. Repeatable."),
]


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
    guidelines = typer.Typer(
        help="ERASER's guidelines: what can go wrong, and what to do then.", no_args_is_help=True
    )
    guidelines.command("list", epilog=examples("triplewise guidelines list"))(list_guidelines)
    guidelines.command("show", epilog=examples("triplewise guidelines show fact_empty"))(show_guideline)
    guidelines.command(
        "check",
        epilog=examples(
            "triplewise guidelines check mine.yaml", 'triplewise ask "..." --set guidelines=mine.yaml'
        ),
    )(check_guidelines)
    app.add_typer(guidelines, name="guidelines")


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


def list_guidelines(file: Extra = None) -> None:
    """List the guidelines in the order in which they are tried."""
    from triplewise.guidelines import load_guidelines

    rows = []
    for g in load_guidelines(file or []):
        notes = [g.source, *([g.severity] if g.severity != "error" else []), *([g.paper] if g.paper else [])]
        rows.append((g.id, f"{' '.join(g.when.split())}  [{'; '.join(notes)}]"))
    out().print(pairs("Guidelines, the first that matches wins", rows))


def show_guideline(id: Id, file: Extra = None) -> None:
    """Show one guideline, with its example and the text that this example gets."""
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines(file or [])
    try:
        found = guidelines[id]
    except KeyError:
        raise ConfigurationError.unknown("guideline", id, (g.id for g in guidelines)) from None
    out().print(pairs(found.id, _details(guidelines, found)))


def _details(guidelines: Guidelines, found: Guideline) -> list[tuple[str, str]]:
    """Everything about a guideline, by name."""
    example = found.example
    match = guidelines.match(example.feedback, example.memory, **example.given)
    fields = {k: v for k, v in asdict(example.feedback).items() if v}
    return [
        ("file", f"{found.path}:{found.line}"),
        ("reads", found.source),
        ("severity", found.severity),
        ("paper", found.paper or "not from a paper"),
        ("when", " ".join(found.when.split())),
        ("guideline", found.guideline),
        ("example", "; ".join(f"{k}: {v}" for k, v in fields.items())),
        ("says", match.text if match else "nothing: the example does not trigger it"),
    ]


def check_guidelines(file: File) -> None:
    """Check a file: its form, its expressions, and that every example triggers its own guideline."""
    from triplewise.guidelines import load_guidelines

    guidelines = load_guidelines([file])
    problems = [p for p in guidelines.check() if p.startswith(f"{file}:")]
    if problems:
        raise DataError("\n".join(problems))
    mine = sum(g.path == str(file) for g in guidelines)
    say(f"{file}: {mine} guideline{'' if mine == 1 else 's'}, every example triggers its own")


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
