"""Names, numbers and dates in text as terms of a KG: its nodes, new ones for unknown names, literals."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.core.overlap import read_date
from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term
from triplewise.tools.kg.literals import INTEGERS, MONTHS, NUMERIC
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import is_well_formed

MINTED = "urn:triplewise:entity:"  # The beginning of ids of nodes that no KG gave
NEAR_NAME = 0.92
"""Similarity of letters from which a name is taken for a misspelling of another: a safeguard, not tuned."""
NODES_PER_NAME = 8  # Nodes of one name that are looked at, best known first

_MONTH = f"(?:{'|'.join(rf'{month}|{month[:3]}[.]?' for month in MONTHS)})"
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b(?:(?:{_DAY}\s+(?:of\s+)?)?{_MONTH}(?:\s+{_DAY})?,?\s+{_YEAR}|{_YEAR}-(?:0[0-9]|1[0-2])-[0-3][0-9]|{_YEAR})"
    r"\b(?!%|,[0-9]{3})",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.,-])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:\s(?:thousand|million|billion))?(?![\w])"
)
_WHOLE = re.compile(r"\b\d+\b")
_TIMES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_DATES = frozenset({"date", "dateTime", "gYear", "gYearMonth"})


class NamedNode(NamedTuple):
    """A node that a text may mean, by its id, its label (`fit` 1), an alias or a near name (less)."""

    node: IRI
    fit: float
    popularity: int = 0  # its number of facts, where the label index knows
    by_id: bool = False


def mint(name: str) -> IRI:
    """The id of an entity that the KG does not have: the same for every way to write its name."""
    return IRI(MINTED + hashlib.sha256(normalise(name).encode()).hexdigest()[:20])


def without_article(name: str) -> str:
    """Normal form of a name without a leading article."""
    return re.sub(r"^(?:the|a|an) (?=.)", "", normalise(name))


def resolve(kg: KnowledgeGraph, texts: Iterable[str]) -> dict[str, tuple[NamedNode, ...]]:
    """The nodes each text may mean: by id, by label or alias in full, else by a near name; best first."""
    distinct = list(filter(None, dict.fromkeys(map(str.strip, texts))))
    ids = {t: iri for t in distinct if (iri := kg.profile.expand(t)) is not None and is_well_formed(iri)}
    labels, index, names = kg.labels(ids.values()), kg.index, kg.names
    nodes: dict[str, tuple[NamedNode, ...]] = {}
    for text in distinct:
        iri = ids.get(text)
        is_indexed = iri is not None and index is not None and index.node(iri) is not None
        if iri is not None and (iri in labels or iri.value.startswith(MINTED) or is_indexed):
            # Where ids are made of names, a text that is one is still no more than a name.
            is_name = normalise(labels.get(iri, "")) == normalise(text)
            nodes[text] = (NamedNode(iri, 1.0, by_id=not is_name),)
        elif entries := names.exact(text) or names.exact(without_article(text)):
            best = entries[:NODES_PER_NAME]
            nodes[text] = tuple(NamedNode(e.iri, 0.95 if e.alias else 1.0, e.popularity) for e in best)
        else:
            hits = names.search(text, limit=NODES_PER_NAME, near=True) if len(normalise(text)) > 4 else ()
            near = (hit for hit in hits if hit.score >= NEAR_NAME)
            nodes[text] = tuple(
                NamedNode(hit.iri, 0.85 * hit.score, hit.entry.popularity)
                for hit in near  # `Apollo 11` is not a misspelling of `Apollo 12`
                if _WHOLE.findall(normalise(text)) == _WHOLE.findall(normalise(hit.entry.text))
            )
    return nodes


def places(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind (`date` or `number`) of the values written in a sentence; a year is a date."""
    taken: list[tuple[int, int]] = []
    for match in _DATE.finditer(sentence):
        taken.append(match.span())
        yield *match.span(), "date"
    for match in _NUMBER.finditer(sentence):
        if not any(match.start() < end and start < match.end() for start, end in taken):
            yield *match.span(), "number"


def literal(text: str, datatype: str, language: str = "en") -> Literal | None:
    """A text as a literal of a datatype, also where English writes it; None if it says no value of it."""
    name = datatype.removeprefix(XSD)
    if datatype in (XSD + "string", RDF + "langString"):
        return Literal(text, datatype, language if datatype == RDF + "langString" else "")
    if name in _DATES and _DATE.fullmatch(text.strip()):
        year, month, day = [*read_date(text.strip()), "", ""][:3]
        if name == "gYear" or not month:
            return Literal(year, XSD + "gYear")
        if name == "gYearMonth" or not day:
            return Literal(f"{year}-{month}", XSD + "gYearMonth")
        return Literal(f"{year}-{month}-{day}{'' if name == 'date' else 'T00:00:00Z'}", datatype)
    match = _NUMBER.fullmatch(text.strip())
    if match is None or datatype not in NUMERIC:
        return None
    digits, _, times = match[0].replace(",", "").partition(" ")
    if not times and "." not in digits:
        return Literal(digits.lstrip("+"), datatype)
    value = float(digits) * _TIMES.get(times, 1)
    if datatype in INTEGERS:
        return Literal(str(int(value)), datatype) if value.is_integer() else None
    return Literal(f"{value:.10g}" if abs(value) < 10**9 else f"{value:.0f}", datatype)


def agree(a: Term, b: Term) -> bool:
    """Whether two literals are one, or one is the other less exactly: a year, and a day of that year."""
    if isinstance(a, IRI) or isinstance(b, IRI):
        return False
    if {a.datatype.removeprefix(XSD), b.datatype.removeprefix(XSD)} <= _DATES:
        first, second = (re.sub(r"T00:00:00.*|Z$", "", v.value) for v in (a, b))
        short, long = sorted((first, second), key=len)
        return long.startswith(short) or long[:5] + "01-01" == short
    try:
        return float(a.value) == float(b.value)
    except ValueError:
        return a.value.strip().casefold() == b.value.strip().casefold()
