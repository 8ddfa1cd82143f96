"""Values in a question: numbers in digits and in words, years, dates and times of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from triplewise.tools.core.terms import Literal
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.parsing.derivation import Category
from triplewise.tools.parsing.query import Nodes, Number
from triplewise.tools.parsing.question import Question

YEARS = range(1001, 2100)
MOST_UNITS = 2  # words of a unit: square feet


class _Value(NamedTuple):
    """A number of the question, and the token behind it."""

    number: Number
    end: int


def ground_values(question: Question) -> None:
    """Numbers, years, dates and times of day, with and without the unit behind them."""
    i = 0
    while i < question.n:
        if (day := _day_of_any_year(question, i)) is not None:
            i = day
            continue
        value = _date(question, i) or _number(question, i)
        if value is None:
            i += 1
            continue
        in_name = any(a.kind == "entity" and a.start <= i < a.end for a in question.anchors)
        features = [("number", 1.0), ("number_in_name", float(in_name))]
        ends = [value.end]
        while (
            ends[-1] < question.n and question.words[ends[-1]] in lexicon().units and len(ends) <= MOST_UNITS
        ):
            ends.append(ends[-1] + 1)
        for end in {ends[0], ends[-1]}:
            unit = [("number_unit", 1.0)] if end > value.end else []
            question.add(
                Category.SET,
                (i, end),
                features + unit,
                kind="value",
                query=value.number,
                meaning=value.number,
            )
        i = value.end


def _number(question: Question, i: int) -> _Value | None:
    """A number, a year or a time of day."""
    words, text = question.words, question.words[i]
    kind, amount, end = "", 0.0, i + 1
    if match := re.fullmatch(r"(\d{1,2}):(\d\d)", text):
        kind, amount = "time", int(match[1]) + int(match[2]) / 60
    elif re.fullmatch(r"\d+(,\d\d\d)*(\.\d+)?", text):
        amount = float(text.replace(",", ""))
        is_year = len(text) == 4 and amount in YEARS
        kind = "date" if is_year else ""
    elif text in lexicon().numbers:
        amount, end = _in_words(words, i)
    else:
        return None
    while end < len(words) and words[end] in lexicon().scales:
        amount, end, kind = amount * lexicon().scales[words[end]], end + 1, ""
    if end < len(words) and words[end] in ("am", "pm") and amount <= 12:
        amount, end, kind = amount % 12 + (12 if words[end] == "pm" else 0), end + 1, "time"
    if kind == "date" and end < len(words) and words[end] in lexicon().units:
        kind = ""  # 1500 dollars
    clock = f"{int(amount):02d}:{round(amount % 1 * 60):02d}"
    return _Value(Number(amount, kind, text if kind == "date" else clock if kind == "time" else ""), end)


def _in_words(words: Sequence[str], i: int) -> tuple[float, int]:
    """A number in words, and the token behind it: twenty five, two hundred and ten, three thousand."""
    numbers, scales = lexicon().numbers, lexicon().scales
    total, part, end = 0.0, float(numbers[words[i]]), i + 1
    while end < len(words):
        joined = words[end] == "and" and words[end - 1] in scales
        word = words[end + 1] if joined and end + 1 < len(words) else words[end]
        if word in scales and not joined:
            part *= scales[word]
            total, part = (total + part, 0.0) if scales[word] > 100 else (total, part)
        elif word in numbers and (
            joined or words[end - 1] in scales or (part % 100 >= 20 and numbers[word] < 10)
        ):
            part += numbers[word]
        else:
            break
        end += 1 + joined
    return total + part, end


def _date(question: Question, i: int) -> _Value | None:
    """2 January 2004, January 2nd, 2004, January 2004, or 2004-01-02 as the tokens 2004, 01 and 02."""
    months, words = lexicon().months, [*question.words[i : i + 3], "", "", ""][:3]
    day = [re.sub(r"(st|nd|rd|th)$", "", word) for word in words]
    is_year = [len(word) == 4 and word.isdigit() for word in words]
    if words[0] in months and _is_day(day[1]) and is_year[2]:
        return _dated(words[2], months[words[0]], int(day[1]), i + 3)
    if _is_day(day[0]) and words[1] in months and is_year[2]:
        return _dated(words[2], months[words[1]], int(day[0]), i + 3)
    if words[0] in months and is_year[1]:
        return _dated(words[1], months[words[0]], 0, i + 2)
    if is_year[0] and all(len(word) == 2 and word.isdigit() for word in words[1:]) and int(words[1]) <= 12:
        return _dated(words[0], int(words[1]), int(words[2]), i + 3)
    return None


def _is_day(word: str) -> bool:
    return word.isdigit() and 1 <= int(word) <= 31


def _dated(year: str, month: int, day: int, end: int) -> _Value:
    """A date at its place on the index's line: years of 12 months with 31 days each."""
    text = f"{year}-{month:02d}" + (f"-{day:02d}" if day else "")
    return _Value(Number(int(year) + ((month - 1) * 31 + max(day, 1) - 1) / 372, "date", text), end)


def _day_of_any_year(question: Question, i: int) -> int | None:
    """Add all dates of a day whose year is not mentioned ("on January 2"); the token behind it."""
    months, words, index = lexicon().months, question.words, question.index
    if words[i] not in months or i + 1 >= question.n or _date(question, i) is not None:
        return None
    day = re.sub(r"(st|nd|rd|th)$", "", words[i + 1])
    if not _is_day(day):
        return None
    part = f"-{months[words[i]]:02d}-{int(day):02d}"
    terms = {node: index.terms[node] for node in index.value}
    found = frozenset(n for n, t in terms.items() if isinstance(t, Literal) and part in t.value[4:11])
    if found:
        first = min(found)
        number = Number(index.value[first], "date", str(getattr(index.terms[first], "value", ""))[:10])
        question.add(
            Category.SET, (i, i + 2), [("number", 1.0)], kind="value", query=Nodes(found), meaning=number
        )
    return i + 2
