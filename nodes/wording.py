"""Answers in words: labels of their values, yes and no, and a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.parsing.statements import decides

_TRUE = {"true", "yes", "correct", "right", "supported"}

_FALSE = {"false", "no", "incorrect", "wrong", "refuted", "not true"}

YES_NO = {"true": "Yes", "false": "No"}


def labels_of(kg: KnowledgeGraph, values: Iterable[str]) -> tuple[str, ...]:
    """Return the readable text of answer values, in their order; numbers are grouped, dates are in words."""
    values = list(values)
    if len(values) == 1 and values[0] in YES_NO:
        return (YES_NO[values[0]],)
    iris = {v: iri for v in values if (iri := kg.profile.expand(v)) is not None}
    labels = kg.labels(iris.values(), partial=True)
    texts = []
    for value in values:
        iri = iris.get(value)
        label = labels.get(iri, "") if iri is not None else ""
        # Where ids are names, a literal would pass for one too: no node is called so.
        if iri is not None and label and label == kg.profile.local_text(iri):
            label = label if kg.index is not None and kg.index.node(iri) is not None else ""
        if not label and (iri is None or kg.profile.entity_text == "local"):
            is_number = value.lstrip("-").replace(".", "", 1).isdigit()
            number = Literal(value, XSD + ("decimal" if "." in value else "integer"))
            label = readable(number) if is_number else readable_text(value)
        texts.append(label or value)
    return tuple(texts)


def normal_values(text: str, values: Sequence[str]) -> tuple[str, ...]:
    """The values of an answer; yes, no and their like are `true` or `false` where a text asks for that."""
    if not decides(text) or len(values) != 1:
        return tuple(values)
    word = values[0].strip(" .!\"'").casefold()
    truth = "true" if word in _TRUE else "false" if word in _FALSE else ""
    return (truth,) if truth else tuple(values)


def sentence(labels: tuple[str, ...]) -> str:
    """Return the answer in words."""
    if len(labels) > 1:
        return f"{', '.join(labels[:-1])} and {labels[-1]}."
    return f"{labels[0]}." if labels else ""
