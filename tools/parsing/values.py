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
        value = _date(question.words[i : i + 3]) or _number(question.words[i:])
        if value is None:
            i += 1
            continue
        number, end = value.number, i + value.end
        in_name = any(a.kind == "entity" and a.start <= i < a.end for a in question.anchors)
        is_unit = [word in lexicon().units for word in question.words[end : end + MOST_UNITS]]
        units = is_unit.index(False) if False in is_unit else len(is_unit)
        for behind in sorted({end, end + units}):
            features = [("number", 1.0), ("number_in_name", float(in_name))]
            features += [("number_unit", 1.0)] if behind > end else []
            question.add(Category.SET, (i, behind), features, kind="value", query=number, meaning=number)
        i = end


def _number(words: Sequence[str]) -> _Value | None:
    """A number, a year or a time of day that some words begin with."""
    text = words[0]
    kind, amount, end = "", 0.0, 1
    if match := re.fullmatch(r"(\d{1,2}):(\d\d)", text):
        kind, amount = "time", int(match[1]) + int(match[2]) / 60
    elif re.fullmatch(r"\d+(,\d\d\d)*(\.\d+)?", text):
        amount = float(text.replace(",", ""))
        is_year = len(text) == 4 and amount in YEARS
        kind = "date" if is_year else ""
    elif text in lexicon().numbers:
        amount, end = _in_words(words)
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


def _in_words(words: Sequence[str]) -> tuple[float, int]:
    """A number in words, and the token behind it: twenty five, two hundred and ten, three thousand."""
    numbers, scales = lexicon().numbers, lexicon().scales
    total, part, end = 0.0, float(numbers[words[0]]), 1
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


def _date(words: Sequence[str]) -> _Value | None:
    """2 January 2004, January 2nd, 2004, January 2004, or 2004-01-02 as the tokens 2004, 01 and 02."""
    months, (first, second, third) = lexicon().months, [*words, "", "", ""][:3]
    if first in months and (day := _day(second)) and _is_year(third):
        return _dated(third, months[first], day, 3)
    if second in months and (day := _day(first)) and _is_year(third):
        return _dated(third, months[second], day, 3)
    if first in months and _is_year(second):
        return _dated(second, months[first], 0, 2)
    numbers = [int(word) for word in (second, third) if len(word) == 2 and word.isdigit()]
    if _is_year(first) and len(numbers) == 2 and numbers[0] <= 12:
        return _dated(first, numbers[0], numbers[1], 3)
    return None


def _is_year(word: str) -> bool:
    return len(word) == 4 and word.isdigit()


def _day(word: str) -> int:
    """The day of a month that a word is: 2, 2nd; 0 for none."""
    digits = re.sub(r"(st|nd|rd|th)$", "", word)
    return int(digits) if digits.isdigit() and 1 <= int(digits) <= 31 else 0


def _dated(year: str, month: int, day: int, end: int) -> _Value:
    """A date at its place on the index's line: years of 12 months with 31 days each."""
    text = f"{year}-{month:02d}" + (f"-{day:02d}" if day else "")
    return _Value(Number(int(year) + ((month - 1) * 31 + max(day, 1) - 1) / 372, "date", text), end)


def _day_of_any_year(question: Question, i: int) -> int | None:
    """Add all dates of a day whose year is not mentioned ("on January 2"); the token behind it."""
    months, words, index = lexicon().months, question.words, question.index
    day = _day(words[i + 1]) if words[i] in months and i + 1 < question.n else 0
    if not day or _date(words[i : i + 3]) is not None:
        return None
    part = f"-{months[words[i]]:02d}-{day:02d}"
    terms = {node: index.terms[node] for node in index.value}
    found = frozenset(n for n, t in terms.items() if isinstance(t, Literal) and part in t.value[4:11])
    if found:
        first = min(found)
        number = Number(index.value[first], "date", str(getattr(index.terms[first], "value", ""))[:10])
        question.add(
            Category.SET, (i, i + 2), [("number", 1.0)], kind="value", query=Nodes(found), meaning=number
        )
    return i + 2
