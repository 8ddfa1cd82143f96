"""A rule as AgentBench's actions: each hop makes a set, each condition narrows one down.

Sets have no way to say yes or no, to compare with a value, or to leave something out: a rule that needs any
of these is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from triplewise.tools.actions.agentbench_sets import BACKWARD
from triplewise.tools.core.call import Call
from triplewise.tools.core.rules import Atom, Constraint, Rule

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
    """What a rule needs and sets cannot say, in words; "" if they can say all of it."""
    for constraint in rule.constraints:
        if constraint.kind in _REASONS:
            return _REASONS[constraint.kind]
        attribute = len(constraint.atoms) == 1 and constraint.atoms[0].forward
        if constraint.kind in ("max", "min") and not attribute:
            return "compare members by what is no attribute of theirs"
    return ""


def set_script(rule: Rule) -> tuple[Call, ...]:
    """The actions that follow a rule from its anchor to `answer(#n)`. The rule must be sayable."""
    script = _Script()
    held = script.either(rule)
    if rule.body:
        chain = script.follow(rule.anchor, rule.body, rule.constraints)
        held = script.make("intersection", held, chain) if held else chain
    for constraint in rule.constraints:
        if constraint.kind == "count":
            held = script.make("count", held)
    return (*script.calls, Call("answer", (held,)))


@dataclass
class _Script:
    """The calls so far, and how many sets they make."""

    calls: list[Call] = field(default_factory=list)
    sets: int = 0

    def make(self, name: str, *arguments: str) -> str:
        """One more call that makes a set. Returns the set."""
        self.calls.append(Call(name, arguments))
        self.sets += 1
        return f"#{self.sets - 1}"

    def follow(self, start: str, atoms: Iterable[Atom], constraints: Iterable[Constraint] = ()) -> str:
        """Follow a chain, narrowing down each set by the conditions on its variable."""
        here, conditions = start, tuple(constraints)
        for atom in atoms:
            self.calls.append(Call("get_relations", (here,)))
            here = self.make("get_neighbors", here, ("" if atom.forward else BACKWARD) + atom.relation)
            for constraint in conditions:
                if constraint.variable == atom.variable:
                    here = self._narrowed(here, constraint)
        return here

    def _narrowed(self, here: str, constraint: Constraint) -> str:
        """A set with one condition met."""
        if constraint.kind == "meets":
            return self.make("intersection", here, self.follow(constraint.value, constraint.atoms))
        if constraint.kind in ("max", "min"):
            self.calls.append(Call("get_attributes", (here,)))
            return self.make(f"arg{constraint.kind}", here, constraint.atoms[0].relation)
        return here

    def either(self, rule: Rule) -> str:
        """The union of the two sides of an `either`; "" if the rule has none."""
        for constraint in rule.constraints:
            if constraint.kind == "either":
                sides = [
                    self.follow(side, constraint.atoms[:1])
                    for side in (constraint.operator, constraint.value)
                ]
                held = self.make("union", *sides)
                # With a body, the other conditions are met along its chain.
                for other in () if rule.body else rule.constraints:
                    held = self._narrowed(held, other) if other.variable == constraint.variable else held
                return held
        return ""
