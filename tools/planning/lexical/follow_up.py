"""What a follow-up question asks, read from the questions and answers before it, without a language model.

Every way of leaning on what was said is one edit of text: a word that stands for something is replaced by what
it may stand for ("Where was she born?"), or the question before is asked again with a part of it replaced or
added ("And of Italy?", "Only those after 1950", "How many?", "When?"). The words that tell are data
(`follow_up` in `english.yaml`). What comes out are questions that stand alone, the likeliest first; whoever
asks them takes the first that the graph answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import find_classes
from triplewise.tools.linking.linker import LinkedEntity, Question, link, read_question
from triplewise.tools.planning.bodies import types_of
from triplewise.tools.planning.lexical.question import lexicon
from triplewise.tools.planning.lexical.score import nearest_kinds, words_of
from triplewise.tools.retrieval.encoder import Encoder

Purpose = Literal["question", "proof", "query"]

REMEMBERED = 3
"""Questions back that a word may refer to."""
REWRITES = 4
"""Most readings of a follow-up."""
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)"


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of a conversation, as it stands alone, and its answer; `entities`: mention -> id."""

    question: str
    entities: Mapping[str, str]
    values: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Names in question and answer, each with its id."""
        return (*zip(self.labels, self.values, strict=True), *self.entities.items())


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A question that stands alone, with the entities that are known from the conversation."""

    question: str
    entities: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What a message asks for.

    Attributes:
        purpose: a question, or the proof or the query of the answer before.
        rewrites: what the question may mean, the likeliest first; () where nothing tells.
        alone: whether it leans on nothing that was said.
        reference: the word that stands for something, "" for none.
    """

    purpose: Purpose = "question"
    rewrites: tuple[Rewrite, ...] = ()
    alone: bool = False
    reference: str = ""


@dataclass(frozen=True, slots=True)
class _Antecedent:
    """What a word may stand for: a text, its names -> ids, labels of its types, and whether it is many."""

    text: str
    entities: Mapping[str, str]
    types: frozenset[str] = frozenset()
    many: bool = False


def read_follow_up(
    message: str, turns: Sequence[Turn], kg: KnowledgeGraph, encoder: Encoder, unclear: str = ""
) -> FollowUp:
    """Read a message after some turns, oldest first; `unclear` is one that could not be read before."""
    reader = _Reader(message, turns, kg, encoder)
    text, words = reader.text, lexicon()["follow_up"]
    for purpose in ("proof", "query"):
        if turns and re.fullmatch(words[purpose], text, re.IGNORECASE):
            return FollowUp(purpose)
    if unclear and reader.own and not reader.is_clause and (match := _reference(unclear)):
        name = reader.own[0]
        named = _Antecedent(name.mention, {name.mention: name.id})
        return FollowUp("question", (reader.rewrite(_replace(unclear, match, named), named.entities),))
    distinct: dict[str, Rewrite] = {}
    for rewrite in reader.rewrites():
        distinct.setdefault(rewrite.question.casefold(), rewrite)
    reference = reader.reference[0].group() if reader.reference else ""
    return FollowUp("question", tuple(distinct.values())[:REWRITES], reader.stands_alone, reference)


class _Reader:
    """Reads one message."""

    def __init__(self, message: str, turns: Sequence[Turn], kg: KnowledgeGraph, encoder: Encoder) -> None:
        self.kg, self.encoder, self.turns = kg, encoder, list(turns[-REMEMBERED:])[::-1]
        self.message = " ".join(message.split())
        opening = re.match(lexicon()["follow_up"]["opening"], self.message, re.IGNORECASE)
        self.text = self.message[opening.end() if opening and turns else 0 :].strip(" ?.!,")
        question = read_question(self.text, kg.profile)
        linked = sorted(link(self.text, kg, encoder=encoder), key=lambda e: e.start)
        self.own = [e for e in linked if self._is_name(e, question)]
        match = _reference(self.text)
        before = [e for e in self.own if match and e.end <= match[0].start()]
        self.reference = None if match and before and match[1] != "set" else match
        lists, low = lexicon(), self.text.lower().split()
        first = low[1] if low[1:] and low[0] in lists["prepositions"] else low[0] if low else ""
        self.is_clause = first in lists["asking"] | lists["orders"] or (
            low[:1] != [] and low[0] in lists["verbs"]
        )

    def _is_name(self, entity: LinkedEntity, question: Question) -> bool:
        """Return whether a mention names what a message is about; classes and common words name things too."""
        words = normalise(entity.mention).split()
        if entity.mention == entity.mention.lower():
            is_exact = entity.candidates[0].kind in ("exact", "alias")
            if not is_exact or find_classes(self.kg, entity.mention):
                return False
        return any(question.kind_of(word) == "other" for word in words)

    @property
    def stands_alone(self) -> bool:
        """Whether the message leans on nothing."""
        return self.is_clause and bool(self.own) and self.reference is None and self.text != ""

    def rewrites(self) -> Iterator[Rewrite]:
        """Yield what the message may mean, the likeliest first."""
        last = self.turns[0] if self.turns else None
        if self.reference is None and (last is None or self.stands_alone):
            yield self.rewrite(self.message, {})
            return
        words = lexicon()["follow_up"]
        if last is not None:
            previous = last.question.rstrip(" ?.!")
            phrase = re.match(f"({words['phrase']})(.*)", self.text, re.IGNORECASE)
            if self.is_clause and phrase and not self.own:
                rest = re.sub(words["empty"] + "$", "", phrase[2])
                if len(rest.split()) <= 1 and not (self.reference and rest):
                    yield from self._asked_for(previous, phrase[1], rest.strip())
            among = re.match(words["among"], self.text, re.IGNORECASE)
            if among and len(last.values) > 1 and re.search(r"\b(?:ones?|of) ", among[0]):
                yield self._restricted(previous, self.text[among.end() :])
            elif not self.is_clause or (phrase and re.match(r"of|in|from", phrase[2].strip())):
                yield from self._fragment(previous, last)
        if self.reference is not None:
            match, kind, _ = self.reference
            for antecedent in self._antecedents(kind):
                replaced = _replace(self.text, self.reference, antecedent)
                yield self.rewrite(replaced if self.is_clause else f"What is {replaced}", antecedent.entities)
        elif self.is_clause and last is not None:
            yield from self._about(last)

    def _asked_for(self, previous: str, phrase: str, noun: str) -> Iterator[Rewrite]:
        """Yield the question before, asking for something else: how many, when, in which year."""
        words = lexicon()["follow_up"]
        asked = re.match(
            f"({words['phrase']})(?: (?!{_AUXILIARY})([^\\W\\d]+))?(.*)", previous, re.IGNORECASE
        )
        if asked is None:
            return
        wh, old, rest = asked[1].split()[-1].lower(), asked[2] or "", asked[3]
        if wh in ("who", "where", "when", "whom") and old:
            old, rest = "", f" {old}{rest}"
        if phrase.lower() in ("how many", "which", "what") and not noun:
            noun = old or ("people" if phrase.lower() == "how many" and wh == "who" else "")
        elif (
            not re.match(rf" ?{_AUXILIARY}\b", rest) and (verb := re.match(r" (\S+) (.+)", rest)) and not old
        ):
            rest = f" was {verb[2]} {verb[1]}"  # "who wrote it": "when was it wrote" says enough
        yield self.rewrite(" ".join(f"{phrase} {noun}{rest}".split()), {})

    def _restricted(self, previous: str, condition: str) -> Rewrite:
        """Return the question before with a further condition."""
        plain = re.match(rf"(?:{_AUXILIARY}|{'|'.join(lexicon()['verbs'])}|[^\W\d]+s?)\b", condition)
        joined = f"{previous} and {condition}" if plain else f"{previous} {condition}"
        return self.rewrite(re.sub(r"^how many\b", "Which", joined, flags=re.IGNORECASE), {})

    def _fragment(self, previous: str, last: Turn) -> Iterator[Rewrite]:
        """Yield the question before with what the message names in place of a part of it, or beside it."""
        words, lists = lexicon()["follow_up"], lexicon()
        limit = re.match(words["only"], self.text, re.IGNORECASE)
        condition = re.sub(r" ones?$", "", self.text[limit.end() if limit else 0 :])
        first = condition.lower().split(" ")[0]
        compares = any(condition.lower().startswith(phrase) for phrase, _ in lists["comparisons"])
        if limit or compares:
            plain = compares or first in lists["prepositions"] or first.endswith("ed")
            yield self.rewrite(f"{previous}{' ' if plain else ' and are '}{condition}", {})
        said = (
            re.sub(words["phrase"] + " ", "", self.text, flags=re.IGNORECASE) if self.is_clause else self.text
        )
        part = self.reference
        if self.own:
            name = self.own[0]
            around = said.replace(name.mention, " ")
            content = [w for w in re.findall(r"[^\W\d]+", around.lower()) if w not in lists["stopwords"]]
            if content and not self.is_clause:
                yield self.rewrite(f"What is {said}", {})
            for mention in self._like(last, name):
                yield self.rewrite(_put(previous, mention, name.mention), {name.mention: name.id})
            if first in lists["prepositions"]:
                yield self.rewrite(f"{previous} {said}", {name.mention: name.id})
        elif part is not None and part[2]:
            # "Where was Goethe born? And his wife?" is about her birth; "the capital of Peru? And its area?" is not.
            for antecedent in self._antecedents(part[1]):
                text = _replace(self.text, part, antecedent)
                for mention in (
                    last.entities if not re.match(r"(?:what|who) (?:is|was|are) ", previous.lower()) else ()
                ):
                    if last.entities[mention] in antecedent.entities.values():
                        yield self.rewrite(_put(previous, mention, text), antecedent.entities)
        elif part is None:
            for name, id_ in self._topics(last):
                yield self.rewrite(f"What is {said} of {name}", {name: id_})

    def _about(self, last: Turn) -> Iterator[Rewrite]:
        """Yield a question that names nothing: as it is, then about what was spoken of before."""
        definite = re.search(r"\bthe ([^\W\d]+)\b(?! of\b)", self.text)
        for antecedent in self._antecedents("any") if definite else ():
            if self._is_a(antecedent, definite[1].lower() if definite else ""):
                yield self.rewrite(
                    self.text.replace(definite[0] if definite else "", antecedent.text, 1),
                    antecedent.entities,
                )
        yield self.rewrite(self.message, {})
        for name, id_ in self._topics(last):
            place = definite.end() if definite else len(self.text)
            yield self.rewrite(f"{self.text[:place]} of {name}{self.text[place:]}", {name: id_})

    def _topics(self, last: Turn) -> list[tuple[str, str]]:
        """Return what the question before was about, then its answer where it is one entity."""
        answer = [(a.text, v) for a in self._antecedents("any") for v in a.entities.values() if not a.many]
        return list(dict.fromkeys([*last.entities.items(), *answer]))

    def _is_a(self, antecedent: _Antecedent, noun: str) -> bool:
        """Return whether a noun names what an antecedent is: its type, or another word for its kind."""
        singular = noun.removesuffix("s")
        same = [words for words in lexicon()["kinds"].values() if singular in words]
        return singular in antecedent.types or any(not antecedent.types.isdisjoint(words) for words in same)

    def _like(self, last: Turn, name: LinkedEntity) -> list[str]:
        """Return the mentions of a turn that another entity may stand in place of, those of its type first."""
        types = self._types(name.id)[1]
        in_text = [m for m in last.entities if m.casefold() in last.question.casefold()]
        return sorted(in_text, key=lambda m: self._types(last.entities[m])[1].isdisjoint(types))[:2]

    def _types(self, id_: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the kinds of an entity (person, place, ...), and the labels of its types."""
        iri = self.kg.profile.expand(id_)
        labels = [text.lower() for text in types_of(self.kg, [iri]).values()] if iri is not None else []
        kinds = nearest_kinds(words_of(self.encoder), labels) if labels else []
        return frozenset(kinds), frozenset(labels)

    def _is_node(self, value: str) -> bool:
        """Return whether an answer is an entity; where ids are names, any text would pass for one."""
        iri = self.kg.profile.expand(value)
        if iri is None or self.kg.index is None:
            return iri is not None and bool(self.kg.labels([iri]).get(iri))
        return self.kg.index.node(iri) is not None

    def _antecedents(self, kind: str) -> Iterator[_Antecedent]:
        """Yield what a word of a kind may stand for: the last answer, what was asked about, what came before."""
        for turn in self.turns:
            nodes = [(v, x) for v, x in zip(turn.values, turn.labels, strict=True) if self._is_node(v)]
            if len(nodes) > 1 and kind == "set":
                types = self._types(nodes[0][0])[1]
                yield _Antecedent(noun_phrase(turn.question), turn.entities, types, many=True)
                return  # one of what was asked about is not meant by "they"
            named = [(x, v) for v, x in nodes] if len(nodes) == 1 else []
            for name, id_ in [*named, *turn.entities.items()]:
                kinds, types = self._types(id_)
                is_person = "person" in kinds
                if kind in ("set", "any") or (is_person if kind == "person" else not is_person):
                    yield _Antecedent(name, {name: id_}, types)

    def rewrite(self, question: str, entities: Mapping[str, str]) -> Rewrite:
        """Return a question that stands alone, with its entities: those of the conversation as they were."""
        known = {m: i for turn in reversed(self.turns) for m, i in turn.entities.items()}
        return alone(question, {**known, **entities}, self.kg, self.encoder)


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


