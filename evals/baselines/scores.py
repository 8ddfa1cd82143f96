"""Scores that a model gives to numbered options, read from whatever form it writes them in.

Lines of `number: score` are asked for; models also write names, tables, JSON, percentages, marks out of ten,
or nothing but the scores in order. What is read is only ever a score of an option that was offered.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?|\.\d+)(?:\s*(%)|\s*/\s*(\d+))?(?![\w.]*\w)")
_LISTED = re.compile(r"[\W_]*(?:(?:option|relation|entity|no|nr)\.?\s*)?#?(\d{1,3})(?:\W+|$)", re.IGNORECASE)
_NUMBERING = re.compile(r"(?m)^[\s>*#|(\[-]*\d{1,3}\s*[.):\]|]+\s+(?=\S*[^\W\d])")
_SCORE = re.compile(r"(?i)\b(?:score|rating|weight|relevance|probability)\b")
_KEYS = ("score", "rating", "weight", "relevance", "probability")
_NAMES = ("option", "number", "index", "id", "relation", "entity", "name")


def read_scores(reply: str, options: Sequence[Collection[str]]) -> dict[int, float]:
    """What a reply says of the options: place in `options` -> score, scaled so that the scores sum to 1.

    All are 0 where the reply gives every option it names 0, which says that none helps; {} where it gives
    no option a score, which says nothing.

    Args:
        reply: text of a model. options: the names of each, which were offered under numbers from 1.
    """
    reader = _Reader([[_plain(n) for n in names if _plain(n)] for names in options])
    found = reader.of_json(reply) or reader.of_names(reply) or reader.of_numbers(reply) or reader.bare(reply)
    total = sum(found.values())
    return {place: score / total if total else 0.0 for place, score in sorted(found.items())}


def _plain(text: str) -> str:
    """A text as names are compared."""
    return " ".join(text.replace("_", " ").casefold().split())


def _score(match: re.Match[str]) -> float:
    """The value of a number, a percentage or a mark out of so many."""
    value, percent, most = float(match[1]), match[2], match[3]
    return value / 100 if percent else value / float(most) if most and float(most) else value


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one reply, form by form."""

    names: Sequence[Sequence[str]]

    def of_json(self, reply: str) -> dict[int, float]:
        """Objects `{name or number: score}`, lists of `{"relation": ..., "score": ...}`, or of scores."""
        decoder = json.JSONDecoder()
        for start in (m.start() for m in re.finditer(r"[{\[]", reply)):
            try:
                data, _ = decoder.raw_decode(reply, start)
            except ValueError:
                continue
            if found := self._of_data(data):
                return found
        return {}

    def _of_data(self, data: Any) -> dict[int, float]:
        """The scores of decoded JSON."""
        if isinstance(data, list) and len(data) == len(self.names) and all(map(_is_score, data)):
            return dict(enumerate(map(float, data)))
        found: dict[int, float] = {}
        for name, score in _pairs(data):
            for place in self._places(str(name)):
                found.setdefault(place, score)
        return found

    def _places(self, name: str) -> list[int]:
        """The options that a name or a number means."""
        plain = _plain(name)
        places = [i for i, names in enumerate(self.names) if plain in names]
        if not places and (listed := re.fullmatch(r"\D*(\d{1,3})\D*", plain)):
            places = [int(listed[1]) - 1]
        return [p for p in places if 0 <= p < len(self.names)]

    def of_names(self, reply: str) -> dict[int, float]:
        """Scores behind the names of options: the first number between one name and the next."""
        text = "\n".join(_plain(line) for line in reply.splitlines())
        said = list(self._said(text))
        found: dict[int, float] = {}
        for i, (_, end, places) in enumerate(said):
            part = _NUMBERING.sub("", text[end : said[i + 1][0] if i + 1 < len(said) else len(text)])
            word = _SCORE.search(part)
            match = _NUMBER.search(part, word.end() if word else 0) or _NUMBER.search(part)
            for place in places if match else ():
                assert match is not None
                found.setdefault(place, _score(match))
        return found

    def _said(self, text: str) -> Iterator[tuple[int, int, list[int]]]:
        """Where names stand in a text, the longest of those that begin alike: start, end, options meant."""
        every = sorted({n for names in self.names for n in names if not n.isdigit()}, key=len, reverse=True)
        if not every:
            return
        pattern = "|".join(map(re.escape, every))
        for match in re.finditer(rf"(?<![\w^])(?:{pattern})(?!\w)", text):
            places = [i for i, n in enumerate(self.names) if match[0] in n]
            # Of two options with one name, such as both directions of a relation, the number says which.
            listed = _LISTED.match(text, text.rfind("\n", 0, match.start()) + 1)
            meant = int(listed[1]) - 1 if listed else -1
            yield match.start(), match.end(), [meant] if meant in places else places

    def of_numbers(self, reply: str) -> dict[int, float]:
        """Lines that begin with the number of an option; the score is the last number of the line."""
        found: dict[int, float] = {}
        for line in re.split(r"[\n;]", reply):
            listed = _LISTED.match(line)
            numbers = list(_NUMBER.finditer(line, listed.end())) if listed else []
            if listed and numbers and 0 < int(listed[1]) <= len(self.names):
                found.setdefault(int(listed[1]) - 1, _score(numbers[-1]))
        return found

    def bare(self, reply: str) -> dict[int, float]:
        """Nothing but as many scores as there are options, in their order (the form of ToG's own prompt)."""
        numbers = list(_NUMBER.finditer(reply))
        if len(numbers) != len(self.names) or re.search(r"[^\W\d_]{3,}", _SCORE.sub("", reply)):
            return {}
        return {i: _score(n) for i, n in enumerate(numbers)}


def _is_score(value: Any) -> bool:
    """Whether a decoded value is a score."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _pairs(data: Any) -> Iterator[tuple[Any, float]]:
    """Names with scores, however deep they lie."""
    if isinstance(data, list):
        for item in data:
            yield from _pairs(item)
    if not isinstance(data, dict):
        return
    lowered = {str(k).casefold(): v for k, v in data.items()}
    score = next((lowered[k] for k in _KEYS if k in lowered), None)
    name = next((lowered[k] for k in _NAMES if k in lowered), None)
    if name is not None and (value := _read(score)) is not None:
        yield name, value
        return
    for key, inner in data.items():
        if (value := _read(inner)) is not None:
            yield key, value
        else:
            yield from _pairs(inner)


def _read(value: Any) -> float | None:
    """A score out of JSON: a number, or a text that is one."""
    if _is_score(value):
        return float(value)
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return _score(match) if match else None
