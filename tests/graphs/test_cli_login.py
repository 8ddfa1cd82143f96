"""Headers, token and user of an endpoint on the command line: sent to its host, neither shown nor kept."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.graphs.conftest import Cli
from tests.support.sparql_server import Asked, Scripted, SparqlServer
from triplewise.tools.kg.open import close_all

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
        wrong = cli("query", "ASK { ?s ?p ?o }", "--kg", server.url, "--token", "wrong-one")
        assert (wrong.code, "does not accept the login that it was sent" in wrong.err) == (3, True), wrong


@pytest.mark.parametrize(
    ("headers", "login"),
    [
        ({"authorization": f"Bearer {SECRET}"}, ["--token", SECRET]),
        (
            {"x_api_key": SECRET, "x_tenant": "films"},
            [f"--header=X-Api-Key:{SECRET}", "--header=X-Tenant: films"],
        ),
        ({"authorization": BASIC, "x_tenant": "films"}, ["--user", "me", "--header", "X-Tenant: films"]),
    ],
)
def test_a_login_is_sent_and_neither_shown_nor_kept(
    headers: dict[str, str], login: list[str], cli: Cli, tmp_path: Path, state: Path
) -> None:
    with Guarded(**headers) as server:
        os.environ[f"TRIPLEWISE_{server.place}_PASSWORD"] = SECRET
        refused = cli("query", "ASK { ?s ?p ?o }", "--kg", server.url)
        assert (refused.code, "--user, --token or --header" in refused.err) == (3, True), refused
        close_all()
        ask = ["ask", "Who directed Alien?", "--trace", str(tmp_path / "run.html"), "--json"]
        commands = [
            ["query", "ASK { ?s ?p ?o }", "--kg", server.url],
            ["kg", "info", server.url],
            ["search", "Alien", "--kg", server.url],
            [*ask, "--kg", server.url],
            ["plan", "Who directed Alien?", "--kg", server.url],
        ]
        done = [cli(*command, *login) for command in commands]
        assert [d.code for d in done] == [0] * len(commands), done
    assert "Ridley Scott" in done[3].out
    assert SECRET not in "".join(d.out + d.err for d in done)
    files = [path for path in [*tmp_path.rglob("*"), *state.rglob("*")] if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_a_password_is_asked_for_and_not_echoed(state: Path) -> None:
    with Guarded(authorization=BASIC) as server:
        terminal, slave = pty.openpty()
        command = [sys.executable, "-m", "triplewise.graphs", "query", "ASK { ?s ?p ?o }"]
        command += ["--kg", server.url, "--user", "me"]
        process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=os.environ
        )
        os.close(slave)
        shown = b""
        while b"Password of me" not in shown:
            shown += os.read(terminal, 1_000)
        os.write(terminal, f"{SECRET}\n".encode())
        while b"Yes" not in shown:
            shown += os.read(terminal, 1_000)
        assert process.wait(60) == 0
        os.close(terminal)
    assert SECRET.encode() not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kg", "demo", "--token", SECRET], "--token is for an endpoint, and demo is none"),
        (["--kg", "http://h.example/sparql", "--header", SECRET], "needs the form 'Name: value'"),
        (["--kg", "http://h.example/sparql", "--header", f"X: {SECRET}\r\nY: z"], "needs the form"),
        (["--kg", "http://h.example/sparql", "--user", "me"], "TRIPLEWISE_H_EXAMPLE_PASSWORD"),
        (["--kg", "http://h.example/sparql", "--user", "me", "--token", SECRET], "two logins"),
        (["--kg", "http://you:x@h.example/sparql", "--token", SECRET], "two logins"),
    ],
)
def test_what_is_no_login_is_refused(arguments: list[str], message: str, cli: Cli) -> None:
    done = cli("search", "Alien", *arguments)
    assert (done.code, message in done.err, SECRET in done.err) == (2, True, False), done
