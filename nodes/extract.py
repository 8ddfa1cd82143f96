"""Extract: triples from documents for what the KG does not say (SymAgent 4.2.1, extractTriples, figure 6).

Two readers share one contract: a language model prompted as in figure 6, or the embedded one. Whatever a
model replies, a triple counts only if a passage has its object: the rest is left out, with the reason.
"""

from __future__ import annotations

import ast
import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from triplewise.nodes.context import Context
from triplewise.nodes.resources import documents_of, encoder_of, kg_of, model_of, prompt_of
from triplewise.tools.core.errors import DocumentsUnavailableError
from triplewise.tools.core.facts import ExtractedFact, Passage, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, XSD
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.reading.alignment import align
from triplewise.tools.reading.base import Asked, known_as
from triplewise.tools.reading.naming import resolve
from triplewise.tools.reading.reader import read_passages
from triplewise.tools.reading.sentences import occurrences, sentences, without_article
from triplewise.tools.reading.values import agree, literal, places

READ = 40
"""Passages that are read for one entity and relation."""
CHARACTERS = 12_000
"""Characters of passages that a model is shown at once."""
TOGETHER, APART = 0.9, 0.7
"""Confidence in a model's triple whose sentence names both ends, or the object alone."""
OTHER_RELATION = 0.8
"""What it is multiplied by where the model wrote another relation than the one asked."""

