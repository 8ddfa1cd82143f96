"""Tokens, stems and comparable forms of questions and names, cut into words by the same rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

from triplewise.tools.core.names import fold

_TOKEN = re.compile(
    r"""\d+(?:st|nd|rd|th)\b | \d+(?:[.,:]\d+)*          # 2nd, 1,200.5, 10:30
    | (?:(?!n['’]t\b)[^\W\d_])+(?=n['’]t\b) | n['’]t\b     # do|n't
    | (?<=\w)['’]s\b                                      # a possessive
    | [^\W\d_]+\d* | \w+""",
    re.VERBOSE | re.IGNORECASE,
)
_BORDERS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_STEMMER = TextAnalyzerBuilder(Tokenizer.raw()).filter(Filter.stemmer("english")).build()


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a question: as written, in its comparable form, and its character positions."""

    text: str
    word: str
    start: int
    end: int

    @property
    def capital(self) -> bool:
        """Whether it begins with a capital."""
        return self.text[0].isupper()


def split_name(name: str) -> str:
    """The words of a name in one: camelCase, snake_case, and letters next to digits are separated."""
    return " ".join(_BORDERS.sub(" ", re.sub(r"[_\-.]+", " ", name)).split())


def tokenise(text: str) -> tuple[Token, ...]:
    """The words and numbers of a text; a possessive 's is left out, and n't is the word `not`."""
    result = []
    for match in _TOKEN.finditer(text):
        if (written := match.group())[0] not in "'’" and written not in ("s", "S"):
            word = "not" if (word := fold(written)) in ("n't", "n’t") else word
            result.append(Token(written, word, *match.span()))
    return tuple(result)


def tokens(text: str) -> list[str]:
    """The words of a text in their comparable form."""
    return [token.word for token in tokenise(text)]


@lru_cache(maxsize=100_000)
def singular(word: str) -> str:
    """A noun without the ending of its plural; light, so that different names stay different."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and re.search(r"(ss|x|ch|sh)es$", word):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not re.search(r"(ss|us|is)$", word):
        return word[:-1]
    return word


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The Snowball stem of an English word, which many of its forms share: flows, flowing, flowed."""
    found: list[str] = _STEMMER.analyze(word)
    return found[0] if found else word


def key(words: Sequence[str]) -> str:
    """Words run together, so that TR7 = TR 7 and horse power = horsepower."""
    return "".join(words).replace(".", "").replace(",", "")
