"""Comparison of names: one normal form for labels and questions, and the token spans of a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_COMBINING = re.compile("[̀-ͯ]")
_NOT_WORD = re.compile(r"[\W_]+")
_APOSTROPHE = re.compile(r"(?<=\w)['’‘ʼ`](?=\w)")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})
_MARK = r"[^\x00-\u02ff\s\w\u2000-\u2bff\u3000-\u303f\ufe10-\uffef]"
"""Vowel signs and the like, which are not word characters to `re` but occur within words."""
_TOKEN = re.compile(rf"['’](?:s|S)\b|[^\W_](?:[^\W_]|{_MARK})*|[^\w\s]+|_+")
MOST_WORDS = 24  # Longer names are not looked for in a question
BRACKETS = re.compile(r"\[([^\[\]]+)\]")
QUOTES = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|„([^“”]+)[“”]|(?<!\w)'([^']+)'(?!\w)")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of tokens in a question: character positions, its text as written, and its normal form."""

    start: int
    end: int
    text: str
    norm: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a question. `word` is False for punctuation and for a possessive `'s`."""

    start: int
    end: int
    text: str
    word: bool

    @property
    def possessive(self) -> bool:
        """Whether it is a possessive `'s`."""
        return self.text[0] in "'’" and self.text[1:] in ("s", "S")


def fold(text: str) -> str:
    """Lower case without accents, letters of one language as others write them: `Łódź` is `lodz`."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS)
    return unicodedata.normalize("NFC", _COMBINING.sub("", unicodedata.normalize("NFD", folded)))


def normalise(text: str) -> str:
    """The form names are compared in: case, accents, punctuation and spacing folded; `$` alone stays."""
    folded = fold(text)
    joined = _APOSTROPHE.sub("", folded).replace("&", " and ")
    if joined.isascii():
        spaced = _NOT_WORD.sub(" ", joined)
    else:  # punctuation, symbols, separators and controls go; vowel signs of other scripts stay
        spaced = "".join(" " if unicodedata.category(c)[0] in "PSZC" else c for c in joined)
    return " ".join(spaced.split()) or "".join(folded.split())


def tokens(question: str) -> tuple[Token, ...]:
    """The words and signs of a question."""
    matches = _TOKEN.finditer(question)
    return tuple(Token(m.start(), m.end(), m.group(), m.group()[0].isalnum()) for m in matches)


def spans(question: str, most_words: int = MOST_WORDS) -> Iterator[Span]:
    """All runs of up to `most_words` words, longest first, and the runs of signs that stand alone."""
    parts = tokens(question)
    words = [i for i, token in enumerate(parts) if token.word]
    for size in range(min(len(words), most_words, MOST_WORDS), 0, -1):
        for at in range(len(words) - size + 1):
            first, last = words[at], words[at + size - 1]
            yield span_at(question, parts[first].start, parts[last].end)
            if last + 1 < len(parts) and parts[last + 1].possessive:
                yield span_at(question, parts[first].start, parts[last + 1].end)
    for token in parts:
        if not token.word and not token.possessive:
            yield span_at(question, token.start, token.end)


def marked(pattern: re.Pattern[str], question: str) -> tuple[Span, ...]:
    """What stands in `BRACKETS` or in `QUOTES`."""
    places = (match.span(match.lastindex or 0) for match in pattern.finditer(question))
    return tuple(span for place in places if (span := span_at(question, *place)).norm)


def span_at(question: str, start: int, end: int) -> Span:
    """Return the span between two positions."""
    text = question[start:end]
    return Span(start, end, text, normalise(text))
