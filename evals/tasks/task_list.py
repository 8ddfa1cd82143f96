"""`triplewise eval tasks`: what can be asked, of which graph, and what a reader of the scores has to know.

All of it stands in the catalog: no data is read and no graph is loaded.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from triplewise.evals.data import graph
from triplewise.evals.tasks.benchmark_task import AGENT, OWN_TABLES
from triplewise.evals.tasks.registry import BENCHMARK_TASKS
from triplewise.graphs.cli.console import examples, out, pairs
from triplewise.tools.core.errors import ConfigurationError

_FOOT = (
    "answerable: what the graph that comes with it can answer, in brackets without the facts that were made "
    "from gold answers. `triplewise eval tasks TASK` tells the rest."
)


def describe(name: str) -> dict[str, Any]:
    """Return all of one task, as plain JSON.

    `asked` has, by the task's parameters ("hops=2"; "" where there is one set only), the number of questions,
    how many the graph can answer, and how many without the facts made from gold answers. `files` is what has
    to lie in the data folder.

    Raises:
        ConfigurationError: unknown task.
    """
    if name not in BENCHMARK_TASKS:
        raise ConfigurationError.unknown("task", name, BENCHMARK_TASKS)
    task = BENCHMARK_TASKS[name]
    own = task.benchmark
    kg = graph(own.graph) if own.graph else None
    kg_files = [*(file for files in kg.facts.values() for file in files), *kg.labels] if kg else []
    return {
        "name": name,
        "title": own.title,
        "version": task.version,
        "asked": {which: {"observed": None, **asked} for which, asked in own.counts.items()},
        "judged": own.answerable_if,
        "graph": kg.title if kg else OWN_TABLES,
        "partial": bool(kg and kg.partial),
        "gold_derived": bool(kg and "gold_derived" in kg.facts),
        "profile": (kg.profile or "inferred") if kg else "none",
        "seeds": list(own.seeds),
        "seeded": bool(task.parameters.get("seeds")),
        "system": task.preset,
        "parameters": {key: value for key, value in task.defaults.items() if key not in AGENT},
        "files": [*own.files, *own.seeds, *(file.name for file in kg_files)],
        "licence": own.licence,
        "graph_licence": kg.licence if kg else own.licence,
        "citation": own.citation,
        "published": own.published,
    }


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    lines = ("triplewise eval tasks", "triplewise eval tasks webqsp", "triplewise eval tasks --json")
    app.command("tasks", epilog=examples(*lines))(list_tasks)


def list_tasks(
    name: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Tell all of one task.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """List the benchmarks: questions, graph, and which share of them the graph can answer."""
    tasks = [describe(task) for task in (BENCHMARK_TASKS if name is None else [name])]
    if as_json:
        typer.echo(json.dumps(tasks, indent=2, ensure_ascii=False))
    elif name is not None:
        out().print(pairs(tasks[0]["title"], [(key, _in_lines(value)) for key, value in tasks[0].items()]))
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("task", no_wrap=True, style="bold")
        table.add_column("questions", justify="right", no_wrap=True)
        table.add_column("answerable", justify="right", no_wrap=True)
        table.add_column("what is asked, of what")
        for task in tasks:
            about = f"{task['title']}; {task['graph']}; system {task['system']}"
            for number, (which, asked) in enumerate(task["asked"].items()):
                counts = [asked[key] for key in ("answerable", "observed") if asked[key] is not None]
                shares = [f"{100 * count / asked['questions']:.1f} %" for count in counts]
                table.add_row(
                    "" if number else task["name"],
                    f"{asked['questions']:,}",
                    " ".join([shares[0], *(f"({share})" for share in shares[1:])]),
                    "\n".join(filter(None, ["" if number else about, f"--set {which}" if which else ""])),
                )
        out().print(table)
        out().print(_FOOT)


def _in_lines(value: Any) -> str:
    """A value as people read it: each member of a list or mapping in a line."""
    if isinstance(value, dict):
        return "\n".join(f"{key or 'all'}: {part}" for key, part in value.items())
    return "\n".join(value) if isinstance(value, list) else str(value)
