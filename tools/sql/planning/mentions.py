"""Value linking: which places of the question may be conditions on which columns.

Exact matches of words come first, then those of stems, of written-out numbers, of a part of a value, and of
near spellings. Comparisons ("more than 5") may speak of any column of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from triplewise.tools.sql.base import Aggregation, Condition, Database, Value
from triplewise.tools.sql.planning.columns import ColumnLinks, ColumnMention
from triplewise.tools.sql.planning.index import ColumnView, Index
from triplewise.tools.sql.planning.reading import Comparison, Cue, Question
from triplewise.tools.sql.planning.words import Key, has_digit, is_content, key_of, lexicon, number_in, stems

LONGEST = 30
"""Words of the longest span that is looked up."""
NEAR = 88.0
"""How alike (0 to 100) a span and a value must be to be spellings of one another."""
LEAST_LETTERS = 5
ASKED = 12
"""Spans that a database is asked for in each column of which not all values are known."""
NUMBERS = 0.5
"""Share of numbers from which on a column is compared with numbers."""
YEARS = range(1000, 2101)
"""Numbers that may be years."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A place of the question that may be a condition on a column.

    Attributes:
        start, end: the words that say it, cue of a comparison included. inner: the first word of the value.
        number: number of the column in the index. conditions: what it would add to the query.
        tier: how it was found: exact, stem, word, part, near, compare, extreme.
        extreme: MAX or MIN where the condition is the extreme value among the rows that the others leave.
    """

    start: int
    end: int
    inner: int
    number: int
    conditions: tuple[Condition, ...]
    tier: str
    extreme: Aggregation = ""

    def overlaps(self, other: Mention) -> bool:
        """Whether both use a word of the question."""
        return self.start < other.end and other.start < self.end


def find_mentions(question: Question, index: Index, database: Database) -> tuple[Mention, ...]:
    """All places that may be conditions; the same words may be there for several columns."""
    found = [*_known(question, index), *_written_numbers(question, index)]
    found += _compared(question, index)
    found += _asked(question, index, database)
    found += _parts(question, index, found)
    found += _near(question, index, found)
    seen: dict[tuple[int, int, int, str], Mention] = {}
    for mention in found:
        seen.setdefault((mention.start, mention.end, mention.number, mention.tier), mention)
    return tuple(_negate(mention, question) for mention in seen.values())


def _equal(
    question: Question, index: Index, span: tuple[int, int], number: int, value: Value, tier: str
) -> Mention:
    condition = Condition(index.views[number].column, "=", value)
    return Mention(span[0], span[1], span[0], number, (condition,), tier)


def _known(question: Question, index: Index) -> Iterator[Mention]:
    """Values that the question spells out, in their own words or with other endings."""
    texts = question.texts
    stemmed = stems(texts)
    for a, b in _spans(len(texts), min(LONGEST, index.longest)):
        exact = index.exact.get(texts[a:b], ())
        for number, value in exact:
            yield _equal(question, index, (a, b), number, value, "exact")
        has = {number for number, _ in exact}
        if any(map(is_content, texts[a:b])):
            for number, value in index.stemmed.get(stemmed[a:b], ()):
                if number not in has:
                    yield _equal(question, index, (a, b), number, value, "stem")


def _written_numbers(question: Question, index: Index) -> Iterator[Mention]:
    """ "two" and "first" where a column has 2 and 1st (or 1)."""
    for i, text in enumerate(question.texts):
        digits = lexicon()["number_words"].get(text)
        if digits:
            for form in {digits, re.sub(r"\D", "", digits)}:
                for number, value in index.exact.get((form,), ()):
                    yield _equal(question, index, (i, i + 1), number, value, "word")


def _compared(question: Question, index: Index) -> Iterator[Mention]:
    """Comparisons, with every column of numbers."""
    for comparison in question.comparisons:
        for number, view in enumerate(index.views):
            conditions = _comparing(comparison, view) if view.values else ()
            if conditions:
                yield Mention(
                    comparison.start, comparison.end, comparison.number, number, conditions, "compare"
                )


def _comparing(comparison: Comparison, view: ColumnView) -> tuple[Condition, ...]:
    """A comparison on a column of numbers, or with a year on a column of dates; () on others."""
    ends = [(comparison.operator, comparison.value)]
    if comparison.upper is not None:
        ends.append(("<=", comparison.upper))
    if view.numeric >= NUMBERS:
        return tuple(Condition(view.column, operator, _plain(value)) for operator, value in ends)
    if view.column.kind == "date" and all(value in YEARS for _, value in ends):
        return tuple(Condition(view.column, operator, _day(operator, int(value))) for operator, value in ends)
    return ()


def _day(operator: str, year: int) -> str:
    """The day that a comparison with a year compares with: after 2001 is after its last day."""
    return f"{year:04}-12-31" if operator in (">", "<=") else f"{year:04}-01-01"


def _plain(number: float) -> int | float:
    return int(number) if number.is_integer() else number


def _asked(question: Question, index: Index, database: Database) -> Iterator[Mention]:
    """Values of columns that hold more than the index keeps, as the database finds them."""
    open_ones = [(n, view) for n, view in enumerate(index.views) if not view.complete]
    if not open_ones:
        return
    for span in _names(question):
        words = question.words[span[0] : span[1]]
        text = question.text[words[0].start : words[-1].end]
        for number, view in open_ones:
            if view.numeric >= NUMBERS and number_in(text) is None:
                continue
            for value in database.find(view.column, text, 2):
                if key_of(str(value)) == tuple(w.text for w in words):
                    yield _equal(question, index, span, number, value, "exact")


def _names(question: Question) -> list[tuple[int, int]]:
    """Spans that are likely names: quoted ones, runs of capitals and numbers, single numbers."""
    runs, start = list(question.quoted), None
    for i, word in enumerate((*question.words, None)):
        fits = word is not None and i > 0 and (word.raw[0].isupper() or has_digit(word.raw))
        if fits and start is None:
            start = i
        elif not fits and start is not None:
            runs.append((start, i))
            start = None
    plain = [(i, i + 1) for i, w in enumerate(question.words) if is_content(w.text)]
    return list(dict.fromkeys([*runs, *plain]))[:ASKED]


def _parts(question: Question, index: Index, found: Sequence[Mention]) -> Iterator[Mention]:
    """Words that only one value of a column has ("Marconi" for "Marconi Stallions")."""
    taken = _covered(found)
    for i, text in enumerate(question.texts):
        if i in taken or not is_content(text) or len(text) < 3 or text not in index.parts:
            continue
        by_column: dict[int, list[tuple[Value, Key]]] = {}
        for number, value, key in index.parts[text]:
            by_column.setdefault(number, []).append((value, key))
        for number, values in by_column.items():
            span = _run(question.texts, i, values)
            if span is not None:
                yield _equal(question, index, span[:2], number, span[2], "part")


def _run(texts: Key, at: int, values: Sequence[tuple[Value, Key]]) -> tuple[int, int, Value] | None:
    """The longest run of words from here that lies within a value, if only one value has it."""
    best, holders = 0, list[Value]()
    for value, key in values:
        size = _shared(texts, at, key)
        if size > best:
            best, holders = size, [value]
        elif size == best:
            holders.append(value)
    return (at, at + best, holders[0]) if len(holders) == 1 else None


def _shared(texts: Key, at: int, key: Key) -> int:
    starts = [j for j, word in enumerate(key) if word == texts[at]]
    sizes = [0]
    for j in starts:
        size = 0
        while at + size < len(texts) and j + size < len(key) and texts[at + size] == key[j + size]:
            size += 1
        sizes.append(size)
    return max(sizes)


def _near(question: Question, index: Index, found: Sequence[Mention]) -> Iterator[Mention]:
    """Near spellings of values, for words that nothing else explains."""
    taken = _covered(found)
    texts = question.texts
    keys = [" ".join(key) for key in index.exact]
    spans = [
        (a, b)
        for a, b in _spans(len(texts), 5)
        if len("".join(texts[a:b])) >= LEAST_LETTERS
        and not taken & set(range(a, b))
        and is_content(texts[a])
        and is_content(texts[b - 1])
    ]
    for a, b in spans:
        near = process.extractOne(" ".join(texts[a:b]), keys, scorer=fuzz.ratio, score_cutoff=NEAR)
        if near and has_digit(near[0]) == has_digit(" ".join(texts[a:b])):
            for number, value in index.exact[tuple(near[0].split(" "))]:
                yield _equal(question, index, (a, b), number, value, "near")


def _covered(found: Iterable[Mention]) -> set[int]:
    return {i for m in found for i in range(m.start, m.end) if m.end - m.start > 1 or m.tier != "compare"}


def find_extremes(question: Question, index: Index, links: ColumnLinks) -> tuple[Mention, ...]:
    """Columns of which the question means the highest or lowest value.

    It names them ("the player with the most points"), or the superlative does ("the cheapest product").
    """
    found = []
    for number, view in enumerate(index.views):
        if view.numeric < NUMBERS or view.column in index.tables.keys:
            continue
        for cue in question.cues:
            place = _named_behind(question, cue, links.said[number])
            if cue.function in ("MAX", "MIN") and place is not None:
                found.append(Mention(cue.start, place, cue.end, number, (), "extreme", cue.function))
        for start, end, function, names in _implied(question.texts):
            if any(stems(key_of(name)) == stems(view.words) for name in names):
                found.append(Mention(start, end, start, number, (), "extreme", function))
    return tuple(found)


def _named_behind(question: Question, cue: Cue, said: Sequence[ColumnMention]) -> int | None:
    """Where the name of a column ends that stands right behind a superlative."""
    behind = (m for m in said if m.start >= cue.start and m.end > cue.end and m.lexical > 0.5)
    return next((m.end for m in behind if question.gap(cue.end, m.start) == 0), None)


def _implied(texts: Key) -> Iterator[tuple[int, int, Aggregation, Sequence[str]]]:
    """Superlatives that say themselves what they compare: place, function, names of the quantity."""
    functions: tuple[Aggregation, ...] = ("MAX", "MIN")
    for function in functions:
        for phrase, names in lexicon()["implied"][function].items():
            key = key_of(phrase)
            for i in range(len(texts) - len(key) + 1):
                if texts[i : i + len(key)] == key:
                    yield i, i + len(key), function, names


def _negate(mention: Mention, question: Question) -> Mention:
    """ "not in Rome": the condition turned."""
    before = question.texts[max(0, mention.start - 2) : mention.start]
    said = [w for w in before if w in lexicon()["negations"]]
    if (
        not said
        or mention.tier == "compare"
        or (len(before) == 2 and before[0] in said and is_content(before[1]))
    ):
        return mention
    turned = tuple(Condition(c.column, "!=", c.value) for c in mention.conditions)
    return Mention(mention.start, mention.end, mention.inner, mention.number, turned, mention.tier)


def _spans(count: int, longest: int) -> Iterator[tuple[int, int]]:
    for a in range(count):
        for b in range(a + 1, min(count, a + longest) + 1):
            yield a, b
