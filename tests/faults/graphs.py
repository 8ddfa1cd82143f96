"""The three graphs of the tests, in memory, and an endpoint in front of one that fails on command."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyoxigraph as ox

from tests.support.sparql_server import Asked, Scripted, SparqlServer, rows
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.rdf import GraphReader

FILES = {
    "freebase": (
        ("freebase_kg/observed.nt.gz", "freebase_kg/gold_derived.nt.gz"),
        "freebase_kg/labels.tsv.gz",
    ),
    "wikidata": (
        ("wikidata_kg/observed.nt.gz", "wikidata_kg/gold_derived.nt.gz", "wikidata_kg/background.nt.gz"),
        "wikidata_kg/labels.tsv.gz",
    ),
    "metaqa": (("metaqa/kb.txt.gz",), ""),
}


@cache
def store(folder: Path, name: str) -> ox.Store:
    """A graph with its labels, without a label index: nothing here is linked by name."""
    facts, labels = FILES[name]
    profile, filled = load_profile(name), ox.Store()
    feed = GraphReader(profile)
    filled.bulk_extend(feed.facts([folder / f for f in facts], profile))
    if labels:
        filled.bulk_extend(feed.labels([folder / labels], profile))
    return filled


def open_graph(folder: Path, name: str, timeout: float = 30.0, limit: int = 10_000) -> EmbeddedKG:
    """The graph as the product opens it."""
    return EmbeddedKG(store(folder, name), load_profile(name), name, timeout=timeout, limit=limit)


class Endpoint(SparqlServer):
    """A SPARQL endpoint on loopback that answers from a store.

    `fault`: "" answers; "timeout" hangs until the client has gone; "unavailable" cuts the connection;
    "refused" says that the query cannot be run; "empty" finds nothing.
    """

    def __init__(self, graph: ox.Store) -> None:
        self.graph, self.fault = graph, ""
        super().__init__([])

    def next_reply(self, asked: Asked) -> Scripted:
        """The results as SPARQL JSON, or the fault."""
        match self.fault:
            case "unavailable":
                return Scripted(hang_up=True)
            case "timeout":
                return Scripted(hang_up=True, delay=10)
            case "refused":
                message = "37000 Error SP030: SPARQL compiler: incomparable types"
                return Scripted(message, 400, content_type="text/plain")
            case "empty":
                return Scripted(rows())
        found = self.graph.query(asked.parameters["query"][0])
        assert not isinstance(found, ox.QueryTriples)
        return Scripted((found.serialize(format=ox.QueryResultsFormat.JSON) or b"").decode())