_LIST = re.compile(r"\[([^\[\]]+)\]")
_ROUND = re.compile(r"\(((?:[^()]|\([^()]*\))+)\)")
_EMPTY = re.compile(r"\[\s*\]|\bnone\b|\bno (?:relevant |such )?(?:triples?|facts?)\b", re.IGNORECASE)
_KEYS = (("subject", "head", "entity"), ("relation", "predicate"), ("object", "tail", "value"))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader found. `reasons`: what was left out and why, or why there is nothing."""

    triples: tuple[RawTriple, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """What documents add to the KG about an entity and a relation.

    Attributes:
        passages: that were read, best first. facts: aligned, most certain first; none that the KG has.
        reasons: what was left out and why, or why there is nothing. reader: the model, or `embedded`.
    """

    passages: tuple[Passage, ...]
    facts: tuple[ExtractedFact, ...]
    reasons: tuple[str, ...] = ()
    reader: str = "embedded"


def complete(
    entity: str, relation: str, question: str, context: Context, kg: KnowledgeGraph | None = None
) -> Completion:
    """Search the documents, read triples, align them: what a search of the agent fires.

    Args:
        entity: id or name. relation: id. question: that is to be answered.
        context: names documents, model and encoder. kg: what facts are aligned to; None for the context's.
    """
    kg = kg or kg_of(context)
    documents = documents_of(context)
    if documents is None:
        return Completion((), (), ("no documents are configured",), context.model)
    asked = asked_for(kg, entity, relation, question)
    if asked is None:
        return Completion((), (), (f"the graph has no relation {relation}",), context.model)
    words = _words(_text(kg, asked.relation))
    try:
        passages = documents.find(asked.name, words, question, aliases=asked.aliases, limit=READ)
    except DocumentsUnavailableError as error:
        return Completion((), (), (str(error),), context.model)
    reading = read(passages, asked, context, kg)
    facts = align(reading.triples, kg, encoder_of(context), question, context.model)
    return Completion(passages, facts, reading.reasons, context.model)


def extract(
    passages: Sequence[Passage], entity: str, relation: str, question: str, context: Context
) -> list[RawTriple]:
    """Triples of one relation about one entity, by the model of the context or the embedded reader.

    Args:
        passages: what is read. entity: id or name. relation: id. question: that is to be answered.
    """
    kg = kg_of(context)
    asked = asked_for(kg, entity, relation, question)
    return [] if asked is None else list(read(passages, asked, context, kg).triples)


def read(passages: Sequence[Passage], asked: Asked, context: Context, kg: KnowledgeGraph) -> Reading:
    """Triples with what was left out and why."""
    if not passages:
        return Reading((), (f"no document names {asked.name}",))
    if context.embedded:
        triples = read_passages(passages, asked, kg, encoder_of(context))
        return Reading(triples, () if triples else ("no sentence states the relation asked",))
    prompt = prompt_of(context)
    if "extract" not in prompt:
        prompt = prompt_of(Context(prompt="symagent"))
    text = _text(kg, asked.relation)
    written = prompt.render(
        "extract",
        question=asked.question,
        entity=asked.name,
        relation=text.label,
        document=_document(passages),
    )
    reply = model_of(context).complete([{"role": "user", "content": written}])
    reading = check(reply.text, passages, asked, kg)
    for reason in reading.reasons:
        _log.info("extraction about %s: %s", asked.name, reason)
    return reading


def asked_for(kg: KnowledgeGraph, entity: str, relation: str, question: str) -> Asked | None:
    """What is asked, from an entity (id or name) and a relation (id); None without such a relation."""
    iri = kg.profile.expand(relation, relation=True)
    if iri is None:
        return None
    named = resolve(kg, [entity]).get(entity.strip(), ())
    if not named:
        return Asked(entity.strip("'\" "), iri, None, (), question)
    node = max(named, key=lambda n: (n.fit, n.popularity)).node
    name, aliases = known_as(kg, node)
    return Asked(name, iri, node, aliases, question)


def check(reply: str, passages: Sequence[Passage], asked: Asked, kg: KnowledgeGraph) -> Reading:
    """The triples of a reply that passages support, and why the others are left out."""
    written = list(dict.fromkeys(parse_reply(reply)))
    if not written:
        said = "the model found no triple" if _EMPTY.search(reply) else "the model's reply holds no triple"
        return Reading((), (f"{said}: {reply.strip()[:120]!r}",))
    kept, reasons = [], []
    for triple in written:
        one = _supported(triple, passages, asked, kg)
        if isinstance(one, str):
            reasons.append(f"({', '.join(triple)}): {one}")
        else:
            kept.append(one)
    return Reading(tuple(kept), tuple(reasons))


def parse_reply(reply: str) -> Iterator[tuple[str, str, str]]:
    """The triples of a reply: JSON, Python, or lists in brackets without quotes; all else is passed over."""
    start, end = reply.find("["), reply.rfind("]")
    data = _literal(reply[start : end + 1]) if 0 <= start < end else None
    found = list(_from_data(data))
    if not found:
        pieces = _LIST.findall(reply) or _ROUND.findall(reply)
        found = [t for piece in pieces if (t := _from_text(piece)) is not None]
    yield from (t for t in found if _is_filled(t))


def _literal(text: str) -> Any:
    """A list as JSON or Python writes it; None if it is neither."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    return None


def _from_data(data: Any) -> Iterator[tuple[str, str, str]]:
    """Triples in lists of lists, or of objects with keys such as subject, relation and object."""
    if isinstance(data, dict):
        parts = [next((data[k] for k in keys if k in data), None) for keys in _KEYS]
        yield from _from_data(parts) if all(p is not None for p in parts) else ()
    elif isinstance(data, list | tuple):
        if len(data) == 3 and all(isinstance(p, str | int | float) for p in data[:2]):
            objects = data[2] if isinstance(data[2], list | tuple) else [data[2]]
            yield from ((str(data[0]), str(data[1]), str(o)) for o in objects)
        else:
            for part in data[:200]:
                if isinstance(part, dict | list | tuple):
                    yield from _from_data(part)


def _from_text(piece: str) -> tuple[str, str, str] | None:
    """Three parts between commas; what is left over belongs to the object."""
    try:
        parts = next(csv.reader([" ".join(piece.split())], skipinitialspace=True), [])
    except csv.Error:
        return None
    parts = [p.strip(" '\"`“”") for p in parts]
    return (parts[0], parts[1], ", ".join(parts[2:])) if len(parts) >= 3 else None


