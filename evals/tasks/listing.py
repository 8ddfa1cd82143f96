"""`triplewise eval tasks`: what can be asked, of which graph, and what a reader of the scores has to know.

All of it stands in the catalog and in the tasks' signatures: no data is read and no graph is loaded.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from triplewise.evals import tasks
from triplewise.evals.data import Asked, Benchmark, benchmark, graph
from triplewise.graphs.cli.console import examples, out, pairs
from triplewise.tools.core.errors import ConfigurationError

OWN_TABLES = "each question's own table, as a SQLite file"
_FOOT = (
    "answerable: what the graph that comes with it can answer, in brackets without the facts that were made "
    "from gold answers. `triplewise eval tasks TASK` tells the rest."
)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What a task asks.

    Attributes:
        name: for `triplewise eval NAME`. title: of the benchmark. version: raised when scores change.
        asked: by the task's parameters ("hops=2"; "" where there is one set only) the number of questions,
            how many the graph can answer, and how many without the facts made from gold answers.
        judged: what it takes for a question to count as answerable.
        graph: what it is asked of. partial: whether that is a part of something larger. gold_derived:
            whether some of its facts were made from gold answers. profile: the graph's, or "inferred".
        seeds: files of training questions that may be shown. seeded: whether they are by default.
        system: the preset that is asked by default. parameters: the task's own, with their defaults.
        files: what has to lie in the data folder. licence, citation, published: of the questions.
        graph_licence: of the graph.
    """

    name: str
    title: str
    version: int
    asked: Mapping[str, Asked]
    judged: str
    graph: str
    partial: bool
    gold_derived: bool
    profile: str
    seeds: tuple[str, ...]
    seeded: bool
    system: str
    parameters: Mapping[str, Any]
    files: tuple[str, ...]
    licence: str
    graph_licence: str
    citation: str
    published: str

    @property
    def questions(self) -> int:
        """Questions of all its sets."""
        return sum(asked.questions for asked in self.asked.values())


def describe() -> list[TaskInfo]:
    """All tasks, by name."""
    return [_told(name) for name in tasks.__all__]


def _told(name: str) -> TaskInfo:
    own = benchmark(name)
    parameters = _parameters(name)
    return TaskInfo(
        name=name,
        title=own.title,
        version=_version(name),
        asked=own.asked,
        judged=own.judged,
        **_graph(own),
        seeds=tuple(own.seeds),
        seeded=bool(parameters.get("seeds")),
        system=str(parameters["preset"]),
        parameters=parameters,
        licence=own.licence,
        citation=own.citation,
        published=own.published,
    )


def _graph(of: Benchmark) -> dict[str, Any]:
    """What a benchmark is asked of, and the files that takes."""
    if not of.graph:
        own = {"graph": OWN_TABLES, "partial": False, "gold_derived": False, "profile": ""}
        return {**own, "graph_licence": of.licence, "files": tuple(of.files)}
    found = graph(of.graph)
    facts = [file.name for files in found.facts.values() for file in files]
    return {
        "graph": found.title,
        "partial": found.partial,
        "gold_derived": "gold_derived" in found.facts,
        "profile": found.profile or "inferred",
        "graph_licence": found.licence,
        "files": (*of.files, *of.seeds, *facts, *(file.name for file in found.labels)),
    }


def _parameters(name: str) -> dict[str, Any]:
    """A task's own parameters with their defaults; those of the agent under test are the same for all."""
    signature = inspect.signature(getattr(tasks, name))
    return {
        key: parameter.default
        for key, parameter in signature.parameters.items()
        if key not in ("model", "settings", "phases")
    }


def _version(name: str) -> int:
    module = sys.modules[f"triplewise.evals.tasks.{name}"]
    return int(module.VERSION)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command(
        "tasks",
        epilog=examples(
            "triplewise eval tasks", "triplewise eval tasks webqsp", "triplewise eval tasks --json"
        ),
    )(list_tasks)


def list_tasks(
    name: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Tell all of one task.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """List the benchmarks: questions, graph, and which share of them the graph can answer."""
    found = describe() if name is None else [_named(name)]
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in found], indent=2, ensure_ascii=False))
        return
    out().print(_table(found) if name is None else pairs(found[0].title, list(_all_of(found[0]).items())))
    if name is None:
        out().print(_FOOT)


def _named(name: str) -> TaskInfo:
    if name not in tasks.__all__:
        raise ConfigurationError.unknown("task", name, tasks.__all__)
    return _told(name)


def _table(found: list[TaskInfo]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("task", no_wrap=True, style="bold")
    table.add_column("questions", justify="right", no_wrap=True)
    table.add_column("answerable", justify="right", no_wrap=True)
    table.add_column("what is asked, of what")
    for info in found:
        for number, (which, asked) in enumerate(info.asked.items()):
            about = f"{info.title}; {info.graph}; system {info.system}" if not number else ""
            table.add_row(
                "" if number else info.name, f"{asked.questions:,}", _share(asked), _with(which, about)
            )
    return table


def _with(which: str, about: str) -> str:
    return "\n".join(filter(None, [about, f"--set {which}" if which else ""]))


def _share(asked: Asked) -> str:
    """The share of answerable questions, and in brackets that without facts made from gold answers."""
    shares = [
        100 * count / asked.questions for count in (asked.answerable, asked.observed) if count is not None
    ]
    told = [f"{share:.0f} %" if share in (0, 100) else f"{share:.1f} %" for share in shares]
    return told[0] if len(told) == 1 else f"{told[0]} ({told[1]})"


def _all_of(info: TaskInfo) -> dict[str, str]:
    """All of one task, as lines."""
    sets = [
        f"{which + ': ' if which else ''}{asked.questions:,}, answerable {asked.answerable:,}"
        + ("" if asked.observed is None else f", {asked.observed:,} without facts made from gold answers")
        for which, asked in info.asked.items()
    ]
    kind = "partial" if info.partial else "complete"
    return {
        "task": f"{info.name}, version {info.version}",
        "questions": "\n".join(sets),
        "answerable if": info.judged,
        "graph": f"{info.graph} ({kind}; profile {info.profile or 'none'})",
        "seeds": f"{', '.join(info.seeds) or 'none'}"
        + ("" if info.seeded or not info.seeds else " (seeds=true)"),
        "system": info.system,
        "set": ", ".join(f"{key}={value}" for key, value in info.parameters.items()),
        "files": "\n".join(info.files),
        "published": info.published,
        "licence": f"{info.licence}; graph: {info.graph_licence}",
        "citation": info.citation,
    }
