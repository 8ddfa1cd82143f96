"""What the embedded encoder is trained on: each question with the path that led to its answers, and others.

A path is a negative if it was offered on the way and not taken, if it stops early, or if it goes on too far.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.learning.trajectory import Choice, Trajectory
from triplewise.tools.planning.lexical.path_fit import masked_view, path_text
from triplewise.tools.planning.lexical.question import QuestionView, view
from triplewise.tools.retrieval.encoder import Encoder

LEAST_F1 = 0.1
"""Trajectories whose answers are worse teach nothing: their recall comes from reaching everything."""
LONGER = 2
"""Paths a question that go one relation beyond the right one."""

Chain = tuple[tuple[str, bool], ...]
"""Relations by short id, each with whether it is walked forward."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question to learn from.

    Attributes:
        view: the question. topic: short id of the entity that the paths start from.
        chosen: the path that led to the answers. others: paths that were not taken. weight: F1 of answers.
        asked: the question as it was asked.
    """

    view: QuestionView
    topic: str
    chosen: Chain
    others: tuple[Chain, ...]
    weight: float
    asked: str

    @property
    def question(self) -> str:
        """The question with its mentions masked."""
        return masked_view(self.view)


@dataclass(frozen=True, slots=True)
class Row:
    """An example as texts: the question, the chosen path first, then others, hard ones first."""

    question: str
    paths: tuple[str, ...]
    weight: float


def examples_of(trajectories: Iterable[Trajectory], seed: int = 0) -> list[Example]:
    """The examples of trajectories that chose relations and found answers, in their order."""
    kept = [t for t in trajectories if t.choices and t.f1 >= LEAST_F1]
    steps = sorted({step(o) for t in kept for c in t.choices for o in c.offered})
    return [_example(t, steps, random.Random(f"{seed} {t.id}")) for t in kept]


def step(choice: str) -> tuple[str, bool]:
    """A relation as choices write it, as relation and direction."""
    return choice.removeprefix("^"), not choice.startswith("^")


def _example(trajectory: Trajectory, steps: Sequence[tuple[str, bool]], draw: random.Random) -> Example:
    chain = _first_chain(trajectory.choices)
    last = chain[-1]
    chosen = tuple(map(step, (*last.before, last.chosen)))
    others = [tuple(map(step, (*c.before, o))) for c in chain for o in c.offered]
    others += [(*chosen, s) for s in draw.sample(steps, min(LONGER, len(steps)))]
    rest = tuple(p for p in dict.fromkeys(others) if p != chosen)
    topic = next(iter(trajectory.entities.values()), "")
    return Example(view_of(trajectory), topic, chosen, rest, trajectory.f1, trajectory.question)


def _first_chain(choices: Sequence[Choice]) -> list[Choice]:
    """The choices of a rule's body; a second chain, from another topic entity, begins without a way there."""
    return [choices[0], *takewhile(lambda c: bool(c.before), choices[1:])]


def view_of(trajectory: Trajectory) -> QuestionView:
    """The question with the mentions of its entities masked where they stand in it."""
    low = trajectory.question.casefold()
    starts = ((low.find(mention.casefold()), len(mention)) for mention in trajectory.entities if mention)
    return view(trajectory.question, [(at, at + length) for at, length in starts if at >= 0])


def rows_of(
    examples: Sequence[Example], kg: KnowledgeGraph, encoder: Encoder, count: int, seed: int
) -> list[Row]:
    """Examples as texts with `count` negatives each: two thirds those nearest to the question, others drawn.

    Args:
        encoder: judges nearness: that which is to be trained, as it is now.
    """
    relations = {r for e in examples for path in (e.chosen, *e.others) for r, _ in path}
    texts = relation_texts(kg, sorted(relations))
    rows = []
    for number, example in enumerate(examples):
        chosen = path_text(texts, example.chosen)
        others = [t for t in dict.fromkeys(path_text(texts, p) for p in example.others) if t != chosen]
        hard = _nearest(example.question, others, encoder)
        first, rest = hard[: count - count // 3], hard[count - count // 3 :]
        drawn = random.Random(f"{seed} {number}").sample(rest, min(count // 3, len(rest)))
        rows.append(Row(example.question, (chosen, *first, *drawn), example.weight))
    return rows


def _nearest(question: str, texts: Sequence[str], encoder: Encoder) -> list[str]:
    """Texts, those most like the question first."""
    if not texts:
        return []
    likeness = encoder.encode(texts) @ encoder.encode([question])[0]
    return [texts[i] for i in (-likeness).argsort(kind="stable")]
