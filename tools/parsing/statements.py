"""Questions, claims and slots distinguished, and slots filled (ODA, section 3.1).

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal as OneOf

from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual
from triplewise.tools.language.framing import asked_part, asks, is_personal
from triplewise.tools.language.lexicon import word_list
from triplewise.tools.language.text import tokens
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.chains import step_of, steps_at
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.query import Image, Nodes, Step
from triplewise.tools.parsing.reading import Reading, program_of
from triplewise.tools.parsing.relations import NOTE
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.similarity import NEARLY, similarities, thresholds_of

Form = OneOf["question", "claim", "slot"]

_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")


def form_of(text: str) -> Form:
    """Return what a text is: a slot is `entity [SEP] relation`, a claim ends as a statement does.

    A claim begins neither with a question word, nor with a verb before its subject, nor with an order, also
    behind a frame ("I would like to know").
    """
    if slot_of(text) is not None:
        return "slot"
    words = tokens(text)
    if not text.rstrip(" \"'”").endswith((".", "!")) or len(words) <= 2:
        return "question"
    asked = asked_part(text)
    is_framed = asked != text and is_personal(text)
    return "question" if is_framed or asks(asked) or _LATE_ORDER.search(text.casefold()) else "claim"


def denies(text: str) -> bool:
    """Whether a text says that something is not so ("was never married", "isn't")."""
    return not word_list("denials").isdisjoint(tokens(text))


def slot_of(text: str) -> tuple[str, str] | None:
    """Return entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]++)(?! you\b)", asked_part(text).casefold())
    is_verb = first is not None and first[1].replace("’", "'") in word_list("verbs")
    return is_verb or form_of(text) == "claim"


def slot_readings(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Reading, ...]:
    """Return readings that fill a slot, best first, with no confidence; () where no relation is like it."""
    readings = list[Reading]()
    for topic in [iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None]:
        index = index_for(kg, encoder, relation, lambda topic=topic: [topic])  # type: ignore[misc]
        if (node := index.numbers_of.get(topic)) is None:
            continue
        for step, name, similarity in _matches(relation, node, index, kg, encoder):
            query = Image((step,), Nodes(frozenset((node,))))
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            if (program := program_of(query, index, kg)) is not None:
                readings.append(Reading(*program, similarity, 0.0, note))
    return tuple(sorted(readings, key=lambda r: -r.score))


def _matches(
    relation: str, node: int, index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder
) -> list[tuple[Step, str, float]]:
    """Return the relations of that very name, else those with names like it, each once, with similarities.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    key, rels = normalise(NOTE.sub("", relation)), index.rels
    steps = [step_of(number) for number in steps_at(index, frozenset((node,))).tolist()]
    # Backward, a relation has a name only if it has one of its own that way.
    own = ((step, rels[step[0]].names if step[1] > 0 else rels[step[0]].inverse) for step in steps)
    named = [(step, name) for step, names in own for name in names]
    if same := {step: (step, name, 1.0) for step, name in named if normalise(name) == key}:
        return [found for step, found in same.items() if step[1] > 0] or list(same.values())
    elsewhere = {r.i for r in rels if key in map(normalise, r.names)}
    if not named or elsewhere:
        # A relation that arrives at an entity may say as much of the other one, as "spouse" does.
        mutual = (s for s in steps if s[0] in elsewhere and is_mutual(kg, rels[s[0]].path[0][0]))
        return [(step, f"{rels[step[0]].names[0]} (of the other one)", 1.0) for step in mutual]
    column = similarities(kg, encoder, [[name] for _, name in named], relation)
    least, matches = thresholds_of(encoder).same, dict[Step, tuple[Step, str, float]]()
    for similarity, (step, name) in sorted(zip(column, named, strict=True), key=lambda pair: -pair[0]):
        if similarity > least and similarity >= NEARLY * max(column):
            matches.setdefault(step, (step, name, similarity))
    return list(matches.values())
