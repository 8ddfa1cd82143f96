"""`triplewise search`: from a text to the entities, classes and relations of a graph."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import columns, examples, out, say

EXAMPLES = examples(
    'triplewise search "goethe"',
    'triplewise search "born in" --kind relation',
    'triplewise search "noble gas" --kg elements.ttl --limit 3',
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
        typer.echo(json.dumps([asdict(m) for m in matches], ensure_ascii=False, indent=2))
    elif not matches:
        say(f"nothing is called like {text!r}")
        raise typer.Exit(1)
    else:
        rows = [(m.kind, m.id, m.label, ", ".join(m.types), m.description) for m in matches]
        out().print(columns(("kind", "id", "label", "type", "description"), rows))
