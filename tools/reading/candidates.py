"""What a sentence names besides the entity it is about: names the KG knows, names it does not, values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from triplewise.tools.core.names import Span, normalise
from triplewise.tools.kg.labels import Entry, LabelIndex
from triplewise.tools.linking.mentions import kind_of, same_case
from triplewise.tools.reading.values import places

MOST_NODES = 5
"""Nodes of one name that are looked at, best known first."""
MOST = 40
"""Candidates of one sentence."""

_JOIN = r"(?:of|the|and|de|la|le|von|van|der|den|du|da|di|del|al|bin|for|on|in|&)"
_LINK = r"\b(?:and|of|in|for|on|with|by|to|from)\b|&"
_QUOTED = re.compile(r"\"([^\"]{2,80})\"|“([^”]{2,80})”|«([^»]{2,80})»|\*([^*]{2,80})\*")
_SEPARATOR = re.compile(
    r"\s*(?:,|;|/|&|\band\b|\bor\b|\bas well as\b|\balong with\b|\bplus\b|\bthe\b|\ba\b)\s*", re.I
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span of a sentence that may be an object.

    Attributes:
        start, end: characters in the sentence. text: as written.
        entries: nodes of the KG that are called so; () where it knows none.
        kind: label (a name the KG knows), name (one it does not), quoted, date, or number.
        sure: whether it is written like the name it is: capitals agree, or it is in quotation marks.
    """

    start: int
    end: int
    text: str
    entries: tuple[Entry, ...] = ()
    kind: str = "label"
    sure: bool = True


def candidates(sentence: str, index: LabelIndex | None, taken: Sequence[Span]) -> tuple[Candidate, ...]:
    """Candidates of a sentence, left to right, none of which overlap.

    Names that the KG knows come first, unless they are but a part of a longer name that it does not know.

    Args:
        sentence: the text. index: of the KG's names. taken: where the entity itself is named.
    """
    free = [(span.start, span.end) for span in taken]
    found: list[Candidate] = []
    names = _names(_blanked(sentence, free))
    labels = [c for c in _labels(sentence, index) if not any(_is_part(c, name) for name in names)]
    quoted = [_quote(m) for m in _QUOTED.finditer(sentence)]
    values = [Candidate(a, b, sentence[a:b], (), kind, True) for a, b, kind in places(sentence)]
    for candidate in (*labels, *quoted, *values, *names):
        if not any(candidate.start < end and start < candidate.end for start, end in free):
            found.append(candidate)
            free.append((candidate.start, candidate.end))
    return tuple(sorted(found, key=lambda c: c.start)[:MOST])


def _blanked(sentence: str, spans: Sequence[tuple[int, int]]) -> str:
    """A sentence with signs in place of some spans, so that no name runs through them."""
    for start, end in spans:
        sentence = f"{sentence[:start]}{'|' * (end - start)}{sentence[end:]}"
    return sentence


def _is_part(label: Candidate, name: Candidate) -> bool:
    """Whether a label is a part of a longer name: other words than `Director` and `and` stand beside it."""
    if not (name.start <= label.start and label.end <= name.end) or label.end - label.start == len(name.text):
        return False
    before, after = name.text[: label.start - name.start], name.text[label.end - name.start :]
    if re.search(rf"{_LINK}\s*$", before):
        before = ""
    if re.match(rf"\s*{_LINK}", after):
        after = ""
    if normalise(after):
        return True
    return any(kind_of(word) not in ("function", "common") for word in normalise(before).split())


def groups(sentence: str, found: Sequence[Candidate]) -> list[list[Candidate]]:
    """Candidates in runs that nothing but separators parts: `A, B and C`."""
    made: list[list[Candidate]] = []
    for candidate in found:
        between = sentence[made[-1][-1].end : candidate.start] if made else ""
        if made and made[-1][-1].end <= candidate.start and _SEPARATOR.sub("", between).strip() == "":
            made[-1].append(candidate)
        else:
            made.append([candidate])
    return made


