"""How words of a question and relations of a graph go together, by the vectors of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.language.lexicon import root, word_list
from triplewise.tools.retrieval.encoder import EMBEDDED, Encoder, LearnedEncoder, open_encoder, vectors_of

NEARLY = 0.9  # what is at least this share as similar as the best is meant as well
_WORD = re.compile(r"[^\W\d_]+")


class Thresholds(NamedTuple):
    """What the cosines of an encoder mean."""

    same: float  # two texts name the same; words that are forms of one another are this similar
    named: float  # a word names a relation
    unrelated: float  # below it, a word has nothing to do with a relation

    @property
    def alike(self) -> float:
        """Half-way between `same` and `named`: a relation that a model names."""
        return (self.same + self.named) / 2


def words_encoder(encoder: Encoder) -> Encoder:
    """The encoder for single words: an encoder that has learned paths has one of its own."""
    return open_encoder() if isinstance(encoder, LearnedEncoder) else encoder


def thresholds_of(encoder: Encoder) -> Thresholds:
    """The thresholds of an encoder, chosen by training questions; those of others are guessed."""
    is_embedded = words_encoder(encoder).name == EMBEDDED
    return Thresholds(0.77, 0.5, 0.35) if is_embedded else Thresholds(0.72, 0.55, 0.3)


def similarities(
    kg: KnowledgeGraph, encoder: Encoder, groups: Sequence[Sequence[str]], word: str
) -> list[float]:
    """How similar a word is to groups of a graph's texts.

    It is the best cosine of a group's texts, and at least `same` where one of them has the root of the word.
    """
    encoder, stop, of_word = words_encoder(encoder), word_list("stop"), root(word.lower())
    vectors = vectors_of(kg, encoder).vectors([text for texts in groups for text in texts])
    cosines = iter((vectors @ encoder.encode([word])[0]).tolist() if groups else ())
    found = list[float]()
    for texts in groups:
        best = max((next(cosines) for _ in texts), default=0.0)
        words = (w for text in texts for w in _WORD.findall(text.lower()) if w not in stop)
        found.append(max(best, thresholds_of(encoder).same) if of_word in map(root, words) else best)
    return found


def end_type(text: RelationText, forward: bool) -> str:
    """What stands at the far end: its declared type; forward without one, the relation's own name."""
    return (text.object_type or text.label) if forward else text.subject_type


def walked_text(texts: Mapping[str, RelationText], path: Iterable[tuple[str, bool]]) -> str:
    """Relations in words, in the order they are walked, each with the kind it leads to."""
    parts = []
    for relation, forward in path:
        text = texts[relation]
        name = text.label if forward else text.inverse or f"whose {text.label} it is"
        end = end_type(text, forward)
        parts.append(f"{name} ({end})" if end and end.casefold() != name.casefold() else name)
    return ", then ".join(parts)
