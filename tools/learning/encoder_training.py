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
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import write_json
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.learning.model_training import Progress, progress_callback
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.parsing.similarity import walked_text
from triplewise.tools.planning.seeds import masked
from triplewise.tools.retrieval.encoder import (
    ADAPTER,
    EMBEDDED,
    LEARNED,
    WEIGHTS_SHA256,
    Encoder,
    LearnedEncoder,
    open_encoder,
    vectors_of,
    weights_file,
)

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

HELD_OUT = 0.15
"""Share of the examples that choose the best epoch."""
LEAST_SURE = 0.1
"""A right path's similarity is taken to be this at least."""
LEAST_EXAMPLES = 4
LEAST_F1 = 0.1
"""Trajectories whose answers are worse teach nothing: their recall comes from reaching everything."""
LONGER, NEGATIVES = 2, 5
"""Paths a question that go one relation beyond the right one, and paths not taken that are shown with it."""
LAYERS, UPPER = 6, 2
"""Layers of all-MiniLM-L6-v2, and how many of them learn, from the top."""
MODULES = r"attention\.self\.(query|key|value)|attention\.output\.dense|intermediate\.dense|output\.dense"
RANK, ALPHA, DROPOUT = 16, 32, 0.05
"""Of LoRA: its scale is alpha / rank."""
EPOCHS, PATIENCE = 10, 3
"""Most passes, and those without a better one after which learning ends; the best on held-out questions is
kept, or what learning started from if none is better."""
BATCH, RATE = 16, 1e-3
"""Questions a step, whose paths are each other's negatives; peak learning rate, warmed up and decayed."""
TEMPERATURE = 0.05
"""Of the softmax over paths."""
PATH_WEIGHT = 4.0
"""Weight of what is learned beside the score of single words: what held-out questions of WebQSP chose."""

Chain = tuple[tuple[str, bool], ...]
"""Relations by short id, each with whether it is walked forward."""


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
    base: str = EMBEDDED,
    seed: int = 0,
) -> dict[str, Any]:
    """Train the embedded encoder on relation choices: a `Learner`; minutes on two cores.

    Args:
        trajectories: merged ones (equation 7); those without choices or answers are left out.
        into: the new encoder's folder, by which `open_encoder` opens it. It appears complete or not at all:
            one that is there stays, and what a kill left is cleared away.
        settings: their `encoder` was learned before, and learning goes on from it; else from `base`.
        kg: has the words of the relations. seed: of the adapter, order, dropout and sampling; the same
            encoder for the same seed and iteration.

    Raises:
        ConfigurationError: too few trajectories to learn from, or a base that cannot learn.
    """
    base, seed = str((settings or {}).get("encoder", base)), seed + iteration
    if into.is_dir():
        return {"encoder": str(into)}
    encoder = open_encoder(base)
    if base != EMBEDDED and not isinstance(encoder, LearnedEncoder):
        raise ConfigurationError(f"encoder {base!r} cannot learn; only {EMBEDDED!r} and what it learned can")
    examples = path_examples(trajectories, seed)
    if len(examples) < LEAST_EXAMPLES:
        raise ConfigurationError(
            f"only {len(examples)} of {len(trajectories)} trajectories chose relations and found answers, at "
            f"least {LEAST_EXAMPLES} are needed: give more questions, or a KG that holds their answers"
        )
    learned, held_out = hold_out(examples, seed)
    progress("reading relations", 0, None)
    train, validation = (training_rows(part, kg, encoder, seed) for part in (learned, held_out))
    into.parent.mkdir(parents=True, exist_ok=True)
    for leftover in into.parent.glob(f".{into.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}-") as folder:
        part = Path(folder) / into.name
        part.mkdir()
        _train_adapter(train, validation, part, base, seed, progress)
        record = {
            "scale": ALPHA / RANK,
            "path_weight": PATH_WEIGHT,
            "sure": LEAST_SURE,
            "base": base,
            "weights": WEIGHTS_SHA256,
            "seed": seed,
            "trajectories": len(trajectories),
            "iteration": encoder.iteration + 1 if isinstance(encoder, LearnedEncoder) else 1,
        }
        write_json(part / LEARNED, record, indent=1)
        trained = LearnedEncoder(part)
        # The similarity that three in four right paths of held-out questions reach counts as sure.
        right = [path_similarities(kg, trained, e.masked, [e.chosen])[0] for e in held_out]
        record["sure"] = max(LEAST_SURE, float(np.quantile(right, 0.25)))
        write_json(part / LEARNED, record, indent=1)
        part.rename(into)
    return {"encoder": str(into)}


