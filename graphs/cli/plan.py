"""`triplewise plan`: the rules that would lead a search, and seed questions mined ahead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, progress_bars, say

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.graphs.cli.report import Names
    from triplewise.graphs.cli.run import Run
    from triplewise.tools.core.rules import DroppedRule, Rule
    from triplewise.tools.planning.seed_store import IndexReport

QUESTION, INDEX = "question", "index"
SHOWN = 8
"""Dropped rules printed."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="SEEDS...",
        help="JSON lines (plain or .gz) with `question`, `answers`, and `topic_entity`, `entities` or "
        "`entity`: names or ids of the graph, or a mapping mention -> id.",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Mine all seeds anew, also those that are kept.")]


class _Plan(TyperGroup):
    """What begins with no command of this group is a question."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [QUESTION, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == QUESTION else name), command, rest


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    plan = typer.Typer(cls=_Plan, help="Show the rules that would lead the search, without running it.")
    plan.command(
        QUESTION,
        epilog=examples(
            'triplewise plan "Who wrote Dracula?"',
            'triplewise plan "..." --kg films --seeds train.jsonl',
            "triplewise plan index train.jsonl --kg films",
        )
        + "\n\nSee also: triplewise plan index --help",
    )(show)
    plan.command(
        INDEX,
        epilog=examples(
            "triplewise plan index train.jsonl --kg films",
            "triplewise plan index a.jsonl b.jsonl.gz --kg https://example.org/sparql --set plan_hops=2",
            'triplewise ask "..." --kg films',
        ),
    )(index)
    app.add_typer(plan, name="plan")


def show(
    question: o.Question,
    kg: o.Kg = None,
    profile: o.Profile = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    preset: o.Preset = None,
    entity: o.Entities = None,
    seeds: o.Seeds = None,
    settings: o.Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show the rules that would lead the search, best first, without running it.

    A rule is a path of relations from an entity of the question to its answer, found in the answered
    questions most like it (--seeds, or those of `triplewise plan index`) or among the relations around the
    entity. Support: seed questions whose answers it reproduces; precision and recall: how well, over those
    seeds. What was dropped is listed with the reason: a rule must lead somewhere from the entity, unless
    documents (--set documents=FOLDER) may fill the gap.
    """
    named = o.given(kg=kg, profile=profile, model=model, base_url=base_url, seeds=seeds)
    from triplewise.graphs.cli.report import Names, Report
    from triplewise.graphs.cli.run import Run

    run = Run(o.request_of(question, preset, entity or [], o.context_of(named, settings or [])))
    linked, planned = _planned(run)
    if as_json:
        typer.echo(json.dumps(_document(question, linked, planned), ensure_ascii=False, indent=2))
        return
    console, names = out(), Names(run.kg, run.toolset)
    Report(console, names).phase("link", linked)
    rules, left = planned.get("rules", ()), planned.get("dropped", ())
    names.learn_rules(rules)
    names.learn([d.anchor for d in left if d.anchor], [r for d in left for r in d.relations])
    console.print(_rules(names, rules))
    if left:
        console.print()
        console.print(_dropped(names, left))


def _planned(run: Run) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What linking and planning found."""
    console = out()
    linked: Mapping[str, Any] = {}
    with console.status("planning") if console.is_terminal else nullcontext():
        for phase, update in run.updates(False, lambda doing: None):
            if phase == "link":
                linked = update
            elif phase == "plan":
                return linked, update
    return linked, {}


def _rules(names: Names, rules: Sequence[Rule]) -> Table | str:
    """Rules with their figures; those that only seeds give stay out where no rule comes from one."""
    if not rules:
        return "No rule fits: no relation path from the entities reads like the question."
    mined = any(rule.support for rule in rules)
    figures = ("Precision", "Recall") if mined else ()
    table = _table("", "Rule", "Support", *figures, "Score", "From")
    for number, rule in enumerate(rules, 1):
        told = (f"{rule.precision:.2f}", f"{rule.recall:.2f}") if mined else ()
        text = names.readable(rule.text())
        table.add_row(f"{number}", text, f"{rule.support}", *told, f"{rule.score:.2f}", rule.provenance)
    return table


def _dropped(names: Names, left: Sequence[DroppedRule]) -> Table:
    """What was dropped, and why."""
    table = _table("Dropped", "Reason", "From")
    for rule in left[:SHOWN]:
        table.add_row(names.readable(rule.text), names.readable(rule.reason), rule.provenance)
    if len(left) > SHOWN:
        table.add_row(f"and {len(left) - SHOWN} more; --json gives all")
    return table


def _table(*heads: str) -> Table:
    """A plain table that wraps instead of cutting."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _document(question: str, linked: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as plain JSON."""
    usage = planned.get("usage")
    return {
        "question": question,
        "entities": [
            {"mention": e.mention, "id": e.id, "label": e.label, "score": round(e.score, 4)}
            for e in linked.get("linked", ())
        ],
        "rules": [{"rule": r.text(), **asdict(r)} for r in planned.get("rules", ())],
        "dropped": [asdict(d) for d in planned.get("dropped", ())],
        "usage": None if usage is None else asdict(usage),
    }


def index(
    files: Files,
    kg: o.Kg = None,
    profile: o.Profile = None,
    settings: o.Settings = None,
    again: Again = False,
) -> None:
    """Mine answered questions of a graph once, and keep the rules they give for every later question.

    From the entity of each question the paths to its answers are searched, generalised to rules, and each
    rule is run again to see how well it reproduces the answers. Afterwards `triplewise ask` and `plan` use
    them without --seeds (--seeds none leaves them out), or with --seeds and the same files. They are kept in
    the folder of a loaded graph, else in your cache folder; a changed graph or seed file is another index.
    What is broken off goes on when the same command is run again.
    """
    from triplewise.nodes.environment import environment
    from triplewise.tools.planning.seed_store import index_seeds

    context = o.context_of(o.given(kg=kg, profile=profile), settings or [])
    graph = environment(context).kg
    try:
        with progress_bars() as tell:
            report = index_seeds(
                ",".join(map(str, files)),
                context.kg,
                graph,
                environment(context).caps,
                tell,
                environment(context).encoder,
                again=again,
            )
    except KeyboardInterrupt:
        say("what is done is kept: run the same command again to go on", "notice")
        raise
    if report.empty:
        say(
            f"{report.empty:,} of the seeds mined gave no rule: the graph lacks their entities or answers, "
            "or no path joins them",
            "notice",
        )
    out().print(_indexed(report, context.kg))


def _indexed(report: IndexReport, kg: str) -> Table:
    """What indexing did."""
    before = f", {report.before:,} of them before" if report.before else ""
    late = f", {report.timeouts:,} queries not answered in time" if report.timeouts else ""
    return pairs(
        f"Indexed the seeds of {kg}",
        (
            ("seeds", f"{report.seeds:,} usable, of {report.groups:,} structures"),
            ("mined", f"{report.mined:,} drawn from them{before}{late}"),
            ("rules", f"{report.bodies:,} different bodies"),
            ("kept in", str(report.path)),
            ("seconds", f"{report.seconds:.1f}"),
            ("use it", f'triplewise ask "..." --kg {kg}'),
        ),
    )
