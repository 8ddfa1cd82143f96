"""Sentences of a passage, and where a name stands in one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from triplewise.tools.core.names import Span, normalise, spans

LONGEST = 700
"""Characters of a sentence; longer ones are cut at a semicolon or comma, else anywhere."""

_SHORT = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr", "vs", "no", "vol", "fig", "gen", "col", "lt"),
        *("sgt", "capt", "rev", "hon", "gov", "sen", "rep", "inc", "ltd", "co", "corp", "dept", "univ", "ca"),
        *(
            "jan",
            "feb",
            "mar",
            "apr",
            "jun",
            "jul",
            "aug",
            "sep",
            "sept",
            "oct",
            "nov",
            "dec",
            "approx",
            "cf",
        ),
        *("e.g", "i.e", "u.s", "u.k", "ph.d", "b.a", "m.a", "d.c", "a.m", "p.m"),
    )
)
_END = re.compile(r"[.!?…。！？]+[\"'”’)\]]*(?=\s|$)|\n+|\s[;•·|]\s")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_OPENS = re.compile(r"\s*[\"'“‘(\[«]*")


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Start and text of every sentence: what stands between full stops, line ends and separators."""
    start = 0
    for end in _ends(text):
        yield from _cut(text, start, end)
        start = end
    yield from _cut(text, start, len(text))


def occurrences(sentence: str, norms: Collection[str]) -> list[Span]:
    """Where one of the names (in normal form) stands in a sentence, left to right; the longest one counts."""
    if not norms:
        return []
    most = max(len(norm.split()) for norm in norms) + 1
    kept: list[Span] = []
    for span in spans(sentence, most):
        if span.norm in norms and not any(span.start < k.end and k.start < span.end for k in kept):
            kept.append(span)
    return sorted(kept, key=lambda s: s.start)


def without_article(name: str) -> str:
    """Normal form of a name without a leading article."""
    return re.sub(r"^(?:the|a|an) (?=.)", "", normalise(name))


def _ends(text: str) -> Iterator[int]:
    for match in _END.finditer(text):
        if match[0][0] in ".!?…" and not _is_stop(text, match.start(), match.end()):
            continue
        yield match.end()


def _is_stop(text: str, at: int, end: int) -> bool:
    """Whether a stop ends a sentence: no abbreviation's or initial's, and none before lower case."""
    before = re.search(r"[\w.]+$", text[max(at - 12, 0) : at])
    word = before[0] if before else ""
    if text[at] == "." and (word.lower() in _SHORT or _INITIALS.fullmatch(word)):
        return False
    opening = _OPENS.match(text, end)
    after = text[opening.end() : opening.end() + 1] if opening else ""
    return not after.islower()


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """A sentence without blanks around, in parts where it is very long."""
    while end - start > LONGEST:
        places = [text.rfind(sign, start + 1, start + LONGEST) for sign in ("; ", ", ", " ")]
        at = next((p + 1 for p in places if p > start), start + LONGEST)
        yield from _cut(text, start, at)
        start = at
    piece = text[start:end]
    if stripped := piece.strip():
        yield start + len(piece) - len(piece.lstrip()), stripped
