"""The sets #0, #1, ... of an AgentBench run: an immutable value, and the PyQL program of each.

Its text is the state of a run, one successful call a line; a line that makes a set makes the next one:

```
get_neighbors(m.02r8js, digicams.camera_color_filter_array_type.cameras)
get_neighbors(#0, ^P31)
intersection(#0, #1)
argmax(#2, P1082, number)
answer(#3)
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql import KINDS, Count, Extreme, Fact, Filter, Kind, PyQL, Union
from triplewise.tools.pyql.program import Clause, PatternItem, fresh
from triplewise.tools.pyql.text import read_relation, read_term, scan_arguments, write_iri, write_node

BACKWARD = "^"
"""Before a relation: it is followed from object to subject, as in SPARQL."""

_LINE = re.compile(r"\s*([a-z]+(?:_[a-z]+)*)\s*\(")
_SET = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class Neighbors:
    """What a relation leads to from an entity or from the members of a set."""

    source: int | Term
    relation: IRI
    forward: bool = True


@dataclass(frozen=True, slots=True)
class Intersection:
    """The members of both sets."""

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The members of either set (`union`)."""

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Best:
    """The members of a set with the largest or smallest value of an attribute; ties are kept."""

    source: int
    attribute: IRI
    largest: bool
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Number:
    """How many members a set has: a number, from which no other set is made."""

    source: int


Made = Neighbors | Intersection | Joined | Best | Number


@dataclass(frozen=True)
class Sets:
    """All sets made so far, each from entities or from sets before it.

    Attributes:
        made: how each was made; its place is its number.
        answer: number of the final answer; None until it was given.
    """

    made: tuple[Made, ...] = ()
    answer: int | None = None

    @property
    def names(self) -> list[str]:
        """`#0`, `#1`, ... in order."""
        return [f"#{n}" for n in range(len(self.made))]

    def with_set(self, made: Made) -> Sets:
        """With one more set."""
        return Sets((*self.made, made))

    def is_number(self, n: int) -> bool:
        """Whether a set is a count."""
        return isinstance(self.made[n], Number)

    def program(self, n: int) -> PyQL:
        """The PyQL program whose answers are the members of a set."""
        compiler = _Compiler(self.made)
        variable = compiler.name(n)
        return PyQL(tuple(dict.fromkeys(compiler.clauses(n, variable))), (variable,))

    def pyql(self) -> PyQL:
        """The program of the final answer, or of the newest set; an empty program if there is none."""
        n = len(self.made) - 1 if self.answer is None else self.answer
        return self.program(n) if n >= 0 else PyQL()

    def text(self, profile: Profile) -> str:
        """One call a line. `parse` reads it back as the same value."""
        lines = [_write(made, profile) for made in self.made]
        return "\n".join(lines if self.answer is None else [*lines, f"answer(#{self.answer})"])

    @classmethod
    def parse(cls, text: str, profile: Profile) -> Sets:
        """The sets that a text made. Raises `ActionError`."""
        sets = cls()
        for line in filter(None, map(str.strip, text.split("\n"))):
            match = _LINE.match(line)
            if match is None or match[1] not in (*_READERS, "answer"):
                raise ActionError("no_action", f"{line!r} makes no set", given=line)
            arguments, _ = scan_arguments(line, match.end())
            if match[1] == "answer":
                sets = replace(sets, answer=sets.number(arguments[0]))
            else:
                sets = sets.with_set(_READERS[match[1]](sets, arguments, profile))
        return sets

    def number(self, form: str) -> int:
        """The number of the set written as `#n`.

        Raises:
            ActionError: `set_due` if it names no set at all, `unknown_variable` if no call has made it.
        """
        match = _SET.search(form)
        existing = ", ".join(self.names) or "none"
        if match is None:
            raise ActionError(
                "set_due", f"{form!r} is no variable: write #n; existing: {existing}", given=form
            )
        if int(match[1]) >= len(self.made):
            raise ActionError(
                "unknown_variable",
                f"there is no variable {match[0]}; existing: {existing}",
                given=match[0],
                existing=self.names,
            )
        return int(match[1])


def to_pyql(text: str, profile: Profile) -> PyQL:
    """The PyQL program of a run's state. Raises `ActionError` if it is none."""
    return Sets.parse(text, profile).pyql()


def read_way(form: str, profile: Profile) -> tuple[IRI, bool]:
    """A relation, and whether it is followed forwards. Raises `ActionError` with code `bad_relation`."""
    bare = form.strip()
    return read_relation(bare.lstrip(BACKWARD).strip(), profile), not bare.startswith(BACKWARD)


def write_way(relation: IRI, forward: bool, profile: Profile) -> str:
    """A relation as `read_way` reads it."""
    return ("" if forward else BACKWARD) + write_iri(relation, profile, True)