def _is_filled(triple: tuple[str, str, str]) -> bool:
    """Whether all parts say something: not those of the form that was shown."""
    return all(normalise(p) and any(c.isalnum() for c in p) for p in triple) and normalise(triple[2]) not in (
        *("object", "none", "unknown", "n a", "null"),
    )


def _supported(
    triple: tuple[str, str, str], passages: Sequence[Passage], asked: Asked, kg: KnowledgeGraph
) -> RawTriple | str:
    """A triple with the sentence that has it; or why it is left out."""
    names = {n for name in asked.names for n in (normalise(name), without_article(name))}
    ends, own = (triple[0], triple[2]), [_is_own(e, names, asked, kg) for e in (triple[0], triple[2])]
    if not any(own) or all(own):
        return f"it is not about {asked.name}"
    other = ends[0] if own[1] else ends[1]
    found = _sentence(other, names, passages)
    if found is None:
        return f"no passage has {other!r}"
    sentence, passage, together = found
    profile, text = kg.profile, _text(kg, asked.relation)
    same = {normalise(w) for w in (profile.short(asked.relation), text.label, *text.aliases)}
    as_asked = normalise(triple[1]) in same
    entity = asked.name if asked.entity is None else profile.short(asked.entity)
    confidence = (TOGETHER if together else APART) * (1.0 if as_asked else OTHER_RELATION)
    return RawTriple(
        entity if own[0] else other,
        profile.short(asked.relation) if as_asked else triple[1],
        entity if own[1] else other,
        sentence,
        passage,
        round(confidence, 4),
    )


def _is_own(name: str, names: Iterable[str], asked: Asked, kg: KnowledgeGraph) -> bool:
    """Whether a name is that of the entity asked about, or its id."""
    if asked.entity is not None and name.strip() == kg.profile.short(asked.entity):
        return True
    return normalise(name) in names or without_article(name) in names


def _sentence(
    name: str, names: Iterable[str], passages: Sequence[Passage]
) -> tuple[str, Passage, bool] | None:
    """The sentence that has a name, best one that also names the entity; whether it does."""
    entity, second = set(names), None
    for passage in passages:
        title = f" {normalise(passage.title)} "
        titled = any(f" {n} " in title for n in entity if n)
        for _, text in sentences(passage.text):
            if not _stands_in(name, text):
                continue
            if titled or occurrences(text, entity):
                return text, passage, True
            second = second or (text, passage, False)
    return second


def _stands_in(name: str, sentence: str) -> bool:
    """Whether a sentence has a name, or, however it writes it, the same date or number."""
    norm = normalise(name)
    if norm and f" {norm} " in f" {normalise(sentence)} ":
        return True
    for kind, datatype in (("date", XSD + "date"), ("number", XSD + "decimal")):
        value = literal(name, datatype)
        for start, end, found in places(sentence) if value is not None else ():
            other = literal(sentence[start:end], datatype)
            if value is not None and found == kind and other is not None and agree(value, other):
                return True
    return False


def _document(passages: Sequence[Passage]) -> str:
    """Passages as a model is shown them, as many as fit."""
    lines: list[str] = []
    left = CHARACTERS
    for passage in passages:
        line = f"{passage.title}: {passage.text}" if passage.title else passage.text
        if len(line) > left and lines:
            break
        lines.append(line[:left])
        left -= len(line)
    return "\n\n".join(lines)


def _text(kg: KnowledgeGraph, relation: IRI) -> RelationText:
    short = kg.profile.short(relation)
    return relation_texts(kg, [short])[short]


def _words(text: RelationText) -> str:
    """A relation in words, as documents are searched for it."""
    return " ".join((text.label, *text.aliases[:3], text.description)).strip()
