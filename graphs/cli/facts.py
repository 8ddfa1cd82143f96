"""`triplewise facts`: what was read from documents, and a person's word on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import Json, columns, echo_json, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.facts import FactStatus

if TYPE_CHECKING:
    from triplewise.tools.kg.overlay.store import FactStore, StoredFact

_IDS = "Ids as `triplewise facts list` shows them, or how they begin."
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID...", help=_IDS)]
All = Annotated[bool, typer.Option("--all", help="All that the filters leave, instead of ids.")]

COLOURS: dict[FactStatus, str] = {"accepted": "green", "rejected": "red", "proposed": "yellow"}

commands = typer.Typer(
    help="Facts read from documents: kept beside each knowledge graph, never in it. Runs propose them with "
    "`ask --documents`, and see them again with `ask --set overlay=accepted` (or proposed).",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class Selection(o.GraphOptions):
    """Whose facts, where they are, and which are meant."""

    facts: str | None = o.option("FILE", "The SQLite file that has them, instead of the graph's own.")
    status: FactStatus | None = o.option("STATUS", "Only accepted, rejected or proposed ones.")
    text: str = o.option("WORDS", "Only those with these words in a term, sentence or document.", "")

    def chosen(self, *default: FactStatus) -> tuple[FactStore, list[StoredFact]]:
        """Return the store and what the options select. Raises `DataError` where the file is another's."""
        from triplewise.tools.kg.overlay.store import FactFilter, open_facts

        store = open_facts(self.source, self.facts)
        return store, store.facts(FactFilter((self.status,) if self.status else default, self.text))

    def texts(self, facts: Sequence[StoredFact]) -> list[str]:
        """Return facts with the labels of the graph; a graph that is gone leaves their ids."""
        from triplewise.tools.kg.overlay.overlay import overlaid
        from triplewise.tools.kg.vocabulary import triple_text

        triples = [f.fact.triple for f in facts]
        try:
            graph = self.open_graph()
        except DataError as error:
            say(f"no labels: {error}", "notice")
            return [triple.n3() for triple in triples]
        return triple_text(overlaid(graph, [f.fact for f in facts]), triples, exact=False)

    def decide(self, status: FactStatus, ids: list[str] | None, every: bool) -> None:
        """Accept or reject facts, and say what changed. Raises `ConfigurationError` if which is not clear."""
        if bool(ids) == every:
            both = "not both" if ids else "name facts by id, or give --all"
            raise ConfigurationError(f"which facts? give ids, or --all with filters; {both}")
        if ids and (self.status or self.text):
            raise ConfigurationError("filters go with --all; beside ids, leave them out")
        store, facts = self.chosen("proposed")
        facts = [store.get(i) for i in ids] if ids else facts
        changed = store.decide([stored.fact.id for stored in facts], status) if facts else 0
        same = f"; {len(facts) - changed} were so before" if len(facts) > changed else ""
        out().print(f"{changed} {'fact' if changed == 1 else 'facts'} {status}{same}")


@o.command(commands, "list")
def list_facts(selection: Selection, as_json: Json = False) -> None:
    """List the facts of a graph, oldest first; as JSON with all that is known of them.

    Examples:
        triplewise facts list --kg films.ttl --status proposed
        triplewise facts list --text Aragorn --json
    """
    from rich.text import Text

    from triplewise.tools.kg.overlay.store import as_json as plain

    store, facts = selection.chosen()
    if as_json:
        return echo_json([plain(f) for f in facts])
    if not facts:
        empty = f"no facts yet in {store.path}; `triplewise ask ... --documents FOLDER` reads some"
        count = len(store.facts())
        return say(f"none of the {count} facts in {store.path} matches" if count else empty, "notice")
    rows = []
    for stored, words in zip(facts, selection.texts(facts), strict=True):
        fact, more = stored.fact, len(stored.readings) - 1
        conflicts = f" contradicts {'; '.join(fact.conflicts)}" if fact.conflicts else ""
        source = f"{fact.document} and {more} more" if more else fact.document
        text = Text.assemble(words, (conflicts, "red"))
        status = Text(fact.status, COLOURS[fact.status], no_wrap=True)
        rows.append((fact.id[:8], status, text, f"{fact.confidence:.2f}", source))
    return out().print(columns(("Id", "Status", "Fact", "Sure", "Read in"), rows))


@o.command(commands, "show")
def show_fact(selection: Selection, id: str = o.argument("ID", "An id, or how it begins.")) -> None:
    """Show one fact with everything that is known of it: each document, sentence, question and reader.

    Examples:
        triplewise facts show 3f2a
    """
    stored = selection.chosen()[0].get(id)
    rows = [("triple", stored.fact.triple.n3()), ("status", stored.fact.status), ("added", stored.added)]
    rows += [("contradicts", conflict) for conflict in stored.fact.conflicts]
    for r in stored.readings:
        rows += [("sentence", r.sentence), ("document", f"{r.document} ({r.source})")]
        rows += [("question", r.question), ("read", f"{r.time} by {r.reader}, {r.confidence:.0%} sure")]
    out().print(pairs(f"{stored.fact.id}  {selection.texts([stored])[0]}", rows))


@o.command(commands, "accept")
def accept_facts(selection: Selection, *, ids: Ids = None, every: All = False) -> None:
    """Say yes to facts: runs with `--set overlay=accepted` see them.

    Examples:
        triplewise facts accept 3f2a 9c01 --kg films.ttl
        triplewise facts accept --all --text Aragorn.txt
    """
    selection.decide("accepted", ids, every)


@o.command(commands, "reject")
def reject_facts(selection: Selection, *, ids: Ids = None, every: All = False) -> None:
    """Say no to facts: they are never proposed again.

    Examples:
        triplewise facts reject --all --text Aragorn.txt
    """
    selection.decide("rejected", ids, every)
