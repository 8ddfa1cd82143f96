"""`triplewise facts`: what was read from documents, and a person's word on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from rich.table import Table

    from triplewise.tools.kg.overlay.store import FactFilter, FactStore, StoredFact

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Ids as `triplewise facts list` shows them, or how they begin."),
]
One = Annotated[str, typer.Argument(metavar="ID", help="An id, or how it begins.")]
Kg = Annotated[str, typer.Option("--kg", metavar="KG", help=f"Whose facts: {o.KG_FORMS}.")]
Profile = o.Profile
File = Annotated[
    str | None,
    typer.Option(
        "--facts", metavar="FILE", help="The SQLite file that has them, instead of the graph's own."
    ),
]
Status = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only proposed, accepted or rejected ones. Repeatable."),
]
Words = Annotated[
    str, typer.Option("--text", metavar="WORDS", help="Only those with these words in a term or sentence.")
]
Document = Annotated[
    str,
    typer.Option(
        "--document", metavar="WORDS", help="Only those read in such a document (title, path, URL)."
    ),
]
Question = Annotated[
    str, typer.Option("--question", metavar="WORDS", help="Only those read for such a question.")
]
Least = Annotated[
    float, typer.Option("--least", metavar="P", min=0.0, max=1.0, help="Only those at least this certain.")
]
Conflicting = Annotated[bool, typer.Option("--conflicting", help="Only those that contradict the graph.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
All = Annotated[bool, typer.Option("--all", help="All that the filters leave, instead of ids.")]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="FORMAT", help="nt (bare triples), jsonl or nquads (both with provenance)."
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of printing.")
]

ABOUT = (
    "Facts read from documents: kept beside each knowledge graph, never in it. Runs read them with "
    "`ask --documents`, propose them here, and see them again with `ask --overlay accepted` (or proposed)."
)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    commands = typer.Typer(help=ABOUT, no_args_is_help=True)
    commands.command(
        "list",
        epilog=examples(
            "triplewise facts list --kg films.ttl --status proposed",
            "triplewise facts list --text Aragorn --least 0.8 --json",
        ),
    )(list_facts)
    commands.command("show", epilog=examples("triplewise facts show 3f2a"))(show_fact)
    commands.command(
        "accept",
        epilog=examples(
            "triplewise facts accept 3f2a 9c01 --kg films.ttl",
            "triplewise facts accept --all --document Aragorn.txt --least 0.8",
        ),
    )(accept_facts)
    commands.command(
        "reject",
        epilog=examples("triplewise facts reject 3f2a", "triplewise facts reject --all --conflicting"),
    )(reject_facts)
    commands.command(
        "export",
        epilog=examples(
            "triplewise facts export --status accepted > accepted.nt",
            "triplewise facts export --format nquads -o facts.nq",
        ),
    )(export_facts)
    app.add_typer(commands, name="facts")


def _store(kg: str, file: str | None) -> FactStore:
    from triplewise.tools.kg.overlay.store import open_facts

    return open_facts(kg, file)


def _wanted(
    status: Sequence[str] | None, text: str, document: str, question: str, least: float, conflicting: bool
) -> FactFilter:
    """The filters. Raises `ConfigurationError` on an unknown status."""
    from triplewise.tools.core.facts import FactStatus
    from triplewise.tools.kg.overlay.store import FactFilter

    known: dict[str, FactStatus] = {s: s for s in get_args(FactStatus)}
    for name in status or ():
        if name not in known:
            raise ConfigurationError.unknown("status", name, known)
    kept = tuple(known[s] for s in status or ())
    return FactFilter(kept, text, document, question, least, conflicting)


def _texts(kg: str, profile: str | None, kept: Sequence[StoredFact]) -> list[str]:
    """Facts with the labels of the graph; a graph that is not there any more leaves their ids."""
    from triplewise.nodes.text import triple_text
    from triplewise.tools.kg import open_kg
    from triplewise.tools.kg.overlay.overlay import overlaid

    facts = [k.fact for k in kept]
    try:
        graph = open_kg(kg, profile=profile)
    except DataError as error:
        say(f"no labels: {error}", "notice")
        return [f.triple.n3() for f in facts]
    return triple_text(overlaid(graph, facts), [f.triple for f in facts], exact=False)


def list_facts(
    kg: Kg = "demo",
    profile: Profile = None,
    facts: File = None,
    status: Status = None,
    text: Words = "",
    document: Document = "",
    question: Question = "",
    least: Least = 0.0,
    conflicting: Conflicting = False,
    as_json: Json = False,
) -> None:
    """List the facts of a graph, oldest first."""
    store = _store(kg, facts)
    kept = store.facts(_wanted(status, text, document, question, least, conflicting))
    if as_json:
        from triplewise.tools.kg.overlay.export import as_json as plain

        typer.echo(json.dumps([plain(k) for k in kept], ensure_ascii=False, indent=2))
        return
    if not kept:
        say(_none(store), "notice")
        return
    out().print(_table(kept, _texts(kg, profile, kept)))


def _none(store: FactStore) -> str:
    """Why nothing is listed."""
    if not store.path.exists() or not (count := len(store.facts())):
        return f"no facts yet in {store.path}; `triplewise ask ... --documents FOLDER` reads some"
    return f"none of the {count} facts in {store.path} is meant"


def _table(kept: Sequence[StoredFact], texts: Sequence[str]) -> Table:
    """A fact a row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("Id", "Status", "Fact", "Sure", "Read in"):
        table.add_column(head, overflow="fold", no_wrap=head in ("Id", "Status", "Sure"))
    styles = {"accepted": "green", "rejected": "red", "proposed": "yellow"}
    for k, text in zip(kept, texts, strict=True):
        fact = k.fact
        said = Text(text)
        if fact.conflicts:
            said.append(f" contradicts {'; '.join(fact.conflicts)}", "red")
        times = f" and {len(k.readings) - 1} more" if len(k.readings) > 1 else ""
        status = Text(fact.status, styles[fact.status])
        table.add_row(k.id[:8], status, said, f"{fact.confidence:.2f}", f"{fact.document}{times}")
    return table


