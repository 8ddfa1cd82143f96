"""Updating the embedded policy: the encoder learns which path a question asks for (SymAgent 4.3.2).

Equation 8 fits a language model to the actions of the merged trajectories. The action of the embedded policy
is the choice of a relation path, so its loss is that of a choice: softmax over the similarity of the question
with the path taken and with others. A path is a negative if it was offered on the way and not taken, if it
stops early, or if it goes on too far. Gradients reach a LoRA adapter only; the base weights stay.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
import transformers
from peft import LoraConfig
from safetensors.numpy import save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch.nn import functional

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import write_json
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.parsing.similarity import walked_text
from triplewise.tools.planning.seeds import masked
from triplewise.tools.retrieval import encoder as encoders

HELD_OUT = 0.15  # Share of the examples that choose the best epoch
LEAST_SURE = 0.1  # A right path's similarity is taken to be this at least
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
"""Weight of what is learned beside the score of single words: what held-out questions of WebQSP chose."""

Chain = tuple[tuple[str, bool], ...]
"""Relations by short id, each with whether it is walked forward."""
Progress = Callable[[str, int, int | None], object]
"""Called with what is being done, how much of it is done, and of how much (None where that is unknown)."""


class PathExample(NamedTuple):
    """A question as written and with its mentions masked, the path taken, others, the F1 of its answers."""

    question: str
    masked: str
    chosen: Chain
    others: tuple[Chain, ...]
    weight: float


def train_encoder(
    trajectories: Sequence[Trajectory],
    into: Path,
    iteration: int = 0,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = lambda doing, done, total: None,
    *,
    kg: KnowledgeGraph,
    base: str = encoders.EMBEDDED,
    seed: int = 0,
) -> dict[str, Any]:
    """Train the embedded encoder on relation choices: a `Learner`; minutes on two cores.

    Trajectories without choices or answers are left out. Learning goes on from the `encoder` of the settings,
    which was learned before, else from `base`. The folder appears complete or not at all; the same seed and
    iteration give the same encoder. Raises `ConfigurationError` on too few trajectories to learn from, or a
    base that cannot learn.
    """
    base, seed = str((settings or {}).get("encoder", base)), seed + iteration
    if into.is_dir():
        return {"encoder": str(into)}
    encoder = encoders.open_encoder(base)
    learned = encoder if isinstance(encoder, encoders.LearnedEncoder) else None
    if base != encoders.EMBEDDED and learned is None:
        raise ConfigurationError(
            f"encoder {base!r} cannot learn; only {encoders.EMBEDDED!r} and what it learned can"
        )
    examples = path_examples(trajectories, seed)
    if len(examples) < LEAST_EXAMPLES:
        raise ConfigurationError(
            f"only {len(examples)} of {len(trajectories)} trajectories chose relations and found answers, at "
            f"least {LEAST_EXAMPLES} are needed: give more questions, or a KG that holds their answers"
        )
    progress("reading relations", 0, None)
    parts = hold_out(examples, seed)
    train, validation = (training_rows(part, kg, encoder, seed) for part in parts)
    into.parent.mkdir(parents=True, exist_ok=True)
    for leftover in into.parent.glob(f".{into.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as folder:
        part = Path(folder) / into.name
        _train_adapter(train, validation, part, None if learned is None else Path(base), seed, progress)
        record = {
            "scale": ALPHA / RANK,
            "path_weight": PATH_WEIGHT,
            "sure": LEAST_SURE,
            "base": base,
            "weights": encoders.WEIGHTS_SHA256,
            "seed": seed,
            "trajectories": len(trajectories),
            "iteration": 1 if learned is None else learned.iteration + 1,
        }
        write_json(part / encoders.LEARNED, record, indent=1)
        trained = encoders.LearnedEncoder(part)
        # The similarity that three in four right paths of held-out questions reach counts as sure.
        right = [path_similarities(kg, trained, e.masked, [e.chosen])[0] for e in parts[1]]
        record["sure"] = max(LEAST_SURE, float(np.quantile(right, 0.25)))
        write_json(part / encoders.LEARNED, record, indent=1)
        part.rename(into)
    return {"encoder": str(into)}


def path_examples(trajectories: Iterable[Trajectory], seed: int = 0) -> list[PathExample]:
    """Return the examples of trajectories that chose relations and found answers, in their order."""

    def chain(*choices: str) -> Chain:
        return tuple((choice.removeprefix("^"), not choice.startswith("^")) for choice in choices)

    useful = [t for t in trajectories if t.choices and t.f1 >= LEAST_F1]
    steps = sorted({step for t in useful for c in t.choices for step in chain(*c.offered)})
    examples = []
    for trajectory in useful:
        # A second chain of the rule, from another topic entity, begins without a way there.
        first, *later = trajectory.choices
        choices = [first, *takewhile(lambda choice: bool(choice.before), later)]
        chosen = chain(*choices[-1].before, choices[-1].chosen)
        others = [chain(*choice.before, offered) for choice in choices for offered in choice.offered]
        longer = random.Random(f"{seed} {trajectory.id}").sample(steps, min(LONGER, len(steps)))
        others += [(*chosen, step) for step in longer]
        low = trajectory.question.casefold()
        starts = ((low.find(mention.casefold()), len(mention)) for mention in trajectory.entities if mention)
        text = masked(trajectory.question, [(at, at + length) for at, length in starts if at >= 0])
        different = tuple(path for path in dict.fromkeys(others) if path != chosen)
        examples.append(PathExample(trajectory.question, text, chosen, different, trajectory.f1))
    return examples


def hold_out(examples: Sequence[PathExample], seed: int) -> tuple[list[PathExample], list[PathExample]]:
    """Split examples into those to learn from and those held out, neither empty of two or more.

    A hash of the question decides: what an iteration of self-learning holds out was held out before it too.
    """

    def share(example: PathExample) -> float:
        digest = hashlib.sha256(f"held out {seed} {example.question}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64

    ordered = sorted(examples, key=share)
    count = min(max(sum(share(e) < HELD_OUT for e in ordered), 1), len(ordered) - 1)
    return ordered[count:], ordered[:count]


def training_rows(
    examples: Sequence[PathExample], kg: KnowledgeGraph, encoder: encoders.Encoder, seed: int
) -> list[dict[str, Any]]:
    """Return examples as texts: `question`, `path` (the chosen one), `negative_1` ..., and `label` (weight).

    Two thirds of the negatives are those nearest to the question by the encoder as it is now, the others are
    drawn; a question with fewer has its own path in their place, which gives no loss.
    """
    texts = relation_texts(
        kg, sorted({r for e in examples for path in (e.chosen, *e.others) for r, _ in path})
    )
    rows = []
    for number, example in enumerate(examples):
        question, chosen = example.masked, walked_text(texts, example.chosen)
        others = [t for t in dict.fromkeys(walked_text(texts, p) for p in example.others) if t != chosen]
        if others:
            similarity = encoder.encode(others) @ encoder.encode([question])[0]
            others = [others[i] for i in (-similarity).argsort(kind="stable")]
        count = NEGATIVES // 3
        near, rest = others[: NEGATIVES - count], others[NEGATIVES - count :]
        drawn = random.Random(f"{seed} {number}").sample(rest, min(count, len(rest)))
        shown = [*near, *drawn, *[chosen] * NEGATIVES][:NEGATIVES]
        columns = {f"negative_{i}": text for i, text in enumerate(shown, 1)}
        rows.append({"question": question, "path": chosen, **columns, "label": example.weight})
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

    A row of a batch is a question, its path, and negatives. Every path of the batch that reads otherwise than
    the chosen one is a negative, once.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, columns: list[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of tokenised texts, the questions first, then their paths."""
        rows, longest = len(labels), max(column["input_ids"].shape[1] for column in columns)
        tokens, mask = (
            torch.cat([functional.pad(c[key], (0, longest - c[key].shape[1])) for c in columns])
            for key in ("input_ids", "attention_mask")
        )
        embedded = self.model({"input_ids": tokens, "attention_mask": mask})["sentence_embedding"]
        vectors = functional.normalize(embedded, dim=-1)
        scores = vectors[:rows] @ vectors[rows:].T / TEMPERATURE  # (questions, paths)
        same = (tokens[rows:, None] == tokens[None, rows:]).all(-1)
        left_out = same[:rows] | same.tril(-1).any(1)  # the chosen text, and what came before it
        left_out.fill_diagonal_(False)
        scores = scores.masked_fill(left_out, -torch.inf)
        losses = functional.cross_entropy(scores, torch.arange(rows), reduction="none")
        return (losses * labels).sum() / labels.sum()


