"""The model policy's training: LoRA by transformers and peft (SymAgent A.2, table 6, equation 8).

On CUDA in bfloat16 with gradient checkpointing, else on the CPU in float32. What is saved is a peft adapter,
which vLLM serves beside its base model.
"""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.learning.masking import IGNORED, Example, examples_of, with_template
from triplewise.tools.learning.policies import Json, Progress
from triplewise.tools.learning.trajectory import Trajectory

if TYPE_CHECKING:
    import torch
    from transformers import Trainer

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "down_proj", "up_proj", "gate_proj")
TRAINED = "training.json"
"""Written last: an adapter beside it is complete."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """How an adapter is trained; the defaults are the paper's (A.2 and table 6).

    Attributes:
        rank, alpha, dropout, targets: of the adapter. learning_rate: at its highest, with AdamW.
        epochs: passes over the training set. batch: examples at once on a device; accumulation: batches for
            one step. warmup: share of the steps in which the rate rises, before it falls as a cosine.
        max_tokens: longest example. save_steps: steps between checkpoints, which a killed training goes on
            from. seed: of the adapter's first weights and of the order of examples.
        checkpointing: compute activations twice to save memory; None does so on CUDA.
    """

    rank: int = 32
    alpha: int = 32
    dropout: float = 0.05
    targets: tuple[str, ...] = PROJECTIONS
    learning_rate: float = 2e-5
    epochs: float = 3.0
    batch: int = 2
    accumulation: int = 2
    warmup: float = 0.05
    max_tokens: int = 4096
    save_steps: int = 50
    seed: int = 0
    checkpointing: bool | None = None

    @classmethod
    def of(cls, values: Mapping[str, Json]) -> LoraSettings:
        """From plain JSON. Raises `ConfigurationError` on an unknown name."""
        legal = {f.name for f in fields(cls)}
        for name in values:
            if name not in legal:
                raise ConfigurationError.unknown("setting of LoRA", name, legal)
        given = dict(values)
        if isinstance(given.get("targets"), list):
            given["targets"] = tuple(given["targets"])
        return cls(**given)


def train_adapter(
    trajectories: Sequence[Trajectory],
    into: Path,
    *,
    base: str,
    previous: Path | None = None,
    settings: LoraSettings | None = None,
    progress: Progress = lambda doing, done, total: None,
) -> dict[str, Json]:
    """Train an adapter on trajectories and save it, with its tokenizer, in a folder.

    A training that was killed goes on from its last checkpoint; one that is complete is not repeated.

    Args:
        trajectories: with `system` and `prompt`, as the model acted on them.
        into: the folder. base: the model, by hub name or folder.
        previous: an adapter to train on, instead of a new one.
        settings: see `LoraSettings`. progress: is told the steps done.

    Returns:
        What was done: examples, how many of them were cut, learned tokens, steps, and the loss at the first
        and the last steps.

    Raises:
        ConfigurationError: the base model or the previous adapter cannot be loaded, or peft is missing.
        DataError: no trajectory has anything to learn.
    """
    if (into / TRAINED).is_file():
        done: dict[str, Json] = json.loads((into / TRAINED).read_text(encoding="utf-8"))
        return done
    settings = settings or LoraSettings()
    tokenizer = with_template(load_tokenizer(base))
    examples, cut = examples_of(tokenizer, [t for t in trajectories if t.turns], settings.max_tokens)
    if not examples:
        raise DataError("no trajectory has a thought or an action to learn from", into)
    if cut:
        _log.warning("%d of %d trajectories were cut to %d tokens", cut, len(examples), settings.max_tokens)
    into.mkdir(parents=True, exist_ok=True)
    work = into / "checkpoints"
    trainer = trainer_of(adapted(base, previous, settings), examples, tokenizer, work, settings, progress)
    trainer.train(resume_from_checkpoint=last_checkpoint(work))
    model: Any = trainer.model
    model.save_pretrained(into)
    tokenizer.save_pretrained(into)
    report = _report(trainer, examples, cut, base, settings)
    beside = into / f"{TRAINED}.part"
    beside.write_text(json.dumps(report, indent=1), encoding="utf-8")
    beside.replace(into / TRAINED)
    shutil.rmtree(work, ignore_errors=True)
    return report


def load_tokenizer(base: str) -> Any:
    """The tokenizer of a model. Raises `ConfigurationError` if it cannot be loaded."""
    transformers = _library("transformers")
    try:
        return transformers.AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise _unloadable(base, error) from error


def load_base(base: str) -> Any:
    """A causal language model. Raises `ConfigurationError` if it cannot be loaded."""
    import torch

    transformers = _library("transformers")
    dtype = torch.bfloat16 if _bf16() else torch.float32
    transformers.utils.logging.disable_progress_bar()
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    except (OSError, ValueError) as error:
        raise _unloadable(base, error) from error


def adapted(base: str, previous: Path | None, settings: LoraSettings) -> Any:
    """A model with a trainable adapter: a new one, or one trained before."""
    peft, transformers = _library("peft"), _library("transformers")
    transformers.set_seed(settings.seed)
    model = load_base(base)
    if previous is not None:
        try:
            with _quiet():
                return peft.PeftModel.from_pretrained(model, str(previous), is_trainable=True)
        except (OSError, ValueError) as error:
            raise _unloadable(str(previous), error) from error
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
    )
    with _quiet():
        return peft.get_peft_model(model, config)


def trainer_of(
    model: Any,
    examples: Sequence[Example],
    tokenizer: Any,
    work: Path,
    settings: LoraSettings,
    progress: Progress,
) -> Trainer:
    """The trainer of an adapter; its checkpoints go to `work`."""
    import torch

    transformers = _library("transformers")
    cuda = torch.cuda.is_available()
    arguments = transformers.TrainingArguments(
        output_dir=str(work),
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulation,
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        optim="adamw_torch",
        bf16=_bf16(),
        use_cpu=not cuda,
        activation_checkpointing=cuda if settings.checkpointing is None else settings.checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False},
        save_steps=settings.save_steps,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
        seed=settings.seed,
        data_seed=settings.seed,
    )
    trainer: Trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=list(examples),
        data_collator=lambda rows: collate(rows, tokenizer.pad_token_id or 0),
        callbacks=[_teller(progress)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def collate(rows: Sequence[Example], pad: int) -> dict[str, torch.Tensor]:
    """Examples as one batch, padded behind: ids, attention and labels of shape (examples, longest)."""
    import torch

    longest = max(len(row.input_ids) for row in rows)

    def padded(values: Sequence[Sequence[int]], filler: int) -> torch.Tensor:
        return torch.tensor([[*v, *[filler] * (longest - len(v))] for v in values])

    return {
        "input_ids": padded([r.input_ids for r in rows], pad),
        "attention_mask": padded([[1] * len(r.input_ids) for r in rows], 0),
        "labels": padded([r.labels for r in rows], IGNORED),
    }


def last_checkpoint(work: Path) -> str | None:
    """The newest checkpoint that was written to its end; None without one. Others are removed.

    The trainer's state is written last, so one without it was cut short by a kill.
    """
    whole = []
    for folder in work.glob("checkpoint-*"):
        try:
            json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            whole.append(folder)
    newest = max(whole, key=lambda f: int(f.name.rpartition("-")[2]), default=None)
    return str(newest) if newest else None


def _teller(progress: Progress) -> Any:
    """A callback that tells how many steps are done."""
    transformers = _library("transformers")

    class Teller(transformers.TrainerCallback):  # type: ignore[name-defined, misc]
        """Tells each step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("train", state.global_step, state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("train", state.global_step, state.max_steps)

    return Teller()


def _report(
    trainer: Any, examples: Sequence[Example], cut: int, base: str, settings: LoraSettings
) -> dict[str, Json]:
    """What a training did."""
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    edge = max(len(losses) // 10, 1)
    return {
        "base": base,
        "examples": len(examples),
        "cut": cut,
        "learned_tokens": sum(e.learned for e in examples),
        "steps": trainer.state.global_step,
        "loss_first": sum(losses[:edge]) / edge,
        "loss_last": sum(losses[-edge:]) / edge,
        "settings": asdict(settings),
    }


def _bf16() -> bool:
    """Whether the device computes in bfloat16."""
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without word of what one library uses of another that will be gone one day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _library(name: str) -> Any:
    """A library of the extra `learn`. Raises `ConfigurationError` if it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"training needs {name}: install it with pip install 'triplewise[learn]'"
        ) from error


def _unloadable(name: str, error: Exception) -> ConfigurationError:
    """A model that cannot be loaded."""
    return ConfigurationError(
        f"model {name!r} cannot be loaded ({error}); give --base-model a folder or a name on the model hub"
    )
