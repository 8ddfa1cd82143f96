"""The model policy's training: LoRA by trl and peft, with loss on what the agent writes alone.

SymAgent 4.3.2 (equation 8), appendix A.2 and table 6. On CUDA in bfloat16 with gradient checkpointing, else
on the CPU in float32. What is saved is a peft adapter, which vLLM serves with its base model.
"""

from __future__ import annotations

import json
import shlex
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import write_json
from triplewise.tools.learning.trajectory import Messages, Trajectory, training_conversation

Progress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with what is being done, how much of it is done, and of how much (None where that is unknown)."""

REPORT = "training.json"
"""Written last: the adapter in the same folder is then complete."""
PLAIN_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}{% generation %}"
    "{{ message['content'] + eos_token }}{% endgeneration %}{{ '\\n\\n' }}"
    "{% else %}{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}"
)
"""The chat template for a model that comes without one; saved with the adapter, to be served with it."""


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
    targets: Sequence[str] = tuple(f"{name}_proj" for name in ("q", "k", "v", "o", "down", "up", "gate"))
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
    def of(cls, values: Mapping[str, Any]) -> LoraSettings:
        """Read settings from plain JSON. Raises `ConfigurationError` on an unknown name."""
        legal = {f.name for f in fields(cls)}
        for name in values.keys() - legal:
            raise ConfigurationError.unknown("setting of LoRA", name, legal)
        return cls(**values)


def train_served_adapter(
    trajectories: Sequence[Trajectory],
    into: Path,
    iteration: int,
    settings: Mapping[str, Any],
    progress: Progress,
    *,
    base: str,
    url: str,
    key: str,
    lora: LoraSettings,
) -> dict[str, Any]:
    """Train an adapter of a language model and return the settings that use it: a `Learner`.

    Each update trains on the adapter of the one before (SymAgent 4.3.2). `base` is what is trained, by hub
    name or folder: the model that the server at `url`, `http://HOST:PORT/v1`, serves. Where that lacks
    the adapter, a `ConfigurationError` says the command that starts it so, and how to go on.
    """
    import openai

    before, name = str(settings.get("model", "")).removeprefix("openai:"), into.name
    previous = into.parent / before if before else None
    train_adapter(trajectories, into, base=base, previous=previous, settings=lora, progress=progress)
    with openai.OpenAI(base_url=url, api_key=key, max_retries=1) as client:
        if name not in {model.id for model in client.models.list()}:
            module = shlex.quote(f"{name}={into.resolve()}")
            raise ConfigurationError(
                f"the adapter is trained; the server at {url} does not serve it yet. Start it with it "
                f"and go on with --resume:\n  vllm serve {shlex.quote(base)} --enable-lora "
                f"--max-lora-rank {lora.rank} --lora-modules {module}"
            )
    return {"model": f"openai:{name}"}


def train_adapter(
    trajectories: Sequence[Trajectory],
    into: Path,
    *,
    base: str,
    settings: LoraSettings,
    previous: Path | None = None,
    progress: Progress = lambda doing, done, total: None,
) -> dict[str, Any]:
    """Train an adapter on trajectories and save it, with its tokenizer, in a folder.

    A training that was killed goes on from its last checkpoint; one that is complete is not repeated.

    Args:
        trajectories: with `system` and `prompt`, as the model acted on them.
        base: the model, by hub name or folder. previous: an adapter to train on, instead of a new one.

    Returns the number of examples and steps, and the loss at the first and the last steps. Raises
    `ConfigurationError` where the base model or the previous adapter cannot be loaded, or trl is missing, and
    `DataError` where no trajectory has anything to learn.
    """
    if (into / REPORT).is_file():
        done: dict[str, Any] = json.loads((into / REPORT).read_text(encoding="utf-8"))
        return done
    tokenizer = load_tokenizer(base)
    # An observation may have as many characters as an example has tokens: about a quarter of it.
    conversations = [c for t in trajectories if (c := training_conversation(t, settings.max_tokens))]
    if not conversations:
        raise DataError("no trajectory has a thought or an action to learn from", into)
    records = training_records(tokenizer, conversations)
    model, checkpoints = load_with_adapter(base, previous, settings), into / "checkpoints"
    trainer = make_trainer(model, tokenizer, records, checkpoints, settings, progress)
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    trainer.model.save_pretrained(into)
    tokenizer.save_pretrained(into)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    edge = max(len(losses) // 10, 1)
    report = {
        "base": base,
        "examples": len(conversations),
        "steps": trainer.state.global_step,
        "loss_first": sum(losses[:edge]) / edge,
        "loss_last": sum(losses[-edge:]) / edge,
        "settings": asdict(settings),
    }
    write_json(into / REPORT, report, indent=1)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return report


def training_records(tokenizer: Any, conversations: Sequence[Messages]) -> list[dict[str, Any]]:
    """Return conversations as trl learns from them, with loss on assistant messages alone (equation 8).

    One record a conversation (`messages`) where the chat template marks what the assistant writes, or trl
    knows how to mark it; else one record an action (`prompt`, `completion`), which any template can do.
    Templates that know no system message get it as the beginning of the first user message; one that refuses
    conversations of the agent altogether raises `ConfigurationError`.
    """
    from jinja2 import TemplateError

    try:
        tokenizer.apply_chat_template(conversations[0], tokenize=False)
    except TemplateError:
        merged = []
        for system, question, *rest in conversations:
            content = f"{system['content']}\n\n{question['content']}".strip()
            merged.append([{"role": "user", "content": content}, *rest])
        conversations = merged
    try:
        tokenizer.apply_chat_template(conversations[0], tokenize=False)
    except TemplateError as error:
        raise ConfigurationError(
            f"the chat template of {tokenizer.name_or_path} refuses conversations of the agent: {error}"
        ) from error
    try:
        _library("trl.chat_template_utils").get_training_chat_template(tokenizer)
    except (ValueError, TemplateError):
        return [
            {"prompt": messages[:at], "completion": [message]}
            for messages in conversations
            for at, message in enumerate(messages)
            if message["role"] == "assistant"
        ]
    return [{"messages": messages} for messages in conversations]


def load_tokenizer(base: str) -> Any:
    """Load the tokenizer of a model, with a chat template and a token to pad with."""
    try:
        tokenizer = _library("transformers").AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise _unloadable(base, error) from error
    if not tokenizer.chat_template:
        tokenizer.chat_template = PLAIN_TEMPLATE
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def load_with_adapter(base: str, previous: Path | None, settings: LoraSettings) -> Any:
    """Load a model with a trainable adapter: a new one, or one trained before."""
    import torch

    peft, transformers = _library("peft"), _library("transformers")
    transformers.set_seed(settings.seed)
    transformers.utils.logging.disable_progress_bar()
    is_half = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            base, dtype=torch.bfloat16 if is_half else torch.float32
        )
    except (OSError, ValueError) as error:
        raise _unloadable(base, error) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses what transformers will drop one day
        if previous is None:
            config = peft.LoraConfig(
                r=settings.rank,
                lora_alpha=settings.alpha,
                lora_dropout=settings.dropout,
                target_modules=list(settings.targets),
                task_type="CAUSAL_LM",
            )
            return peft.get_peft_model(model, config)
        try:
            return peft.PeftModel.from_pretrained(model, str(previous), is_trainable=True)
        except (OSError, ValueError) as error:
            raise _unloadable(str(previous), error) from error


def make_trainer(
    model: Any,
    tokenizer: Any,
    records: Sequence[Mapping[str, Any]],
    checkpoints: Path,
    settings: LoraSettings,
    progress: Progress,
) -> Any:
    """Make the `SFTTrainer` of an adapter; its checkpoints go to a folder of their own."""
    import torch

    trl, datasets, transformers = _library("trl"), _library("datasets"), _library("transformers")
    datasets.disable_progress_bars()
    cuda = torch.cuda.is_available()
    config = trl.SFTConfig(
        output_dir=str(checkpoints),
        assistant_only_loss="messages" in records[0],
        max_length=settings.max_tokens,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulation,
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=settings.warmup,
        optim="adamw_torch",
        bf16=model.dtype == torch.bfloat16,
        use_cpu=not cuda,
        activation_checkpointing=cuda if settings.checkpointing is None else settings.checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False},
        save_steps=settings.save_steps,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=cuda,
        seed=settings.seed,
        data_seed=settings.seed,
    )
    trainer = trl.SFTTrainer(
        model=model,
        args=config,
        train_dataset=datasets.Dataset.from_list([dict(record) for record in records]),
        processing_class=tokenizer,
        callbacks=[progress_callback(progress)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def last_checkpoint(checkpoints: Path) -> str | None:
    """Return the newest checkpoint that was written to its end; None without one. Others are removed.

    The trainer's state is written last, so one without it was cut short by a kill.
    """
    complete = []
    for folder in checkpoints.glob("checkpoint-*"):
        try:
            json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            complete.append(folder)
    newest = max(complete, key=lambda f: int(f.name.rpartition("-")[2]), default=None)
    return str(newest) if newest else None


def progress_callback(progress: Progress) -> Any:
    """Return a callback for a transformers trainer that passes on how many steps are done."""
    import transformers

    class ProgressCallback(transformers.TrainerCallback):
        """Passes on each step, and the loss on held-out examples."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("training", state.global_step, state.max_steps)

        on_step_end = on_train_begin

        def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            loss = rest["metrics"]["eval_loss"]
            progress(f"loss {loss:.3f} on held-out questions", state.global_step, state.max_steps)

    return ProgressCallback()


def _library(name: str) -> Any:
    """Import a library of the extra `learn`. Raises `ConfigurationError` if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"training needs {name}: install it with pip install 'triplewise[learn]'"
        ) from error


def _unloadable(name: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"model {name!r} cannot be loaded ({error}); give --base-model a folder or a name on the model hub"
    )
