"""Hints: what a model is told before it acts, best first, within a budget of tokens.

The entities with what else their mention may mean, the relations around them with values, and the best rules
of the plan. Every node and relation comes with its id, so that it can be used without being looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, within

LETTERS = 4
"""Letters of a token, about."""
RIVALS, BEHIND = 3, 0.25
"""Other meanings of a mention that are told at most, and how far behind the best one's score they may be."""
RULES = 3
"""Rules of the plan that are told at most."""
LATER = 3
"""The share of the budget, as 1/n, that is left once the run has steps of its own to show."""


def entity_lines(linked: Iterable[LinkedEntity]) -> list[str]:
    """Return one line a mention: its node, and the others it may mean where the linker is not sure."""
    lines = []
    for entity in linked:
        best, *others = entity.candidates or (None,)
        about = f" ({best.description})" if best and best.description else ""
        line = f"{entity.label}: {entity.id}{about}"
        near = [c for c in others if c is not None and c.score >= entity.score - BEHIND][:RIVALS]
        if near:
            line += f"; or {', '.join(f'{c.label}: {c.id}{_about(c.description)}' for c in near)}"
        lines.append(line)
    return lines


def _about(description: str) -> str:
    return f" ({description})" if description else ""


def rule_lines(state: State) -> list[str]:
    """Return the best rules of the plan."""
    return [rule.text() for rule in state.rules[:RULES]]


def around_lines(state: State, context: Context, spent: Sequence[str]) -> list[str]:
    """Return the relations around the task-relevant entities within the budget.

    Args:
        spent: hints that are told besides, within the same budget.
    """
    kg = environment(context).kg
    budget = context.hint_tokens * LETTERS
    if any(not step.rolled_back for step in state.steps):
        budget //= LATER
    budget -= sum(map(len, spent))
    facts = [NearbyFact(s.triple, s.through) for s in state.observation]
    return within(kg, grouped_lines(kg, facts, state.observed), budget)
