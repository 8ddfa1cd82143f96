"""The model policy's training: LoRA by trl and peft, with loss on what the agent writes alone.

SymAgent 4.3.2 (equation 8), appendix A.2 and table 6. On CUDA in bfloat16 with gradient checkpointing, else
on the CPU in float32. What is saved is a peft adapter, which vLLM serves with its base model.
"""

from __future__ import annotations

import shlex
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import peft
import torch
import transformers
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import packaged, write_json
from triplewise.tools.kg.rdf import Progress
from triplewise.tools.learning.encoder_training import ProgressCallback
from triplewise.tools.learning.trajectory import Trajectory, conversation

REPORT = "training.json"  # Written last: the adapter in the same folder is then complete
MAX_TOKENS = 4096
LORA, TRAINING = packaged("triplewise.tools.learning", "adapter.yaml").values()
"""What an adapter is and how it is trained: the paper's settings (A.2 and table 6), of peft and of trl."""


def train_adapter(
    trajectories: Sequence[Trajectory],
    into: Path,
    settings: Mapping[str, Any],
    progress: Progress = lambda doing, done, total: None,
    *,
    base: str,
) -> dict[str, Any]:
    """Train an adapter of a language model, a Hugging Face name or a folder: a `Learner`.

    Each update trains on the adapter of the one before (SymAgent 4.3.2); one that was killed goes on from its
    last checkpoint. When it is done, a `ConfigurationError` says how to serve the adapter; called again, it
    returns the settings that use it.
    """
    if (into / REPORT).is_file():
        return {"model": f"openai:{into.name}"}
    before = str(settings.get("model", "")).removeprefix("openai:")
    trainer = make_trainer(trajectories, into, base, into.parent / before if before else None, progress)
    # The trainer's state is written last: a checkpoint without it was cut short by a kill.
    whole = [state.parent for state in into.glob("checkpoints/checkpoint-*/trainer_state.json")]
    newest = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    trainer.model.save_pretrained(into)
    trainer.processing_class.save_pretrained(into)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    shutil.rmtree(into / "checkpoints", ignore_errors=True)
    write_json(into / REPORT, {"base": base, "examples": len(trajectories), "losses": losses}, indent=1)
    module = shlex.quote(f"{into.name}={into.resolve()}")
    options = f"--enable-lora --max-lora-rank {LORA['r']} --lora-modules {module}"
    command = f"vllm serve {shlex.quote(base)} {options}"
    raise ConfigurationError(f"the adapter is trained; serve it and run the same command again:\n  {command}")


def make_trainer(
    trajectories: Sequence[Trajectory], into: Path, base: str, previous: Path | None, progress: Progress
) -> Any:
    """Make the `SFTTrainer` of an adapter: a record an action, with loss on the completion (equation 8)."""
    records = [record for t in trajectories for record in training_records(t)]
    if not records:
        raise DataError("no trajectory has a thought or an action to learn from", into)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers.set_seed(0)
    cuda = torch.cuda.is_available()
    dtype = torch.bfloat16 if cuda and torch.cuda.is_bf16_supported() else torch.float32
    config = SFTConfig(
        output_dir=str(into / "checkpoints"),
        max_length=MAX_TOKENS,
        bf16=dtype == torch.bfloat16,
        use_cpu=not cuda,
        activation_checkpointing=cuda,
        dataloader_pin_memory=cuda,
        **TRAINING,
    )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(base)
        if not tokenizer.chat_template:
            raise ValueError("it has no chat template, so it is not made for conversations")
        # peft uses what transformers will drop one day
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
            if previous is None:
                model = peft.get_peft_model(model, peft.LoraConfig(**LORA))
            else:
                model = peft.PeftModel.from_pretrained(model, str(previous), is_trainable=True)
    except (OSError, ValueError) as error:
        fix = "the model must be called by its folder or its name on Hugging Face"
        message = f"model {str(previous or base)!r} cannot be loaded ({error}); {fix}"
        raise ConfigurationError(message) from error
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=datasets.Dataset.from_list(records),
        processing_class=tokenizer,
        callbacks=[ProgressCallback(progress)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def training_records(trajectory: Trajectory, observation_limit: int = MAX_TOKENS) -> list[dict[str, Any]]:
    """Return each action with what led to it, as trl learns: `prompt` (messages) and `completion` (one).

    Replies without an action are left out with their observation. An observation, which may list thousands of
    values, is cut to `observation_limit` characters, about a quarter of an example.
    """
    messages = conversation(trajectory.system, trajectory.prompt, trajectory.turns)
    shown, records = messages[:2], []
    for turn, reply, observation in zip(trajectory.turns, messages[2::2], messages[3::2], strict=True):
        if turn.call:
            records.append({"prompt": list(shown), "completion": [reply]})
            text = observation["content"]
            cut = text if len(text) <= observation_limit else f"{text[: observation_limit - 4]} ..."
            shown += [reply, {**observation, "content": cut}]
    return records
