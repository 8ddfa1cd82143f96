"""LoRA on the agent's own tokens: the loss falls, nothing else is learned, adapters and checkpoints last."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_models import tiny_model
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.learning import model_training
from triplewise.tools.learning.model_training import make_trainer, train_adapter
from triplewise.tools.learning.trajectory import Trajectory, Turn

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = {"learning_rate": 5e-3, "num_train_epochs": 6.0, "save_steps": 2}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of seconds."""
    monkeypatch.setattr(model_training, "MAX_TOKENS", 512)
    monkeypatch.setattr(model_training, "TRAINING", model_training.TRAINING | SETTINGS)


def train(base: str, into: Path, trajectories: list[Trajectory], **more: Any) -> dict[str, Any]:
    """Train, as is told by an error with the command that serves the adapter; return the report."""
    with pytest.raises(ConfigurationError, match="vllm serve"):
        train_adapter(trajectories, into, {}, base=base, **more)
    report: dict[str, Any] = json.loads((into / "training.json").read_text())
    return report


def ignore(doing: str, done: int, total: int | None) -> None:
    """No display."""


def trajectory(number: int) -> Trajectory:
    turns = (
        Turn("look for the director", f"search_neighbor(Q{number}, P57)", "Ridley Scott [Q56005]."),
        Turn("that is the answer", "finish(Q56005)", "done"),
    )
    return Trajectory(
        f"q{number}",
        "who directed Alien?",
        ("Q56005",),
        reward=1.0,
        turns=turns,
        system="You answer questions from a knowledge graph.",
        prompt=f"Question: who directed film {number}?",
    )


TRAJECTORIES = [trajectory(n) for n in range(6)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_model(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_loss_falls(tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"num_train_epochs": 20.0, "learning_rate": 2e-2, "save_steps": 1000}
    monkeypatch.setattr(model_training, "TRAINING", model_training.TRAINING | slow)
    base, steps = tiny_model(tmp_path / "base", kind), list[tuple[int, int | None]]()

    def show(doing: str, done: int, total: int | None) -> None:
        steps.append((done, total))

    report = train(base, tmp_path / "adapter", TRAJECTORIES, progress=show)
    assert sum(report["losses"][-4:]) < 0.5 * sum(report["losses"][:4])
    assert steps[-1] == (len(report["losses"]), len(report["losses"]))
    assert not (tmp_path / "adapter" / "checkpoints").exists()


def trainer_of(base: str, into: Path, trajectories: list[Trajectory], previous: Path | None = None) -> Any:
    return make_trainer(trajectories, into, base, previous, ignore)


def learned_text(base: str, into: Path, trajectories: list[Trajectory]) -> list[str]:
    """What trl gives a loss, as text, one an example."""
    trainer = trainer_of(base, into, trajectories)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(len(trainer.train_dataset))])
    tokenizer = trainer.processing_class
    return [tokenizer.decode([t for t in labels.tolist() if t != -100]) for labels in batch["labels"]]


def test_exactly_what_the_agent_wrote_is_learned(base: str, tmp_path: Path) -> None:
    """Loss on thoughts and actions and the ends of messages, on nothing else."""
    texts = "".join(learned_text(base, tmp_path, [TRAJECTORIES[0]]))
    assert "".join(texts.split()) == "".join(
        [
            "Thought1:lookforthedirectorAction1:search_neighbor(Q0,P57)<|im_end|>Thought2:thatistheanswerAction2:finish(Q56005)<|im_end|>"
        ]
    )


def test_a_reply_without_an_action_is_not_learned(base: str, tmp_path: Path) -> None:
    turns = (Turn("hm", "", "No action was found."), *TRAJECTORIES[0].turns)
    text = "".join(learned_text(base, tmp_path, [replace(TRAJECTORIES[0], turns=turns)]))
    assert "hm" not in text
    assert "Action 3: finish(Q56005)" in text


def test_an_adapter_reloads_to_the_same_logits(base: str, tmp_path: Path) -> None:
    import torch

    train(base, tmp_path / "one", TRAJECTORIES)
    plain, first, second = (trainer_of(base, tmp_path, TRAJECTORIES, previous)
                            for previous in (None, tmp_path / "one", tmp_path / "one"))  # fmt: skip
    tokens = plain.processing_class("who directed Alien?", return_tensors="pt")
    with torch.no_grad():
        logits = [trainer.model.eval()(**tokens).logits for trainer in (plain, first, second)]
    assert torch.equal(logits[1], logits[2])
    assert not torch.equal(logits[0], logits[1])


class Killed(BaseException):
    """The process ends."""


def test_a_killed_training_goes_on_to_the_same_weights(base: str, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    def kill(doing: str, done: int, total: int | None) -> None:
        seen.append(done)
        if len(seen) == 6:
            raise Killed

    seen, resumed = list[int](), list[int]()
    with pytest.raises(Killed):
        train_adapter(TRAJECTORIES, tmp_path / "killed", {}, kill, base=base)
    (tmp_path / "killed" / "checkpoints" / "checkpoint-99").mkdir()
    train(base, tmp_path / "killed", TRAJECTORIES, progress=lambda doing, done, total: resumed.append(done))
    train(base, tmp_path / "whole", TRAJECTORIES)
    assert resumed[0] == 4, "it goes on from the newest whole checkpoint"
    mine, theirs = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("killed", "whole"))
    assert mine.keys() == theirs.keys()
    assert all(mine[key].equal(theirs[key]) for key in mine)


def test_a_complete_training_is_not_repeated_but_goes_on_from(base: str, tmp_path: Path) -> None:
    train(base, tmp_path / "one", TRAJECTORIES[:2])
    weights = (tmp_path / "one" / "adapter_model.safetensors").read_bytes()
    use = train_adapter(TRAJECTORIES[:2], tmp_path / "one", {}, base=base)
    assert use == {"model": "openai:one"}
    assert (tmp_path / "one" / "adapter_model.safetensors").read_bytes() == weights
    with pytest.raises(ConfigurationError, match="two="):
        train_adapter(TRAJECTORIES[:2], tmp_path / "two", use, base=base)


def test_what_cannot_work_is_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        train_adapter(TRAJECTORIES, tmp_path, {}, base=str(tmp_path / "nothing"))
    plain = tiny_model(tmp_path / "plain", template=None)
    with pytest.raises(ConfigurationError, match="no chat template"):
        train_adapter(TRAJECTORIES, tmp_path, {}, base=plain)
    with pytest.raises(DataError, match="no trajectory has a thought"):
        train_adapter([replace(TRAJECTORIES[0], turns=())], tmp_path, {}, base=base)