def _train_adapter(
    train: list[dict[str, Any]],
    validation: list[dict[str, Any]],
    folder: Path,
    learned: Path | None,
    seed: int,
    progress: Progress,
) -> None:
    """Train, and write the adapter that has the least loss on held-out questions into the folder."""
    datasets.disable_progress_bars()
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "checkpoints"),
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        num_train_epochs=EPOCHS,
        learning_rate=RATE,
        weight_decay=0.01,
        warmup_steps=0.1,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        use_cpu=True,
        report_to=[],
        logging_strategy="no",
        disable_tqdm=True,
        seed=seed,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_with_adapter(learned)
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(train),
            eval_dataset=datasets.Dataset.from_list(validation),
            loss=ChoiceLoss(model),
            callbacks=[ProgressCallback(progress), transformers.EarlyStoppingCallback(PATIENCE)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    state = model.get_adapter_state_dict()
    arrays = {name: np.ascontiguousarray(v.detach().numpy()) for name, v in state.items()}
    save_file(arrays, folder / encoders.ADAPTER)
    transformer: Any = model[0]
    next(iter(transformer.auto_model.peft_config.values())).save_pretrained(str(folder))
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def path_similarities(
    kg: KnowledgeGraph, encoder: encoders.Encoder, question: str, paths: Sequence[Chain]
) -> np.ndarray:
    """Return the cosines of a masked question and paths as wholes, shape (paths,)."""
    texts = relation_texts(kg, {relation for path in paths for relation, _ in path})
    vectors = encoders.vectors_of(kg, encoder).vectors([walked_text(texts, path) for path in paths])
    return np.asarray(vectors @ encoder.encode([question])[0], np.float64)


class ProgressCallback(transformers.TrainerCallback):
    """Passes on the steps of a trainer, and the loss when it evaluates."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Pass on the steps."""
        self.progress("training", state.global_step, state.max_steps)

    on_step_end = on_train_begin

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Pass on the loss."""
        loss = rest["metrics"]["eval_loss"]
        self.progress(f"loss {loss:.3f} on held-out questions", state.global_step, state.max_steps)
