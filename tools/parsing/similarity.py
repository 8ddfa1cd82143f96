"""How words of a question and relations of a graph go together, by the vectors of their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.language.lexicon import lexicon, root, section
from triplewise.tools.retrieval.encoder import EMBEDDED, Encoder, LearnedEncoder, open_encoder, vectors_of

LONGEST = 80
"""Letters of a relation's text that are compared with words."""
NEARLY = 0.9
"""What is at least this share as similar as the best is meant as well."""
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the cosines of an encoder mean.

    Attributes:
        same: two texts name the same; words that are forms of one another are this similar.
        named: a word names a relation. unrelated: below it, a word has nothing to do with a relation.
    """

    same: float
    named: float
    unrelated: float

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
    kg: KnowledgeGraph, encoder: Encoder, groups: Sequence[Sequence[str]], words: Sequence[str]
) -> NDArray[np.float32]:
    """How similar groups of a graph's texts and words are, shape (groups, words).

    It is the best cosine of a group's texts, and at least `same` where one of them shares the root of a word.
    """
    table = np.zeros((len(groups), len(words)), np.float32)
    if not table.size:
        return table
    encoder = words_encoder(encoder)
    vectors = vectors_of(kg, encoder).vectors([text for texts in groups for text in texts])
    cosines, start = vectors @ encoder.encode(list(words)).T, 0
    roots, same = [root(word.lower()) for word in words], thresholds_of(encoder).same
    for row, texts in zip(table, groups, strict=True):
        if texts:
            row[:] = cosines[start : start + len(texts)].max(axis=0)
        start += len(texts)
        own = {root(w) for text in texts for w in _WORD.findall(text.lower()) if w not in lexicon().stop}
        shared = [r in own for r in roots]
        row[shared] = np.maximum(row[shared], same)
    return table


def nearest_kinds(encoder: Encoder, nouns: Sequence[str], least: float = -1.0) -> list[str]:
    """The kinds of things whose prototype words are nearest to nouns; "" below the cosine `least`."""
    prototypes = [(kind, word) for kind, words in section("things").items() for word in words]
    if not nouns:
        return []
    cosines = encoder.encode(list(nouns)) @ encoder.encode([word for _, word in prototypes]).T
    return [prototypes[row.argmax()][0] if row.max() >= least else "" for row in cosines]


def texts_of(text: RelationText, forward: bool) -> tuple[str, ...]:
    """What a relation is called when it is walked in one direction, its main reading first."""
    if forward:
        parts = (text.label, text.object_type, *text.aliases, text.description)
    else:
        parts = (text.inverse or text.label, text.subject_type, *text.aliases)
    short = dict.fromkeys(p for p in parts if p and len(p) <= LONGEST)
    return tuple(short) or (parts[0][:LONGEST],)  # never none: a vector of nothing is no vector


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
