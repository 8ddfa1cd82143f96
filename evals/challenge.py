"""CK25 for the TEXT2SPARQL challenge's own client.

`python -m triplewise.evals.challenge DATA OUT` reads `questions.jsonl.gz` and `prod-inst.ttl.gz` of the
folder DATA, writes the client's questions file OUT, and serves the graph until Ctrl-C, so that the client can
run gold and answered queries on it. docs/serve.md has the client's commands.
"""

from __future__ import annotations

import gzip
import sys
import threading
from pathlib import Path

import pyoxigraph as ox
import yaml

from triplewise.evals.servers import OxigraphServer
from triplewise.graphs.console import say
from triplewise.tools.core.files import json_lines

DATASET = "https://text2sparql.aksw.org/2025/corporate/"


def questions_file(path: Path) -> str:
    """Return the questions of a record file as the client reads them.

    Casts to xsd:int, which pyoxigraph lacks, are written as casts to xsd:integer.
    """
    questions = [
        {
            "id": int(record["id"].rpartition("-")[2]),
            "question": {"en": record["question"]},
            "query": {"sparql": record["sparql"].replace("xsd:int(", "xsd:integer(")},
            "features": record["features"],
        }
        for _, record in json_lines(path)
    ]
    content = {"dataset": {"id": DATASET, "prefix": "ck25"}, "questions": questions}
    return yaml.safe_dump(content, allow_unicode=True)


def main(data: str, out: str) -> None:
    """Write the questions, and serve the graph until Ctrl-C."""
    Path(out).write_text(questions_file(Path(data) / "questions.jsonl.gz"), encoding="utf-8")
    store = ox.Store()
    graph = gzip.decompress((Path(data) / "prod-inst.ttl.gz").read_bytes())
    store.bulk_load(graph, format=ox.RdfFormat.TURTLE)
    with OxigraphServer(store) as server:
        say(f"{out} is written; {DATASET} is served on {server.url}")
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
