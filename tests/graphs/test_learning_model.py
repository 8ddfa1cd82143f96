"""The model policy from end to end: a scripted model over HTTP, a real LoRA update, and its use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.graphs.conftest import Cli
from tests.support.films import FILMS, write_graph, write_questions
from tests.support.openai_server import Messages, OpenAIServer
from tests.support.tiny_models import tiny_model
from triplewise.tools.learning import model_training
from triplewise.tools.learning.trajectory import read_trajectories

Server = Callable[..., OpenAIServer]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other cost more than such small matrices."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def films(tmp_path: Path) -> Path:
    write_graph(tmp_path / "films.nt")
    write_questions(tmp_path / "questions.jsonl")
    return tmp_path


def acting(messages: Messages) -> str:
    """A model that looks the director up and says who it is; at first it searches what nobody asked for.

    Once it has read an earlier attempt, it goes straight to the point.
    """
    said = str(messages[1]["content"])
    film = re.findall(r"Entities: (.+?): (\S+)", said)[-1][0]
    steps = [m for m in messages if m["role"] == "assistant"]
    plan = [f"search_neighbor({film}, directed_by)", f"finish({FILMS[film][0]})"]
    if "Earlier attempt" not in said:
        plan.insert(0, f"search_neighbor({film}, release_year)")
        if film in ("Ran", "Ikiru"):
            plan[-1] = "finish(Nobody)"
    number = len(steps) + 1
    return f"Thought {number}: I do step {number}.\nAction {number}: {plan[number - 1]}"


def command(films: Path, base: str, server: OpenAIServer, *more: str) -> list[str]:
    return [
        *("learn", str(films / "questions.jsonl"), "--into", str(films / "run"), "--policy", "model"),
        *("--kg", str(films / "films.nt"), "--preset", "symagent", "--model", f"openai:{base}"),
        *("--base-url", server.url, "--validation", "0.3", "--iterations", "1"),
        *("--set", "temperature=0.1", *more),
    ]


def planless(messages: Messages) -> str:
    """The plan is asked for in one message; then the model acts."""
    return "Rules:" if len(messages) == 1 else acting(messages)


def test_a_model_learns_and_its_adapter_is_asked(
    films: Path, cli: Cli, openai_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tiny_model(films / "base")
    quick = {"learning_rate": 0.02, "num_train_epochs": 2.0}
    monkeypatch.setattr(model_training, "TRAINING", model_training.TRAINING | quick)
    server = openai_server(planless)
    server.models = [base]
    stopped = cli(*command(films, base, server))
    assert (stopped.code, "vllm serve" in stopped.err) == (2, True), stopped.err
    adapter = next((films / "run").glob("policy-1-*"))
    assert f"--lora-modules {adapter.name}={adapter}" in stopped.err
    assert "run the same command again" in stopped.err
    assert "Traceback" not in stopped.err
    weights, asked = (adapter / "adapter_model.safetensors").stat().st_mtime_ns, len(server.chats)
    server.models = [base, adapter.name]  # as the person starts it
    done = cli(*command(films, base, server))
    assert done.code == 0, done.err
    assert (adapter / "adapter_model.safetensors").stat().st_mtime_ns == weights, "not trained again"
    assert {r.body["model"] for r in server.chats[asked:]} == {adapter.name}, "only validation is left"
    explored, refined = (
        {t.id: t for t in read_trajectories(films / "run" / "trajectories.jsonl") if t.origin == origin}
        for origin in ("explored", "refined")
    )
    right = next(t for t in explored.values() if t.reward == 1)
    assert (len(right.turns), len(refined[right.id].turns)) == (3, 2)
    assert all(t.prompt.startswith("Question: who directed") for t in (*explored.values(), *refined.values()))
    assert all(t.system and "Earlier attempt" not in t.prompt for t in refined.values())
    shown = [r.text for r in server.chats if "Earlier attempt" in r.text]
    assert any("Reward: 1.00" in text for text in shown)
    assert any("Reward: 0.00" in text for text in shown)
    gold = {who for who, _, _ in FILMS.values()}
    wrong = [text for text in shown if "Reward: 0.00" in text and "finish(Nobody)" in text]
    assert not any(who in text.split("Earlier attempt")[0] for text in wrong for who in gold)

    trained = [t for t in refined.values() if t.reward]  # as good and shorter, or better
    report = json.loads((adapter / "training.json").read_text())
    assert report["examples"] == len(trained)
    assert report["losses"][-1] < report["losses"][0]
    assert server.chats[-1].body["model"] == adapter.name
    settings = (films / "run" / "settings.yaml").read_text()
    assert "history: chat" in settings
    assert re.search(r"0\.\d+ -> 0\.\d+|1\.000", done.out)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--policy": "embedded"}, "cannot learn with --model openai:"),
        ({"--set": "calling=tools"}, "calling=react"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_asked(
    films: Path, cli: Cli, openai_server: Server, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    server = openai_server(planless)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    arguments = command(films, str(films / "base"), server)
    for name, value in change.items():
        arguments[arguments.index(name) + 1] = value
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert server.chats == []
