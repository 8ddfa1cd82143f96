"""Candidates taken apart: what is distinct among them, and the digests they are kept under."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from triplewise.tools.retrieval.vectors import digests_of, joined

Pair = tuple[str, str]
"""How a relation and a tail read."""


class Candidates:
    """Pairs in the order given; those that read alike share one place among the distinct ones."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._relations, self._tails = [r for r, _ in pairs], [t for _, t in pairs]
        self._lengths = [np.fromiter(map(len, texts), np.int64) for texts in (self._relations, self._tails)]

    def __len__(self) -> int:
        """How many there are, repeated ones counted."""
        return len(self._relations)

    @cached_property
    def digest(self) -> str:
        """A digest of all of them in this order."""
        digest = hashlib.blake2b(digest_size=16)
        for texts, lengths in zip((self._relations, self._tails), self._lengths, strict=True):
            digest.update(lengths.tobytes())
            digest.update("".join(texts).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def distinct(self) -> tuple[Parts, np.ndarray]:
        """The distinct pairs taken apart, and the place among them of each pair, int64 of shape (n,)."""
        relations, relation = _numbered(self._relations)
        tails, tail = _numbered(self._tails)
        _, first, owner = np.unique(relation * len(tails) + tail, return_index=True, return_inverse=True)
        long, rest = (lengths[first].astype(np.float32) + 1 for lengths in self._lengths)
        return Parts(relations, tails, relation[first], tail[first], long / (long + rest)), owner


def _numbered(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Distinct texts, and the number of each text among them."""
    distinct = list(dict.fromkeys(texts))
    numbers = dict(zip(distinct, range(len(distinct)), strict=True))
    return distinct, np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))


@dataclass(frozen=True)
class Parts:
    """Distinct pairs taken apart: their relations and tails, and which of them each pair has.

    `share` is the relation's part of a pair's text, float32 of shape (n,).
    """

    relations: list[str]
    tails: list[str]
    relation: np.ndarray
    tail: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Parts:
        """The parts of pairs that are distinct already, in an order of its own."""
        return Candidates(pairs).distinct()[0]

    def __len__(self) -> int:
        """Pairs."""
        return len(self.relation)

    @cached_property
    def tail_digests(self) -> np.ndarray:
        """Digests of the tails, uint64 of shape (tails, 2)."""
        return digests_of(self.tails)

    @cached_property
    def digests(self) -> np.ndarray:
        """What the vectors of the pairs are kept under, uint64 of shape (n, 2)."""
        return joined(digests_of(self.relations)[self.relation], self.tail_digests[self.tail])

    def texts(self, places: np.ndarray) -> list[str]:
        """The texts of some pairs."""
        ends = zip(self.relation[places].tolist(), self.tail[places].tolist(), strict=True)
        return [f"{self.relations[r]} {self.tails[t]}" for r, t in ends]
