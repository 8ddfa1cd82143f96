"""Symbolic rules: paths that lead from a topic entity to answers (SymAgent, equation 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """A relation of a rule, and the variable it binds, whatever that is called; `forward`: to its object."""

    relation: str
    forward: bool
    variable: str = field(default="", compare=False)

    def arrow(self) -> str:
        """E.g. `-[P50]->` or `<-[P50]-`."""
        return f"-[{self.relation}]->" if self.forward else f"<-[{self.relation}]-"


Path: TypeAlias = tuple[Atom, ...]  # A chain of relations: the path of a rule


@dataclass(frozen=True, slots=True)
class Rule:
    """A path from a topic entity (`anchor`, a short id; "" for a rule of any), over simple paths only."""

    anchor: str
    path: Path
    keeps_topic: bool = False  # the topic may be an answer
    support: int = 0  # how many seed questions it reproduces
    precision: float = 0.0  # mean over seed questions, as is the recall
    recall: float = 0.0
    evidence: float = 0.0  # F1 of seed questions by how like the question they are
    score: float = 0.0  # orders rules
    provenance: str = ""

    @property
    def answer(self) -> str:
        """Name of the variable that holds the answer."""
        return self.path[-1].variable if self.path else ""

    @property
    def key(self) -> tuple[str, Path]:
        """What it says, whatever its variables are called, it is worth, and it comes from."""
        return self.anchor, self.path

    @property
    def relations(self) -> tuple[str, ...]:
        """Short ids of all its relations, in order of appearance."""
        return tuple(dict.fromkeys(a.relation for a in self.path))

    @property
    def differing(self) -> tuple[tuple[str, str], ...]:
        """Variables that must differ from an earlier node (a variable as `?name`), for paths to be simple.

        SymAgent 4.1: from the node two steps before, where a relation is walked there and back; answers from
        the topic.
        """
        nodes = [self.anchor, *(f"?{a.variable}" for a in self.path)]
        turns = [(node, a, b) for node, (a, b) in zip(nodes, pairwise(self.path), strict=False)]
        back = [(b.variable, node) for node, a, b in turns if b == Atom(a.relation, not a.forward)]
        topic = [(self.answer, self.anchor)] if turns and not self.keeps_topic else []
        return tuple(dict.fromkeys([*back, *topic]))

    def text(self, label: str = "") -> str:
        """The rule in one line, e.g. `Q419 <-[P17]- ?city -[P2043]-> ?length`."""
        return " ".join([label or self.anchor, *(f"{a.arrow()} ?{a.variable}" for a in self.path)])


@dataclass(frozen=True, slots=True)
class DroppedRule:
    """A rule that was thought of and is not handed on, with the reason, and the short ids in its text."""

    text: str
    reason: str
    provenance: str = ""
    anchor: str = ""
    relations: tuple[str, ...] = ()


def path_text(path: Path) -> str:
    """A path as lists of relations go to a model and come back: `[r1, ^r2]`; `^` is walked backwards."""
    return "[" + ", ".join(f"{'' if a.forward else '^'}{a.relation}" for a in path) + "]"
