"""`triplewise search` and `triplewise query`: a graph or a database by hand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from os.path import isfile
from pathlib import Path
from typing import Any, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import Json, columns, csv_text, echo, echo_json, out, say
from triplewise.tools.core.errors import ActionError, ConfigurationError, QueryFailedError
from triplewise.tools.core.files import read_text

Result = tuple[dict[str, Any], Sequence[str], list[Any], list[Any]]
"""A result as a document, heads and cells of its table, and the cells as people read them."""

commands = typer.Typer()


@o.command(commands)
def search(
    graph: o.GraphOptions,
    text: str = o.argument("TEXT", "A name, or a few words."),
    kind: Literal["entity", "class", "relation"] | None = o.option("", "Only these.", shown="all"),
    limit: int = o.option("N", "Matches of each kind.", 5, min=1),
    as_json: Json = False,
) -> None:
    """Find entities, classes and relations by name or by meaning, as an agent does.

    Examples:
        triplewise search "goethe"
        triplewise search "born in" --kind relation --kg films.ttl
    """
    from triplewise.tools.linking.search import KINDS, search_kg
    from triplewise.tools.retrieval.encoder import open_encoder

    kg = graph.open_graph()
    matches = search_kg(kg, text, (kind,) if kind else KINDS, open_encoder(), limit)
    if kg.silence:
        say(kg.silence, "notice")
    if as_json:
        return echo_json([asdict(m) for m in matches])
    if not matches:
        say(f"nothing is called like {text!r}; `triplewise kg info` shows what there is")
        raise typer.Exit(1)
    rows = [(m.kind, m.id, m.label, ", ".join(m.types), m.description) for m in matches]
    return out().print(columns(("kind", "id", "label", "type", "description"), rows))


@o.command(commands)
def query(
    graph: o.GraphOptions,
    query: str = o.argument("QUERY|FILE", "One SELECT or ASK in SPARQL, a file of it, or -; SQL with --db."),
    db: str | None = o.option("URL|FILE", "Ask a relational database instead, by one SELECT in SQL."),
    limit: int = o.option("N", "Rows at most.", 1_000, min=1),
    timeout: float = o.option("SECONDS", "How long it may take.", 30.0, min=0.001),
    csv_: bool = o.flag("Print CSV, labels in columns of their own.", "--csv"),
    as_json: Json = False,
) -> None:
    """Run a query by hand, read-only; nodes are shown with their labels.

    Prefixes of the graph and the usual ones need no declaration; exit code 1: no result, or "no".

    Examples:
        triplewise query "SELECT ?city { wd:Q17 wdt:P36 ?city }"
        triplewise query films.rq --kg films.ttl --csv > films.csv
        triplewise query "SELECT title FROM films" --db films.sqlite
    """
    if query == "-":
        query = sys.stdin.read()
    elif isfile(query):
        query = read_text(Path(query))
    elif not any(c in query for c in "{ "):
        raise ConfigurationError(f"{query!r} is neither a query nor a file")
    if db is None:
        document, heads, cells, shown = _ask_graph(graph, query, timeout, limit, as_json or csv_)
    else:
        document, heads, cells, shown = _ask_database(db, query, timeout, limit)
    notice = document.pop("notice", "")
    if as_json:
        echo_json(document)
    elif csv_ and heads:
        echo(csv_text(heads, cells).replace("\r\n", "\n"), nl=False)
    elif "boolean" in document:
        echo("Yes" if document["boolean"] else "No")
    elif shown:
        out().print(columns(document["variables"], shown))
    else:
        say("the query has no result")
    if notice:
        say(f"{notice}{'; --limit asks for more' if len(cells) >= limit else ''}", "notice")
    raise typer.Exit(0 if cells or document.get("boolean") else 1)


def _ask_database(db: str, sql: str, timeout: float, limit: int) -> Result:
    from triplewise.tools.sql.database import open_database

    database = open_database(db, timeout=timeout, limit=limit)
    try:
        result = database.select(database.read_select(sql))
    except ActionError as error:
        near = ", ".join(error.detail.get("nearest", ()))
        raise ConfigurationError(f"{error}{near and f'; nearest: {near}'}") from error
    if not result.outcome.ok:
        raise QueryFailedError(result.outcome, result.message)
    cells = [["" if cell is None else str(cell) for cell in row] for row in result.rows]
    rows = [dict(zip(result.columns, row, strict=True)) for row in cells]
    return {"variables": result.columns, "rows": rows}, result.columns, cells, cells


def _ask_graph(graph: o.GraphOptions, sparql: str, timeout: float, limit: int, exact: bool) -> Result:
    from triplewise.tools.pyql.raw_sparql import run_query

    result = run_query(graph.open_graph(), sparql, timeout=timeout, limit=limit, exact=exact)
    names, cells, shown = result.get("variables", ()), [], []
    for row in result.get("rows", ()):
        terms = [row.get(name) or dict.fromkeys(("id", "value", "label"), "") for name in names]
        cells.append([term[part] for term in terms for part in ("id", "label")])
        tags = ["" if term["id"] in (term["value"], term["label"]) else f" ({term['id']})" for term in terms]
        shown.append([term["label"] + tag for term, tag in zip(terms, tags, strict=True)])
    return result, [head for name in names for head in (name, f"{name}_label")], cells, shown