def path_examples(trajectories: Iterable[Trajectory], seed: int = 0) -> list[PathExample]:
    """Return the examples of trajectories that chose relations and found answers, in their order."""

    def step(choice: str) -> tuple[str, bool]:
        return choice.removeprefix("^"), not choice.startswith("^")

    useful = [t for t in trajectories if t.choices and t.f1 >= LEAST_F1]
    steps = sorted({step(o) for t in useful for c in t.choices for o in c.offered})
    examples = []
    for trajectory in useful:
        # A second chain of the rule, from another topic entity, begins without a way there.
        first, *later = trajectory.choices
        chain = [first, *takewhile(lambda choice: bool(choice.before), later)]
        chosen = tuple(map(step, (*chain[-1].before, chain[-1].chosen)))
        others = [tuple(map(step, (*choice.before, o))) for choice in chain for o in choice.offered]
        draw = random.Random(f"{seed} {trajectory.id}")
        others += [(*chosen, longer) for longer in draw.sample(steps, min(LONGER, len(steps)))]
        low = trajectory.question.casefold()
        starts = ((low.find(mention.casefold()), len(mention)) for mention in trajectory.entities if mention)
        examples.append(
            PathExample(
                trajectory.question,
                masked(trajectory.question, [(at, at + length) for at, length in starts if at >= 0]),
                chosen,
                tuple(path for path in dict.fromkeys(others) if path != chosen),
                trajectory.f1,
            )
        )
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
    examples: Sequence[PathExample], kg: KnowledgeGraph, encoder: Encoder, seed: int
) -> list[dict[str, Any]]:
    """Return examples as texts: `question`, `path` (the chosen one), `negative_1` ..., and `label` (weight).

    Two thirds of the negatives are those nearest to the question by the encoder as it is now, the others are
    drawn; a question with fewer has its own path in their place, which gives no loss.
    """
    relations = {r for e in examples for path in (e.chosen, *e.others) for r, _ in path}
    texts = relation_texts(kg, sorted(relations))
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
    from peft import LoraConfig
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # What is frozen gives the same vectors every time: dropout is the adapter's alone.
    model = SentenceTransformer(
        str(weights_file().parent),
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


def choice_loss(model: SentenceTransformer) -> torch.nn.Module:
    """Return the loss of choosing a path: mean cross-entropy over questions, weighed by their labels.

    A row of a batch is a question, its path, and negatives. Every path of the batch that reads otherwise than
    the chosen one is a negative, once.
    """
    import torch
    from torch.nn import functional

    class ChoiceLoss(torch.nn.Module):
        """The loss; `columns` are tokenised texts, the questions first, then their paths."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, columns: list[dict[str, torch.Tensor]], labels: torch.Tensor) -> torch.Tensor:
            rows = len(labels)
            longest = max(column["input_ids"].shape[1] for column in columns)
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

    return ChoiceLoss()


def _train_adapter(
    train: list[dict[str, Any]],
    validation: list[dict[str, Any]],
    folder: Path,
    base: str,
    seed: int,
    progress: Progress,
) -> None:
    """Train, and write the adapter that has the least loss on held-out questions into the folder."""
    import datasets
    import torch
    from safetensors.numpy import save_file
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from transformers import EarlyStoppingCallback, PrinterCallback

    datasets.disable_progress_bars()
    checkpoints = folder / "checkpoints"
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(checkpoints),
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
        model = model_with_adapter(None if base == EMBEDDED else Path(base))
        before = {k: v.detach().clone() for k, v in model.get_adapter_state_dict().items()}
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(train),
            eval_dataset=datasets.Dataset.from_list(validation),
            loss=choice_loss(model),
            callbacks=[progress_callback(progress), EarlyStoppingCallback(PATIENCE)],
        )
        trainer.remove_callback(PrinterCallback)
        loss_before = trainer.evaluate()["eval_loss"]
        trainer.train()
        best = trainer.state.best_metric
        state = model.get_adapter_state_dict() if best is not None and best < loss_before else before
    save_file({k: np.ascontiguousarray(v.detach().numpy()) for k, v in state.items()}, folder / ADAPTER)
    transformer: Any = model[0]
    next(iter(transformer.auto_model.peft_config.values())).save_pretrained(str(folder))
    shutil.rmtree(checkpoints, ignore_errors=True)


def path_similarities(
    kg: KnowledgeGraph, encoder: Encoder, question: str, paths: Sequence[Chain]
) -> np.ndarray:
    """Return the cosines of a masked question and paths as wholes, shape (paths,)."""
    texts = relation_texts(kg, {relation for path in paths for relation, _ in path})
    vectors = vectors_of(kg, encoder).vectors([walked_text(texts, path) for path in paths])
    return np.asarray(vectors @ encoder.encode([question])[0], np.float64)
