"""Rules in words: a person and a model read the same line."""

from __future__ import annotations

from typing import get_args

import pytest

from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule

IN = Atom("P17", False, "x")
LENGTH = Atom("P2043", True, "length")

WORDS = {
    "meets": (
        Constraint("meets", "x", (Atom("P57", False, "x"),), value="Q1"),
        "Q419 <-[P17]- ?x; and Q1 <-[P57]- ?x",
    ),
    "type": (Constraint("type", "x", value="Q4022"), "Q419 <-[P17]- ?x; ?x is a Q4022"),
    "filter": (Constraint("filter", "x", (LENGTH,), ">", "500"), "Q419 <-[P17]- ?x; with P2043 > 500"),
    "max": (Constraint("max", "x", (LENGTH,)), "Q419 <-[P17]- ?x; the greatest P2043"),
    "min": (
        Constraint("min", "x", (Atom("P36", True, "c"), LENGTH)),
        "Q419 <-[P17]- ?x; the least P2043 of its P36",
    ),
    "most": (Constraint("most", "x", (Atom("P37", True, "l"),)), "Q419 <-[P17]- ?x; the most P37"),
    "least": (Constraint("least", "x", (Atom("P37", True, "l"),)), "Q419 <-[P17]- ?x; the fewest P37"),
    "count": (Constraint("count", "count", value="?x"), "Q419 <-[P17]- ?x; how many ?x"),
    "ask": (Constraint("ask"), "yes or no: Q419 <-[P17]- ?x"),
    "holds": (
        Constraint("holds", "Q17", (Atom("P36", True, "c"),), value="Q1490"),
        "Q419 <-[P17]- ?x; Q17 -[P36]-> Q1490",
    ),
    "either": (
        Constraint("either", "x", (IN,), "Q1", "Q2"),
        "Q419 <-[P17]- ?x; Q1 <-[P17]- ?x or Q2 <-[P17]- ?x",
    ),
    "not": (Constraint("not", "x", (IN,), value="Q1"), "Q419 <-[P17]- ?x; but not Q1 <-[P17]- ?x"),
    "distinct": (Constraint("distinct", "x", value="Q1"), "Q419 <-[P17]- ?x; ?x is not Q1"),
}


@pytest.mark.parametrize("kind", get_args(ConstraintKind))
def test_every_kind_of_constraint_reads_in_words(kind: str) -> None:
    constraint, words = WORDS[kind]
    assert Rule("Q419", (IN,), (constraint,)).text() == words


def test_a_chain_reads_as_the_papers_write_it() -> None:
    assert Rule("Q419", (IN, LENGTH)).text("Peru") == "Peru <-[P17]- ?x -[P2043]-> ?length"
