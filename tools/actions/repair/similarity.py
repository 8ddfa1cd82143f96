"""How alike texts are: to the question, and to what was meant in the step that failed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triplewise.tools.core.names import normalise
from triplewise.tools.kg.labels import similarity
from triplewise.tools.retrieval.encoder import Encoder


def nearness(text: str, other: str) -> float:
    """How alike two names are by their letters, 0 to 1."""
    one, two = normalise(text), normalise(other)
    return similarity(one, two) if one and two else 0.0


class TextSimilarity:
    """Compares texts with a question by vectors, or by their letters where there is no encoder.

    The encoder keeps the vectors of texts it has seen, so nothing is embedded twice.
    """

    def __init__(self, question: str, encoder: Encoder | None = None) -> None:
        self.question, self._encoder = question, encoder

    def to_question(self, texts: Sequence[str]) -> list[float]:
        """Of each text to the question."""
        return self.between(self.question, texts)

    def between(self, text: str, texts: Sequence[str]) -> list[float]:
        """Of each text to one text: a cosine, or the similarity of their letters."""
        if not text.strip() or not texts:
            return [0.0] * len(texts)
        if self._encoder is None:
            return [nearness(text, other) for other in texts]
        vectors = self._encoder.encode([text, *texts])
        return [float(x) for x in np.asarray(vectors[1:] @ vectors[0])]
