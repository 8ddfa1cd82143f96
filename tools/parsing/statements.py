"""What is no question (ODA, section 3.1): claims to be checked, and slots to be filled; and how to tell them.

A claim is proved by a fact between two things it names, over a relation that its words speak of, when no word
of it says more than that. It is contradicted where such a relation has one value only and the KG has another
one than the claim. Of everything else a KG that may lack facts says nothing: then there is no reading.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual, is_single_valued
from triplewise.tools.language.lexicon import lexicon, root, word_list
from triplewise.tools.linking.linker import LinkedEntity, candidate_nodes
from triplewise.tools.parsing.chains import step_similarities, steps_at
from triplewise.tools.parsing.denotation import members
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.program import compile_query
from triplewise.tools.parsing.query import And, Exists, Image, Members, Nodes, Number, Query, Step
from triplewise.tools.parsing.question import Question, Span
from triplewise.tools.parsing.reading import Reading, labels_in
from triplewise.tools.parsing.similarity import NEARLY, similarities, thresholds_of
from triplewise.tools.pyql.words import describe
from triplewise.tools.retrieval.encoder import Encoder

Form = OneOf["question", "claim", "slot"]

LINKED = "assumed, for the graph links what the claim names, though by another relation than it speaks of"
"""Provenance of a reading that no more than makes a claim likely."""
_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_NOTE = re.compile(r" \([^()]*\)$")
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")


def form_of(text: str) -> Form:
    """Return what a text is: a slot is `entity [SEP] relation`, a claim ends as a statement does.

    A claim begins neither with a question word, nor with a verb before its subject, nor with an order.
    """
    if slot_of(text) is not None:
        return "slot"
    words, is_ended = _words_of(text), text.rstrip(" \"'”").endswith((".", "!"))
    if not is_ended or len(words) < 3 or _LATE_ORDER.search(text.casefold()):
        return "question"
    late = words[0] in word_list("phrase_prepositions") or words[0] == "please"
    asks = word_list("asking") | word_list("orders") | (frozenset() if late else word_list("verbs"))
    return "question" if words[late] in asks else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Return entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]++)(?! you\b)", text.casefold())
    is_verb = first is not None and first[1].replace("’", "'") in word_list("verbs")
    return is_verb or form_of(text) == "claim"


def denies(text: str) -> bool:
    """Whether a text says that something is not so ("was never married", "isn't")."""
    return any(map(_is_denial, _words_of(text)))


def _is_denial(word: str) -> bool:
    return word in word_list("denials") or word.endswith("n't")


def _words_of(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold().replace("’", "'"))


class _Named(NamedTuple):
    """What a claim names at some tokens: nodes of that name, or a number or date and the literals of it."""

    span: Span
    nodes: frozenset[int]
    number: Number | None = None


def claim_readings(
    claim: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    closed_world: bool = False,
) -> tuple[Reading, ...]:
    """Return readings of yes or no that decide a claim, best first: one that holds proves it, or contradicts.

    A claim that denies ("was never married to") is read as what it denies. Confidence is not calibrated.
    `closed_world`: what is not linked in the KG is not linked at all. Then a claim that nothing decides is
    likely where the KG links all that it names, by whatever relation (provenance `LINKED`).
    """
    topics = [iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None]
    index = index_for(kg, encoder, claim, lambda: [*topics, *candidate_nodes(claim, kg, encoder)])
    anchors = ground(claim, index, linked).of_kind("entity")
    known = [_Named((a.start, a.end), a.mentions) for a in anchors if ("ent_given", 1.0) in a.features]
    check = _Check(ground(claim, index), kg, encoder, [name.span for name in known])
    names = list(known)
    for name in check.other_names():
        if not any(name.span[0] < n.span[1] and n.span[0] < name.span[1] for n in names):
            names.append(name)
    readings = list[Reading]()
    for topic in known:
        found = check.judged(topic, [name for name in names if name.span != topic.span], closed_world)
        readings += [r for query, score, why in found for r in _written(query, index, kg, score, why)]
    return tuple(sorted(readings, key=lambda r: -r.score))


_Judged: TypeAlias = tuple[Query, float, str]
"""What decides a claim: a query of yes or no, how well it says the claim, and why it decides it."""


class _Check:
    """The check of a claim; `spans`: tokens of the entities that it is known to be about."""

    def __init__(self, question: Question, kg: KnowledgeGraph, encoder: Encoder, spans: list[Span]) -> None:
        self._question, self._index, self._kg, self._spans = question, question.index, kg, spans
        self._thresholds = thresholds_of(encoder)
        self._table = step_similarities(question, range(question.n), self._thresholds.same)

    def other_names(self) -> Iterator[_Named]:
        """Yield what a claim names in full: entities, the longest names first, then numbers and dates."""
        nodes = dict[Span, frozenset[int]]()
        for anchor in self._question.of_kind("entity", "literal"):
            if anchor.features[0][0] in ("ent_exact", "ent_alias", "ent_norm", "ent_literal"):
                span = (anchor.start, anchor.end)
                nodes[span] = nodes.get(span, frozenset()) | anchor.nodes
        yield from (_Named(span, nodes[span]) for span in sorted(nodes, key=lambda s: s[0] - s[1]))
        for anchor in self._question.of_kind("value"):
            if isinstance(number := anchor.meaning, Number):
                yield _Named((anchor.start, anchor.end), members(number, self._index), number)

    def judged(self, topic: _Named, names: Sequence[_Named], closed: bool) -> list[_Judged]:
        """Return what proves the claim about a topic, else contradicts it, else in a closed world likely."""
        (node,), index = topic.nodes, self._index
        of, proofs, settled = Nodes(topic.nodes), self._classes(node), set[Span]()
        against, likely = list[tuple[Span, _Judged]](), list[_Judged]()
        for step in sorted(_steps(index, topic.nodes), key=lambda step: -step[1]):
            values = index.apply(*step, topic.nodes)
            for name in names:
                both = values & name.nodes - topic.nodes
                to = name.number or Nodes(frozenset((min(both or name.nodes),)))
                query = Exists(And(of, Image(((step[0], -step[1]),), to)))
                score = self._fit(topic, name, step, both)
                if both:
                    settled.add(name.span)
                    likely += [] if self._names_more(name) else [(query, 0.0, LINKED)]
                if both and score > 0:
                    proofs.append((query, score, "the graph holds this fact"))
                elif score > 0 and self._excludes(step, values, name):
                    why = "the graph has another value for a relation that has one"
                    against.append((name.span, (query, score, why)))
        contradicted = [judged for span, judged in against if span not in settled]
        return proofs or contradicted or (likely if closed else [])

    def _names_more(self, name: _Named) -> bool:
        """Return whether a claim has more words written like names; False where capitals tell nothing."""
        content = [i for i in self._rest(name.span) if i]
        return 0 < sum(self._question.tokens[i].capital for i in content) < len(content)

    def _rest(self, *spans: Span) -> list[int]:
        """Return the content tokens of what a claim says besides the entities it is about and some names."""
        inside = {i for span in (*self._spans, *spans) for i in range(*span)}
        words, tokens, stop = self._question.words, self._question.tokens, lexicon().stop
        rest = (i for i in range(self._question.n) if i not in inside and words[i] not in stop)
        return [i for i in rest if words[i][0].isalpha() and not _is_denial(tokens[i].text.lower())]

    def _fit(self, topic: _Named, name: _Named, step: Step, both: frozenset[int]) -> float:
        """Return how well a fact says all of the claim; 0 where the claim says something else, or more."""
        content, is_forward = self._rest(name.span), step[1] > 0
        if not content:
            # "X is a Y", "X is in Y": no word tells the relation, so any fact of X that has Y says as much.
            ordered = (topic.span[0] < name.span[0]) == is_forward
            return self._thresholds.named if both and ordered else 0.0
        row = self._table[2 * step[0] + (not is_forward), content]
        if row.max() < self._thresholds.named:
            return 0.0
        # A word may only say what kind of thing is meant ("the city of Turin").
        types = {c for node in topic.nodes | (both or name.nodes) for c in self._index.types[node]}
        kinds = {root(w) for c in types for label in self._index.classes[c].names for w in label.split()}
        pairs = zip(content, row.tolist(), strict=True)
        others = {root(self._question.words[i]) for i, cosine in pairs if cosine < self._thresholds.unrelated}
        return 0.0 if others - kinds else float(row.max())

    def _classes(self, topic: int) -> list[_Judged]:
        """Return checks of classes that the claim names and the topic is of, over the classes in between."""
        found = list[_Judged]()
        for anchor in self._question.of_kind("class"):
            cls, is_whole = anchor.meaning, anchor.features[0][0] in ("cls_exact", "cls_head")
            rest = self._rest((anchor.start, anchor.end))
            if is_whole and self._index.classes[cls].iri and topic in self._index.members[cls] and not rest:
                query = Exists(And(Nodes(frozenset((topic,))), Members(cls)))
                found.append((query, self._thresholds.named, "the graph holds the classes in between"))
        return found

    def _excludes(self, step: Step, values: frozenset[int], name: _Named) -> bool:
        """Return whether the topic's values rule out what the claim says, whichever node it means.

        It is a value that the relation takes somewhere, and none of the topic's, nor near one of them and so
        perhaps the same, a part or the whole of it: one fact away, or two of the same relation ("is in").
        """
        index, relation = self._index, self._index.rels[step[0]]
        if step[1] < 0 or len(relation.path) > 1 or not is_single_valued(self._kg, relation.path[0][0]):
            return False
        if name.number is not None:  # years are compared with dates, other numbers with numbers
            return relation.dtype == (name.number.kind or "number") and values <= index.value.keys()
        near, reached = frozenset(n for n in values if not index.is_literal[n]), set[int]()
        for around in _steps(index, near):
            once = index.apply(*around, near)
            reached |= once | index.apply(*around, once)
        return bool(near) and bool(name.nodes & relation.objects) and name.nodes.isdisjoint(reached)


def _steps(index: GraphIndex, nodes: frozenset[int]) -> list[Step]:
    """Return the relations of nodes with their directions."""
    return [(number >> 1, -1 if number & 1 else 1) for number in steps_at(index, nodes).tolist()]


def _written(
    query: Query, index: GraphIndex, kg: KnowledgeGraph, score: float, provenance: str
) -> Iterator[Reading]:
    """Yield a query as a reading whose confidence nothing calibrates, if PyQL has a program for it."""
    with suppress(ActionError):
        program = compile_query(query, index, kg.profile)
        text = describe(program, labels_in(query, index, kg))
        yield Reading(program.text(kg.profile), text, score, 0.0, provenance)


def slot_readings(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Reading, ...]:
    """Return readings that fill a slot: the relation of an entity by its name; () where the KG has none.

    The best first; nothing calibrates their confidence.
    """
    readings = list[Reading]()
    for topic in [iri for entity in linked if (iri := kg.profile.expand(entity.id)) is not None]:
        index = index_for(kg, encoder, relation, lambda topic=topic: [topic])  # type: ignore[misc]
        if (node := index.numbers_of.get(topic)) is None:
            continue
        for step, name, similarity in _matches(relation, node, index, kg, encoder):
            query = Image((step,), Nodes(frozenset((node,))))
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            readings += _written(query, index, kg, similarity, note)
    return tuple(sorted(readings, key=lambda r: -r.score))


def _matches(
    relation: str, node: int, index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder
) -> list[tuple[Step, str, float]]:
    """Return the relations of that very name, else those with names like it, each once, with similarities.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    key, steps, rels = normalise(_NOTE.sub("", relation)), _steps(index, frozenset((node,))), index.rels
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
