"""How well a whole rule body fits a whole question, as an encoder has learned it (SymAgent 4.3).

`lexical.score` compares the words of a question and the relations of a KG one by one.
An encoder that learned which relations led to the answers of questions also knows what is asked by all words
together: its question vector, mentions masked, is compared with the vector of the path's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import Body, end_type
from triplewise.tools.planning.lexical.question import MENTION, QuestionView
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

Steps = Sequence[tuple[str, bool]]
"""Relations of a path, each with whether it is walked forward."""


@runtime_checkable
class PathEncoder(Protocol):
    """An encoder that has learned to compare questions with paths.

    Attributes:
        path_weight: weight of that likeness beside the score of single words.
        sure: likeness that most right paths have.
        words: the encoder for single words and names, which it has learned nothing about.
    """

    @property
    def path_weight(self) -> float:
        """Weight of the likeness of question and path."""
        ...

    @property
    def sure(self) -> float:
        """Likeness that most right paths have."""
        ...

    @property
    def words(self) -> Encoder:
        """The encoder of single words."""
        ...


def words_of(encoder: Encoder) -> Encoder:
    """The encoder for single words: its own for one that has learned paths, else the encoder itself."""
    return encoder.words if isinstance(encoder, PathEncoder) else encoder


def path_text(texts: Mapping[str, RelationText], steps: Steps) -> str:
    """A path in words, the relations in the order they are walked."""
    return ", then ".join(step_words(texts[relation], forward) for relation, forward in steps)


def step_words(text: RelationText, forward: bool) -> str:
    """One relation in words with the kind of thing it leads to, where that is declared."""
    said = text.label if forward else text.inverse or f"whose {text.label} it is"
    end = end_type(text, forward)
    return f"{said} ({end})" if end and end.casefold() != said.casefold() else said


def masked_view(view: QuestionView) -> str:
    """The question in lower case with each mention replaced by one word."""
    return " ".join(MENTION if t.mention >= 0 else t.lower for t in view.tokens)


class PathFit:
    """Likeness of one question with rule bodies by an encoder that has learned paths; 0 by any other.

    Args:
        kg: has the words of relations. encoder: see `PathEncoder`. view: the question.
    """

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, view: QuestionView) -> None:
        self._kg, self._encoder = kg, encoder
        learned = encoder if isinstance(encoder, PathEncoder) else None
        self.weight = learned.path_weight if learned else 0.0
        self.sure = learned.sure if learned else 1.0
        self._question = encoder.encode([masked_view(view)])[0] if self.weight else None
        self._known: dict[tuple[tuple[str, bool], ...], float] = {}

    def of(self, bodies: Sequence[Body]) -> np.ndarray:
        """Cosine of the question and each body, float64 of shape (bodies,); new ones are encoded at once."""
        if self._question is None:
            return np.zeros(len(bodies))
        keys = [tuple((a.relation, a.forward) for a in body) for body in bodies]
        new = [k for k in dict.fromkeys(keys) if k not in self._known]
        if new:
            texts = relation_texts(self._kg, {r for key in new for r, _ in key})
            said = [path_text(texts, key) for key in new]
            likeness = vectors_of(self._kg, self._encoder).vectors(said) @ self._question
            self._known |= dict(zip(new, likeness.tolist(), strict=True))
        return np.array([self._known[k] for k in keys])
