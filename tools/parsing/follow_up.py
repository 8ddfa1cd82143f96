"""What a follow-up question asks, read from the questions and answers before it, without a language model.

A word that stands for one thing keeps its place, and is an anchor of the question: the entity that the last
question asked for or was about, of the kind that the word tells ("Where was she born?", she: Ada Lovelace).
Otherwise the question before is asked again with a constituent replaced or added ("And of Italy?", "Only
those after 1950", "How many?", "When?"). The words that tell are data (`follow_up` in `lexicon.yaml`). What
comes out are questions that stand alone with their entities, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import find_classes
from triplewise.tools.language.lexicon import lexicon, section, word_list
from triplewise.tools.linking.linker import LinkedEntity, kind_of, link
from triplewise.tools.linking.search import node_types
from triplewise.tools.parsing.similarity import nearest_kinds, thresholds_of, words_encoder
from triplewise.tools.retrieval.encoder import Encoder

Purpose = Literal["question", "proof", "query"]
REMEMBERED = 3  # Questions back that a word may refer to
REWRITES = 4  # Most questions that a message is read as
_VERB = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b"


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation, as it stands alone, and its answer; `entities`: mention -> id."""

    question: str
    entities: Mapping[str, str]
    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A question that stands alone, with its entities: mention -> id; {} has them linked."""

    question: str
    entities: Mapping[str, str]


class _Reference(NamedTuple):
    """A word that stands for a person, thing, place, set of answers, or any; "her" may be a possessive."""

    match: re.Match[str]
    kind: str
    possessive: bool


class _Antecedent(NamedTuple):
    """What a word may stand for: a text, its names -> ids, labels of its types, whether it is many."""

    text: str
    entities: Mapping[str, str]
    types: frozenset[str] = frozenset()
    many: bool = False


def alone(question: str, known: Mapping[str, str], kg: KnowledgeGraph, encoder: Encoder) -> Rewrite:
    """Return a question that stands alone: names in it that are known keep their ids, others are linked."""
    question = question.strip(" ?.!") + "?"
    question = question[0].upper() + question[1:]
    spans: dict[tuple[int, int], str] = {}
    for name in sorted(known, key=len, reverse=True):
        match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)
        if match and not any(a < match.end() and match.start() < b for a, b in spans):
            spans[match.span()] = name
    linked = link(question, kg, encoder=encoder) if spans else ()
    others = {e.mention: e.id for e in linked if not any(a < e.end and e.start < b for a, b in spans)}
    return Rewrite(question, {**{name: known[name] for name in spans.values()}, **others})


def with_names(turn: Turn, kg: KnowledgeGraph) -> Turn:
    """Return a turn with the name of what a word in its question stands for in the place of the word."""
    question, entities = turn.question, dict(turn.entities)
    for mention, id_ in turn.entities.items():
        reference, iri = _reference(mention), kg.profile.expand(id_)
        place = re.search(rf"(?<!\w){re.escape(mention)}(?!\w)", question)
        if reference and reference.match[0] == mention and iri is not None and place:
            name = kg.labels([iri]).get(iri, id_)
            question = _replace(question, reference._replace(match=place), _Antecedent(name, {name: id_}))
            entities = {name if m == mention else m: i for m, i in entities.items()}
    return replace(turn, question=question, entities=entities)


class FollowUp:
    """A message after some turns, oldest first; `unclear` is one before it that lacked a name.

    Attributes:
        text: the message without its opening. phrase, rest: the words that ask in it, and what follows.
        names: entities that it names.
        reference: its word that stands for something.
        is_clause: whether it is a question or an order of its own, no fragment of one.
    """

    def __init__(
        self, message: str, turns: Sequence[Turn], kg: KnowledgeGraph, encoder: Encoder, unclear: str = ""
    ) -> None:
        self.kg, self.encoder, self.unclear = kg, encoder, unclear
        self.turns = list(turns[-REMEMBERED:])[::-1]
        self.message = " ".join(message.split())
        self.opening = _match("opening", self.message)
        self.text = self.message[self.opening.end() if self.opening else 0 :].strip(" ?.!,")
        self.phrase = _match("phrase", self.text)
        self.rest = self.text[self.phrase.end() if self.phrase else 0 :].strip()
        linked = link(self.text, kg, encoder=encoder) if self.text else ()
        self.names = [e for e in sorted(linked, key=lambda e: e.start) if self._is_name(e)]
        reference, low = _reference(self.text), [*self.text.lower().split(), ""]
        before = [e for e in self.names if reference and e.end <= reference.match.start()]
        self.reference = None if reference and before and reference.kind != "set" else reference
        first = low[1] if low[0] in word_list("phrase_prepositions") else low[0]
        asks = word_list("asking") | word_list("orders")
        self.is_clause = first in asks or low[0] in word_list("verbs")

    @property
    def purpose(self) -> Purpose:
        """What the message asks for: an answer, or the proof or the query of the answer before."""
        if self.turns and _whole("proof", self.text):
            return "proof"
        return "query" if self.turns and _whole("query", self.text) else "question"

    @property
    def is_alone(self) -> bool:
        """Whether the message leans on nothing before it; "and which of Italy?" does."""
        is_part = bool(self.opening) and self.rest.split(" ")[0] in word_list("phrase_prepositions")
        return self.is_clause and bool(self.names) and self.reference is None and not is_part

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Questions that the message may mean, the likeliest first; () where nothing tells."""
        if self.unclear and self.names and not self.is_clause and (reference := _reference(self.unclear)):
            name = self.names[0]
            named = _Antecedent(name.mention, {name.mention: name.id})
            return (self.rewrite(_replace(self.unclear, reference, named), named.entities),)
        distinct: dict[str, Rewrite] = {}
        for rewrite in self._readings():
            distinct.setdefault(rewrite.question.casefold(), rewrite)
        return tuple(distinct.values())[:REWRITES]

    def _readings(self) -> Iterator[Rewrite]:
        if self.reference is None and (self.is_alone or not self.turns):
            if self.turns or self.phrase is None or not _whole("empty", self.rest):
                yield self.rewrite(self.message)
            return
        if self.turns:
            yield from self._of_previous(self.turns[0], self.turns[0].question.rstrip(" ?.!"))
        if self.reference is not None:
            for antecedent in self._antecedents(self.reference.kind):
                text, entities = _replace(self.text, self.reference, antecedent), antecedent.entities
                if not antecedent.many and len(entities) == 1:  # the word stays, and is the entity
                    text, entities = self.text, {self.reference.match[0]: next(iter(entities.values()))}
                yield self.rewrite(text if self.is_clause else f"What is {text}", entities)
        elif self.is_clause and not (self.phrase and _whole("empty", self.rest)):
            yield from self._about_topic()

    def _of_previous(self, turn: Turn, previous: str) -> Iterator[Rewrite]:
        """Yield the question before with a part replaced or added."""
        among, only = _match("among", self.text), _match("only", self.text)
        is_bare = _whole("empty", self.rest)  # "how many are there", "in which year"
        if self.phrase and not self.names and (is_bare or not (self.reference or " " in self.rest)):
            yield from self._asking(previous, self.phrase.group(), "" if is_bare else self.rest)
        elif among and len(turn.values) > 1:
            joined = f"{previous} and {self.text[among.end() :]}"
            yield self.rewrite(re.sub(r"^how many\b", "Which", joined, flags=re.IGNORECASE))
        elif not self.is_clause or self.rest.split(" ")[0] in word_list("phrase_prepositions"):
            condition = re.sub(r" ones?$", "", self.text[only.end() if only else 0 :])
            compares = _compares(condition)
            first = condition.lower().split(" ")[0]
            is_plain = compares or first.endswith("ed") or first in word_list("phrase_prepositions")
            if only or compares:
                yield self.rewrite(f"{previous}{' ' if is_plain else ' and are '}{condition}")
            yield from self._parallel(turn, previous, self.rest)

    def _asking(self, previous: str, phrase: str, noun: str) -> Iterator[Rewrite]:
        """Yield the question before, asking for something else: how many, when, in which year."""
        if (asked := _match("phrase", previous)) is None:
            return
        wh, rest = asked.group().split()[-1].lower(), previous[asked.end() :].strip()
        bare = re.match(rf"(?!{_VERB})(\S+) (.+)", rest)
        if bare and wh in ("which", "what", "many"):
            noun, rest = noun or bare[1], bare[2]
        elif bare:  # "who discovered gallium": "when was gallium discovered"
            noun = noun or ("people" if phrase.lower() == "how many" else "")
            rest = rest if noun == "people" else f"was {bare[2]} {bare[1]}"
        yield self.rewrite(" ".join(f"{phrase} {noun} {rest}".split()))

    def _parallel(self, turn: Turn, previous: str, part: str) -> Iterator[Rewrite]:
        """Yield the question before about what the message names, or of its topic what the message names."""
        is_relational = re.match(rf"(?:what|who) {_VERB}", previous.lower())
        if self.names:
            name = self.names[0]
            known, types = {name.mention: name.id}, self._types(name.id)[1]
            words = re.findall(r"[^\W\d]+", part.replace(name.mention, " ").lower())
            if not lexicon().stop.issuperset(words) and not self.is_clause:
                yield self.rewrite(f"What is {part}", known)
            # "Which is the highest mountain in Europe? How high is it? And in Asia?": like with like
            places = [(t, m) for t in self.turns for m in t.entities if m in t.question]
            places.sort(key=lambda place: self._types(place[0].entities[place[1]])[1].isdisjoint(types))
            for other, mention in [place for place in places if place[0] is places[0][0]][:2]:
                yield self.rewrite(other.question.replace(mention, name.mention, 1), known)
            if part.lower().split(" ")[0] in word_list("phrase_prepositions"):
                yield self.rewrite(f"{previous} {part}", known)
        elif self.reference is not None and self.reference.possessive and not is_relational:
            # "Where was Goethe born? And his wife?" asks for her birthplace.
            for antecedent in self._antecedents(self.reference.kind):
                text = _replace(part, self.reference, antecedent)
                for mention in set(antecedent.entities) & set(turn.entities):
                    yield self.rewrite(previous.replace(mention, text, 1), antecedent.entities)
        elif self.reference is None and part:
            for antecedent in self._topics:
                yield self.rewrite(f"What is {part} of {antecedent.text}", antecedent.entities)

    def _about_topic(self) -> Iterator[Rewrite]:
        """Yield a question that names nothing: with "the book" for one, as it is, and about each topic."""
        definite = re.search(r"\bthe ([^\W\d]+)\b(?! of\b)", self.text)
        start, end = definite.span() if definite else (len(self.text), len(self.text))
        singular = definite[1].lower().removesuffix("s") if definite else ""
        same = {singular, *(w for words in section("things").values() if singular in words for w in words)}
        for antecedent in self._antecedents("any") if definite else ():
            if not antecedent.types.isdisjoint(same):
                text = f"{self.text[:start]}{antecedent.text}{self.text[end:]}"
                yield self.rewrite(text, antecedent.entities)
        yield self.rewrite(self.message)
        for antecedent in self._topics:
            text = f"{self.text[:end]} of {antecedent.text}{self.text[end:]}"
            yield self.rewrite(text, antecedent.entities)

    @property
    def _topics(self) -> list[_Antecedent]:
        """What the question before was about, then its answer where it is one entity."""
        asked = self.turns[0].entities if self.turns else {}
        return sorted(self._antecedents("any"), key=lambda a: a.text not in asked)

    def _antecedents(self, kind: str) -> Iterator[_Antecedent]:
        """Yield what a word may stand for: the last answer, what was asked about, the same of turns before.

        Nothing where several things that were asked about fit equally.
        """
        for turn in self.turns:
            nodes = [(x, v) for v, x in zip(turn.values, turn.labels, strict=True) if self.is_node(v)]
            if len(nodes) > 1 and kind == "set":
                text, count = turn.question.rstrip(" ?.!"), 0  # as a noun phrase: "the moons that orbit Mars"
                for pattern, phrase in section("follow_up")["noun_phrases"]:
                    if not count:
                        text, count = re.subn(f"^{pattern}", phrase, text, flags=re.IGNORECASE)
                yield _Antecedent(text, turn.entities, self._types(nodes[0][1])[1], True)
                return
            topics = [pair for pair in turn.entities.items() if not self._is_class(pair[0])]
            named = [*(nodes if len(nodes) == 1 else ()), *topics]
            typed = [(name, id_, *self._types(id_)) for name, id_ in named]
            fitting = [_Antecedent(n, {n: i}, types) for n, i, kinds, types in typed if _fits(kind, kinds)]
            if kind not in ("set", "any") and len(fitting) > 1 and len(nodes) != 1:
                return
            yield from fitting

    def _types(self, id_: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the kinds of an entity (person, place, ..., "" for no other) and labels of its types."""
        iri = self.kg.profile.expand(id_)
        types = node_types(self.kg, [iri]).get(iri, ()) if iri is not None else ()
        labels = [text.lower() for text in types]
        least = thresholds_of(self.encoder).named
        return frozenset(nearest_kinds(words_encoder(self.encoder), labels, least) or [""]), frozenset(labels)

    def _is_class(self, mention: str) -> bool:
        return mention == mention.lower() and bool(find_classes(self.kg, mention))

    def _is_name(self, entity: LinkedEntity) -> bool:
        """Return whether a mention names what a message is about, and no class or common word."""
        is_exact = entity.candidates[0].kind in ("exact", "alias") or entity.mention != entity.mention.lower()
        words = normalise(entity.mention).split()
        is_rare = any(kind_of(word, self.text, self.kg.profile) == "other" for word in words)
        return is_exact and is_rare and not self._is_class(entity.mention)

    def is_node(self, value: str) -> bool:
        """Return whether an answer is an entity; where ids are names, any text would pass for one."""
        iri, index = self.kg.profile.expand(value), self.kg.index
        if iri is None or index is None:
            return iri is not None and bool(self.kg.labels([iri]))
        return index.node(iri) is not None

    def rewrite(self, question: str, entities: Mapping[str, str] | None = None) -> Rewrite:
        """Return a question that stands alone, with the entities of the conversation as they were."""
        known = {m: i for turn in reversed(self.turns) for m, i in turn.entities.items()}
        return alone(question, {**known, **(entities or {})}, self.kg, self.encoder)


def _fits(kind: str, kinds: frozenset[str]) -> bool:
    """Return whether a word for a person, place, thing or any may stand for something of some kinds."""
    if kind in ("person", "place"):
        return not kinds.isdisjoint((kind, ""))
    return kind != "thing" or "person" not in kinds


def _compares(text: str) -> bool:
    """Return whether a text begins with a comparison: "after 1950", "more than two"."""
    low = text.lower()
    sides = ("more", "less", "at_least", "at_most", "before", "after")
    return any(low.startswith(f"{phrase} ") for side in sides for phrase in section("operators")[side])


def _match(name: str, text: str) -> re.Match[str] | None:
    """Return what a text begins with of an expression of the lexicon."""
    return re.match(section("follow_up")[name], text, re.IGNORECASE)


def _whole(name: str, text: str) -> bool:
    """Return whether a text is an expression of the lexicon as a whole."""
    return re.fullmatch(section("follow_up")[name], text, re.IGNORECASE) is not None


def _reference(text: str) -> _Reference | None:
    """Return the first word that stands for something."""
    for pattern, kind, possessive in section("follow_up")["references"]:
        if match := re.search(rf"\b{pattern}(?!\w)", text, re.IGNORECASE):
            return _Reference(match, kind, bool(possessive))
    return None


def _replace(text: str, reference: _Reference, antecedent: _Antecedent) -> str:
    """Return a text with a reference replaced; of many things "their X" is "the X of" them."""
    start, end = reference.match.span()
    if reference.possessive and antecedent.many:
        return f"{text[:start]}the{text[end:]} of {antecedent.text}"
    return f"{text[:start]}{antecedent.text}{chr(39) + 's' if reference.possessive else ''}{text[end:]}"
