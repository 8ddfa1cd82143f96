"""Updating the embedded policy: the encoder learns which path a question asks for (SymAgent 4.3.2).

Equation 8 fits a language model to the actions of the merged trajectories. The action of the embedded policy
is the choice of a relation, so its loss is that of a choice: softmax over the likeness of the question with
the path taken and those offered beside it. Gradients reach a LoRA adapter only; the base weights stay.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.embedded_examples import Example, Row, examples_of, rows_of
from triplewise.tools.learning.trajectory import Trajectory
from triplewise.tools.retrieval.encoder import EMBEDDED, Encoder, open_encoder
from triplewise.tools.retrieval.learned_encoder import (
    LearnedEncoder,
    Manifest,
    read_adapter,
    write_manifest,
)

if TYPE_CHECKING:
    import torch

    from triplewise.tools.learning.embedded_layers import UpperLayers

Progress = Callable[[str, int, int | None], object]
HELD_OUT = 0.15
"""Share of the trajectories that choose the best epoch and the weight, where no others are given."""
LEAST_SURE = 0.1
"""A right path's likeness is taken to be this at least."""
LEAST = 4
"""Examples that a training needs at least."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How the encoder is trained.

    Attributes:
        upper: layers that learn, from the top. rank, alpha, dropout: of LoRA (scale is alpha / rank).
        epochs: most passes; the one best on held-out questions is kept, or what learning started from if
            none is better. patience: passes without a better one after which learning ends.
        batch: questions a step.
        negatives: paths not taken that are shown with a question; those of the batch are negatives too.
        rate: peak learning rate, warmed up and decayed linearly. temperature: of the softmax.
        weights: candidates for the weight of what is learned.
    """

    upper: int = 2
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    epochs: int = 10
    patience: int = 3
    batch: int = 16
    negatives: int = 5
    rate: float = 1e-3
    temperature: float = 0.05
    weights: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)


def _silent(what: str, done: int, total: int | None) -> None:
    """No display."""


def train_encoder(
    trajectories: Sequence[Trajectory],
    into: Path,
    *,
    base: str = EMBEDDED,
    kg: KnowledgeGraph,
    seed: int = 0,
    progress: Progress = _silent,
    validation: Sequence[Trajectory] | None = None,
    settings: TrainingSettings | None = None,
) -> str:
    """Train the embedded encoder on relation choices; minutes on two cores, the same for the same seed.

    Args:
        trajectories: merged ones (equation 7); those without choices or answers are left out.
        into: the new encoder's folder: missing or empty. It appears complete or not at all.
        base: `embedded`, or the folder of an encoder learned before, from which learning goes on.
        kg: has the words of the relations. seed: of the adapter, order, dropout and sampling.
        progress: is told (what, done, total). validation: held-out trajectories; None takes a share.

    Returns:
        The encoder's name for `open_encoder` and `Context.encoder`: its folder.

    Raises:
        ConfigurationError: too few trajectories to learn from, or a base that cannot learn.
    """
    settings = settings or TrainingSettings()
    encoder = open_encoder(base)
    if base != EMBEDDED and not isinstance(encoder, LearnedEncoder):
        raise ConfigurationError(f"encoder {base!r} cannot learn; only {EMBEDDED!r} and what it learned can")
    learned, held = _parts(trajectories, validation, seed)
    progress("reading relations", 0, None)
    rows, checks = (rows_of(part, kg, encoder, settings.negatives, seed) for part in (learned, held))
    into = into.absolute()
    into.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=into.parent, prefix=f".{into.name}-"))
    try:
        _fit(rows, checks, beside, base, seed, settings, progress)
        _write(beside, base, len(trajectories), seed, settings, weight=1.0)
        _weigh(beside, held, kg, base, len(trajectories), seed, settings)
        into.mkdir(exist_ok=True)
        os.replace(beside, into)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return str(into)


def _parts(
    trajectories: Sequence[Trajectory], validation: Sequence[Trajectory] | None, seed: int
) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and held-out ones. Raises `ConfigurationError` if there are too few."""
    found = examples_of(trajectories, seed)
    if len(found) < LEAST:
        raise ConfigurationError(
            f"only {len(found)} of {len(trajectories)} trajectories chose relations and found answers, at "
            f"least {LEAST} are needed: give more questions, or a KG that holds their answers"
        )
    if validation is not None and (held := examples_of(validation, seed)):
        return found, held
    return held_out(found, seed)


def held_out(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and those held out; never both empty-handed where there are two or more.

    The questions decide, by a hash of their text, not their order: what an iteration of self-learning holds
    out was held out by those before it too.
    """
    order = sorted(examples, key=lambda e: _share(e.asked, seed))
    count = sum(_share(e.asked, seed) < HELD_OUT for e in order)
    count = min(max(count, 1), len(order) - 1)
    chosen = set(map(id, order[:count]))
    return [e for e in examples if id(e) not in chosen], [e for e in examples if id(e) in chosen]


def _share(text: str, seed: int) -> float:
    """A number in [0, 1) that only the text and the seed decide."""
    digest = hashlib.sha256(f"held out {seed} {text}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _fit(
    rows: Sequence[Row],
    checks: Sequence[Row],
    folder: Path,
    base: str,
    seed: int,
    settings: TrainingSettings,
    progress: Progress,
) -> None:
    """Train, and write the adapter that has the least loss on held-out questions."""
    import torch

    from triplewise.tools.learning.embedded_layers import UpperLayers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = UpperLayers(settings.upper, settings.rank, settings.alpha, settings.dropout)
        if base != EMBEDDED:
            layers.load(read_adapter(Path(base)))
        progress("reading questions and paths", 0, None)
        layers.keep([t for row in (*rows, *checks) for t in (row.question, *row.paths)])
        layers.save(folder, _best(layers, rows, checks, seed, settings, progress))


