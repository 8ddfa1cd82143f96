"""Hints: what a model is told before it acts, best first, within a budget of tokens.

The entities with what else their mention may mean, the relations around them with values, and the best rules
of the plan. Every node and relation comes with its id, so that it can be used without being looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.linking.linker import EntityCandidate, LinkedEntity
from triplewise.tools.linking.search import node_types
from triplewise.tools.retrieval.surroundings import NearbyFact, grouped_lines, within

LETTERS = 4
"""Letters of a token, about."""
RIVALS, BEHIND = 3, 0.25
"""Other meanings of a mention that are told at most, and how far behind the best one's score they may be."""
LONG = 80
"""Characters above which a description is clipped."""
RULES = 3
"""Rules of the plan that are told at most."""
LATER = 3
"""The share of the budget, as 1/n, that is left once the run has steps of its own to show."""


def entity_lines(kg: KnowledgeGraph, linked: Sequence[LinkedEntity]) -> list[str]:
    """Return one line a mention: its node, and the others it may mean where the linker is not sure.

    Each with its description or, where it has none, its classes: a film is told from a mountain of its name.
    """
    meanings = [[c for c in e.candidates if c.score >= e.score - BEHIND][: 1 + RIVALS] for e in linked]
    nodes = {c.id: kg.profile.expand(c.id) for near in meanings for c in near if not c.description}
    types = node_types(kg, [iri for iri in nodes.values() if iri is not None])

    def text(candidate: EntityCandidate) -> str:
        iri = nodes.get(candidate.id)
        about = candidate.description or ", ".join(types.get(iri, ()) if iri is not None else ())
        about = about if len(about) <= LONG else f"{about[: LONG - 3]}..."
        return f"{candidate.label}: {candidate.id}{f' ({about})' if about else ''}"

    lines = []
    for entity, near in zip(linked, meanings, strict=True):
        best, *others = map(text, near) if near else (f"{entity.label}: {entity.id}",)
        lines.append(f"{best}; or {', '.join(others)}" if others else best)
    return lines


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
    totals = {}
    for topic in state.observed:  # asked before, by the observation
        if (node := kg.profile.expand(topic)) is not None and (around := kg.relations(node)).outcome.ok:
            totals[topic] = len(around.forward) + len(around.backward)
    groups = {topic: list[str]() for topic in totals} | grouped_lines(kg, facts, state.observed)
    return within(kg, groups, budget, totals)
