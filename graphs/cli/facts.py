"""`triplewise facts`: what was read from documents, and a person's word on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import Json, columns, echo_json, out, say
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.facts import FactStatus

if TYPE_CHECKING:
    from triplewise.tools.overlay.store import FactStore

_IDS = "Ids as `triplewise facts list` shows them, or how they begin."
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help=_IDS)]
COLOURS: dict[FactStatus, str] = {"accepted": "green", "rejected": "red", "proposed": "yellow"}

commands = typer.Typer(
    help="Facts read from documents: stored per knowledge graph, never in it. Runs propose them with "
    "`ask --documents`, and see them again with `ask --set overlay=accepted` (or proposed).",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class Facts(o.GraphOptions):
    """Whose facts, and where they are."""

    facts: str | None = o.option("FILE", "The SQLite file that has them, instead of the graph's own.")

    def store(self) -> FactStore:
        """Return the store. Raises `DataError` where the file is another's."""
        from triplewise.tools.overlay.store import open_facts

        return open_facts(self.source, self.facts)

    def decide(self, ids: list[str], status: FactStatus) -> None:
        """Accept or reject facts, and say what changed."""
        store = self.store()
        changed = store.decide([store.get(id).fact.id for id in ids], status)
        same = f"; {len(ids) - changed} were so before" if len(ids) > changed else ""
        out().print(f"{changed} {'fact' if changed == 1 else 'facts'} {status}{same}")


@o.command(commands, "list")
def list_facts(options: Facts, as_json: Json = False) -> None:
    """List the facts of a graph with the sentence they were read in, oldest first; --json has all of it.

    Examples:
        triplewise facts list --kg films.ttl
    """
    from rich.text import Text

    from triplewise.tools.kg.vocabulary import triple_text
    from triplewise.tools.overlay.overlay import overlaid
    from triplewise.tools.overlay.store import as_json as plain

    facts = (store := options.store()).facts()
    if as_json:
        return echo_json([plain(f) for f in facts])
    if not facts:
        return say(f"no facts in {store.path}; `triplewise ask ... --documents FOLDER` reads some", "notice")
    triples, rows = [f.fact.triple for f in facts], []
    try:
        texts = triple_text(overlaid(options.open_graph(), [f.fact for f in facts]), triples, exact=False)
    except DataError as error:  # the graph is gone
        say(f"no labels: {error}", "notice")
        texts = [triple.n3() for triple in triples]
    for stored, words in zip(facts, texts, strict=True):
        fact, more = stored.fact, len(stored.readings) - 1
        conflicts = f" contradicts {'; '.join(fact.conflicts)}" if fact.conflicts else ""
        text = Text.assemble(words, (conflicts, "red"), (f'\n"{fact.sentence}"', "dim"))
        source = f"{fact.document} and {more} more" if more else fact.document
        status = Text(fact.status, COLOURS[fact.status], no_wrap=True)
        rows.append((fact.id[:8], status, text, f"{fact.confidence:.2f}", source))
    return out().print(columns(("Id", "Status", "Fact", "Sure", "Read in"), rows))


@o.command(commands)
def accept(options: Facts, ids: Ids) -> None:
    """Say yes to facts: runs with `--set overlay=accepted` see them.

    Examples:
        triplewise facts accept 3f2a 9c01 --kg films.ttl
    """
    options.decide(ids, "accepted")


@o.command(commands)
def reject(options: Facts, ids: Ids) -> None:
    """Say no to facts: they are never proposed again.

    Examples:
        triplewise facts reject 3f2a --kg films.ttl
    """
    options.decide(ids, "rejected")