def is_common(text: str) -> bool:
    """Whether a text holds nothing but words of every day."""
    return all(kind_of(word) in ("function", "common") for word in normalise(text).split())


def _labels(sentence: str, index: LabelIndex | None) -> list[Candidate]:
    """Names that the KG knows: those written as the KG does first, then the longest."""
    if index is None:
        return []
    made = []
    for match in index.spans(sentence):
        span = match.span
        sure = _is_written_so(span, match.entries)
        if sure or not _is_everyday(span, match.entries):
            made.append(Candidate(span.start, span.end, span.text, match.entries[:MOST_NODES], "label", sure))
    return sorted(made, key=lambda c: (not c.sure, c.start - c.end))


def _is_written_so(span: Span, entries: Sequence[Entry]) -> bool:
    """Whether a span is written as a name is: capitals and all, and not just as a first word is."""
    if not any(c.isupper() or c.isdigit() for c in span.text):
        return False
    words = span.norm.split()
    if span.start == 0 and len(words) == 1 and kind_of(words[0]) == "function":
        return False
    return any(same_case(span.text, entry.text) for entry in entries)


def _is_everyday(span: Span, entries: Sequence[Entry]) -> bool:
    """Whether a span holds nothing but words such as `in` and `stars`, or signs.

    Of those, only nouns and verbs that the KG writes in lower case too are names.
    """
    kinds = {"function" if len(word) == 1 else kind_of(word) for word in span.norm.split()}
    if kinds <= {"function"}:
        return True
    return kinds <= {"function", "common"} and not any(same_case(span.text, e.text) for e in entries)


def _quote(match: re.Match[str]) -> Candidate:
    at = match.lastindex or 0
    return Candidate(match.start(at), match.end(at), match[at], (), "quoted", True)


def _names(sentence: str) -> list[Candidate]:
    """Runs of words with capitals; a first word of every day is none by itself and begins none."""
    found = []
    for start, text in _capitals(sentence):
        first = text.split()[0]
        if start == 0 and kind_of(normalise(first)) in ("function", "common"):
            rest = text[len(first) :].lstrip()
            rest = re.sub(rf"^(?:{_JOIN}\s+)+", "", rest)
            start, text = start + len(text) - len(rest), rest
        if len(text) > 1 and any(c.isupper() for c in text):
            # A first word has its capital from where it stands, and may be no name.
            sure = start > 0 or " " in text or any(c.isupper() or c.isdigit() for c in text[1:])
            found.append(Candidate(start, start + len(text), text, (), "name", sure))
    return found


def _capitals(sentence: str) -> list[tuple[int, str]]:
    """Runs of words that begin with a capital, joined by words such as `of the`."""
    runs: list[tuple[int, str]] = []
    start = end = -1
    for token in re.finditer(r"[^\W_][\w’'\-.]*", sentence):
        word = token[0].rstrip(".'’")
        between = sentence[end : token.start()] if start >= 0 else ""
        if word[:1].isupper() and not re.fullmatch(r"I|I['’]\w+", word):
            joined = start >= 0 and re.fullmatch(rf"\s+(?:{_JOIN}\s+){{0,2}}", between) is not None
            if not joined and start >= 0:
                runs.append((start, sentence[start:end]))
            start, end = (start if joined else token.start()), token.start() + len(word)
        elif start >= 0 and not re.fullmatch(_JOIN, word):
            runs.append((start, sentence[start:end]))
            start = -1
    if start >= 0:
        runs.append((start, sentence[start:end]))
    return [part for run in runs for part in _parts(*run)]


def _parts(start: int, text: str) -> list[tuple[int, str]]:
    """A run, cut at an `and` that joins full names: `Ann Lee and Bo Kim`, not `Pride and Prejudice`."""
    middle = re.search(r"\s+and\s+(?:the\s+)?", text)
    if middle is None or " " not in text[: middle.start()] or " " not in text[middle.end() :]:
        return [(start, text)]
    return [(start, text[: middle.start()]), *_parts(start + middle.end(), text[middle.end() :])]
