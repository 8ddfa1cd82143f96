"""A model's reply to the extraction prompt (SymAgent, figure 6), read as triples that a passage supports.

A triple counts only if it is of the entity and the relation, and a passage has its other end.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from triplewise.tools.core.facts import Passage, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, XSD
from triplewise.tools.extraction.resolution import agree, literal, places, resolve, without_article
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_texts, relation_texts
from triplewise.tools.retrieval.encoder import Encoder

TOGETHER, APART = 0.9, 0.7  # Confidence in a triple whose sentence names both ends, or the other end alone
NEAR_RELATION = 0.6
"""Cosine from which on words are taken for a relation that is not called so (all-MiniLM-L6-v2)."""
ALIASES = 8  # Other names of an entity that passages may use

_LIST = re.compile(r"[\[(]((?:[^\[\]()]|\([^()]*\))+)[\])]")
_EMPTY = re.compile(r"\[\s*\]|\bnone\b|\bno (?:relevant |such )?(?:triples?|facts?)\b", re.IGNORECASE)
_PLACEHOLDERS = ("object", "none", "unknown", "n a", "null")
_SENTENCE_END = re.compile(
    r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bNo\.)(?<!\b[A-Z]\.)"
    r"(?<=[.!?…。])(?:[\"'”’)\]]*)\s+(?=[\"'“‘(\[]*[^\W_a-z])|\s*\n+\s*"
)


class FactRequest(NamedTuple):
    """A request for facts in passages: relation, name of the entity, its node if any, and its aliases."""

    name: str
    relation: IRI
    entity: IRI | None = None
    aliases: tuple[str, ...] = ()


def fact_request(kg: KnowledgeGraph, entity: str, relation: str) -> FactRequest | None:
    """The request for an entity (id or name) and a relation (id); None where the KG has no such relation."""
    iri = kg.profile.expand(relation, relation=True)
    if iri is None:
        return None
    nodes = resolve(kg, [entity]).get(entity.strip(), ())
    if not nodes:
        return FactRequest(entity.strip("'\" "), iri)
    node = max(nodes, key=lambda n: (n.fit, n.popularity)).node
    label = kg.labels([node]).get(node) or kg.profile.short(node)
    aliases = dict.fromkeys(text for _, text in node_texts(kg, [node], kg.profile.alias_predicates))
    return FactRequest(label, iri, node, tuple(alias for alias in aliases if alias != label)[:ALIASES])


def supported_triples(
    reply: str, passages: Sequence[Passage], request: FactRequest, kg: KnowledgeGraph, encoder: Encoder
) -> tuple[list[RawTriple], list[str]]:
    """The triples of a reply that passages support, and why the others, or all, are left out."""
    candidates = list(dict.fromkeys(parse_reply(reply)))
    if not candidates:
        why = "the model found no triple" if _EMPTY.search(reply) else "the model's reply holds no triple"
        return [], [f"{why}: {reply.strip()[:120]!r}"]
    relation = kg.profile.short(request.relation)
    text = relation_texts(kg, [relation])[relation]
    called = list(filter(None, (relation, text.label, text.inverse, *text.aliases)))
    own_id = None if request.entity is None else kg.profile.short(request.entity)
    forms = (form for n in (request.name, *request.aliases) for form in (normalise(n), without_article(n)))
    names = {*forms} - {""}
    supported, reasons = list[RawTriple](), list[str]()
    for candidate in candidates:
        ends = (candidate[0], candidate[2])
        is_own = [e.strip() == own_id or bool({normalise(e), without_article(e)} & names) for e in ends]
        other, fit, support = ends[0] if is_own[1] else ends[1], 1.0, None
        if normalise(candidate[1]) not in {normalise(t) for t in called}:
            fit = float((encoder.encode(called) @ encoder.encode([candidate[1]])[0]).max())
        if is_own[0] == is_own[1]:
            reason = f"it is not about {request.name}"
        elif fit < NEAR_RELATION:
            reason = f"it is not about {text.label}"
        elif (support := _supporting_sentence(other, names, passages)) is None:
            reason = f"no passage has {other!r}"
        if support is None:
            reasons.append(f"({', '.join(candidate)}): {reason}")
            continue
        sentence, passage, together = support
        own, confidence = own_id or request.name, (TOGETHER if together else APART) * min(fit, 1.0)
        head, tail = (own, other) if is_own[0] else (other, own)
        supported.append(RawTriple(head, relation, tail, sentence, passage, round(confidence, 4)))
    return supported, reasons


def parse_reply(reply: str) -> Iterator[tuple[str, str, str]]:
    """The triples of a reply: JSON, or lists in brackets, quoted otherwise or not; all else is left out."""
    start, end, triples = reply.find("["), reply.rfind("]"), list[tuple[str, str, str]]()
    with suppress(ValueError, RecursionError):
        triples = list(_triples_in(json.loads(reply[start : end + 1])))
    for piece in () if triples else _LIST.findall(reply):
        with suppress(csv.Error):
            row = next(csv.reader([" ".join(piece.split())], skipinitialspace=True), [])
            if len(parts := [part.strip(" '\"`“”") for part in row]) >= 3:
                triples.append((parts[0], parts[1], ", ".join(parts[2:])))  # the rest belongs to the object
    for triple in triples:
        says = all(normalise(p) and any(c.isalnum() for c in p) for p in triple)
        if says and normalise(triple[2]) not in _PLACEHOLDERS:
            yield triple


def _triples_in(data: Any) -> Iterator[tuple[str, str, str]]:
    """Triples in lists of lists, or of objects with their parts in this order."""
    parts = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list | tuple) else []
    if len(parts) == 3 and all(isinstance(p, str | int | float) for p in parts[:2]):
        objects = parts[2] if isinstance(parts[2], list | tuple) else [parts[2]]
        yield from ((str(parts[0]), str(parts[1]), str(o)) for o in objects)
    else:
        for part in parts[:200]:
            yield from _triples_in(part)


def _supporting_sentence(
    name: str, entity_names: Collection[str], passages: Sequence[Passage]
) -> tuple[str, Passage, bool] | None:
    """The sentence that has a name, at best one that is about the entity too; and whether it is."""
    second = None
    for passage in passages:
        is_titled = _names_any(passage.title, entity_names)
        for sentence in filter(None, map(str.strip, _SENTENCE_END.split(passage.text))):
            if not (_names_any(sentence, [normalise(name)]) or _has_value(name, sentence)):
                continue
            if is_titled or _names_any(sentence, entity_names):
                return sentence, passage, True
            second = second or (sentence, passage, False)
    return second


def _names_any(text: str, names: Collection[str]) -> bool:
    """Whether a text has one of the names (in normal form) in full."""
    return any(f" {name} " in f" {normalise(text)} " for name in names if name)


def _has_value(value: str, sentence: str) -> bool:
    """Whether a sentence has the same date or number, however it writes it."""
    for start, end, kind in places(sentence):
        datatype = XSD + ("date" if kind == "date" else "decimal")
        sought, there = literal(value, datatype), literal(sentence[start:end], datatype)
        if sought is not None and there is not None and agree(sought, there):
            return True
    return False
