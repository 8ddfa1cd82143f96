"""Updating the offline policy: the encoder learns which path a question asks for (SymAgent 4.3.2).

The action of the offline policy is the choice of a relation path, so the loss of equation 8 is that of a
choice: softmax over the similarity of the question with the path taken and with others, which were offered on
the way and not taken, stop early, or go on too far. Gradients reach a LoRA adapter only.
"""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from peft import LoraConfig
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch.nn import functional

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import packaged, write_json
from triplewise.tools.kg.load import scratch_folder
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import Progress
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.planning.seeds import masked
from triplewise.tools.retrieval import encoder as encoders
from triplewise.tools.retrieval.similarity import walked_text

HELD_OUT = 0.15  # Share of the examples that choose the best epoch
LEAST_EXAMPLES = 4
LEAST_F1 = 0.1
"""Trajectories whose answers are worse teach nothing: their recall comes from reaching everything."""
LONGER, NEGATIVES = 2, 5
"""Paths a question that go one relation beyond the right one, and paths not taken that are shown with it."""
LAYERS, UPPER = 6, 2  # Layers of all-MiniLM-L6-v2, and how many of them learn, from the top
MODULES = r"attention\.self\.(query|key|value)|attention\.output\.dense|intermediate\.dense|output\.dense"
RANK, ALPHA, DROPOUT = 16, 32, 0.05  # Of LoRA: its scale is alpha / rank
EPOCHS, PATIENCE = 10, 3
"""Most passes, and those without a better one after which learning ends; the best one is kept."""
BATCH, RATE = 16, 1e-3
"""Questions a step, whose paths are each other's negatives; peak learning rate, warmed up and decayed."""
TEMPERATURE = 0.05  # Of the softmax over paths
PATH_WEIGHT = 4.0
"""Weight of what is learned next to the score of single words: what held-out questions of WebQSP chose."""

Chain = tuple[tuple[str, bool], ...]  # Relations by short id, each with whether it is walked forward


