"""A derivation: how a span of the question becomes a query tree, out of which parts and with which
features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.parsing.denotation import Denotation
from triplewise.tools.parsing.query import Comparison, Function, Number, Query, Set

Features: TypeAlias = list[tuple[str, float]]
Similarity: TypeAlias = NDArray[np.float32]  # how well words go with each relation, by its number


def f(**values: float) -> Features:
    """Features by name; those that are 0 do not count."""
    return [(name, float(value)) for name, value in values.items() if value]


def summed(features: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The sums of features by name."""
    sums: dict[str, float] = {}
    for name, value in features:
        sums[name] = sums.get(name, 0.0) + value
    return sums


class Category(StrEnum):
    """What a derivation is to the grammar: from SUPERLATIVE on, a `Modifier` that waits for a set."""

    SET = "set"
    RELATION = "relation"
    OPERATOR = "operator"
    NUMBER = "number"
    TRUTH = "truth"
    ROWS = "rows"
    SUPERLATIVE = "superlative of a relation"
    LINKS = "links"
    COMPARISON = "comparing"
    INTERVAL = "half an interval"
    NEGATION = "negation"
    COORDINATION = "coordination"
    SAME = "sharing"
    GROUP = "group"


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A word or phrase that composes: "how many", "longest", "more than", "or more", "not"."""

    name: str  # of the lexicon, "superlative" or "ordinal"
    sign: int = 1  # 1 for most and more, -1 for least and less; of an ordinal, its number ("second": 2)
    comparison: Comparison | None = None
    similarity: Similarity | None = None  # of words that name a quantity ("longest") with each relation
    turned: frozenset[int] = frozenset()  # relations of which they mean the opposite ("oldest" of a year)
    others: frozenset[int] = frozenset()  # relations that are certainly another quantity
    rank: int = 1  # "the second longest": 2
    count: int = 1  # "the three longest": 3

    def fits(self, relation: int) -> float:
        """How well a relation goes with the operator's words, 0 to 1."""
        return 0.0 if self.similarity is None else float(self.similarity[relation])

    def sign_of(self, relation: int) -> int:
        """1 where it means much of a relation, -1 where it means little."""
        return -self.sign if relation in self.turned else self.sign


@dataclass(frozen=True, slots=True, eq=False)
class Modifier:
    """An operator with its operand, which waits for a set: "more than | 300", "or | Oregon"."""

    word: Operator
    part: Derivation | None = None  # the operand
    relation: int | None = None  # of the quantity, of the links or of what is shared, where it is named
    value: Number | Set | None = None  # to compare with; None: the value that the operand has
    upper: Number | None = None  # the other end of an interval ("between 3 and 5")
    function: Function = "count"  # of the values of linked things ("the highest | average salary")


@dataclass(slots=True, eq=False)
class Derivation:
    """A query tree over the tokens [start, end) of the question, with the features of its top node.

    `kind` tells sets apart: anchors are "entity", "literal", "value", "class", "members", "having", "range",
    "boolean" or "chain"; composed ones "join", "inverse", "and", "bridge", "superlative", "filter", "minus"
    or "union".
    """

    category: Category
    start: int
    end: int
    features: Features
    query: Query | None = None
    denotation: Denotation | None = None
    meaning: Any = None  # number of a relation or class, `Number` of a value, `Operator` or `Modifier`
    kind: str = ""
    head: int = -1  # the token where the phrase that names the result begins; -1: at `start`
    mentions: frozenset[int] = frozenset()  # the nodes that are named
    parts: tuple[Derivation, ...] = ()
    score: float = 0.0
    slot: str = field(init=False, default="")  # what rules are looked up by: category, or operator's name

    def __post_init__(self) -> None:
        self.slot = self.kind if self.category is Category.OPERATOR else self.category.value
        self.head = self.start if self.head < 0 else self.head

    @property
    def tree(self) -> Set:
        """The query of a set."""
        return cast(Set, self.query)

    @property
    def nodes(self) -> frozenset[int]:
        """The denotation of a set."""
        return cast(frozenset[int], self.denotation)

    def all_features(self) -> Iterator[tuple[str, float]]:
        """The features of all nodes."""
        yield from self.features
        for part in self.parts:
            yield from part.all_features()

    def leaves(self) -> Iterator[Derivation]:
        """The anchors that the derivation is made of, from left to right as they were combined."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()
