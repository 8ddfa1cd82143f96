"""Relations of an index: names, the kind of their values, and two that a mediator (CVT) joins as one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.names import fold
from triplewise.tools.core.terms import IRI, XSD, Literal
from triplewise.tools.kg.profile import Profile, RelationText, local_name
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.language.text import split_name
from triplewise.tools.parsing.facts import SortedFacts

Ints: TypeAlias = NDArray[np.int32]
Nodes: TypeAlias = frozenset[int]
Keep: TypeAlias = Callable[[Nodes], Nodes]  # gives the one object for all equal sets
Edges: TypeAlias = tuple[tuple[IRI, bool], ...]  # relations, and whether walked from subject to object
_Joint: TypeAlias = tuple[int, bool, int, bool]  # the same of two that a mediator joins, by their numbers
_Ways: TypeAlias = defaultdict[int, list[tuple[int, int]]]  # by a mediator: relations with their other ends

COMPOSED = 3  # names of each of two relations that are composed
WIDEST = 50  # facts of a mediator, above which it is not looked through
MINORITY = 0.2  # share of a relation's facts up to which those of mediators are facts of its own
SAMPLE = 500  # literals that tell the datatype of a relation
COMPARABLE = 0.8  # least share of values with a place on a line, of a relation whose values can be compared
_DATE = re.compile(r"(-?\d{1,6})(?:-(\d\d))?(?:-(\d\d))?(?:T(\d\d):(\d\d))?")
_DATES = {XSD + name for name in ("date", "dateTime", "gYear", "gYearMonth")}
_WHOLE = {XSD + name for name in ("integer", "int", "nonNegativeInteger", "positiveInteger", "short", "long")}
YEARS = range(1001, 2100)
CODE = re.compile(r"[A-Za-z]{0,2}[\d._-]+|[mg][._].*")  # local names that say nothing
NOTE = re.compile(r" \([^()]*\)$")


@dataclass(eq=False)
class Relation:
    """A relation between nodes, or two that a mediator joins."""

    path: Edges
    names: list[str]  # as questions may name it from subject to object, the best first
    inverse: list[str]  # the same from object to subject
    starts: Ints  # the subject of each fact, sorted
    ends: Ints  # its object
    keep: Keep
    i: int = -1  # its number
    kind: str = "entity"  # of its values: entity, number, date, boolean or string
    dtype: str = ""  # number, date or time where its values can be compared
    is_dated: bool = False  # whether its values are dates, or whole numbers that can all be years

    def edges(self, direction: int) -> Edges:
        """Its path as it is walked in a direction."""
        return self.path if direction > 0 else tuple((iri, not forward) for iri, forward in self.path[::-1])

    @cached_property
    def fwd(self) -> dict[int, tuple[int, ...]]:
        """Objects by subject."""
        return _grouped(self.starts, self.ends)

    @cached_property
    def inv(self) -> dict[int, tuple[int, ...]]:
        """Subjects by object."""
        return _grouped(self.ends, self.starts)

    @cached_property
    def subjects(self) -> Nodes:
        """Everything it can be walked from."""
        return self.keep(frozenset(self.starts.tolist()))

    @cached_property
    def objects(self) -> Nodes:
        """Everything it leads to."""
        return self.keep(frozenset(self.ends.tolist()))

    @cached_property
    def units(self) -> frozenset[str]:
        """The units in its names, as the lexicon writes them: {"minute"} of "duration minutes"."""
        units = lexicon().units
        words = {word for name in self.names for word in fold(split_name(name)).split()}
        return frozenset(units[word] for word in words if word in units)


def relations_of(
    read: SortedFacts, numbers: NDArray[np.float64], texts: Mapping[IRI, RelationText], keep: Keep
) -> list[Relation]:
    """All relations: those between things that can be answers, and those that mediators join."""
    iris = sorted(read.edges)
    named = [_names_of(IRI(r), texts, read.profile) for r in iris]
    joined, found = _mediators(read), list[Relation]()
    into, out = _Ways(list), _Ways(list)
    for k, iri in enumerate(iris):
        pairs = read.edges[iri]
        starts, ends = pairs >> 32, pairs & 0xFFFFFFFF
        through = joined[starts] | joined[ends]
        for s, o in zip(starts[through].tolist(), ends[through].tolist(), strict=True):
            if not joined[s]:  # facts between two mediators are left out
                into[o].append((k, s))
            elif not joined[o]:
                out[s].append((k, o))
        if not through.all():  # where other ends have names, nameless ones are ends too
            kept = pairs if through.mean() < MINORITY else pairs[~through]
            found.append(Relation(((IRI(iri), True),), *named[k], *_ends(kept), keep))
    plain = {r.names[0]: r for r in found}
    joints = _compositions(into, out, read)
    for (a, a_forward, b, b_forward), both in sorted(joints.items()):
        names, inverse = _composed_names(named[a], named[b], a_forward, iris[b])
        pairs, direct = np.unique(np.array(both, np.int64)), plain.get(names[0])
        if direct is None or not np.isin(pairs, direct.starts.astype(np.int64) << 32 | direct.ends).all():
            path = ((IRI(iris[a]), a_forward), (IRI(iris[b]), b_forward))
            found.append(Relation(path, names, inverse, *_ends(pairs), keep))
    for i, relation in enumerate(found):
        relation.i = i
        objects = np.unique(relation.ends)
        literals = objects[read.is_literal[objects]]
        if 2 * len(literals) <= len(objects):
            continue
        some = (read.terms[o] for o in literals[:SAMPLE].tolist())
        datatype = Counter(t.datatype for t in some if isinstance(t, Literal)).most_common(1)[0][0]
        if np.isfinite(numbers[objects]).mean() > COMPARABLE:
            is_date = datatype in (*_DATES, XSD + "time", XSD + "string")
            relation.kind = "date" if is_date else "number"
            relation.dtype = "time" if datatype == XSD + "time" else relation.kind
            known = numbers[objects][np.isfinite(numbers[objects])]
            are_years = datatype in _WHOLE and len(known) > 1 and np.isin(known, np.array(YEARS)).all()
            relation.is_dated = is_date or bool(are_years)
        else:
            relation.kind = "boolean" if datatype == XSD + "boolean" else "string"
    return found


def _ends(pairs: NDArray[np.int64]) -> tuple[Ints, Ints]:
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)


def places_of(read: SortedFacts) -> NDArray[np.float64]:
    """The place of each node on a line; NaN for what has none."""
    values = [number(t) if isinstance(t, Literal) else None for t in read.terms]
    return np.array([np.nan if v is None else v for v in values], np.float64)


def number(literal: Literal) -> float | None:
    """A literal's place on a line: numbers, and dates and times in years and hours; None for all others."""
    value, datatype = literal.value, literal.datatype
    try:
        if datatype in _DATES and (match := _DATE.match(value)):
            parts = zip(match.groups(), (0, 1, 1, 0, 0), strict=True)
            year, month, day, hour, minute = (int(part or default) for part, default in parts)
            return year + ((month - 1) * 31 + day - 1 + (hour + minute / 60) / 24) / 372
        if datatype == XSD + "time":
            hours, minutes = value.split(":")[:2]
            return int(hours) + int(minutes) / 60
        if datatype in (XSD + "boolean", XSD + "string") or literal.language or not datatype.startswith(XSD):
            return None
        return float(value)
    except ValueError:
        return None


