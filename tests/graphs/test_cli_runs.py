"""Checkpoints of the command line: killed runs go on, damaged files do no harm."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.graphs.conftest import Cli
from tests.support.openai_server import Fault, OpenAIServer
from triplewise.graphs.cli.run import Run
from triplewise.graphs.runs import Checkpoints, RunRequest
from triplewise.tools.core.errors import ConfigurationError, DataError, RunError, UserError

QUESTION = "Where was Goethe's partner born?"
REPLIES = [
    f"Thought {number}: go on\nAction {number}: {action}"
    for number, action in enumerate(
        (
            "get_relation(Q5879)",
            "add_fact(Q5879, P451, ?partner)",
            "get_relation(?partner)",
            "add_fact(?partner, P19, ?place)",
            "set_answer(?place)",
            "execute()",
        ),
        1,
    )
]
COMMAND = (sys.executable, "-m", "triplewise.graphs", "ask")


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_a_killed_run_goes_on_where_it_was(
    cli: Cli, state: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    """Killed while it waits for the third reply: the two before it are not asked for again."""
    server = openai_server(REPLIES, faults=[None, None, Fault.SLOW], slow=120)
    arguments = (QUESTION, "--model", "openai:scripted", "--base-url", server.url)
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(server.chats) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()

    other = cli("ask", "Who wrote Dracula?", "-q")
    assert (other.code, other.out) == (0, "Bram Stoker\n")

    resumed = ask("--resume")
    assert "going on after 2 steps" in resumed.stderr
    assert "Answer   Offenbach am Main" in resumed.stdout
    assert resumed.returncode == 0
    assert len(server.chats) == len(REPLIES)  # one was asked for twice; set_answer implies the last
    assert "no unfinished run" in cli("ask", "--resume").err


def test_ctrl_c_is_one_line_that_says_how_to_go_on(
    state: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(REPLIES, faults=[Fault.SLOW], slow=120)
    arguments = (QUESTION, "-v", "--model", "openai:scripted", "--base-url", server.url)
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not server.chats and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "error: interrupted; `triplewise ask --resume` goes on\n")


def test_a_damaged_file_is_set_aside(cli: Cli, state: Path) -> None:
    state.mkdir(parents=True)
    path = state / "checkpoints.sqlite"
    path.write_bytes(os.urandom(9_000))
    done = cli("ask", "Who wrote Dracula?", "-q")
    assert (done.code, done.out) == (0, "Bram Stoker\n")
    assert "is damaged" in done.err
    assert len(list(state.glob("*.damaged-*"))) == 1
    assert cli("ask", "Who wrote Dracula?", "-q").err == ""


def test_tables_of_another_program_are_set_aside(cli: Cli, state: Path) -> None:
    cli("ask", "Who wrote Dracula?", "-q")
    (state / "checkpoints.sqlite").unlink()
    with sqlite3.connect(state / "checkpoints.sqlite") as connection:
        connection.executescript("CREATE TABLE checkpoints (a); CREATE TABLE writes (b);")
    connection.close()
    done = cli("ask", "Who wrote Dracula?", "-q")
    assert done.code == 0
    assert "set aside" in done.err


def test_where_nothing_can_be_written_the_run_goes_on_without(cli: Cli, state: Path) -> None:
    state.parent.write_text("a file where the folder should be")
    done = cli("ask", "Who wrote Dracula?", "-q")
    assert (done.code, done.out) == (0, "Bram Stoker\n")
    assert "cannot be written" in done.err


def test_a_run_that_ends_keeps_no_checkpoints(cli: Cli, state: Path) -> None:
    cli("ask", "Who wrote Dracula?", "-q")
    with sqlite3.connect(state / "checkpoints.sqlite") as connection:
        threads = connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    connection.close()
    assert threads == []


def order(thread: str) -> RunRequest:
    return RunRequest("Who?", {}, "agent", {"kg": "demo"}, thread)


@pytest.fixture
def store(state: Path) -> Checkpoints:
    return Checkpoints(pytest.fail)


def cut_off(store: Checkpoints, thread: str, error: BaseException) -> None:
    with pytest.raises(type(error)), store.running(order(thread)):
        raise error


def test_a_full_disk_is_named_with_the_file(store: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    why = r"a\.json: cannot be written: No space left"
    with pytest.raises(DataError, match=why), store.running(order("a")):
        pass


@pytest.mark.parametrize("error", [RunError("the service is down"), KeyboardInterrupt()])
def test_a_run_that_was_cut_off_can_be_resumed(store: Checkpoints, error: BaseException) -> None:
    cut_off(store, "a", error)
    cut_off(store, "wrong", UserError("would only be made again"))
    assert store.unfinished() == order("a")
    assert all(path.stat().st_mode & 0o077 == 0 for path in store.notes.iterdir())  # notes and their locks
    store.close()


@pytest.mark.parametrize(
    "note", [b"", b"\xff", b"[" * 5_000, b'{"question": 5, "entities": [], "context": 7}']
)
def test_a_note_that_is_damaged_is_no_run(store: Checkpoints, note: bytes) -> None:
    store.note("a").write_bytes(note)
    with pytest.raises(ConfigurationError, match="no unfinished run"):
        store.unfinished()
    assert not store.note("a").exists()
    store.close()


def test_the_newest_run_is_resumed_first(store: Checkpoints) -> None:
    for number, thread in enumerate(("a", "b")):
        cut_off(store, thread, KeyboardInterrupt())
        os.utime(store.note(thread), (number, number))
    assert store.unfinished().thread == "b"
    store.close()


@pytest.mark.parametrize(
    "change", [{"thread": "../other"}, {"thread": "a\0b"}, {"folder": "a\0b"}, {"entities": 5}]
)
def test_a_note_that_others_changed_is_forgotten(store: Checkpoints, change: dict[str, Any]) -> None:
    other = store.notes.parent / "other.json"
    other.write_text("{}")
    request = asdict(RunRequest("Who?", {}, "agent", {}, thread="abc")) | change
    store.note("abc").write_text(json.dumps(request))
    with pytest.raises(ConfigurationError, match="no unfinished run"):
        store.unfinished()
    assert other.exists()
    assert not store.note("abc").exists()


def test_a_run_that_is_still_going_is_not_resumed(store: Checkpoints) -> None:
    with store.running(order("a")):
        with pytest.raises(ConfigurationError, match="no unfinished run"):
            store.unfinished()
        with pytest.raises(ConfigurationError, match="another process"), store.running(order("a")):
            pass
    store.close()


def test_a_checkpoint_that_was_tampered_with_is_called_damaged() -> None:
    class Tampered(InMemorySaver):
        def get_tuple(self, config: Any) -> Any:
            raise ValueError("unpack(b) received extra data")

    run = Run(RunRequest(QUESTION, {}, "agent", {"kg": "demo"}, thread="t"), Tampered())
    with pytest.raises(DataError, match="thread t is damaged"):
        run.follow(resume=True)
