"""`triplewise search` and `triplewise query`: a graph by hand."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import columns, echo, echo_json, out, say
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import read_text

if TYPE_CHECKING:
    from triplewise.tools.kg import KnowledgeGraph

commands = typer.Typer()


@o.command(commands)
def search(
    graph: o.GraphOptions,
    text: str = o.argument("TEXT", "A name, or a few words."),
    kind: Literal["entity", "class", "relation"] | None = o.option("", "Only these.", shown="all"),
    limit: int = o.option("N", "Matches of each kind.", 5, min=1),
    as_json: o.Json = False,
) -> None:
    """Find entities, classes and relations by name or by meaning, as an agent does.

    Examples:
        triplewise search "goethe"
        triplewise search "born in" --kind relation
        triplewise search "noble gas" --kg elements.ttl --limit 3
    """
    from triplewise.tools.linking.search import KINDS, search_kg
    from triplewise.tools.retrieval.encoder import open_encoder

    matches = search_kg(graph.open_graph(), text, (kind,) if kind else KINDS, open_encoder(), limit)
    if as_json:
        echo_json([asdict(m) for m in matches])
    elif not matches:
        say(f"nothing is called like {text!r}")
        raise typer.Exit(1)
    else:
        rows = [(m.kind, m.id, m.label, ", ".join(m.types), m.description) for m in matches]
        out().print(columns(("kind", "id", "label", "type", "description"), rows))


@o.command(commands)
def query(
    graph: o.GraphOptions,
    sparql: str = o.argument("SPARQL|FILE", "One SELECT or ASK, a file of it, or -."),
    limit: int = o.option("N", "Rows at most.", 1_000, min=1),
    timeout: float = o.option("SECONDS", "How long it may take.", 30.0, min=0.001),
    csv_: bool = o.flag("Print CSV, with labels in columns besides.", "--csv"),
    as_json: o.Json = False,
) -> None:
    """Run a query by hand, read-only; nodes are shown with their labels.

    Prefixes of the graph and the usual ones need no declaration; exit code 1 is no result, or no.

    Examples:
        triplewise query "SELECT ?city { wd:Q17 wdt:P36 ?city }"
        triplewise query films.rq --kg films.ttl --csv > films.csv
    """
    if sparql == "-":
        sparql = sys.stdin.read()
    elif "{" not in sparql:
        if not isfile(sparql):  # also where it could not be a path at all
            raise ConfigurationError(f"{sparql!r} is neither a query nor a file")
        sparql = read_text(Path(sparql))
    form: Literal["csv", "json", ""] = "csv" if csv_ else "json" if as_json else ""
    raise typer.Exit(0 if run_by_hand(graph.open_graph(), sparql, timeout, limit, form) else 1)


def run_by_hand(
    graph: KnowledgeGraph,
    sparql: str,
    timeout: float,
    limit: int = 1_000,
    form: Literal["csv", "json", ""] = "",
) -> bool:
    """Run a query and print what it gives; return whether that is anything."""
    from triplewise.tools.pyql.raw_sparql import run_query

    result = run_query(graph, sparql, timeout=timeout, limit=limit, exact=bool(form))
    if "boolean" in result:
        echo(json.dumps(result) if form == "json" else "yes" if result["boolean"] else "no")
        return bool(result["boolean"])
    names, notice = result["variables"], result.pop("notice", "")
    rows = [[row.get(name) for name in names] for row in result["rows"]]
    if form == "json":
        echo_json(result)
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow([name for v in names for name in (v, f"{v}_label")])
        for row in rows:
            writer.writerow([text for t in row for text in ((t["id"], t["label"]) if t else ("", ""))])
    elif rows:
        out().print(columns(names, [[_shown(t) if t else "" for t in row] for row in rows]))
    else:
        say("the query has no result")
    if notice:
        say(f"{notice}; --limit asks for more", "notice")
    return bool(rows)


def _shown(term: Mapping[str, str]) -> str:
    """Return a term as its label, with the id behind it where that says more."""
    is_literal = term["id"] == term["value"]
    return term["label"] if is_literal or term["label"] == term["id"] else f"{term['label']} ({term['id']})"