def show_fact(
    id: One, kg: Kg = "demo", profile: Profile = None, facts: File = None, as_json: Json = False
) -> None:
    """Show one fact with everything that is known of it: each document, sentence, question and reader."""
    kept = _store(kg, facts).get(id)
    if as_json:
        from triplewise.tools.kg.overlay.export import as_json as plain

        typer.echo(json.dumps(plain(kept), ensure_ascii=False, indent=2))
        return
    fact = kept.fact
    rows = [
        ("triple", fact.triple.n3()),
        ("status", f"{fact.status}{f', decided {kept.decided}' if kept.decided else ''}"),
        ("added", kept.added),
        *(("new", f"{label} ({node})") for node, label in fact.labels.items()),
        *(("contradicts", conflict) for conflict in fact.conflicts),
    ]
    console = out()
    console.print(pairs(f"{kept.id}  {_texts(kg, profile, [kept])[0]}", rows))
    for number, r in enumerate(kept.readings, 1):
        source = f"{r.document} ({r.source})" if r.source not in ("", r.document) else r.document
        shown = [
            ("sentence", r.sentence),
            ("document", source),
            ("question", r.question),
            ("read", f"{r.time} by {r.reader}, {r.confidence:.0%} sure"),
        ]
        console.print()
        console.print(pairs(f"reading {number}", shown))


def accept_facts(
    ids: Ids = None,
    kg: Kg = "demo",
    facts: File = None,
    every: All = False,
    status: Status = None,
    text: Words = "",
    document: Document = "",
    question: Question = "",
    least: Least = 0.0,
    conflicting: Conflicting = False,
) -> None:
    """Say yes to facts: runs with `--overlay accepted` see them."""
    store = _store(kg, facts)
    chosen = _chosen(store, ids, every, _wanted(status, text, document, question, least, conflicting))
    _said(store.accept, chosen, "accepted")


def reject_facts(
    ids: Ids = None,
    kg: Kg = "demo",
    facts: File = None,
    every: All = False,
    status: Status = None,
    text: Words = "",
    document: Document = "",
    question: Question = "",
    least: Least = 0.0,
    conflicting: Conflicting = False,
) -> None:
    """Say no to facts: they are never proposed again."""
    store = _store(kg, facts)
    chosen = _chosen(store, ids, every, _wanted(status, text, document, question, least, conflicting))
    _said(store.reject, chosen, "rejected")


def _chosen(store: FactStore, ids: Sequence[str] | None, every: bool, wanted: FactFilter) -> list[str]:
    """Full ids of the facts that are meant.

    Raises:
        ConfigurationError: neither ids nor --all, both, filters beside ids, or ids that mean nothing.
    """
    from triplewise.tools.kg.overlay.store import FactFilter

    if bool(ids) == every:
        both = "not both" if ids else "name facts by id, or give --all"
        raise ConfigurationError(f"which facts? give ids, or --all with filters; {both}")
    if not every:
        if wanted != FactFilter():
            raise ConfigurationError("filters go with --all; beside ids, leave them out")
        return [store.get(i).id for i in ids or ()]
    if not wanted.status:
        from dataclasses import replace

        wanted = replace(wanted, status=("proposed",))
    return [k.id for k in store.facts(wanted)]


def _said(change: Callable[[Sequence[str]], int], ids: Sequence[str], word: str) -> None:
    """Make a decision, and say what it changed."""
    changed = change(ids) if ids else 0
    same = f"; {len(ids) - changed} were so before" if len(ids) > changed else ""
    noun = "fact" if changed == 1 else "facts"
    out().print(f"{changed} {noun} {word}{same}")


def export_facts(
    kg: Kg = "demo",
    facts: File = None,
    format: Format = "nt",
    output: Output = None,
    status: Status = None,
    text: Words = "",
    document: Document = "",
    question: Question = "",
    least: Least = 0.0,
    conflicting: Conflicting = False,
) -> None:
    """Write facts for other programs: proposed and accepted ones, if no --status is given."""
    from triplewise.tools.kg.overlay.export import FORMATS

    if format not in FORMATS:
        raise ConfigurationError.unknown("format", format, FORMATS)
    statuses = status or ["proposed", "accepted"]
    kept = _store(kg, facts).facts(_wanted(statuses, text, document, question, least, conflicting))
    lines = FORMATS[format](kept)
    if output is None:
        for line in lines:
            typer.echo(line)
        return
    try:
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", output) from error
    say(f"{len(kept)} facts written to {output}")
