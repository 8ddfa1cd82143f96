"""Symbolic rules: bodies that lead from a topic entity to answers (SymAgent, equation 1).

A rule is a chain of relations, optionally with constraints beyond the paper's chains: a second topic
entity that meets the chain, a type, a comparison, a superlative, a count, a yes/no reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ConstraintKind = Literal[
    "meets",
    "type",
    "filter",
    "max",
    "min",
    "most",
    "least",
    "count",
    "ask",
    "holds",
    "either",
    "not",
    "distinct",
    "computed",
]
"""`computed` is what no rule of a plan does but a model's query may: sums, differences, the first few."""


@dataclass(frozen=True, slots=True)
class Atom:
    """One relation of a rule body, and the variable it binds; `forward`: the previous node is the subject."""

    relation: str
    forward: bool
    variable: str

    def arrow(self) -> str:
        """E.g. `-[P50]->` or `<-[P50]-`."""
        return f"-[{self.relation}]->" if self.forward else f"<-[{self.relation}]-"


@dataclass(frozen=True, slots=True)
class Constraint:
    """Something the answer has to meet besides the chain.

    Attributes:
        kind: see `ConstraintKind`. `holds`: a single fact between two nodes, asked for as yes or no. `not`:
            the answers have no such relation to `value`. `either`: they have it to `operator` or `value`.
        variable: the variable constrained (for `holds`, the id of the first node).
        atoms: further relations: from `value` to `variable` (meets), or from `variable` to the compared
            quantity (filter, max, min, most, least).
        operator: for `filter`: =, !=, <, >, <=, >=.
        value: short id or literal: the second entity, the type, the compared value.
    """

    kind: ConstraintKind
    variable: str = ""
    atoms: tuple[Atom, ...] = ()
    operator: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule body grounded at a topic entity.

    Attributes:
        anchor: short id of the topic entity.
        body: the chain.
        constraints: further conditions, applied in order.
        keeps_topic: whether the topic entity itself may be an answer, as in seed questions that count it.
        support: seed questions whose answers it reproduces.
        precision, recall: mean over its seeds, in [0, 1].
        evidence: how far seed questions speak for it, in [0, 1]: their F1, by how like the question they are.
        score: what rules are ordered by.
        provenance: where it comes from, in words.
    """

    anchor: str
    body: tuple[Atom, ...]
    constraints: tuple[Constraint, ...] = ()
    keeps_topic: bool = False
    support: int = 0
    precision: float = 0.0
    recall: float = 0.0
    evidence: float = 0.0
    score: float = 0.0
    provenance: str = ""

    @property
    def answer(self) -> str:
        """Name of the variable that holds the answer."""
        counted = next((c.variable for c in reversed(self.constraints) if c.kind == "count"), None)
        either = next((c.variable for c in self.constraints if c.kind == "either"), "")
        return counted or (self.body[-1].variable if self.body else either)

    @property
    def key(self) -> tuple[object, ...]:
        """What it says, whatever it is worth and wherever it comes from."""
        return self.anchor, self.body, self.constraints

    @property
    def relations(self) -> tuple[str, ...]:
        """Short ids of all its relations, in order of appearance."""
        atoms = (*self.body, *(a for c in self.constraints for a in c.atoms))
        return tuple(dict.fromkeys(a.relation for a in atoms))

    @property
    def differing(self) -> tuple[tuple[str, str], ...]:
        """Variables that must differ from an earlier node (a variable as `?name`), for paths to be simple.

        Closed paths are simple (SymAgent 4.1 samples them by breadth-first search): where a relation is walked
        there and back, a node differs from the one two steps before; and answers differ from the topic.
        """
        nodes, body = [self.anchor, *(f"?{a.variable}" for a in self.body)], self.body
        back = [
            (body[i].variable, nodes[i - 1])
            for i in range(1, len(body))
            if body[i].relation == body[i - 1].relation and body[i].forward != body[i - 1].forward
        ]
        topic = [(self.answer, self.anchor)] if len(body) > 1 and not self.keeps_topic else []
        return tuple(dict.fromkeys([*back, *topic]))

    def text(self, label: str = "") -> str:
        """The rule in one line, e.g. `Q419 <-[P17]- ?x; ?x is a Q4022; the greatest P2043`."""
        chain = [_path_text(label or self.anchor, self.body)] if self.body else []
        extras = [_constraint_text(c) for c in self.constraints if c.kind != "ask"]
        prefix = "yes or no: " if len(extras) < len(self.constraints) else ""
        return prefix + "; ".join([*chain, *extras])


@dataclass(frozen=True, slots=True)
class DroppedRule:
    """A rule that was thought of and is not handed on, with the reason.

    Attributes:
        text: the rule in one line, as it was proposed or mined. reason, provenance: in words.
        anchor: short id of the topic entity, "" where it is about none.
        relations: short ids in its text, for whoever shows labels.
    """

    text: str
    reason: str
    provenance: str = ""
    anchor: str = ""
    relations: tuple[str, ...] = ()


def dropped(rule: Rule, reason: str) -> DroppedRule:
    """A rule that is dropped."""
    return DroppedRule(rule.text(), reason, rule.provenance, rule.anchor, rule.relations)


def path_text(body: tuple[Atom, ...]) -> str:
    """A body as lists of relations go to a model and come back: `[r1, ^r2]`; `^` is walked backwards."""
    return "[" + ", ".join(f"{'' if a.forward else '^'}{a.relation}" for a in body) + "]"


def _path_text(start: str, atoms: tuple[Atom, ...], end: str = "") -> str:
    """A chain as the papers write it; `end` stands in for its last variable."""
    ends = [f"?{a.variable}" for a in atoms]
    ends[-1:] = [end] if end else ends[-1:]
    return " ".join([start, *(f"{a.arrow()} {node}" for a, node in zip(atoms, ends, strict=True))])


def _constraint_text(constraint: Constraint) -> str:
    """A constraint in words."""
    variable, value, atoms = f"?{constraint.variable}", constraint.value, constraint.atoms
    quantity = " of its ".join(a.relation for a in reversed(atoms)) or variable
    match constraint.kind:
        case "meets":
            return f"and {_path_text(value, atoms)}"
        case "type":
            return f"{variable} is a {value}"
        case "filter":
            return f"with {quantity} {constraint.operator} {value}"
        case "distinct":
            return f"{variable} is not {value}"
        case "max" | "min":
            return f"the {'greatest' if constraint.kind == 'max' else 'least'} {quantity}"
        case "most" | "least":
            return f"the {'most' if constraint.kind == 'most' else 'fewest'} {quantity}"
        case "count":
            return f"how many {value}"
        case "not":
            return f"but not {_path_text(value, atoms)}"
        case "either":
            return " or ".join(_path_text(side, atoms) for side in (constraint.operator, value))
        case "holds":
            return _path_text(constraint.variable, atoms, value)
        case "ask":
            return "yes or no"
        case "computed":
            return "computed"


def no_return(anchor: str, body: tuple[Atom, ...]) -> tuple[Constraint, ...]:
    """Constraints that keep a chain a simple path where a relation is walked there and back.

    Closed paths are simple (SymAgent 4.1 samples them by breadth-first search): a node two steps on
    must differ from the one it came from.
    """
    nodes = [anchor, *(f"?{a.variable}" for a in body)]
    back = [
        i
        for i in range(1, len(body))
        if body[i].relation == body[i - 1].relation and body[i].forward != body[i - 1].forward
    ]
    return tuple(Constraint("distinct", variable=body[i].variable, value=nodes[i - 1]) for i in back)