def _best(
    layers: UpperLayers,
    rows: Sequence[Row],
    checks: Sequence[Row],
    seed: int,
    settings: TrainingSettings,
    progress: Progress,
) -> dict[str, np.ndarray]:
    """The adapter with the least held-out loss: after an epoch, or as learning found it."""
    import torch

    optimiser = torch.optim.AdamW(layers.parameters, lr=settings.rate, weight_decay=0.01)
    batches = -(-len(rows) // settings.batch)
    total = batches * settings.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: _rate(at, total))
    least, best, kept = held_loss(layers, checks, settings), layers.state(), 0
    progress(f"before: loss {least:.3f} on held-out questions", 0, settings.epochs)
    order = list(range(len(rows)))
    for epoch in range(settings.epochs):
        random.Random(f"{seed} {epoch}").shuffle(order)
        layers.model.train()
        for number in range(batches):
            part = [rows[i] for i in order[number * settings.batch : (number + 1) * settings.batch]]
            optimiser.zero_grad()
            loss_of(layers, part, settings.temperature).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(layers.parameters, 1.0)
            optimiser.step()
            schedule.step()
            progress("training", epoch * batches + number + 1, total)
        held = held_loss(layers, checks, settings)
        progress(f"epoch {epoch + 1}: loss {held:.3f} on held-out questions", epoch + 1, settings.epochs)
        if held < least:
            least, best, kept = held, layers.state(), epoch + 1
        if epoch + 1 - kept >= settings.patience:
            break
    return best


def _rate(at: int, total: int) -> float:
    """Share of the peak learning rate at a step."""
    warm = max(1, total // 10)
    return min(1.0, (at + 1) / warm) * max(0.0, 1.0 - at / total)


def loss_of(layers: UpperLayers, rows: Sequence[Row], temperature: float) -> torch.Tensor:
    """Mean loss of the choices of a batch, each weighed; every path of the batch is a negative."""
    import torch

    paths = list(dict.fromkeys(p for row in rows for p in row.paths))
    place = {path: i for i, path in enumerate(paths)}
    vectors = layers.vectors([*(row.question for row in rows), *paths])
    scores = vectors[: len(rows)] @ vectors[len(rows) :].T / temperature
    targets = torch.tensor([place[row.paths[0]] for row in rows])
    losses = torch.nn.functional.cross_entropy(scores, targets, reduction="none")
    weights = torch.tensor([row.weight for row in rows])
    return (losses * weights).sum() / weights.sum()


def held_loss(layers: UpperLayers, rows: Sequence[Row], settings: TrainingSettings) -> float:
    """Loss on held-out questions, without dropout."""
    import torch

    layers.model.eval()
    with torch.no_grad():
        starts = range(0, len(rows), settings.batch)
        parts = [rows[at : at + settings.batch] for at in starts]
        sums = [float(loss_of(layers, part, settings.temperature)) * len(part) for part in parts]
    return sum(sums) / len(rows)


def _write(
    folder: Path,
    base: str,
    count: int,
    seed: int,
    settings: TrainingSettings,
    weight: float,
    sure: float = 0.5,
    accuracy: float = 0.0,
    before: float = 0.0,
) -> None:
    """The manifest of the new encoder."""
    from triplewise.tools.retrieval.learned_encoder import read_manifest
    from triplewise.tools.retrieval.minilm import WEIGHTS_SHA256

    iteration = 1 if base == EMBEDDED else read_manifest(Path(base)).iteration + 1
    scale = settings.alpha / settings.rank
    write_manifest(
        folder,
        Manifest(scale, weight, sure, base, WEIGHTS_SHA256, seed, count, iteration, accuracy, before),
    )


def _weigh(
    folder: Path,
    held: Sequence[Example],
    kg: KnowledgeGraph,
    base: str,
    count: int,
    seed: int,
    settings: TrainingSettings,
) -> None:
    """Choose the weight of what was learned: that with most right choices on held-out questions.

    Of weights that do as well the greatest: few questions are held out, and more are unlike them. The
    likeness that three in four of their right paths reach counts as sure.
    """
    encoder = LearnedEncoder(folder)
    scored = [scores_of(example, kg, encoder) for example in held]
    shares = {w: accuracy(scored, w) for w in (0.0, *settings.weights)}
    best = max(settings.weights, key=lambda w: (shares[w], w))
    sure = max(LEAST_SURE, float(np.quantile([learned[0] for _words, learned in scored], 0.25)))
    _write(folder, base, count, seed, settings, best, sure, shares[best], shares[0.0])


Scored = tuple[np.ndarray, np.ndarray]
"""Scores of an example's paths, the chosen one first: by single words, and by what was learned."""


def scores_of(example: Example, kg: KnowledgeGraph, encoder: Encoder) -> Scored:
    """Both scores of the paths of an example."""
    from triplewise.tools.planning.bodies import rename
    from triplewise.tools.planning.lexical.path_fit import PathFit, words_of
    from triplewise.tools.planning.lexical.score import Scorer

    bodies = [rename(kg, path) for path in (example.chosen, *example.others)]
    scorer = Scorer(kg, words_of(encoder), example.view, example.topic)
    fits = PathFit(kg, encoder, example.view).of(bodies)
    return np.array(scorer.scores(bodies)), fits


def accuracy(scored: Sequence[Scored], weight: float) -> float:
    """Share of examples whose chosen path scores best."""
    right = [int(np.argmax(words + weight * learned)) == 0 for words, learned in scored]
    return sum(right) / len(right) if right else 0.0