def _write(made: Made, profile: Profile) -> str:
    match made:
        case Neighbors(source, relation, forward):
            start = f"#{source}" if isinstance(source, int) else write_node(source, profile)
            return f"get_neighbors({start}, {write_way(relation, forward, profile)})"
        case Intersection(left, right):
            return f"intersection(#{left}, #{right})"
        case Joined(left, right):
            return f"union(#{left}, #{right})"
        case Best(source, attribute, largest, kind):
            name, last = "argmax" if largest else "argmin", f", {kind}" if kind else ""
            return f"{name}(#{source}, {write_iri(attribute, profile, True)}{last})"
        case Number(source):
            return f"count(#{source})"


def _read_neighbors(sets: Sets, arguments: Sequence[str], profile: Profile) -> Made:
    start = arguments[0]
    if _SET.fullmatch(start):
        return Neighbors(sets.number(start), *read_way(arguments[1], profile))
    term = read_term(start, profile)
    if term is None:
        raise ActionError("unknown_entity", f"{start!r} is no entity id", given=start)
    return Neighbors(term, *read_way(arguments[1], profile))


def _read_best(largest: bool) -> Callable[[Sets, Sequence[str], Profile], Made]:
    def read(sets: Sets, arguments: Sequence[str], profile: Profile) -> Made:
        source, attribute = sets.number(arguments[0]), read_relation(arguments[1], profile)
        kinds = [kind for kind in KINDS if kind in arguments[2:]]
        return Best(source, attribute, largest, *kinds)

    return read


_READERS: dict[str, Callable[[Sets, Sequence[str], Profile], Made]] = {
    "get_neighbors": _read_neighbors,
    "intersection": lambda sets, a, _: Intersection(sets.number(a[0]), sets.number(a[1])),
    "union": lambda sets, a, _: Joined(sets.number(a[0]), sets.number(a[1])),
    "argmax": _read_best(True),
    "argmin": _read_best(False),
    "count": lambda sets, a, _: Number(sets.number(a[0])),
}


class _Compiler:
    """Writes one set as clauses. A set that is used twice is written twice, under other names."""

    def __init__(self, made: Sequence[Made]) -> None:
        self.made = made
        self.taken: set[str] = set()

    def name(self, n: int, prefix: str = "x") -> Variable:
        """A new variable for the members of a set."""
        name = fresh(f"{prefix}{n}", self.taken)
        self.taken.add(name)
        return Variable(name)

    def clauses(self, n: int, variable: Variable) -> list[PatternItem | Count]:
        """Clauses that bind a variable to the members of a set."""
        match self.made[n]:
            case Neighbors(source, relation, forward):
                return self._neighbors(source, relation, forward, variable)
            case Intersection(left, right):
                return self._intersection(left, right, variable)
            case Joined(left, right):
                patterns = dict.fromkeys(self._pattern(side, variable) for side in (left, right))
                return [Union(tuple(patterns))] if len(patterns) > 1 else [*next(iter(patterns))]
            case Best(source, attribute, largest, kind):
                value = self.name(n, "value")
                fact = Fact(variable, attribute, value)
                return [*self.clauses(source, variable), fact, Extreme(value, largest, kind)]
            case Number(source):
                counted = self.name(source)
                return [*self.clauses(source, counted), Count(counted, variable)]

    def _pattern(self, n: int, variable: Variable) -> tuple[PatternItem, ...]:
        items = (c for c in self.clauses(n, variable) if not isinstance(c, Count))
        return tuple(dict.fromkeys(items))

    def _neighbors(
        self, source: int | Term, relation: IRI, forward: bool, variable: Variable
    ) -> list[PatternItem | Count]:
        if isinstance(source, int):
            start: Node = self.name(source)
            before = self.clauses(source, start) if isinstance(start, Variable) else []
        else:
            start, before = source, []
        subject, end = (start, variable) if forward else (variable, start)
        if not isinstance(subject, IRI | Variable):
            raise ActionError("bad_subject", f"{subject.n3()} has no relations of its own")
        return [*before, Fact(subject, relation, end)]

    def _intersection(self, left: int, right: int, variable: Variable) -> list[PatternItem | Count]:
        """Both sets on one variable. A superlative must see its own set only, so it goes first.

        Where both sides have one, each gets a variable of its own, and the two are compared at the end.
        """
        first, second = self.clauses(left, variable), self.clauses(right, variable)
        if not any(map(_ranks, second)):
            return [*first, *second]
        if not any(map(_ranks, first)):
            return [*second, *first]
        other = self.name(right)
        return [*first, *self.clauses(right, other), Filter(variable, "=", other)]


def _ranks(clause: Clause) -> bool:
    """Whether a clause depends on which solutions there are before it."""
    return isinstance(clause, Extreme)
