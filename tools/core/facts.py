"""What is known of a fact that a document gave: the triple, where it was read, and what became of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from triplewise.tools.core.terms import Triple

FactStatus = Literal["proposed", "accepted", "rejected"]  # `proposed` until a person has decided


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document with its title, and its source: a path relative to its folder, or a URL."""

    text: str
    title: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class RawTriple:
    """A triple as a sentence has it, in words or ids, not aligned to the KG yet (SymAgent, figure 6)."""

    subject: str
    relation: str
    object: str
    sentence: str
    passage: Passage
    confidence: float


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact aligned to the KG, with the question that it was read for, and where it was read."""

    triple: Triple  # its terms are the KG's own, or minted
    labels: dict[str, str]  # id -> name of minted terms
    question: str
    document: str
    source: str
    sentence: str
    time: str  # ISO 8601 in UTC
    reader: str  # the model, or `embedded`
    confidence: float
    conflicts: tuple[str, ...] = ()  # facts of the KG that it contradicts, as text
    status: FactStatus = "proposed"

    @property
    def id(self) -> str:
        """Short name of the triple, the same wherever it was read: 12 hex digits."""
        return hashlib.sha256(self.triple.n3().encode()).hexdigest()[:12]
