"""The reward of an attempt: recall of the gold answers (SymAgent, equation 6), and F1 besides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triplewise.tools.core.overlap import overlap
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph


class Reward(NamedTuple):
    """How good an attempt's answers are, and the answers in the form that the gold ones have.

    `recall` is the reward of equation 6; all numbers are in [0, 1].
    """

    recall: float
    f1: float
    predicted: tuple[str, ...]


def short_answers(kg: KnowledgeGraph, answers: Sequence[str]) -> list[str]:
    """Return gold answers with full IRIs in the short form that the agent answers in."""
    return [kg.profile.short(IRI(a)) if a.startswith(("http://", "https://")) else a for a in answers]


def reward_of(values: Sequence[str], labels: Sequence[str], gold: Sequence[str]) -> Reward:
    """Compare answers with gold answers that are ids or literals, or else names.

    Args:
        values: ids or literals of the answers. labels: their names, in the same order.
        gold: the gold answers; all of one form.
    """
    if not gold:
        return Reward(0.0, 0.0, tuple(values))
    by_id, by_name = overlap(values, gold), overlap(labels, gold, "names")
    if by_name.f1 > by_id.f1:
        return Reward(by_name.recall, by_name.f1, tuple(labels))
    return Reward(by_id.recall, by_id.f1, tuple(values))
