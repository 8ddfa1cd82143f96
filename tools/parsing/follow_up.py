"""What a follow-up question asks, read from the questions and answers before it, without a language model.

A word that stands for one thing keeps its place, and is an anchor of the question: the entity that the last
question asked for or was about, of the kind that the word tells ("Where was she born?", she: Ada Lovelace).
Otherwise the question before is asked again with a constituent replaced or added ("And of Italy?", "Only
those after 1950", "How many?", "When?"). The words that tell are data (`follow_up` in `lexicon.yaml`).
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
from triplewise.tools.parsing.similarity import thresholds_of, words_encoder
from triplewise.tools.retrieval.encoder import Encoder

Purpose = Literal["question", "proof", "query"]
REMEMBERED = 3  # questions back that a word may refer to
REWRITES = 4  # most questions that a message is read as
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
    """What a word may stand for: a text, its names -> ids, whether it is many."""

    text: str
    entities: Mapping[str, str]
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
    """A message after some turns, oldest first; `unclear` is one before it that lacked a name."""

    def __init__(
        self, message: str, turns: Sequence[Turn], kg: KnowledgeGraph, encoder: Encoder, unclear: str = ""
    ) -> None:
        self._kg, self._encoder, self.unclear = kg, encoder, unclear
        self._turns, self.message = list(turns[-REMEMBERED:])[::-1], " ".join(message.split())
        opening = _match("opening", self.message)
        self._text = self.message[opening.end() if opening else 0 :].strip(" ?.!,")
        self._phrase = _match("phrase", self._text)  # the words that ask, and what follows them
        self._rest = self._text[self._phrase.end() if self._phrase else 0 :].strip()
        linked = link(self._text, kg, encoder=encoder) if self._text else ()
        self._names = [e for e in sorted(linked, key=lambda e: e.start) if self._is_name(e)]
        found, low = _reference(self._text), [*self._text.lower().split(), ""]
        is_named = found and found.kind != "set" and any(e.end <= found.match.start() for e in self._names)
        self.reference = None if is_named else found  # its word that stands for something
        first = low[1] if _is_preposition(low[0]) else low[0]
        # A question or an order of its own, no fragment of one.
        self._is_clause = first in word_list("asking") | word_list("orders") or low[0] in word_list("verbs")
        self.purpose: Purpose = "question"  # or the proof or the query of the answer before
        if turns and (_whole("proof", self._text) or _whole("query", self._text)):
            self.purpose = "proof" if _whole("proof", self._text) else "query"
        is_part = bool(opening) and _is_preposition(self._rest)  # "and which of Italy?" leans on the last one
        self.is_alone = self._is_clause and bool(self._names) and not (self.reference or is_part)

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """Questions that the message may mean, the likeliest first; () where nothing tells."""
        if self.unclear and self._names and not self._is_clause and (lacking := _reference(self.unclear)):
            name = self._names[0]
            named = _Antecedent(name.mention, {name.mention: name.id})
            return (self._rewrite(_replace(self.unclear, lacking, named), named.entities),)
        distinct: dict[str, Rewrite] = {}
        for rewrite in self._readings():
            distinct.setdefault(rewrite.question.casefold(), rewrite)
        return tuple(distinct.values())[:REWRITES]

    def _readings(self) -> Iterator[Rewrite]:
        turns, reference, is_bare = self._turns, self.reference, _whole("empty", self._rest)
        if reference is None and (self.is_alone or not turns):
            if turns or self._phrase is None or not is_bare:
                yield self._rewrite(self.message)
            return
        if turns:
            yield from self._of_previous(turns[0], turns[0].question.rstrip(" ?.!"), is_bare)
        if reference is not None:
            for antecedent in self._antecedents(reference.kind):
                text, entities = _replace(self._text, reference, antecedent), antecedent.entities
                if not antecedent.many and len(entities) == 1:  # the word stays, and is the entity
                    text, entities = self._text, {reference.match[0]: next(iter(entities.values()))}
                yield self._rewrite(text if self._is_clause else f"What is {text}", entities)
        elif self._is_clause and not (self._phrase and is_bare):
            yield from self._about_topic()

    def _of_previous(self, turn: Turn, previous: str, is_bare: bool) -> Iterator[Rewrite]:
        """Yield the question before with a part replaced or added; bare is "how many are there"."""
        among, only = _match("among", self._text), _match("only", self._text)
        if self._phrase and not self._names and (is_bare or not (self.reference or " " in self._rest)):
            yield from self._asking(previous, self._phrase.group(), "" if is_bare else self._rest)
        elif among and len(turn.values) > 1:
            joined = f"{previous} and {self._text[among.end() :]}"
            yield self._rewrite(re.sub(r"^how many\b", "Which", joined, flags=re.IGNORECASE))
        elif not self._is_clause or _is_preposition(self._rest):
            condition = re.sub(r" ones?$", "", self._text[only.end() if only else 0 :])
            low = condition.lower()
            sides = ("more", "less", "at_least", "at_most", "before", "after")
            compares = any(low.startswith(f"{w} ") for side in sides for w in section("operators")[side])
            if only or compares:
                is_plain = compares or low.split(" ")[0].endswith("ed") or _is_preposition(low)
                yield self._rewrite(f"{previous}{' ' if is_plain else ' and are '}{condition}")
            yield from self._parallel(turn, previous, self._rest)

    def _asking(self, previous: str, phrase: str, noun: str) -> Iterator[Rewrite]:
        """Yield the question before, asking for something else: how many, when, in which year."""
        if (asked := _match("phrase", previous)) is None:
            return
        rest = previous[asked.end() :].strip()
        bare = re.match(rf"(?!{_VERB})(\S+) (.+)", rest)
        if bare and asked.group().split()[-1].lower() in ("which", "what", "many"):
            noun, rest = noun or bare[1], bare[2]
        yield self._rewrite(" ".join(f"{phrase} {noun} {rest}".split()))

    def _parallel(self, turn: Turn, previous: str, part: str) -> Iterator[Rewrite]:
        """Yield the question before about what the message names, or of its topic what the message names."""
        if self._names:
            name = self._names[0]
            known = {name.mention: name.id}
            words = re.findall(r"[^\W\d]+", part.replace(name.mention, " ").lower())
            if not lexicon().stop.issuperset(words) and not self._is_clause:
                yield self._rewrite(f"What is {part}", known)
            for mention in [m for m in turn.entities if m in turn.question][:2]:
                yield self._rewrite(turn.question.replace(mention, name.mention, 1), known)
            if _is_preposition(part):
                yield self._rewrite(f"{previous} {part}", known)
        elif self.reference is None:
            for antecedent in self._topics if part else ():
                yield self._rewrite(f"What is {part} of {antecedent.text}", antecedent.entities)
        elif self.reference.possessive and not re.match(rf"(?:what|who) {_VERB}", previous.lower()):
            # "Where was Goethe born? And his wife?" asks for her birthplace.
            for antecedent in self._antecedents(self.reference.kind):
                text = _replace(part, self.reference, antecedent)
                for mention in set(antecedent.entities) & set(turn.entities):
                    yield self._rewrite(previous.replace(mention, text, 1), antecedent.entities)

    def _about_topic(self) -> Iterator[Rewrite]:
        """Yield a question that names nothing: with "the book" for one, as it is, and about each topic."""
        text, end = self._text, len(self._text)
        if definite := re.search(r"\bthe ([^\W\d]+)\b(?! of\b)", text):
            noun, end = definite[1].lower().removesuffix("s"), definite.end()
            same = {noun, *(w for words in section("things").values() if noun in words for w in words)}
            for antecedent in self._antecedents("any"):
                if not same.isdisjoint(
                    label for i in antecedent.entities.values() for label in self._types(i)
                ):
                    named = f"{text[: definite.start()]}{antecedent.text}{text[end:]}"
                    yield self._rewrite(named, antecedent.entities)
        yield self._rewrite(self.message)
        for antecedent in self._topics:
            yield self._rewrite(f"{text[:end]} of {antecedent.text}{text[end:]}", antecedent.entities)

    @property
    def _topics(self) -> list[_Antecedent]:
        """What the question before was about, then its answer where it is one entity."""
        asked = self._turns[0].entities if self._turns else {}
        return sorted(self._antecedents("any"), key=lambda a: a.text not in asked)

    def _antecedents(self, kind: str) -> Iterator[_Antecedent]:
        """Yield what a word may stand for: the last answer, what was asked about, the same of turns before.

        Nothing where several things that were asked about fit equally.
        """
        for turn in self._turns:
            nodes = [(x, v) for v, x in zip(turn.values, turn.labels, strict=True) if self.is_node(v)]
            if len(nodes) > 1 and kind == "set":
                text, count = turn.question.rstrip(" ?.!"), 0  # as a noun phrase: "the moons that orbit Mars"
                for pattern, phrase in section("follow_up")["noun_phrases"]:
                    if not count:
                        text, count = re.subn(f"^{pattern}", phrase, text, flags=re.IGNORECASE)
                yield _Antecedent(text, turn.entities, True)
                return
            topics = [pair for pair in turn.entities.items() if not self._is_class(pair[0])]
            fitting = list[_Antecedent]()
            for name, id_ in [*(nodes if len(nodes) == 1 else ()), *topics]:
                kinds = self._kinds(id_)
                is_apt = not kinds.isdisjoint((kind, "")) if kind in ("person", "place") else True
                if is_apt and not (kind == "thing" and "person" in kinds):
                    fitting.append(_Antecedent(name, {name: id_}))
            if kind not in ("set", "any") and len(fitting) > 1 and len(nodes) != 1:
                return
            yield from fitting

    def _types(self, id_: str) -> list[str]:
        iri = self._kg.profile.expand(id_)
        return [text.lower() for text in (node_types(self._kg, [iri]).get(iri, ()) if iri else ())]

    def _kinds(self, id_: str) -> set[str]:
        """Return the kinds of an entity whose prototype words are nearest to its classes; "" for no other."""
        if not (nouns := self._types(id_)):
            return {""}
        prototypes = [(kind, word) for kind, words in section("things").items() for word in words]
        least, encoder = thresholds_of(self._encoder).named, words_encoder(self._encoder)
        cosines = encoder.encode(nouns) @ encoder.encode([word for _, word in prototypes]).T
        return {prototypes[row.argmax()][0] if row.max() >= least else "" for row in cosines}

    def _is_class(self, mention: str) -> bool:
        return mention == mention.lower() and bool(find_classes(self._kg, mention))

    def _is_name(self, entity: LinkedEntity) -> bool:
        """Return whether a mention names what a message is about, and no class or common word."""
        is_exact = entity.candidates[0].kind in ("exact", "alias") or entity.mention != entity.mention.lower()
        words = normalise(entity.mention).split()
        is_rare = any(kind_of(word, self._text, self._kg.profile) == "other" for word in words)
        return is_exact and is_rare and not self._is_class(entity.mention)

    def is_node(self, value: str) -> bool:
        """Return whether an answer is an entity; where ids are names, any text would pass for one."""
        iri, index = self._kg.profile.expand(value), self._kg.index
        if iri is None or index is None:
            return iri is not None and bool(self._kg.labels([iri]))
        return index.node(iri) is not None

    def _rewrite(self, question: str, entities: Mapping[str, str] | None = None) -> Rewrite:
        """Return a question that stands alone, with the entities of the conversation as they were."""
        known = {m: i for turn in reversed(self._turns) for m, i in turn.entities.items()}
        return alone(question, {**known, **(entities or {})}, self._kg, self._encoder)


def _is_preposition(text: str) -> bool:
    """Return whether a text begins with a preposition that may stand before a wh-word."""
    return text.lower().split(" ")[0] in word_list("phrase_prepositions")


def _match(name: str, text: str) -> re.Match[str] | None:
    """Return what a text begins with of an expression of the lexicon."""
    return re.match(section("follow_up")[name], text, re.IGNORECASE)


def _whole(name: str, text: str) -> bool:
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
