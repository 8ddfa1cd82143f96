"""What a derivation asks: a query tree over numbered nodes of a `GraphIndex`.

A tree is independent of how the question is worded and of how it is computed: `tools.parsing.denotation`
computes it in memory, `compile_query` (program) writes it as a PyQL program. All trees are frozen and
hashable: two derivations that ask for the same are found by equality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, dataclass_transform

Step: TypeAlias = tuple[int, int]  # a relation of the index; 1: from subject to object, -1: backwards
Path: TypeAlias = tuple[Step, ...]
Function: TypeAlias = Literal["count", "sum", "average"]
Comparison: TypeAlias = Literal["gt", "lt", "ge", "le", "eq"]
OPPOSITE: dict[Comparison, Comparison] = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


@dataclass_transform(frozen_default=True)
class Tree:
    """A query tree: a frozen dataclass, its hash computed once, for its denotation is looked up by it."""

    __match_args__: ClassVar[tuple[str, ...]]  # the names of its parts

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
        cls.__hash__ = Tree.__hash__  # type: ignore[method-assign]  # instead of the one of the dataclass

    def __hash__(self) -> int:
        if (known := self.__dict__.get("_hash")) is None:
            known = self.__dict__["_hash"] = hash((type(self).__name__, *vars(self).values()))
        return known


class Nodes(Tree):
    """Entities or literals of one name: several where the name is shared."""

    nodes: frozenset[int]


class Number(Tree):
    """A number, date or time of the question."""

    value: float  # its place on a line
    kind: str = ""  # or "date" or "time"
    text: str = ""  # a date or time as written ("1990-05", "10:30"): dates compare to this precision
    unit: str = ""  # behind it, as the lexicon writes it


class Members(Tree):
    """The members of a class (its subclasses' too): `cls` numbers the classes of the index."""

    cls: int


class Having(Tree):
    """Everything a path can be walked from."""

    path: Path


class Image(Tree):
    """What a path leads to from a set: the capital of X, the cities of X."""

    path: Path
    of: Set


class And(Tree):
    """The intersection of two sets."""

    left: Set
    right: Set


class Or(Tree):
    """The union of two sets."""

    left: Set
    right: Set


class Minus(Tree):
    """A set without another."""

    of: Set
    without: Set


class Extremal(Tree):
    """The members with the largest or smallest value of a numeric path, or of some literals; with ties."""

    of: Set
    path: Path
    sign: int  # 1: the largest, -1: the smallest
    rank: int = 1  # of distinct values from that end (2: the second largest)
    count: int = 1  # how many values from there on ("the three largest": 3)


class ExtremalAggregate(Tree):
    """The members with the largest (sign 1) or smallest (-1) number of links, at least one, to members of
    `to` (None: to anything), or sum or average of the values at the end of a path."""

    of: Set
    path: Path
    function: Function
    sign: int
    to: Set | None = None


class Compared(Tree):
    """The members of whose values of a numeric path one compares with a number, or with a set of literals:
    the largest of them for gt and ge, the smallest for lt and le, any for eq."""

    of: Set
    path: Path
    comparison: Comparison
    value: Number | Set


class Linked(Tree):
    """The members that a path links to so many members of `to` (None: of anything), at least one."""

    of: Set
    path: Path
    comparison: Comparison
    count: float
    to: Set | None = None


class Count(Tree):
    """How many members a set has."""

    of: Set


class Aggregate(Tree):
    """Sum or average of the values of a numeric path over a set: every value of every member once."""

    function: Literal["sum", "average"]
    path: Path
    of: Set


class Exists(Tree):
    """Yes or no: whether a set has members."""

    of: Set


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
        for part in vars(tree).values():
            yield from parts_of(part)


def steps_of(tree: object) -> Iterator[Step]:
    """The steps of all paths in a tree."""
    for part in parts_of(tree):
        yield from getattr(part, "path", ())


def replaced(tree: Any, old: Tree, new: Any) -> Any:
    """A tree with one of its parts replaced."""
    if tree == old:
        return new
    if not isinstance(tree, Tree):
        return tree
    return type(tree)(*(replaced(getattr(tree, name), old, new) for name in tree.__match_args__))
