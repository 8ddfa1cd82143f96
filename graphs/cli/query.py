"""`triplewise search` and `triplewise query`: a graph by hand."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import columns, echo, examples, out, say
from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError

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
        echo(json.dumps([asdict(m) for m in matches], ensure_ascii=False, indent=2))
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
    from triplewise.tools.core.terms import IRI
    from triplewise.tools.kg import Outcome, open_kg
    from triplewise.tools.kg.vocabulary import node_labels
    from triplewise.tools.pyql.raw_sparql import read_sparql

    if sparql == "-":
        sparql = sys.stdin.read()
    elif "{" not in sparql:
        try:
            sparql = Path(sparql).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"{sparql!r} is neither a query nor a file ({error.strerror})"
            ) from error
    graph = open_kg(kg or "demo", profile=profile)
    result = graph.query(read_sparql(sparql, graph.profile), timeout=timeout, limit=limit)
    if not result.outcome.ok:
        kind = ConfigurationError if result.outcome is Outcome.SYNTAX else KGUnavailableError
        raise kind(f"{graph.name}: {result.message}")
    if result.boolean is not None:
        echo(json.dumps({"boolean": result.boolean}) if as_json else "yes" if result.boolean else "no")
        raise typer.Exit(0 if result.boolean else 1)
    terms = {term for row in result.rows for term in row if term is not None}
    labels, short = node_labels(graph, terms, exact=as_csv or as_json), graph.profile.short
    ids = {term: short(term) if isinstance(term, IRI) else term.value for term in terms}
    if as_json:
        values = {t: {"value": t.value, "id": ids[t], "label": labels[t]} for t in terms}
        named = [zip(result.variables, row, strict=True) for row in result.rows]
        cells = [{v: values[t] for v, t in row if t is not None} for row in named]
        echo(json.dumps({"variables": result.variables, "rows": cells}, ensure_ascii=False, indent=2))
    elif as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow([name for v in result.variables for name in (v, f"{v}_label")])
        for row in result.rows:
            writer.writerow([text for t in row for text in ((ids[t], labels[t]) if t else ("", ""))])
    elif result.rows:
        texts = {
            t: f"{labels[t]} ({ids[t]})" if isinstance(t, IRI) and labels[t] != ids[t] else labels[t]
            for t in terms
        }
        out().print(columns(result.variables, [[texts[t] if t else "" for t in row] for row in result.rows]))
    else:
        say("the query has no result")
    if result.outcome is Outcome.TRUNCATED:
        say(f"{result.message}; --limit asks for more", "notice")
    raise typer.Exit(0 if result.rows else 1)
