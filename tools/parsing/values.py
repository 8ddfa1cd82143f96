"""Values in a question: numbers in digits and in words, years, dates and times of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from triplewise.tools.core.terms import Literal
from triplewise.tools.language.lexicon import lexicon, section
from triplewise.tools.parsing.derivation import Category, Derivation, Modifier, Operator, f
from triplewise.tools.parsing.query import Nodes, Number
from triplewise.tools.parsing.question import Question
from triplewise.tools.parsing.relations import YEARS

MOST_UNITS = 2  # words of a unit: square feet


def ground_values(question: Question) -> None:
    """Numbers, years, dates and times of day, with and without the unit behind them."""
    i, words = 0, question.words
    while i < question.n:
        if date := _dates().match(" ".join(words[i : i + 3])):
            end, number, nodes = i + date.group().count(" ") + 1, *_date(question, date)
        elif found := _number(words[i:]):
            end, number, nodes = i + found[1], found[0], frozenset[int]()
        else:
            i += 1
            continue
        if number is not None:
            in_name = any(a.kind == "entity" and a.start <= i < a.end for a in question.anchors)
            is_unit = [word in lexicon().units for word in words[end : end + MOST_UNITS]]
            units = is_unit.index(False) if False in is_unit else len(is_unit)
            forms = ("".join(words[end : end + MOST_UNITS]), *words[end : end + units][::-1])  # km/h
            unit = next((lexicon().units[form] for form in forms if form in lexicon().units), "")
            features, given = f(number=1, number_in_name=in_name and not nodes), replace(number, unit=unit)
            query = Nodes(nodes) if nodes else given
            for stop in (end, end + units) if units else (end,):
                question.add(Derivation(Category.SET, i, stop, features, query, meaning=given, kind="value"))
            if upper := _up_to(question, end + units):
                last, stop = upper
                modifier = Modifier(Operator("comparison", comparison="ge"), value=given, upper=last)
                interval = f(number=2, cmp_interval=1)
                question.add(Derivation(Category.COMPARISON, i, stop, interval, meaning=modifier))
        i = end


def _up_to(question: Question, end: int) -> tuple[Number, int] | None:
    """The number up to which an interval goes on behind a token ("30 | to 60", "10-20"), and its end."""
    if end >= question.n:
        return None
    written = question.text[question.tokens[end - 1].end : question.tokens[end].start].strip()
    is_to = question.words[end] == "to"
    found = _number(question.words[end + is_to :]) if end + is_to < question.n else None
    return (found[0], end + is_to + found[1]) if found and (is_to or written in ("-", "–")) else None


def _number(words: Sequence[str]) -> tuple[Number, int] | None:
    """A number, a year or a time of day that some words begin with, and how many of them it is."""
    text = words[0]
    kind, amount, end = "", 0.0, 1
    if match := re.fullmatch(r"(\d{1,2}):(\d\d)", text):
        kind, amount = "time", int(match[1]) + int(match[2]) / 60
    elif re.fullmatch(r"\d+(,\d\d\d)*(\.\d+)?", text):
        amount = float(text.replace(",", ""))
        is_year = len(text) == 4 and amount in YEARS
        kind = "date" if is_year else ""
    elif text in section("numbers"):
        amount, digit = float(section("numbers")[text]), section("numbers").get("".join(words[1:2]), 0)
        if amount >= 20 and digit < 10:  # twenty five
            amount, end = amount + digit, 1 + (digit > 0)
    else:
        return None
    while end < len(words) and words[end] in section("scales"):
        amount, end, kind = amount * section("scales")[words[end]], end + 1, ""
    if end < len(words) and words[end] in ("am", "pm") and amount <= 12:
        amount, end, kind = amount % 12 + (12 if words[end] == "pm" else 0), end + 1, "time"
    if kind == "date" and end < len(words) and words[end] in lexicon().units:
        kind = ""  # 1500 dollars
    clock = f"{int(amount):02d}:{round(amount % 1 * 60):02d}"
    return Number(amount, kind, text if kind == "date" else clock if kind == "time" else ""), end


@cache
def _dates() -> re.Pattern[str]:
    """2 January 2004, January 2nd 2004, January 2004, January 2, or 2004-01-02 as 2004, 01 and 02."""
    day, year = r"(0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?", r"(\d{4})"
    month = f"({'|'.join(section('months'))})"
    forms = rf"{day} {month} {year}", rf"{month} {day}(?: {year})?", rf"{month} {year}"
    return re.compile(rf"(?:{'|'.join(forms)}|{year} (0[1-9]|1[012]) {day})(?= |$)")


def _date(question: Question, match: re.Match[str]) -> tuple[Number | None, frozenset[int]]:
    """A date at its place on the index's line (years of 12 months with 31 days each); of a day without a
    year, all dates of the graph of that day, and the first of them."""
    months, parts = section("months"), [part for part in match.groups() if part]
    year = next((part for part in parts if len(part) == 4 and part.isdigit()), "")
    name = next((part for part in parts if part in months), "")
    days = [int(part) for part in parts if part.isdigit() and part != year]
    month, day = (months[name], days[0] if days else 0) if name else (days[0], days[1])
    if year:
        text = f"{year}-{month:02d}" + (f"-{day:02d}" if day else "")
        place = int(year) + ((month - 1) * 31 + max(day, 1) - 1) / 372
        return Number(place, "date", text), frozenset()
    literals = ((node, question.index.terms[node]) for node in question.index.value)
    written = {node: term.value for node, term in literals if isinstance(term, Literal)}
    of_day = {node: text for node, text in written.items() if text[4:10] == f"-{month:02d}-{day:02d}"}
    if not of_day:
        return None, frozenset()
    first = min(of_day)
    return Number(question.index.value[first], "date", of_day[first][:10]), frozenset(of_day)
