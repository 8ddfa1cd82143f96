"""Relations that a language model names, aligned to relations that the KG really has (SymAgent 4.1).

A name is taken for a relation around the place where it is walked: by its id, by a label or an alias of it,
or by the likeness of its vector to those texts. What is none of these was made up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Atom
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import relation_form, texts_of
from triplewise.tools.planning.lexical.question import lexicon, stem
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

NEAR = 0.6
"""Cosine from which on a name that is no id and no label is taken for the relation nearest to it."""
SPOKEN = 0.65
"""Least likeness of a name that holds all words of a relation's text, in any form ("film director")."""
CLOSE = 0.08
"""Relations whose cosine is lower than the best one by no more than this are taken for meant as well."""

How = Literal["id", "label", "alias", "near"]
_BACKWARDS = re.compile(r"^\s*(?:[\^~]|inverse of\b)|(?:\^-1|\(inverse\))\s*$", re.IGNORECASE)
_EXPLAINED = re.compile(r"^(\S+)\s*\((.+)\)$")


@dataclass(frozen=True, slots=True)
class Aligned:
    """What a name is taken for: an atom, how it was found, and the cosine (1 for id, label, alias)."""

    atom: Atom
    how: How
    likeness: float = 1.0


@dataclass(frozen=True, slots=True)
class Named:
    """A relation as a model writes it: the text, and whether it says that it is walked backwards."""

    text: str
    backwards: bool = False

    @property
    def written(self) -> str:
        """As this package writes it."""
        return f"^{self.text}" if self.backwards else self.text


def named(written: str) -> Named:
    """Read `r`, `^r`, `inverse of r` or `r^-1`; a direction that is not written may be either."""
    bare = _BACKWARDS.sub("", written).strip(" \n'\"`?")
    return Named(bare, bare != written.strip(" \n'\"`?"))


class Aligner:
    """Aligns names to relations; remembers nothing but the vectors of the KG's own texts.

    Args:
        near: least cosine of a near miss.
    """

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, near: float = NEAR) -> None:
        self._kg, self._encoder, self._near = kg, encoder, near

    def match(self, name: Named, steps: Sequence[Atom]) -> list[Aligned]:
        """The steps that a name may mean, best first; () where it is like none of them."""
        allowed = [a for a in steps if not (name.backwards and a.forward)]
        return self._by_id(name, allowed) or self._by_text(name, allowed) or self._by_vector(name, allowed)

    def nearest(self, name: Named, steps: Sequence[Atom]) -> Aligned | None:
        """The step nearest to a name by cosine, however far; None without steps."""
        return max(self._likenesses(name, steps), key=lambda a: a.likeness, default=None)

    def _by_id(self, name: Named, steps: Sequence[Atom]) -> list[Aligned]:
        """Steps over the relation with this id; `P36 (capital)` is an id with its label."""
        explained = _EXPLAINED.match(name.text)
        forms = {relation_form(self._kg, t) for t in (name.text, explained[1] if explained else name.text)}
        return [Aligned(a, "id") for a in steps if a.relation in forms]

    def _by_text(self, name: Named, steps: Sequence[Atom]) -> list[Aligned]:
        """Steps whose label, inverse reading or alias is this text."""
        wanted = _key(name.text)
        found: list[Aligned] = []
        for atom, text in self._texts(steps):
            main, *others = [_key(t) for t in _said(text, atom.forward)] or [()]
            if wanted == main:
                found.append(Aligned(atom, "label"))
            elif wanted in others:
                found.append(Aligned(atom, "alias"))
        return sorted(found, key=lambda a: a.how != "label")

    def _by_vector(self, name: Named, steps: Sequence[Atom]) -> list[Aligned]:
        """Steps whose texts are as like the name as the threshold asks, and nearly as like as the best."""
        scored = sorted(self._likenesses(name, steps), key=lambda a: -a.likeness)
        least = max(self._near, scored[0].likeness - CLOSE) if scored else 0.0
        return [a for a in scored if a.likeness >= least]

    def _likenesses(self, name: Named, steps: Sequence[Atom]) -> list[Aligned]:
        """Every step with the best cosine of its texts to the name."""
        spoken = [(atom, _said(text, atom.forward)) for atom, text in self._texts(steps)]
        spoken = [(atom, texts) for atom, texts in spoken if texts]
        if not spoken:
            return []
        wanted = self._encoder.encode([self._readable(name)])[0]
        store = vectors_of(self._kg, self._encoder)
        held = set(_key(name.text))
        cosines = [float((store.vectors(texts) @ wanted).max()) for _, texts in spoken]
        told = [any(set(_key(t)) <= held for t in texts) for _, texts in spoken]
        return [
            Aligned(a, "near", max(cosine, SPOKEN * said))
            for (a, _), cosine, said in zip(spoken, cosines, told, strict=True)
        ]

    def _readable(self, name: Named) -> str:
        """A name as words: the id of a relation elsewhere in the KG reads as its label."""
        return relation_texts(self._kg, [name.text])[name.text].label or name.text

    def _texts(self, steps: Sequence[Atom]) -> list[tuple[Atom, RelationText]]:
        """Steps with the texts of their relations; one query for all."""
        docs = relation_texts(self._kg, [a.relation for a in steps])
        return [(a, docs[a.relation]) for a in steps]


def _key(text: str) -> tuple[str, ...]:
    """The stems of a text without words that only join others, so that forms of one wording meet."""
    words = normalise(text).split()
    return tuple(stem(w) for w in words if w not in lexicon()["stopwords"]) or tuple(words)


def _said(text: RelationText, forward: bool) -> tuple[str, ...]:
    """What may be said for a step: also the plain label where a relation is walked backwards."""
    return tuple(dict.fromkeys((*texts_of(text, forward)[:1], text.label, *text.aliases)))
