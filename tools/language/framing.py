"""What a text asks, without its wrapping: "Could you tell me", "My aunt is curious:", "Is that so?"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from triplewise.tools.language.lexicon import section, word_list
from triplewise.tools.language.text import tokenise, tokens

_SENTENCE = re.compile(r"(?:(?<=[^\W\d_]{4})|(?<=\d))\.\s+|[;!?]+\s+")
_ASIDE = re.compile(r",? [-–—] |: |, (?:but|so|and) ")


class Asked(NamedTuple):
    """The part of a text that asks, and the words of what was left out that are not part of a frame."""

    text: str
    context: frozenset[str] = frozenset()


def asked_part(text: str) -> Asked:
    """Return what a text asks: of several sentences the one that does, without its frame.

    A claim becomes "Is ...", where a frame or another sentence asks whether it is so. A text is returned as
    it stands where what asks says nothing of its own, or "it" of something in another sentence.
    """
    sentences = list(_sentences(text))
    if len(sentences) > 1 and re.fullmatch(section("framing")["tags"], sentences[-1].lower()):
        cores = [f"Is {_matched('claims', sentences[-2])}"]
    else:
        unframed = [(part, _without_frame(part)) for part in sentences]
        cores = [core for part, core in unframed if core != part or asks(part)]
    content = [word for core in cores for word in tokens(core) if word not in word_list("stop")]
    if len(list(filter(None, cores))) != 1 or not content:
        return Asked(text)
    core = next(filter(None, cores))
    framing = word_list("stop").union(*(section("framing")[name].split() for name in ("words", "asks")))
    context = frozenset(word for part in sentences for word in tokens(part)) - framing - {*tokens(core)}
    leans = not (word_list("pronouns") - {"that", "this"}).isdisjoint(tokens(core))
    return Asked(text) if context and leans else Asked(core, context)


def _matched(name: str, sentence: str, at_end: bool = False) -> str:
    """A sentence without what an expression of the lexicon matches at its beginning, or its end."""
    pattern = section("framing")[name]
    return re.sub(pattern if at_end else f"^{pattern}", "", sentence, flags=re.IGNORECASE)


def asks(sentence: str) -> bool:
    """Whether a sentence begins as a question or an order does, but for a preposition."""
    words = tokens(sentence)
    late = not word_list("phrase_prepositions").isdisjoint(words[:1])
    beginnings = word_list("asking") | word_list("orders") | (frozenset() if late else word_list("verbs"))
    return not beginnings.isdisjoint(words[late : late + 1])


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a text without greetings and politeness, what a speaker says first apart."""
    for part in filter(None, (part.strip(" ?.!,") for part in _SENTENCE.split(text.strip()))):
        yield from _without_aside(_matched("greetings", _matched("endings", part, at_end=True)))


def _without_aside(sentence: str) -> list[str]:
    """What a speaker says first and the question behind it, apart: "I am new here, so which ..."."""
    for mark in _ASIDE.finditer(sentence):
        before, rest = sentence[: mark.start()], sentence[mark.end() :]
        is_personal = mark[0] == ": " or not {*section("framing")["speaker"]}.isdisjoint(tokens(before))
        if is_personal and not asks(before) and (asks(rest) or _without_frame(rest) != rest):
            return [before, rest]
    return [sentence]


def _without_frame(sentence: str) -> str:
    """A sentence from the end of its frame on, "" where nothing is behind it; "if ..." as "Is ..."."""
    if (claim := _matched("whether", sentence)) != sentence:
        return f"Is {claim}"
    found = tokenise(sentence)
    words = [token.word for token in found]
    for start, word in enumerate(words):
        if word in word_list("asking"):
            break
        end = start + _frame(words[start:]) if word in section("framing")["begin"] else 0
        if end > start:
            rest = sentence[found[end].start :] if end < len(found) else ""
            return f"Is {rest}" if rest and words[end - 1] in ("if", "whether") else rest
    return sentence


def _frame(words: Sequence[str]) -> int:
    """How many words a frame has; 0 if none of them asks."""
    framing, asks = section("framing"), {*section("framing")["asks"].split()}
    every: Iterable[str] = asks.union(framing["words"].split())
    end = next((i for i, word in enumerate(words) if word not in every), len(words))
    behind = {*framing["behind"]}
    if not word_list("asking").isdisjoint(words[end : end + 1]):  # "my question is who"
        behind -= word_list("verbs")
    while end and words[end - 1] in behind:
        end -= 1
    return end if asks.intersection(words[:end]) else 0
