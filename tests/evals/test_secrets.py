"""A password in the URL of a graph or of a model is sent there, and neither shown nor kept anywhere."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.openai_server import OpenAIServer
from tests.support.sparql_server import Asked, Scripted, SparqlServer
from triplewise.graphs.cli.app import run

SECRET = "s3cr3t-w0rd"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
FACTS = f"""
<http://e/alien> {LABEL} "Alien" . <http://e/scott> {LABEL} "Ridley Scott" .
<http://e/directedBy> {LABEL} "directed by" . <http://e/alien> <http://e/directedBy> <http://e/scott> .
"""


class Engine(SparqlServer):
    """An endpoint over the facts; `with Engine() as engine`."""

    def __init__(self) -> None:
        super().__init__([])
        self.graph = ox.Store()
        self.graph.load(FACTS.encode(), format=ox.RdfFormat.TURTLE)

    def next_reply(self, asked: Asked) -> Scripted:
        results = self.graph.query(asked.parameters["query"][0])
        assert isinstance(results, ox.QuerySolutions | ox.QueryBoolean)
        return Scripted((results.serialize(format=ox.QueryResultsFormat.JSON) or b"").decode())


def login(url: str) -> str:
    return url.replace("://", f"://me:{SECRET}@") + f"?api_key={SECRET}"


def holding_the_secret(folder: Path) -> list[Path]:
    """Files in which the secret stands, also packed ones."""
    found = []
    for path in (p for p in folder.rglob("*") if p.is_file()):
        parts = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                parts += [archive.read(name) for name in archive.namelist()]
        if any(SECRET.encode() in (gzip.decompress(p) if p[:2] == b"\x1f\x8b" else p) for p in parts):
            found.append(path)
    return found


@pytest.mark.usefixtures("data")
def test_a_password_in_a_url_is_kept_nowhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    openai_server: Callable[..., OpenAIServer],
) -> None:
    for name in ("STATE", "CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    # The checkpoints of a run that has ended stay, to be searched.
    monkeypatch.setattr("langgraph.checkpoint.sqlite.SqliteSaver.delete_thread", lambda self, thread: None)
    model = openai_server(["Thought: that is all\nAction: execute()"] * 400)
    with Engine() as engine:
        kg, base_url = login(engine.url), model.url.replace("://", f"://me:{SECRET}@")
        asked = ["Who directed Alien?", "--kg", kg, "--model", "openai:scripted", "--base-url", base_url]
        asked += ["--trace", str(tmp_path / "run.html")]
        assert run(["ask", *asked]) in (0, 1, 4)
        assert run(["ask", *asked, "--json", "--trace", str(tmp_path / "run.html")]) in (0, 1, 4)
        given = [
            "--set",
            f"kg={kg}",
            "--set",
            "hops=1",
            "--set",
            "linking=own",
            "--log-dir",
            str(tmp_path / "logs"),
        ]
        model_given = ["--model", "openai:scripted", "--base-url", base_url]
        assert run(["eval", "metaqa", *given, *model_given]) == 0
        assert run(["kg", "profile", kg]) == 0
        assert run(["plan", "Who directed Alien?", "--kg", kg]) in (0, 1)
        assert {a.headers.get("authorization", "")[:6] for a in engine.asked} == {"Basic "}
        assert all(a.parameters["api_key"] == [SECRET] for a in engine.asked)
    shown = "".join(capfd.readouterr())
    assert "me:***@127.0.0.1" in shown
    assert SECRET not in shown
    assert holding_the_secret(tmp_path) == []