def train_encoder(
    trajectories: Sequence[Trajectory],
    into: Path,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = lambda doing, done, total: None,
    *,
    kg: KnowledgeGraph,
    base: str = encoders.EMBEDDED,
) -> dict[str, Any]:
    """Train the MiniLM encoder on relation choices: a `Learner`; minutes on two cores.

    Learning goes on from the `encoder` of the settings, which was learned before, else from `base`. The
    folder appears complete or not at all. Raises `ConfigurationError` on too few trajectories.
    """
    base = str((settings or {}).get("encoder", base))
    if into.is_dir():
        return {"encoder": str(into)}
    encoder = encoders.open_encoder(base)
    learned = None if base == encoders.EMBEDDED else Path(base)
    useful = [t for t in trajectories if t.choices and t.f1 >= LEAST_F1]
    if len(useful) < LEAST_EXAMPLES:
        few = f"only {len(useful)} of {len(trajectories)} trajectories chose relations and found answers"
        fix = f"at least {LEAST_EXAMPLES} are needed: give more questions, or a KG that holds their answers"
        raise ConfigurationError(f"{few}, {fix}")
    # A hash decides, so that no iteration learns from what an earlier one has held out.
    held = [t for t in useful if zlib.crc32(t.question.encode()) < HELD_OUT * 2**32]
    held = held[: len(useful) // 2] or useful[:1]
    parts = [t for t in useful if t not in held], held
    train, validation = (datasets.Dataset.from_list(training_rows(part, kg, encoder)) for part in parts)
    datasets.disable_progress_bars()
    with scratch_folder(into, progress) as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = model_with_adapter(learned)
        trainer = SentenceTransformerTrainer(
            model=model,
            args=SentenceTransformerTrainingArguments(
                output_dir=str(folder / "checkpoints"),
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=BATCH,
                num_train_epochs=EPOCHS,
                learning_rate=RATE,
                **packaged("triplewise.tools.learning", "encoder.yaml"),
            ),
            train_dataset=train,
            eval_dataset=validation,
            loss=ChoiceLoss(model),
            callbacks=[ProgressCallback(progress), transformers.EarlyStoppingCallback(PATIENCE)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        transformer: Any = model[0]
        transformer.auto_model.save_pretrained(folder)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        record = {"base": base, "trajectories": len(trajectories)}
        record |= {"scale": ALPHA / RANK, "path_weight": PATH_WEIGHT, "weights": encoders.WEIGHTS_SHA256}
        write_json(folder / encoders.LEARNED, record, indent=1)
        folder.rename(into)
    return {"encoder": str(into)}


def training_rows(
    trajectories: Sequence[Trajectory], kg: KnowledgeGraph, encoder: encoders.Encoder
) -> list[dict[str, Any]]:
    """Return trajectories as texts: the masked `question`, the chosen `path`, `negative_1` ... and `label`.

    The label is the weight, the F1 of the answers. Two thirds of the negatives are nearest to the question by
    the encoder as it is now, the others are drawn; where there are fewer, its own path gives no loss.
    """

    def chain(*choices: str) -> Chain:
        return tuple((choice.removeprefix("^"), not choice.startswith("^")) for choice in choices)

    steps = sorted({step for t in trajectories for c in t.choices for step in chain(*c.offered)})
    used = {r for t in trajectories for c in t.choices for r, _ in chain(*c.offered, *c.before, c.chosen)}
    texts, rows, drawn = relation_texts(kg, sorted(used)), list[dict[str, Any]](), NEGATIVES // 3
    for trajectory in trajectories:
        # A second chain of the rule, from another topic entity, begins without a way there.
        first, *later = trajectory.choices
        choices = [first, *takewhile(lambda choice: bool(choice.before), later)]
        taken, rng = chain(*choices[-1].before, choices[-1].chosen), random.Random(trajectory.id)
        paths = [chain(*choice.before, offered) for choice in choices for offered in choice.offered]
        paths += [(*taken, step) for step in rng.sample(steps, min(LONGER, len(steps)))]
        low = trajectory.question.casefold()
        starts = ((low.find(mention.casefold()), len(mention)) for mention in trajectory.entities if mention)
        question = masked(trajectory.question, [(at, at + length) for at, length in starts if at >= 0])
        path, *others = dict.fromkeys(walked_text(texts, p) for p in [taken, *paths])
        if others:
            similarity = encoder.encode(others) @ encoder.encode([question])[0]
            others = [others[i] for i in (-similarity).argsort(kind="stable")]
        near, rest = others[: NEGATIVES - drawn], others[NEGATIVES - drawn :]
        shown = [*near, *rng.sample(rest, min(drawn, len(rest))), *[path] * NEGATIVES][:NEGATIVES]
        columns = {f"negative_{i}": text for i, text in enumerate(shown, 1)}
        rows.append({"question": question, "path": path, **columns, "label": trajectory.f1})
    return rows


def model_with_adapter(learned: Path | None = None) -> SentenceTransformer:
    """Return all-MiniLM-L6-v2 with a LoRA adapter on its upper layers: a new one, or a learned encoder's."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # What is frozen gives the same vectors every time: dropout is the adapter's alone.
    model = SentenceTransformer(
        str(encoders.weights_file().parent),
        device="cpu",
        local_files_only=True,
        config_kwargs={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    )
    model.model_card_data.widget = [{}]  # no examples for a model card that nobody reads
    if learned is not None:
        model.load_adapter(str(learned), is_trainable=True)
        return model
    layers = "|".join(str(i) for i in range(LAYERS - UPPER, LAYERS))
    target = rf".*encoder\.layer\.({layers})\.({MODULES})"
    lora = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=DROPOUT, bias="none", target_modules=target)
    model.add_adapter(lora)
    return model


class ChoiceLoss(torch.nn.Module):
    """The loss of choosing a path: mean cross-entropy over questions, weighed by their labels.

    Every path of the batch that reads otherwise than the chosen one is a negative, once.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, columns: list[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of tokenised texts, the questions first, then their paths."""
        rows, longest = len(labels), max(column["input_ids"].shape[1] for column in columns)
        parts = ([column[key] for column in columns] for key in ("input_ids", "attention_mask"))
        padded = ([functional.pad(p, (0, longest - p.shape[1])) for p in part] for part in parts)
        tokens, mask = map(torch.cat, padded)
        embedded = self.model({"input_ids": tokens, "attention_mask": mask})["sentence_embedding"]
        vectors = functional.normalize(embedded, dim=-1)
        scores = vectors[:rows] @ vectors[rows:].T / TEMPERATURE  # (questions, paths)
        same = (tokens[rows:, None] == tokens[None, rows:]).all(-1)
        left_out = same[:rows] | same.tril(-1).any(1)  # the chosen text, and what came before it
        left_out.fill_diagonal_(False)
        scores = scores.masked_fill(left_out, -torch.inf)
        losses = functional.cross_entropy(scores, torch.arange(rows), reduction="none")
        return (losses * labels).sum() / labels.sum()


class ProgressCallback(transformers.TrainerCallback):
    """Passes on the steps of a trainer."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Pass on the steps."""
        self.progress("training", state.global_step, state.max_steps)

    on_train_begin = on_step_end