def _reference(text: str) -> tuple[re.Match[str], str, bool] | None:
    """Return the first word that stands for something, of what kind, and whether as a possessive."""
    for pattern, kind, possessive in lexicon()["follow_up"]["references"]:
        if match := re.search(rf"\b{pattern}(?!\w)", text, re.IGNORECASE):
            return match, kind, bool(possessive)
    return None


def _replace(text: str, reference: tuple[re.Match[str], str, bool], antecedent: _Antecedent) -> str:
    """Return a text with a reference replaced; of many things "their X" is "the X of" them."""
    match, _, possessive = reference
    rest = text[match.end() :]
    if possessive and antecedent.many:
        return f"{text[: match.start()]}the{rest} of {antecedent.text}"
    return f"{text[: match.start()]}{antecedent.text}{chr(39) + 's' if possessive else ''}{rest}"


def _put(question: str, mention: str, text: str) -> str:
    """Return a question with a mention replaced by a text."""
    return re.sub(re.escape(mention), lambda _: text, question, count=1, flags=re.IGNORECASE)


def noun_phrase(question: str) -> str:
    """Return what a question asks for as a noun phrase: `the films that Stanley Kubrick did direct`."""
    text = question.rstrip(" ?.!")
    if match := re.match(rf"(?:what|who) {_AUXILIARY} (.+)", text, re.IGNORECASE):
        return match[1]
    if match := re.match(r"who (.+)", text, re.IGNORECASE):
        return f"those who {match[1]}"
    if match := re.match(
        r"(?:which|what|how many) ([^\W\d]+) (?:(?:do|does|did) )?(.+)", text, re.IGNORECASE
    ):
        return f"the {match[1]} that {match[2]}"
    return re.sub(
        r"^(?:name|list|give|tell|show)(?: me)? (?:all )?(?:the )?", "the ", text, flags=re.IGNORECASE
    )
