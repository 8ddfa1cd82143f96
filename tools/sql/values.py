"""Values of cells: numbers and dates as people write them, text without what does not matter; rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from triplewise.tools.core import names, overlap
from triplewise.tools.kg.protocol import Outcome

ColumnKind = Literal["text", "number", "date", "boolean", "other"]
Value = str | int | float | bool | None

NUMBER_PATTERN = r"[+-]?(0|[1-9][0-9]*|[1-9][0-9]{0,2}(,[0-9]{3})+)(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?"
"""What reads as a number, in the regular expressions of all engines; a code such as 007 does not."""
SIMILARITY = 60.0  # least similarity (0 to 100) of what is offered for another text
PLACEHOLDERS = frozenset({"", "-", "--", "–", "—", "?", "n/a", "na", "none", "null", "nil", "tba", "tbd"})
"""Texts that stand for no value; they do not make a column of numbers one of text."""

_NUMBER = re.compile(NUMBER_PATTERN)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2}([ T].*)?)?")  # what sorts as a date when compared as text


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave: `outcome` as for KGs (rows, empty, truncated, timeout, syntax, unavailable)."""

    outcome: Outcome
    rows: tuple[tuple[Value, ...], ...] = ()
    columns: tuple[str, ...] = ()
    message: str = ""


def read_number(value: Value) -> float | None:
    """The number that a cell or an argument is, None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e308 else None
    text = value.strip()
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def read_date(text: str) -> str | None:
    """An ISO date as exact as it was written (`1990`, `1990-05`, `1990-05-17`), None if it is none."""
    iso = "-".join(overlap.read_date(text.strip())[:3])
    return iso if re.fullmatch("[0-9]{4}", iso) or _DATE.fullmatch(iso) else None


def fold(text: str) -> str:
    """Text without case, accents, and outer or repeated spaces."""
    return " ".join(names.fold(text).split())


def kind_of(cells: Iterable[Value]) -> ColumnKind | None:
    """How the cells of a text column compare: all that hold a value read alike. None if none holds one."""
    held = [c for c in cells if c is not None and fold(str(c)) not in PLACEHOLDERS]
    if not held:
        return None
    if all(read_number(c) is not None for c in held):
        return "number"
    dated = all(isinstance(c, str) and _DATE.fullmatch(c.strip()) and read_date(c) for c in held)
    return "date" if dated else "text"


def nearest(text: str, values: Sequence[Value], limit: int) -> list[Value]:
    """Return the values most similar to a text, best first; the same but for case and accents before all."""
    from rapidfuzz import fuzz, process

    folded = [fold(str(value)) for value in values]
    found = process.extract(fold(text), folded, scorer=fuzz.WRatio, limit=limit, score_cutoff=SIMILARITY)
    best = sorted(found, key=lambda hit: hit[0] != fold(text))
    return list(dict.fromkeys(values[place] for _, _, place in best))


def plain(cell: object) -> Value:
    """A cell as a value of plain JSON: whole numbers without a fraction, dates as ISO text, NaN as None."""
    match cell:
        case None | bool() | int() | str():
            return cell
        case Decimal() | float():
            if math.isnan(cell):
                return None
            number = float(cell)
            return int(number) if abs(number) < 10**15 and number == int(number) else number
        case bytes() | bytearray() | memoryview():
            return f"0x{bytes(cell)[:32].hex()}"
        case _:
            return str(cell)  # of dates and times: ISO text
