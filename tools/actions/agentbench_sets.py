"""The sets #0, #1, ... of an AgentBench run: the calls that made them, and the PyQL program of each.

Their text is the state of a run, one successful call a line; a line that makes a set makes the next one:

```
get_neighbors(m.02r8js, digicams.camera_color_filter_array_type.cameras)
get_neighbors(#0, ^P31)
intersection(#0, #1)
argmax(#2, P1082, number)
answer(#3)
```
A rule is followed by such calls too: each hop makes a set, each condition narrows one down. Sets have no way
to say yes or no, to compare with a value, or to leave something out: a rule that needs any of these is
refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI, Node, Variable
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.program import (
    KINDS,
    Aggregate,
    Clause,
    Extreme,
    Fact,
    Filter,
    Kind,
    PatternItem,
    PyQL,
    Union,
    fresh,
)
from triplewise.tools.pyql.text import read_relation, read_term, scan_arguments

BACKWARD = "^"
"""Before a relation: it is followed from object to subject, as in SPARQL."""
_MAKERS = {"get_neighbors": 2, "intersection": 2, "union": 2, "argmax": 2, "argmin": 2, "count": 1}
"""Actions that make a set, and how many arguments they have at least."""
_LINE = re.compile(r"\s*([a-z]+(?:_[a-z]+)*)\s*\(")
_SET = re.compile(r"#(\d+)")


@dataclass(frozen=True)
class Sets:
    """All sets made so far, each from entities or from sets before it.

    Attributes:
        calls: the call that made each; its place is its number. Entities and relations stand in them as PyQL
            writes them, sets as `#n`; a superlative may end with how its values compare.
        answer: number of the final answer; None until it was given.
    """

    calls: tuple[Call, ...] = ()
    answer: int | None = None

    def with_set(self, name: str, *arguments: str) -> Sets:
        """Return the sets with one more."""
        return Sets((*self.calls, Call(name, arguments)))

    def is_number(self, n: int) -> bool:
        """Whether a set is a count: a number, from which no other set is made."""
        return self.calls[n].name == "count"

    def program(self, n: int, profile: Profile) -> PyQL:
        """Return the PyQL program whose answers are the members of a set. Raises `ActionError`."""
        compiler = _Compiler(self, profile)
        variable = compiler.name(n)
        return PyQL(tuple(dict.fromkeys(compiler.clauses(n, variable))), (variable,))

    def text(self) -> str:
        """Return one call a line. `parse` reads it back as the same value."""
        lines = [call.text() for call in self.calls]
        return "\n".join(lines if self.answer is None else [*lines, f"answer(#{self.answer})"])

    @classmethod
    def parse(cls, text: str) -> Sets:
        """Return the sets that a text made. Raises `ActionError`."""
        sets = cls()
        for line in filter(None, map(str.strip, text.split("\n"))):
            match = _LINE.match(line)
            name = match[1] if match else ""
            arguments, _ = scan_arguments(line, match.end()) if match else ([], 0)
            if name == "answer" and arguments:
                sets = replace(sets, answer=sets.number(arguments[0]))
            elif name in _MAKERS and len(arguments) >= _MAKERS[name]:
                sets = sets.with_set(name, *arguments)
            else:
                raise ActionError("no_action", f"{line!r} makes no set", given=line)
        return sets

    def number(self, form: str) -> int:
        """Return the number of the set written as `#n`.

        Raises:
            ActionError: `set_due` if it names no set at all, `unknown_variable` if no call has made it.
        """
        match = _SET.search(form)
        names = [f"#{n}" for n in range(len(self.calls))]
        existing = ", ".join(names) or "none"
        if match is None:
            raise ActionError(
                "set_due", f"{form!r} is no variable: write #n; existing: {existing}", given=form
            )
        if int(match[1]) >= len(self.calls):
            raise ActionError(
                "unknown_variable",
                f"there is no variable {match[0]}; existing: {existing}",
                given=match[0],
                existing=names,
            )
        return int(match[1])


def to_pyql(text: str, profile: Profile) -> PyQL:
    """Return the program of a run's answer, or of its newest set; an empty program if there is none.

    Raises `ActionError` if the text is no state of a run.
    """
    sets = Sets.parse(text)
    n = len(sets.calls) - 1 if sets.answer is None else sets.answer
    return sets.program(n, profile) if n >= 0 else PyQL()


class _Compiler:
    """Writes one set as clauses. A set that is used twice is written twice, under other names."""

    def __init__(self, sets: Sets, profile: Profile) -> None:
        self.sets, self.profile = sets, profile
        self.taken: set[str] = set()

    def name(self, n: int, prefix: str = "x") -> Variable:
        """Return a new variable for the members of a set."""
        name = fresh(f"{prefix}{n}", self.taken)
        self.taken.add(name)
        return Variable(name)

    def clauses(self, n: int, variable: Variable) -> list[PatternItem | Aggregate]:
        """Return clauses that bind a variable to the members of a set, made from those before it."""
        call, before = self.sets.calls[n], Sets(self.sets.calls[:n])
        first, *rest = call.arguments
        match call.name:
            case "get_neighbors":
                start, clauses = self._start(before, first)
                relation, forward = read_relation(rest[0].lstrip(BACKWARD), self.profile), rest[0][0] != "^"
                subject, end = (start, variable) if forward else (variable, start)
                if not isinstance(subject, IRI | Variable):
                    raise ActionError("bad_subject", f"{subject.n3()} has no relations of its own")
                return [*clauses, Fact(subject, relation, end)]
            case "intersection":
                return self._intersection(before.number(first), before.number(rest[0]), variable)
            case "union":
                sides = (self.clauses(before.number(side), variable) for side in call.arguments[:2])
                patterns = dict.fromkeys(
                    tuple(dict.fromkeys(c for c in side if not isinstance(c, Aggregate))) for side in sides
                )
                return [Union(tuple(patterns))] if len(patterns) > 1 else [*next(iter(patterns))]
            case "count":
                source = before.number(first)
                counted = self.name(source)
                return [*self.clauses(source, counted), Aggregate(counted, variable)]
            case superlative:
                value = self.name(n, "value")
                fact = Fact(variable, read_relation(rest[0], self.profile), value)
                kind: Kind = next((kind for kind in KINDS if kind in rest[1:]), "")
                best = Extreme(value, superlative == "argmax", kind)
                return [*self.clauses(before.number(first), variable), fact, best]

    def _start(self, before: Sets, form: str) -> tuple[Node, list[PatternItem | Aggregate]]:
        """Return what a relation is followed from, and the clauses that bind it."""
        if _SET.fullmatch(form):
            source = before.number(form)
            start = self.name(source)
            return start, self.clauses(source, start)
        if (term := read_term(form, self.profile)) is None:
            raise ActionError("unknown_entity", f"{form!r} is no entity id", given=form)
        return term, []

    def _intersection(self, left: int, right: int, variable: Variable) -> list[PatternItem | Aggregate]:
        """Return both sets on one variable. A superlative must see its own set only, so it goes first.

        Where both sides have one, each gets a variable of its own, and the two are compared at the end.
        """
        first, second = self.clauses(left, variable), self.clauses(right, variable)
        if not _has_superlative(second):
            return [*first, *second]
        if not _has_superlative(first):
            return [*second, *first]
        other = self.name(right)
        return [*first, *self.clauses(right, other), Filter(variable, "=", other)]


def _has_superlative(clauses: Iterable[Clause]) -> bool:
    """Whether a clause depends on which solutions there are before it."""
    return any(isinstance(clause, Extreme) for clause in clauses)


_REASONS = {
    "type": "keep members of a kind",
    "filter": "compare with a value",
    "distinct": "leave members out",
    "not": "leave members out",
    "most": "count for each member",
    "least": "count for each member",
    "ask": "answer yes or no",
    "holds": "answer yes or no",
}


def unsayable(rule: Rule) -> str:
    """Return what a rule needs and sets cannot say, in words; "" if they can say all of it."""
    for constraint in rule.constraints:
        if constraint.kind in _REASONS:
            return _REASONS[constraint.kind]
        attribute = len(constraint.atoms) == 1 and constraint.atoms[0].forward
        if constraint.kind in ("max", "min") and not attribute:
            return "compare members by what is no attribute of theirs"
    return ""


def set_script(rule: Rule) -> tuple[Call, ...]:
    """Return the actions that follow a rule from its anchor to `answer(#n)`. The rule must be sayable."""
    script, members = _Script(), ""
    either = next((c for c in rule.constraints if c.kind == "either"), None)
    if either is not None:
        sides = [script.follow(side, either.atoms[:1]) for side in (either.operator, either.value)]
        members = script.make("union", *sides)
        if not rule.body:
            members = script.narrow(members, either.variable, rule.constraints)
    if rule.body:
        chain = script.follow(rule.anchor, rule.body, rule.constraints)
        members = script.make("intersection", members, chain) if members else chain
    if any(c.kind == "count" for c in rule.constraints):
        members = script.make("count", members)
    return (*script.calls, Call("answer", (members,)))


@dataclass
class _Script:
    """The calls so far, and how many sets they make."""

    calls: list[Call] = field(default_factory=list)
    sets: int = 0

    def make(self, name: str, *arguments: str) -> str:
        """Add a call that makes a set. Return the set."""
        self.calls.append(Call(name, arguments))
        self.sets += 1
        return f"#{self.sets - 1}"

    def follow(self, start: str, atoms: Iterable[Atom], constraints: Iterable[Constraint] = ()) -> str:
        """Follow a chain, narrowing down each set by the conditions on its variable."""
        here, conditions = start, tuple(constraints)
        for atom in atoms:
            self.calls.append(Call("get_relations", (here,)))
            here = self.make("get_neighbors", here, ("" if atom.forward else BACKWARD) + atom.relation)
            here = self.narrow(here, atom.variable, conditions)
        return here

    def narrow(self, here: str, variable: str, constraints: Iterable[Constraint]) -> str:
        """Return a set with the conditions on a variable met."""
        for constraint in constraints:
            if constraint.variable != variable:
                continue
            if constraint.kind == "meets":
                here = self.make("intersection", here, self.follow(constraint.value, constraint.atoms))
            elif constraint.kind in ("max", "min"):
                self.calls.append(Call("get_attributes", (here,)))
                here = self.make(f"arg{constraint.kind}", here, constraint.atoms[0].relation)
        return here
