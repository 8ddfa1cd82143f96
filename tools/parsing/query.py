"""What a derivation asks: a query tree over numbered nodes of a `GraphIndex`.

A tree is independent of how the question is worded and of how it is computed: `tools.parsing.denotation`
computes it in memory, `compile_query` (program) writes it as a PyQL program. All trees are frozen and
hashable: two derivations that ask for the same are found by equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Step: TypeAlias = tuple[int, int]  # a relation of the index; 1: from subject to object, -1: backwards
Path: TypeAlias = tuple[Step, ...]
Function: TypeAlias = Literal["count", "sum", "average"]
Comparison: TypeAlias = Literal["gt", "lt", "ge", "le", "eq"]


class Tree:
    """A query tree. Its hash is computed once: its denotation is looked up by it many times."""

    __slots__ = ("_hash",)
    _hash: int

    def __init_subclass__(cls) -> None:
        cls.__hash__ = Tree.__hash__  # type: ignore[method-assign]  # instead of the one of the dataclass

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            own = (type(self).__name__, *(getattr(self, name) for name in type(self).__slots__))
            object.__setattr__(self, "_hash", hash(own))
            return self._hash


@dataclass(frozen=True, slots=True)
class Nodes(Tree):
    """Entities or literals of one name: several where the name is shared."""

    nodes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Number(Tree):
    """A number, date or time of the question."""

    value: float  # its place on a line
    kind: str = ""  # or "date" or "time"
    text: str = ""  # a date or time as written ("1990-05", "10:30"): dates compare to this precision
    unit: str = ""  # behind it, as the lexicon writes it


@dataclass(frozen=True, slots=True)
class Members(Tree):
    """The members of a class (its subclasses' too): `cls` numbers the classes of the index."""

    cls: int


@dataclass(frozen=True, slots=True)
class Having(Tree):
    """Everything a path can be walked from."""

    path: Path


@dataclass(frozen=True, slots=True)
class Image(Tree):
    """What a path leads to from a set: the capital of X, the cities of X."""

    path: Path
    of: Set


@dataclass(frozen=True, slots=True)
class And(Tree):
    """The intersection of two sets."""

    left: Set
    right: Set


@dataclass(frozen=True, slots=True)
class Or(Tree):
    """The union of two sets."""

    left: Set
    right: Set


@dataclass(frozen=True, slots=True)
class Minus(Tree):
    """A set without another."""

    of: Set
    without: Set


@dataclass(frozen=True, slots=True)
class Extremal(Tree):
    """The members with the largest or smallest of all their values of a numeric path. Ties are kept.

    Without a path, the largest or smallest of a set of literals.
    """

    of: Set
    path: Path
    sign: int  # 1: the largest, -1: the smallest
    rank: int = 1  # of distinct values from that end (2: the second largest)
    count: int = 1  # how many values from there on ("the three largest": 3)


@dataclass(frozen=True, slots=True)
class ExtremalAggregate(Tree):
    """The members with the largest (sign 1) or smallest (-1) number of links, at least one, to members of
    `to` (None: to anything), or sum or average of the values at the end of a path."""

    of: Set
    path: Path
    function: Function
    sign: int
    to: Set | None = None


@dataclass(frozen=True, slots=True)
class Compared(Tree):
    """The members of whose values of a numeric path one compares with a number, or with a set of literals:
    the largest of them for gt and ge, the smallest for lt and le, any for eq."""

    of: Set
    path: Path
    comparison: Comparison
    value: Number | Set


@dataclass(frozen=True, slots=True)
class Linked(Tree):
    """The members that a path links to so many members of `to` (None: of anything), at least one."""

    of: Set
    path: Path
    comparison: Comparison
    count: float
    to: Set | None = None


@dataclass(frozen=True, slots=True)
class Count(Tree):
    """How many members a set has."""

    of: Set


@dataclass(frozen=True, slots=True)
class Aggregate(Tree):
    """Sum or average of the values of a numeric path over a set: every value of every member once."""

    function: Literal["sum", "average"]
    path: Path
    of: Set


@dataclass(frozen=True, slots=True)
class Exists(Tree):
    """Yes or no: whether a set has members."""

    of: Set


@dataclass(frozen=True, slots=True)
class Grouped(Tree):
    """One row for each member that a path leads somewhere from: the member, and how many members of `to`
    (None: of anything) it leads to, or the sum or average of the values at its end."""

    function: Function
    path: Path
    of: Set
    to: Set | None = None


Set: TypeAlias = (
    Nodes | Number | Members | Having | Image | And | Or | Minus | Extremal | ExtremalAggregate | Compared
    | Linked
)  # fmt: skip
Query: TypeAlias = Set | Count | Aggregate | Exists | Grouped


def parts_of(tree: object) -> Iterator[Tree]:
    """A tree and all trees inside it."""
    if isinstance(tree, Tree):
        yield tree
        for name in type(tree).__slots__:
            yield from parts_of(getattr(tree, name))


def replaced(tree: Any, old: Tree, new: Any) -> Any:
    """A tree with one of its parts replaced."""
    if tree == old:
        return new
    if not isinstance(tree, Tree):
        return tree
    return type(tree)(*(replaced(getattr(tree, name), old, new) for name in type(tree).__slots__))
