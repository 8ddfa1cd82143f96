"""Logins of an endpoint in the environment: sent to its host, neither shown nor kept."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.graphs.conftest import Cli
from tests.support.opened import close_all
from tests.support.sparql_server import Asked, Scripted, SparqlServer

SECRET = "s3cr3t-w0rd"
BASIC = "Basic " + b64encode(f"me:{SECRET}".encode()).decode()
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
FACTS = f"""
<http://e/alien> {LABEL} "Alien" . <http://e/scott> {LABEL} "Ridley Scott" .
<http://e/directedBy> {LABEL} "directed by" . <http://e/alien> <http://e/directedBy> <http://e/scott> .
"""


class Guarded(SparqlServer):
    """An endpoint that answers those alone who send all of its headers."""

    def __init__(self, **headers: str) -> None:
        super().__init__([])
        self.headers = headers
        self.graph = ox.Store()
        self.graph.load(FACTS.encode(), format=ox.RdfFormat.TURTLE)
        self.place = self.url.split("/")[2].replace(".", "_").replace(":", "_")

    def next_reply(self, asked: Asked) -> Scripted:
        if any(asked.headers.get(name.replace("_", "-")) != value for name, value in self.headers.items()):
            return Scripted("who are you?", 401, content_type="text/plain")
        results = self.graph.query(asked.parameters["query"][0])
        assert isinstance(results, ox.QuerySolutions | ox.QueryBoolean)
        return Scripted((results.serialize(format=ox.QueryResultsFormat.JSON) or b"").decode())


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command keeps in the environment goes with the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_a_wrong_login_does_not_read_like_none(cli: Cli) -> None:
    with Guarded(authorization=f"Bearer {SECRET}") as server:
        os.environ[f"TRIPLEWISE_{server.place}_TOKEN"] = "wrong-one"
        wrong = cli("query", "ASK { ?s ?p ?o }", "--kg", server.url)
        assert (wrong.code, "does not accept the login that it was sent" in wrong.err) == (3, True), wrong


@pytest.mark.parametrize(
    ("headers", "login"),
    [
        ({"authorization": f"Bearer {SECRET}"}, {"TOKEN": SECRET}),
        (
            {"x_api_key": SECRET, "x_tenant": "films"},
            {"HEADERS": f"X-Api-Key:{SECRET}\nX-Tenant: films"},
        ),
        (
            {"authorization": BASIC, "x_tenant": "films"},
            {"USER": "me", "PASSWORD": SECRET, "HEADERS": "X-Tenant: films"},
        ),
    ],
)
def test_a_login_is_sent_and_neither_shown_nor_kept(
    headers: dict[str, str], login: dict[str, str], cli: Cli, tmp_path: Path, state: Path
) -> None:
    with Guarded(**headers) as server:
        refused = cli("query", "ASK { ?s ?p ?o }", "--kg", server.url)
        assert (refused.code, "docs/endpoints.md" in refused.err) == (3, True), refused
        close_all()
        os.environ |= {f"TRIPLEWISE_{server.place}_{name}": value for name, value in login.items()}
        ask = ["ask", "Who directed Alien?", "--trace", str(tmp_path / "run.html"), "--json"]
        commands = [
            ["query", "ASK { ?s ?p ?o }", "--kg", server.url],
            ["kg", "info", server.url],
            ["search", "Alien", "--kg", server.url],
            [*ask, "--kg", server.url],
            ["plan", "Who directed Alien?", "--kg", server.url],
        ]
        done = [cli(*command) for command in commands]
        assert [d.code for d in done] == [0] * len(commands), done
    assert "Ridley Scott" in done[3].out
    assert SECRET not in "".join(d.out + d.err for d in done)
    files = [path for path in [*tmp_path.rglob("*"), *state.rglob("*")] if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("header", [SECRET, f"X: {SECRET}\x01"])
def test_what_is_no_header_is_refused(header: str, cli: Cli) -> None:
    os.environ["TRIPLEWISE_H_EXAMPLE_HEADERS"] = header
    done = cli("search", "Alien", "--kg", "http://h.example/sparql")
    assert (done.code, "needs the form 'Name: value'" in done.err, SECRET in done.err) == (2, True, False), (
        done
    )
