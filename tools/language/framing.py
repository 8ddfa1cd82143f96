"""What a text asks, without its wrapping: "Could you tell me", "My aunt is curious:", "Is that so?"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

from triplewise.tools.language.lexicon import root, section, word_list
from triplewise.tools.language.text import tokenise, tokens

MOST, MARKS = 3, 6  # parts of a text that may be what it asks; commas and the like of a sentence that part it
LONGEST = 1_000  # characters of a text that is cut up
_ABBREVIATED = r"(?<![A-Z][a-z])(?<![A-Z][a-z]{2})"  # St., Mrs.
_SENTENCE = re.compile(
    rf"(?:(?<=[^\W\d_]{{4}})|(?<=\d)|(?<=[a-z]{{2}}){_ABBREVIATED}(?=\.\s+[A-Z]))\.\s+|[;!?]+\s+"
)
_CLAUSE = re.compile(r",? (?:but|so|and|[-–—]) |[:,] ")


class Asked(NamedTuple):
    """A part of a text that may be what it asks, and what is left out then.

    `context`: its words that are not of a frame; `is_personal`: whether it speaks of the speaker; `before`:
    the clauses and sentences in front of the part, the nearest first.
    """

    text: str
    context: frozenset[str] = frozenset()
    is_personal: bool = False
    before: tuple[str, ...] = ()


@lru_cache(maxsize=1_024)
def asked_part(text: str) -> str:
    """Return the likeliest of the parts that may be what a text asks."""
    return asked_parts(text)[0].text


def asked_parts(text: str) -> list[Asked]:
    """Return the parts that may be what a text asks, those that leave out least first; else the text itself.

    They are clauses without their frame, to the end of the sentence or to where the speaker comes in again
    ("as I would like to ..."). A claim becomes "Is ...", where another sentence asks whether it is so.
    """
    sentences = list(_sentences(text)) if len(text) <= LONGEST else []
    if len(sentences) > 1 and re.fullmatch(section("framing")["tags"], sentences[-1].lower()):
        sentences[-2:] = [f"Is {_matched('claims', sentences[-2])}"]
    frames, found = _roots("words") | _roots("asks"), dict[str, Asked]()
    content = {word for part in sentences for word in tokens(part)} - word_list("stop")
    content = {word for word in content if root(word) not in frames}
    for i, sentence in enumerate(sentences):
        for before, core in _clauses(sentence):
            own, earlier = {*tokens(core)}, tuple(filter(None, (before, *sentences[:i][::-1])))
            rest = " ".join(sentences).replace(core, " ")
            if not own <= word_list("stop"):
                found.setdefault(core, Asked(core, frozenset(content - own), is_personal(rest), earlier))
    ranked = sorted(found.values(), key=lambda part: len(part.context))
    return ranked[:MOST] or [Asked(text)]


def is_personal(text: str) -> bool:
    """Whether a text speaks of the speaker."""
    return re.search(rf"\b(?:{section('framing')['speaker']})\b(?!\.e\.)", text, re.IGNORECASE) is not None


def _clauses(sentence: str) -> Iterator[tuple[str, str]]:
    """The parts of a sentence that may ask, with what is before each."""
    marks = [mark.span() for mark in islice(_CLAUSE.finditer(sentence), MARKS)]
    for start in (0, *(end for _, end in marks)):
        before = sentence[:start]
        if asks(before) and word_list("asking").isdisjoint(tokens(sentence[start:])[:1]):
            continue  # it goes on
        for end in (len(sentence), *(a for a, _ in marks if a > start and is_personal(sentence[a:]))):
            clause = sentence[start:end]
            core = _without_frame(clause)
            if core != clause or asks(clause):
                yield before, core


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
    """The sentences of a text without greetings and politeness."""
    for part in filter(None, (part.strip(" ?.!,") for part in _SENTENCE.split(text.strip()))):
        yield _matched("greetings", _matched("endings", part, at_end=True))


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
        if end > start and (word != "it" or is_personal(sentence[: found[end - 1].end])):
            rest = sentence[found[end].start :] if end < len(found) else ""
            return f"Is {rest}" if rest and words[end - 1] in ("if", "whether") else rest
    return sentence


def _frame(words: Sequence[str]) -> int:
    """How many words a frame has; 0 if none of them asks."""
    roots, behind = [root(word) for word in words], {*section("framing")["behind"]}
    every = _roots("words") | _roots("asks")
    end = next((i for i, one in enumerate(roots) if one not in every), len(words))
    if not word_list("asking").isdisjoint(words[end : end + 1]):  # "my question is who"
        behind -= word_list("verbs")
    while end and words[end - 1] in behind:
        end -= 1
    return 0 if _roots("asks").isdisjoint(roots[:end]) else end


@cache
def _roots(name: str) -> frozenset[str]:
    """The roots of a list of words of frames: forms of a word are in it too."""
    return frozenset(map(root, section("framing")[name].split()))
