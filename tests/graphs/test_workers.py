"""Several workers with one PostgreSQL: where one is killed, another goes on with its question."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli
from tests.graphs.test_cli_runs import COMMAND, QUESTION, REPLIES, order
from tests.support.openai_server import Fault, OpenAIServer
from tests.support.sql_servers import PASSWORD, Postgres
from triplewise.graphs.runs import open_checkpoints
from triplewise.tools.core.errors import RunError


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real PostgreSQL."""
    pytest.importorskip("langgraph.checkpoint.postgres", reason="needs the extra triplewise[postgres]")
    if reason := Postgres.missing():
        pytest.skip(reason)
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server.url


def test_another_worker_goes_on_with_the_question_of_a_killed_one(
    database: str, state: Path, openai_server: Callable[..., OpenAIServer], cli: Cli
) -> None:
    """The first worker is killed while it waits for the third reply: that one alone is asked for again."""
    server = openai_server(REPLIES, faults=[None, None, Fault.SLOW], slow=120)
    asked = (QUESTION, "--model", "openai:scripted", "--base-url", server.url)
    worker = subprocess.Popen(
        [*COMMAND, *asked, "--thread", "q1", "--checkpoints", database],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(server.chats) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    go_on = ("ask", "--resume", "--thread", "q1", "--checkpoints", database)
    waiting = cli(*go_on)
    assert (waiting.code, "no unfinished run" in waiting.err) == (2, True)  # its worker lives
    worker.kill()
    worker.wait()

    resumed = cli(*go_on)
    assert "going on after 2 steps" in resumed.err
    assert (resumed.code, "Answer   Offenbach am Main" in resumed.out) == (0, True)
    assert len(server.chats) == len(REPLIES)
    assert not (state / "checkpoints.sqlite").exists()
    assert "no unfinished run" in cli(*go_on).err


def test_a_database_that_fails_is_named_without_its_password(database: str, cli: Cli) -> None:
    wrong = cli("ask", QUESTION, "--checkpoints", database.replace(PASSWORD, "wrong-pw"))
    assert (wrong.code, "password authentication failed" in wrong.err) == (2, True)
    store = open_checkpoints(database, pytest.fail)
    failed = r"checkpoints in postgresql://.*\*\*\*@127\.0\.0\.1.* failed"
    with pytest.raises(RunError, match=failed) as raised, store.running(order("q2")):
        store.close()
    assert PASSWORD not in str(raised.value) + wrong.err
