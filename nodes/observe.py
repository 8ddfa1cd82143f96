"""Observe: what the KG holds around the task-relevant entities (ODA, section 2.1, Algorithm 1)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.embedded import SCRIPTS
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.state import ScoredTriple, State
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.pyql.text import read_term
from triplewise.tools.retrieval.observation import ObserveSettings, ScoredFact, observe
from triplewise.tools.retrieval.surroundings import surroundings

FOCUS = 3
"""Entities that the observation of relations looks from."""


def _entities(kg: KnowledgeGraph, state: State, most: int | None = None) -> list[Term]:
    """Return the task-relevant entities, without ids that cannot be read."""
    return [n for i in state.focus[:most] if (n := read_term(i, kg.profile)) is not None]


def _update(state: State, facts: tuple[ScoredFact, ...] = (), cuts: tuple[str, ...] = ()) -> Update:
    """Return the update of an observation; a fact of two hops is seen through its mediator."""
    triples = (ScoredTriple(f.hops[-1], f.score, f.hops[0] if len(f.hops) > 1 else None) for f in facts)
    return {"observation": tuple(triples), "observation_cuts": cuts, "observed": state.focus}


def _observe(state: State, env: Environment, depth: int) -> Update:
    """D turns of update and refine from the task-relevant entities."""
    context, entities = env.context, _entities(env.kg, state)
    settings = ObserveSettings(
        depth=depth,
        width=context.observe_width,
        keep=context.observe_keep,
        direction="forward" if context.observe_direction == "outgoing" else "both",
        seed=context.draw_seed,
    )
    observation = observe(env.kg, state.question, entities, env.encoder, settings)
    return _update(state, observation.facts, observation.cuts)


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """The paper's recursive observation: D turns, top N, tails of the top P percent."""
    return _observe(state, environment(runtime), runtime.context.observe_depth)


def one_hop(state: State, runtime: Runtime[Context]) -> Update:
    """Only the neighbourhood of the task-relevant entities (ablation)."""
    return _observe(state, environment(runtime), 1)


def relations(state: State, runtime: Runtime[Context]) -> Update:
    """The relations around the task-relevant entities that fit the question, each with some values.

    What a model that writes queries needs most: what there is, which way it points, and its ids.
    """
    if state.observed:
        return {}
    env = environment(runtime)
    facts = surroundings(env.kg, state.question, _entities(env.kg, state, FOCUS), env.encoder)
    triples = tuple(ScoredTriple(fact.triple, 0.0, fact.through) for fact in facts)
    return {**_update(state), "observation": triples}


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Relations with some values; nothing over a distance where a script is followed that reads none."""
    env = environment(runtime)
    is_unread = env.context.embedded and env.kg.is_remote and env.toolset.name in SCRIPTS
    return (none if is_unread else relations)(state, runtime)


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No observation (ablation; QueryAgent and SymAgent as published)."""
    return _update(state)


VARIANTS = {
    "auto": auto,
    "oda": oda,
    "one-hop": one_hop,
    "relations": relations,
    "none": none,
}
