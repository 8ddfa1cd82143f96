"""What kind of answer a question wants, where its words leave no doubt: for guidelines that weigh answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final
from typing import Literal as OneOf

from triplewise.tools.planning.lexical.question import QuestionView, view

Wanted = OneOf["", "who", "when", "count", "yes_no"]

_ASKING: Final = frozenset(("who", "whom", "whose", "when", "where", "which", "what", "how", "why"))


def wanted(question: str, labels: Iterable[str] = (), spans: Sequence[tuple[int, int]] = ()) -> Wanted:
    """The kind of answer that a question asks for; "" where it does not tell, or tells two kinds.

    Args:
        question: in plain language. labels: names of linked entities, whose words ask nothing.
        spans: where mentions of entities stand in the question (start, end).
    """
    return _wanted(question, tuple(_apart([*spans, *_places(question, labels)])))


@lru_cache(maxsize=1024)
def _wanted(question: str, spans: tuple[tuple[int, int], ...]) -> Wanted:
    read = view(question, spans)
    words = [t.lower for t in read.tokens if t.mention < 0]
    asking = {w for w in words if w in _ASKING}
    if read.boolean and not asking and "or" not in words and "you" not in words[:2]:
        return "yes_no"  # "can you name ..." asks for no yes
    if len(asking) != 1:
        return ""
    if read.kind == "person" and not read.counting:
        return "who"
    if asking == {"when"} and words[0] == "when":
        return "when"
    return "count" if _counts(read, words) else ""


def _counts(read: QuestionView, words: Sequence[str]) -> bool:
    """Whether a question is "how many ...": "the number of" also stands where something else is asked."""
    return read.counting and ("how", "many") in pairwise(words)


def _places(question: str, labels: Iterable[str]) -> list[tuple[int, int]]:
    """Where labels stand in a question."""
    text = question.casefold()
    known = (label.casefold() for label in labels if label)
    return [(at, at + len(label)) for label in known if (at := text.find(label)) >= 0]


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order; of two that overlap, the longer one."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(set(spans), key=lambda s: (s[0] - s[1], s)):
        if 0 <= start < end and all(end <= a or start >= b for a, b in kept):
            kept.append((start, end))
    return sorted(kept)
