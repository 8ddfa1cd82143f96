"""A model's reply to the extraction prompt (SymAgent, figure 6), read as triples that a passage supports.

Whatever a model replies, a triple counts only if it is about the entity asked for and a passage has its other
end: the rest is left out, with the reason.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from triplewise.tools.core.facts import Passage, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, XSD
from triplewise.tools.extraction.entity_names import resolve, without_article
from triplewise.tools.extraction.values import agree, literal, places
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts

TOGETHER, APART = 0.9, 0.7  # Confidence in a triple whose sentence names both ends, or the other end alone
OTHER_RELATION = 0.8  # Its factor where the model wrote another relation than the one asked for
ALIASES = 8  # Other names of an entity that passages may use

_LIST = re.compile(r"\[([^\[\]]+)\]")
_ROUND = re.compile(r"\(((?:[^()]|\([^()]*\))+)\)")
_EMPTY = re.compile(r"\[\s*\]|\bnone\b|\bno (?:relevant |such )?(?:triples?|facts?)\b", re.IGNORECASE)
_KEYS = (("subject", "head", "entity"), ("relation", "predicate"), ("object", "tail", "value"))
_PLACEHOLDERS = ("object", "none", "unknown", "n a", "null")
_SENTENCE_END = re.compile(
    r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bNo\.)(?<!\b[A-Z]\.)"
    r"(?<=[.!?…。])(?:[\"'”’)\]]*)\s+(?=[\"'“‘(\[]*[^\W_a-z])|\s*\n+\s*"
)


@dataclass(frozen=True, slots=True)
class FactRequest:
    """Facts asked for in passages: of a relation, about an entity, its node if any, and its aliases."""

    name: str
    relation: IRI
    entity: IRI | None = None
    aliases: tuple[str, ...] = ()


class ReplyTriples(NamedTuple):
    """The triples of a reply. `reasons`: what was left out and why, or why there is nothing."""

    triples: tuple[RawTriple, ...]
    reasons: tuple[str, ...] = ()


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
    aliases: dict[str, None] = {}
    if predicates := [IRI(p).n3() for p in kg.profile.alias_predicates]:
        result = kg.query(f"SELECT ?a WHERE {{ {node.n3()} {'|'.join(predicates)} ?a }}", limit=4 * ALIASES)
        languages = ("", "mul", kg.profile.language)
        for (alias,) in result.rows:
            language = getattr(alias, "language", "").partition("-")[0]
            if alias is not None and language in languages and alias.value != label:
                aliases[alias.value] = None
    return FactRequest(label, iri, node, tuple(aliases)[:ALIASES])


def supported_triples(
    reply: str, passages: Sequence[Passage], request: FactRequest, kg: KnowledgeGraph
) -> ReplyTriples:
    """The triples of a reply that passages support, and why the others are left out."""
    candidates = list(dict.fromkeys(parse_reply(reply)))
    if not candidates:
        why = "the model found no triple" if _EMPTY.search(reply) else "the model's reply holds no triple"
        return ReplyTriples((), (f"{why}: {reply.strip()[:120]!r}",))
    supported, reasons = [], []
    for candidate in candidates:
        result = _support(candidate, passages, request, kg)
        if isinstance(result, str):
            reasons.append(f"({', '.join(candidate)}): {result}")
        else:
            supported.append(result)
    return ReplyTriples(tuple(supported), tuple(reasons))


def parse_reply(reply: str) -> Iterator[tuple[str, str, str]]:
    """The triples of a reply: JSON, Python, or lists in brackets without quotes; all else is passed over."""
    start, end = reply.find("["), reply.rfind("]")
    triples: list[tuple[str, str, str]] = []
    for read in (json.loads, ast.literal_eval) if 0 <= start < end else ():
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            triples = list(_triples_in(read(reply[start : end + 1])))
            break
    if not triples:
        for piece in _LIST.findall(reply) or _ROUND.findall(reply):
            parts: list[str] = []
            with suppress(csv.Error):
                parts = next(csv.reader([" ".join(piece.split())], skipinitialspace=True), [])
            parts = [p.strip(" '\"`“”") for p in parts]
            if len(parts) >= 3:  # what is left over belongs to the object
                triples.append((parts[0], parts[1], ", ".join(parts[2:])))
    for triple in triples:
        says = all(normalise(p) and any(c.isalnum() for c in p) for p in triple)
        if says and normalise(triple[2]) not in _PLACEHOLDERS:
            yield triple


def _triples_in(data: Any) -> Iterator[tuple[str, str, str]]:
    """Triples in lists of lists, or of objects with keys such as subject, relation and object."""
    if isinstance(data, dict):
        parts = [next((data[k] for k in keys if k in data), None) for keys in _KEYS]
        yield from _triples_in(parts) if all(p is not None for p in parts) else ()
    elif isinstance(data, list | tuple):
        if len(data) == 3 and all(isinstance(p, str | int | float) for p in data[:2]):
            objects = data[2] if isinstance(data[2], list | tuple) else [data[2]]
            yield from ((str(data[0]), str(data[1]), str(o)) for o in objects)
        else:
            for part in data[:200]:
                if isinstance(part, dict | list | tuple):
                    yield from _triples_in(part)


def _support(
    triple: tuple[str, str, str], passages: Sequence[Passage], request: FactRequest, kg: KnowledgeGraph
) -> RawTriple | str:
    """A triple with the sentence that supports it; or why it is left out."""
    names = {
        form for n in (request.name, *request.aliases) for form in (normalise(n), without_article(n))
    } - {""}
    own_id = None if request.entity is None else kg.profile.short(request.entity)
    ends = (triple[0], triple[2])
    is_own = [e.strip() == own_id or normalise(e) in names or without_article(e) in names for e in ends]
    if is_own[0] == is_own[1]:
        return f"it is not about {request.name}"
    other = ends[0] if is_own[1] else ends[1]
    support = _supporting_sentence(other, names, passages)
    if support is None:
        return f"no passage has {other!r}"
    sentence, passage, together = support
    relation = kg.profile.short(request.relation)
    text = relation_texts(kg, [relation])[relation]
    is_asked = normalise(triple[1]) in {normalise(w) for w in (relation, text.label, *text.aliases)}
    entity = own_id or request.name
    confidence = (TOGETHER if together else APART) * (1.0 if is_asked else OTHER_RELATION)
    return RawTriple(
        entity if is_own[0] else other,
        relation if is_asked else triple[1],
        entity if is_own[1] else other,
        sentence,
        passage,
        round(confidence, 4),
    )


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
