"""`triplewise search` and `triplewise query`: a graph by hand."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from os.path import isfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import columns, echo, echo_json, examples, out, say
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import read_text

SEARCH_EXAMPLES = examples(
    'triplewise search "goethe"',
    'triplewise search "born in" --kind relation',
    'triplewise search "noble gas" --kg elements.ttl --limit 3',
)
QUERY_EXAMPLES = examples(
    'triplewise query "SELECT ?city { wd:Q17 wdt:P36 ?city }"',
    "triplewise query films.rq --kg films.ttl --csv > films.csv",
)


def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A name, or a few words.", show_default=False)],
    kg: o.Kg = None,
    profile: o.Profile = None,
    kind: Annotated[
        Literal["entity", "class", "relation"] | None, typer.Option(help="Only these. [dim](all)[/dim]")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Matches of each kind.")] = 5,
    as_json: o.Json = False,
) -> None:
    """Find entities, classes and relations by name or by meaning, as an agent does."""
    from triplewise.tools.kg import open_kg
    from triplewise.tools.linking.search import KINDS, search_kg
    from triplewise.tools.retrieval.encoder import open_encoder

    kinds = (kind,) if kind else KINDS
    matches = search_kg(open_kg(kg or "demo", profile=profile), text, kinds, open_encoder(), limit)
    if as_json:
        echo_json([asdict(m) for m in matches])
    elif not matches:
        say(f"nothing is called like {text!r}")
        raise typer.Exit(1)
    else:
        rows = [(m.kind, m.id, m.label, ", ".join(m.types), m.description) for m in matches]
        out().print(columns(("kind", "id", "label", "type", "description"), rows))


def query(
    sparql: Annotated[
        str,
        typer.Argument(metavar="SPARQL|FILE", help="One SELECT or ASK, a file of it, or -."),
    ],
    kg: o.Kg = None,
    profile: o.Profile = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 1_000,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds it may take.")] = 30.0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with labels in columns besides.")] = False,
    as_json: o.Json = False,
) -> None:
    """Run a query by hand, read-only; nodes are shown with their labels.

    Prefixes of the graph and the usual ones need no declaration; exit code 1 is no result, or no.
    """
    from triplewise.tools.kg import open_kg
    from triplewise.tools.pyql.raw_sparql import run_query

    if sparql == "-":
        sparql = sys.stdin.read()
    elif "{" not in sparql:
        if not isfile(sparql):  # also where it could not be a path at all
            raise ConfigurationError(f"{sparql!r} is neither a query nor a file")
        sparql = read_text(Path(sparql))
    graph = open_kg(kg or "demo", profile=profile)
    result = run_query(graph, sparql, timeout=timeout, limit=limit, exact=as_csv or as_json)
    if "boolean" in result:
        echo(json.dumps(result) if as_json else "yes" if result["boolean"] else "no")
        raise typer.Exit(0 if result["boolean"] else 1)
    names, notice = result["variables"], result.pop("notice", "")
    rows = [[row.get(name) for name in names] for row in result["rows"]]
    if as_json:
        echo_json(result)
    elif as_csv:
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
    raise typer.Exit(0 if rows else 1)


def _shown(term: Mapping[str, str]) -> str:
    """Return a term as its label, with the id behind it where that says more."""
    is_literal = term["id"] == term["value"]
    return term["label"] if is_literal or term["label"] == term["id"] else f"{term['label']} ({term['id']})"
