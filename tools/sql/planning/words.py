"""Words of questions, cells and column names in one normal form, and the word lists of the language.

A cell and the place of the question that names it meet if their words do: case, accents, spaces, dashes and
the thousands commas of numbers make no difference.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from triplewise.tools.planning.lexical.question import lexicon as question_lexicon
from triplewise.tools.planning.lexical.question import stem

Key = tuple[str, ...]
"""The words of a text in their normal form."""

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")
_PLAIN_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)")
_DIGITS = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the question: normal form, as written, and where its first character and its end are."""

    text: str
    raw: str
    start: int
    end: int


@lru_cache(maxsize=1)
def lexicon() -> dict[str, Any]:
    """The planner's own word lists, and those it shares with questions over KGs."""
    data: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("english.yaml").read_text("utf-8"))
    shared = question_lexicon()
    data["stopwords"] = shared["stopwords"] | set(data["stopwords"].split())
    own = [tuple(entry) for entry in data["comparisons"]]
    data["comparisons"] = own + [tuple(entry) for entry in shared["comparisons"]]
    data["units"] = shared["units"]
    data["how"] = shared["how"]
    for function in ("MAX", "MIN"):
        data["implied"][function] = {**shared["superlatives"][function.lower()], **data["implied"][function]}
    return data


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """A text without case and accents."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in parts if not unicodedata.combining(c))


@lru_cache(maxsize=1)
def _word() -> re.Pattern[str]:
    """A number (a unit may be glued to it), a word, a sign, or a fraction."""
    units = "|".join(lexicon()["glued_units"])
    return re.compile(
        rf"(?P<number>{_NUMBER})(?:(?![^\W_])|(?=(?:{units})\b))|(?P<word>[^\W_]+)"
        r"|(?P<sign>[-+−–±])(?=\s?\.?\d)|(?P<mark>[½¼¾])",
        re.IGNORECASE,
    )


def read_words(text: str) -> tuple[Word, ...]:
    """The words of a text. A sign before a number is a word where it can be no dash between two of them."""
    words: list[Word] = []
    for match in _word().finditer(text):
        if match["sign"] and not _is_sign(text, match.start(), words):
            continue
        words.append(Word(_normal(match), match.group(), match.start(), match.end()))
    return tuple(words)


def key_of(text: str) -> Key:
    """The normal form of a cell."""
    return tuple(word.text for word in read_words(text))


def name_words(name: str) -> Key:
    """The words of a column's or table's name: `homeTeam`, `home_team` and `Home team` are the same."""
    return key_of(_CAMEL.sub(" ", name))


def number_in(text: str) -> float | None:
    """The number a cell reads as (thousands commas, spaces, a percent or currency sign aside), or None."""
    plain = text.replace(",", "").replace(" ", "").replace("−", "-").strip("%$€£")
    return float(plain) if _PLAIN_NUMBER.fullmatch(plain) else None


def has_digit(text: str) -> bool:
    """Whether a digit is in a text."""
    return bool(_DIGITS.search(text))


def stems(key: Key) -> Key:
    """The stems of words."""
    return tuple(stem(word) for word in key)


def is_content(word: str) -> bool:
    """Whether a word says something of its own."""
    return word not in lexicon()["stopwords"]


def _is_sign(text: str, at: int, words: list[Word]) -> bool:
    before = text[:at]
    if not before.strip():
        return True
    follows_number = bool(words) and has_digit(words[-1].text)
    return before[-1].isspace() and text[at + 1 : at + 2].isdigit() and not follows_number


def _normal(match: re.Match[str]) -> str:
    text = match.group()
    if match["number"]:
        plain = text.replace(",", "")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain.lstrip("0") or "0"
    if match["sign"]:
        return "-" if text in "-−–" else "+"
    return fold(text)
