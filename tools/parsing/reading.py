"""Readings of a question: query programs over a KG, best first, each with how sure its answer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.retrieval.encoder import Encoder


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a question, as a query program. JSON-able: it is kept in LangGraph's state.

    Attributes:
        program: PyQL, one action a line (`PyQL.parse` reads it back).
        text: the program in words, in one line.
        score: log-linear score of its derivation: readings of one question can be compared.
        confidence: calibrated probability that its answer is exactly right, in [0, 1].
        provenance: where it comes from, in words ("the words of the question", "2 seed questions").
        values: some of its answers, as ids and literals ("true" or "false" for yes or no).
        uncovered: words of the question that became nothing.
        nearest: labels of the relations of the graph that are nearest to the uncovered words.
        missing: in words, a fact that is asked for, that the graph lacks, and that others of the kind have.
        features: what the confidence was computed from.
    """

    program: str
    text: str
    score: float
    confidence: float
    provenance: str = "the words of the question"
    values: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    missing: str = ""
    features: Mapping[str, float] = field(default_factory=dict)


def read_question(
    question: str,
    kg: KnowledgeGraph,
    encoder: Encoder,
    linked: Mapping[str, str] | None = None,
    seeds: Any = None,
    most: int = 5,
) -> tuple[Reading, ...]:
    """Return the readings of a question over a KG, best first, one for each distinct answer.

    Args:
        linked: mention -> id of the entities that the question names, where the caller says so; None: found.
        seeds: the seed questions whose chains are derivations too.
        most: readings returned.
    """
    return ()
