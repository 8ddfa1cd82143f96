"""The relation choices behind an answer: at each hop, what was taken beside what was offered.

They are what the embedded policy learns from, as a language model learns from thoughts and actions.
"""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.trajectory import Choice
from triplewise.tools.planning.bodies import grow


def choices_of(kg: KnowledgeGraph, rule: Rule) -> tuple[Choice, ...]:
    """The choices of a rule: along its chain, then along each chain of a second topic entity.

    One query a hop. A hop whose relation the KG does not offer there (a gap) is left out.
    """
    found = _along(kg, rule.anchor, rule.body) if rule.anchor else []
    for constraint in rule.constraints:
        if constraint.kind == "meets":
            found += _along(kg, constraint.value, constraint.atoms)
    return tuple(found)


def _along(kg: KnowledgeGraph, anchor: str, atoms: Sequence[Atom]) -> list[Choice]:
    """The choices of one chain."""
    found, before = [], tuple[str, ...]()
    for hop, atom in enumerate(atoms):
        offered = tuple(step_text(kg, body[-1]) for body in grow(kg, anchor, tuple(atoms[:hop])))
        chosen = step_text(kg, atom)
        if chosen in offered:
            found.append(Choice(chosen, tuple(dict.fromkeys(offered)), before))
        before = (*before, chosen)
    return found


def step_text(kg: KnowledgeGraph, atom: Atom) -> str:
    """A relation as choices have it: its short id, `^` before one walked against its direction."""
    iri = kg.profile.expand(atom.relation, relation=True)
    short = atom.relation if iri is None else kg.profile.short(iri)
    return short if atom.forward else f"^{short}"