def words_of(iri: IRI, known: Sequence[str], profile: Profile) -> list[str]:
    """Names of a class or relation: those it has, and the words of its IRI where that has words."""
    local = local_name(iri.value)
    is_code = profile.relation_text == "dotted" or CODE.fullmatch(local)
    own = [] if is_code and known else [split_name(local)]
    apart = (name if " " in name else split_name(name) for name in (*known, *own))
    return list(dict.fromkeys(n for n in map(fold, apart) if n.strip())) or [fold(local)]


def _names_of(
    relation: IRI, texts: Mapping[IRI, RelationText], profile: Profile
) -> tuple[list[str], list[str]]:
    """Names of a relation from subject to object, and back."""
    text = texts.get(relation, RelationText(split_name(local_name(relation.value))))
    label, subject = NOTE.sub("", text.label), text.subject_type
    short = label.removeprefix(f"{subject} ") if subject else label
    names = words_of(relation, [short, label, *sorted(text.aliases)], profile)
    inverse = [fold(text.inverse)] if text.inverse else []
    nouns = (name.removesuffix(" of") for name in names if name.endswith(" of"))  # X is the capital of Y
    return names, list(dict.fromkeys([*inverse, *nouns]))


def _composed_names(
    first: tuple[list[str], list[str]], second: tuple[list[str], list[str]], forward: bool, last: str
) -> tuple[list[str], list[str]]:
    """Names of two relations that a mediator joins."""
    a, b = first[0], second[0]
    if not forward:
        return b, a
    if set(b[0].split()) <= set(a[0].split()):
        return a, first[1]
    both = [f"{x} {y}" for x in a[:COMPOSED] for y in b[:COMPOSED]]
    return both + (a if local_name(last).lower() in ("amount", "value") else []), first[1]


def _mediators(read: SortedFacts) -> NDArray[np.bool_]:
    """Which nodes only join others: unnamed ones that the profile says do, and that two relations meet in."""
    size, profile = len(read.terms), read.profile
    meeting = np.zeros(size, np.int64)  # facts that leave each node, and relations that lead to it
    for pairs in read.edges.values():
        meeting[np.unique(pairs & 0xFFFFFFFF)] += 1
        meeting += np.bincount(pairs >> 32, minlength=size)
    joined = np.zeros(size, bool)
    for i in np.flatnonzero((meeting > 1) & ~read.is_literal).tolist():
        if i not in read.named and isinstance(term := read.terms[i], IRI):
            joined[i] = profile.is_mediator(term, profile.local_text(term))
    return joined


def _compositions(into: _Ways, out: _Ways, read: SortedFacts) -> dict[_Joint, list[int]]:
    """Pairs of nodes by what leads from one to a mediator, and from there to the other.

    A fact that leads to a mediator goes on by one that leaves it. Where there are none of a kind, and in
    a graph without a relation for each direction, facts that all leave it or all lead to it are joined.
    """
    found: dict[_Joint, list[int]] = defaultdict(list)
    for node in sorted(into.keys() | out.keys()):
        arriving, leaving, literal = into.get(node, []), out.get(node, []), read.is_literal
        if max(len(arriving), len(leaving)) > WIDEST:
            continue
        for (a, s), (b, o) in product(arriving, leaving):
            if s != o:
                found[a, True, b, True].append(s << 32 | o)
        if not leaving or not read.profile.reciprocal:
            for (a, s), (b, o) in combinations(sorted(arriving), 2):
                if s != o and a != b:
                    found[a, True, b, False].append(s << 32 | o)
        if not arriving:
            sizes = Counter(a for a, _ in leaving)
            for (a, s), (b, o) in permutations(sorted(leaving), 2):
                is_pair = a == b and sizes[a] == 2  # the two of a marriage
                if s != o and not literal[s] and (a < b or is_pair or (literal[o] and a != b)):
                    found[a, False, b, True].append(s << 32 | o)
    return found


def _grouped(keys: Ints, values: Ints) -> dict[int, tuple[int, ...]]:
    found = defaultdict[int, list[int]](list)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        found[key].append(value)
    return {key: tuple(found[key]) for key in sorted(found)}
