"""Commands that show how things are made: presets, graph, demo."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs

commands = typer.Typer()


@commands.command(epilog=examples("triplewise presets"))
def presets() -> None:
    """List the presets: what each is made of, and the variants of each phase."""
    from triplewise.graphs.presets import FAITHFUL, PRESETS, VARIANTS

    console = out()
    faithful = {f"{name}-faithful": preset for name, preset in FAITHFUL.items()}
    for name, preset in (PRESETS | faithful).items():
        phases = ", ".join(f"{phase}={preset.phases[phase]}" for phase in VARIANTS)
        settings = ", ".join(f"{setting}={value}" for setting, value in preset.settings.items())
        console.print(pairs(name, (("is", preset.summary), ("phases", phases), ("settings", settings))))
        console.print()
    heading = "Variants of each phase, for build_graph(preset, phase=variant)"
    console.print(pairs(heading, [(phase, ", ".join(variants)) for phase, variants in VARIANTS.items()]))


@commands.command(epilog=examples("triplewise graph", "triplewise graph --preset oda > oda.mmd"))
def graph(
    preset: Annotated[
        str, typer.Option("--preset", metavar="P", help="See `triplewise presets`.")
    ] = o.DEFAULT_PRESET,
) -> None:
    """Print the state machine as a Mermaid drawing."""
    from triplewise.graphs.build import build_graph

    typer.echo(build_graph(preset).get_graph().draw_mermaid())


@commands.command(epilog=examples("triplewise demo"))
def demo() -> None:
    """Show what the demo graph is about, with questions to try."""
    import yaml

    data = yaml.safe_load((files("triplewise.graphs.cli") / "demo.yaml").read_text(encoding="utf-8"))
    console = out()
    console.print(data["about"].strip() + "\n")
    for topic in data["topics"]:
        console.print(topic["topic"], style="bold")
        for question in topic["questions"]:
            console.print(f'  triplewise ask "{question}"', soft_wrap=True)
