"""The parts of the Compose file as processes, with the environment that it sets; images are not run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.graphs.test_serve import started
from tests.graphs.test_studio import COMMAND, langgraph_dev
from tests.support.sql_servers import Postgres
from tests.support.virtuoso import Virtuoso, free_port

DEPLOY = Path(__file__).parent.parent.parent / "docs" / "deploy"
FILMS = """
<http://e/alien> <http://www.w3.org/2000/01/rdf-schema#label> "Alien" .
<http://e/scott> <http://www.w3.org/2000/01/rdf-schema#label> "Ridley Scott" .
<http://e/director> <http://www.w3.org/2000/01/rdf-schema#label> "director" .
<http://e/alien> <http://e/director> <http://e/scott> .
"""
OPERATOR = {
    "DBA_PASSWORD": "dba-s3cret",
    "POSTGRES_PASSWORD": "pg-s3cret",
    "GRAPH": "http://example.org/films",
    "VIRTUOSO_BUFFERS": "8000",
}
"""What an operator sets beforehand."""


def services(variables: Mapping[str, str]) -> Any:
    """The services of the Compose file, with the operator's variables or their defaults filled in."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        assert kind == "-" or name in variables, f"{name}: {default}"
        return variables.get(name) or default

    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    parts = yaml.safe_load(re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text))["services"]
    for part in parts.values():
        part["environment"] = {name: str(given) for name, given in part.get("environment", {}).items()}
    return parts


def is_healthy(service: Mapping[str, Any], name: str, here: str, **variables: str) -> bool:
    """Whether the health check of a service succeeds, with a program as it is called here."""
    kind, *words = service["healthcheck"]["test"]
    line = shlex.join(words) if kind == "CMD" else words[0].replace("$$", "$")
    command = ["sh", "-c", line.replace(name, here)]
    environment = {**os.environ, **service["environment"], **variables}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=30)
    return done.returncode == 0


def test_every_variable_is_given_and_what_is_waited_for_is_checked() -> None:
    parts = services(OPERATOR)
    for service in parts.values():
        assert all("healthcheck" in parts[name] for name in service.get("depends_on", ()))
    with pytest.raises(AssertionError, match="set DBA_PASSWORD to a password of your own"):
        services({})
    image = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert image.index('ENTRYPOINT ["triplewise"]') < image.index('CMD ["serve", "--host", "0.0.0.0"]')
    if (
        shutil.which("docker")
        and not subprocess.run(["docker", "compose", "version"], check=False).returncode
    ):
        lint = ["docker", "compose", "-f", str(DEPLOY / "compose.yaml"), "--profile", "agent", "config", "-q"]
        subprocess.run(lint, env={**os.environ, **OPERATOR}, check=True)


@pytest.mark.virtuoso
def test_the_page_over_a_virtuoso(tmp_path: Path) -> None:
    """The services `web` and `virtuoso`, with their health checks."""
    if reason := Virtuoso.missing():
        pytest.skip(reason)
    parts, graph = services(OPERATOR), OPERATOR["GRAPH"]
    stored = parts["virtuoso"]
    for folder in ("database", "import"):
        (tmp_path / folder).mkdir()
    films = tmp_path / "import" / "films.nt"
    films.write_text(FILMS, encoding="utf-8")
    allowed = {"VIRT_Parameters_DirsAllowed": f"., {films.parent}"}  # which `volumes` lays at /import
    with Virtuoso(tmp_path / "database", stored["environment"] | allowed) as virtuoso:
        isql = "isql 1111", f"{shutil.which('isql-vt') or 'isql-v'} 127.0.0.1:{virtuoso.sql_port}"
        assert is_healthy(stored, *isql)
        assert not is_healthy(stored, *isql, DBA_PASSWORD="wrong")
        virtuoso.load(films, graph)
        *command, kg = parts["web"]["command"]
        kg = kg.replace("http://virtuoso:8890/sparql", virtuoso.url)
        with started(tmp_path, *command, kg) as url, httpx.Client(base_url=url, trust_env=False) as client:
            _, *script = json.loads(
                re.search(r'CMD (\["python", "-c".*\])', (DEPLOY / "Dockerfile").read_text())[1]  # type: ignore[index]
            )
            port = url.rpartition(":")[2]
            for path, code in (("/health", 0), ("/nowhere", 1)):
                check = script[1].replace(":8000", f":{port}").replace("/health", path)
                done = subprocess.run([sys.executable, "-c", check], check=False, stderr=subprocess.PIPE)
                assert done.returncode == code
            asked = client.get("/api/ask", params={"question": "Who is the director of Alien?"}, timeout=60)
            assert asked.json()["labels"] == ["Ridley Scott"]


@pytest.mark.skipif(COMMAND is None, reason="needs the extra studio")
def test_the_server_beside_postgresql_and_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services `agent`, `postgres` and, where it is installed, `redis`, with their health checks.

    The image of the agent is LangGraph's own, which is not run here: in its place is the development server,
    and our checkpoints in the database that it is given.
    """
    if reason := Postgres.missing() or ("" if shutil.which("pg_isready") else "pg_isready is not on PATH"):
        pytest.skip(reason)
    parts = services(OPERATOR)
    given, variables = parts["postgres"]["environment"], dict(parts["agent"]["environment"])
    for folder in ("postgres", "agent"):
        (tmp_path / folder).mkdir()
    with ExitStack() as stack:
        database = Postgres(tmp_path / "postgres", given["POSTGRES_USER"], given["POSTGRES_PASSWORD"])
        stack.enter_context(database)
        database.load([f"CREATE DATABASE {given['POSTGRES_USER']}"])  # as the image does
        for port, is_up in ((database.port, True), (free_port(), False)):
            assert is_healthy(parts["postgres"], "pg_isready", f"pg_isready -h 127.0.0.1 -p {port}") == is_up
        uri = variables["DATABASE_URI"].replace("@postgres:5432", f"@127.0.0.1:{database.port}")
        if shutil.which("redis-server"):
            redis_port = str(free_port())
            redis = subprocess.Popen(
                ["redis-server", "--port", redis_port, "--save", ""], stdout=subprocess.DEVNULL
            )
            stack.callback(redis.wait)
            stack.callback(redis.terminate)
            end = time.monotonic() + 20
            while not is_healthy(parts["redis"], "redis-cli", f"redis-cli -p {redis_port}"):
                assert redis.poll() is None
                assert time.monotonic() < end
        question = {"question": "What is the capital of Japan?"}
        run = {"assistant_id": "agent", "input": question}
        with langgraph_dev(tmp_path / "agent", **variables | {"DATABASE_URI": uri}) as url:
            reply = httpx.post(f"{url}/runs/wait", json=run, trust_env=False, timeout=60).json()
        assert reply["answer"]["labels"] == ["Tokyo"]
