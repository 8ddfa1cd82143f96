"""What the words of a question say about the query: what is asked for, comparisons, functions over rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from triplewise.tools.sql.base import Aggregation
from triplewise.tools.sql.planning.words import Key, Word, is_content, key_of, lexicon, read_words

_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
"""A better rank is a smaller number."""
_QUOTED = re.compile(r"[\"“”]([^\"“”]+)[\"“”]|(?<!\w)'([^']+)'(?!\w)|\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a number: the words it covers, cue and unit included, and what it says.

    `start` is the place of the cue's first word, `number` that of the number.
    """

    start: int
    end: int
    operator: str
    value: float
    number: int
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Cue:
    """Words that ask for a function over the rows."""

    function: Aggregation
    start: int
    end: int
    counting: bool = False


@dataclass(frozen=True)
class Question:
    """A question as the planner sees it.

    `focus`: place of the first word of what is asked for. `asked`: who, where, when, "how long", ... or "".
    """

    text: str
    words: tuple[Word, ...]
    focus: int
    asked: str
    quoted: tuple[tuple[int, int], ...]
    comparisons: tuple[Comparison, ...]
    cues: tuple[Cue, ...]

    @property
    def texts(self) -> Key:
        """The words in their normal form."""
        return tuple(w.text for w in self.words)

    def gap(self, start: int, end: int) -> int:
        """Words with a meaning of their own between two places."""
        return sum(is_content(w.text) for w in self.words[start:end])


def read_question(text: str) -> Question:
    """Read what the words of a question tell."""
    words = read_words(text)
    low = [w.text for w in words]
    focus, asked = _focus(low)
    return Question(text, words, focus, asked, _quoted(text, words), _comparisons(words), _cues(low))


def _quoted(text: str, words: Sequence[Word]) -> tuple[tuple[int, int], ...]:
    spans = []
    for match in _QUOTED.finditer(text):
        inside = [i for i, w in enumerate(words) if match.start() < w.start and w.end <= match.end()]
        if inside:
            spans.append((inside[0], inside[-1] + 1))
    return tuple(spans)


def _focus(low: Sequence[str]) -> tuple[int, str]:
    """Where what is asked for begins: behind the question word, or behind the request."""
    lists = lexicon()
    for i, word in enumerate(low):
        if word in lists["asking"]:
            kind = word if word in lists["kinds_asked"] else ""
            return _skip(low, i + 1), kind
        if word == "how" and low[i + 1 : i + 2] in (["many"], ["much"]):
            return _skip(low, i + 2), ""
        if word == "how" and i + 1 < len(low) and low[i + 1] in lists["how"]:
            return _skip(low, i + 1), f"how {low[i + 1]}"
        if i < 4 and word in lists["requests"]:
            return _behind_request(low, i)
    return 0, ""


def _behind_request(low: Sequence[str], at: int) -> tuple[int, str]:
    """Behind "name the", unless a question word follows at once ("tell me who")."""
    start = _skip(low, at + 1)
    if low[start : start + 1] and low[start] in lexicon()["asking"]:
        return _focus(low[start:])[0] + start, _focus(low[start:])[1]
    return start, ""


def _skip(low: Sequence[str], start: int) -> int:
    fillers = lexicon()["request_fillers"]
    while start < len(low) - 1 and low[start] in fillers:
        start += 1
    return min(start, max(0, len(low) - 1))


@lru_cache(maxsize=1)
def _comparison_phrases() -> list[tuple[Key, str]]:
    pairs = [(key_of(phrase), operator) for phrase, operator in lexicon()["comparisons"]]
    return sorted(pairs, key=lambda pair: -len(pair[0]))


@lru_cache(maxsize=1)
def _after_phrases() -> list[tuple[Key, str]]:
    return [(key_of(phrase), operator) for phrase, operator in lexicon()["comparisons_after"]]


@lru_cache(maxsize=1)
def _cue_phrases() -> list[tuple[Key, Aggregation, bool]]:
    counting = {key_of(phrase) for phrase in lexicon()["counting"]}
    all_ = [(key_of(p), name) for name, phrases in lexicon()["aggregates"].items() for p in phrases]
    return [(key, name, key in counting) for key, name in sorted(all_, key=lambda pair: -len(pair[0]))]


def _comparisons(words: Sequence[Word]) -> tuple[Comparison, ...]:
    """Comparison phrases with the number that they compare with, in the order of the question."""
    low = [w.text for w in words]
    found = _between(low)
    for phrase, operator in _comparison_phrases():
        for i in range(len(low) - len(phrase)):
            if tuple(low[i : i + len(phrase)]) == phrase and not _taken(found, i):
                found += _with_number(low, i, i + len(phrase), operator)
    for phrase, operator in _after_phrases():
        for i in range(1, len(low) - len(phrase) + 1):
            number = number_word(low[i - 1])
            if tuple(low[i : i + len(phrase)]) == phrase and number is not None and not _taken(found, i - 1):
                found.append(Comparison(i - 1, i + len(phrase), operator, number, i - 1))
    return tuple(sorted(found, key=lambda c: c.start))


def _between(low: Sequence[str]) -> list[Comparison]:
    """ "between 5 and 10", both ends included."""
    found = []
    for i in range(len(low) - 3):
        if low[i] == "between" and low[i + 2] in ("and", "to"):
            first, second = number_word(low[i + 1]), number_word(low[i + 3])
            if first is not None and second is not None and first <= second:
                found.append(Comparison(i, i + 4, ">=", first, i + 1, second))
    return found


def _taken(found: Sequence[Comparison], at: int) -> bool:
    return any(c.start <= at < c.end for c in found)


def _with_number(low: Sequence[str], start: int, at: int, operator: str) -> list[Comparison]:
    """The comparison, if a number follows its phrase."""
    end, sign = at, 1.0
    while end < len(low) and low[end] in lexicon()["between_comparison"] and end < at + 4:
        end += 1
    if end < len(low) - 1 and low[end] in "+-":
        sign = -1.0 if low[end] == "-" else 1.0
        end += 1
    number = number_word(low[end]) if end < len(low) else None
    if number is None and end == at and end + 1 < len(low) and is_content(low[end]):
        end += 1  # "before week 5"
        number = number_word(low[end])
    if number is None:
        return []
    if start and low[start - 1] in lexicon()["ranked"]:
        operator = _TURNED[operator]
    unit = lexicon()["units"].get(low[end + 1]) if end + 1 < len(low) else None
    value = sign * number * (unit or 1)
    return [Comparison(start, end + (2 if unit else 1), operator, value, end)]


def number_word(word: str) -> float | None:
    """The number a word is: digits, or a small number written out."""
    word = lexicon()["number_words"].get(word, word)
    try:
        return float(word) if word[0].isdigit() and word.isascii() else None
    except ValueError:
        return None


def _cues(low: Sequence[str]) -> tuple[Cue, ...]:
    """Words that ask for functions, longest phrases first, none twice."""
    found: list[Cue] = []
    for phrase, name, counting in _cue_phrases():
        for i in range(len(low) - len(phrase) + 1):
            if tuple(low[i : i + len(phrase)]) == phrase:
                end = i + len(phrase)
                if not any(c.start < end and i < c.end for c in found if c.function == name):
                    found.append(Cue(name, i, end, counting))
    return tuple(sorted(found, key=lambda c: (c.start, c.function)))
