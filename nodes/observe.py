"""Observe: what the KG holds around the task-relevant entities (ODA, section 2.1, Algorithm 1)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.state import ScoredTriple, State
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.parsing.card import Side, class_facts, fitting, named_classes, next_class
from triplewise.tools.pyql.text import read_term
from triplewise.tools.retrieval import observation as algorithm
from triplewise.tools.retrieval.surroundings import surroundings

FOCUS = 3  # Entities that the observation of relations looks from
OF_A_CLASS = 12  # Relations seen of the members of a class that the question names
OF_THE_NEXT = 5  # The same of a class that only the entities lead to


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """The paper's recursive observation (algorithm 1): D turns, top N, tails of the top P percent."""
    return _observe(state, runtime, runtime.context.observe_depth)


def one_hop(state: State, runtime: Runtime[Context]) -> Update:
    """Only the neighbourhood of the task-relevant entities (ablation)."""
    return _observe(state, runtime, 1)


def relations(state: State, runtime: Runtime[Context]) -> Update:
    """The relations around the task-relevant entities that fit the question, each with some values.

    Runs once a question: every prompt shows what is around its own entities; actions look others up.
    """
    if state.observed:
        return {}
    env = environment(runtime)
    kg = env.kg
    asked = (kg, state.question)
    sides = dict[IRI, list[Side]]()  # class -> relations of its members
    changed = Update()
    if not env.context.embedded:  # a model is shown classes too
        classes = named_classes(*asked, state.linked, env.encoder)
        nouns = {place: kg.profile.short(node) for node, place in classes.items()}
        # Drop linked entities whose mention is a class noun ("cities").
        kept = tuple(e for e in state.linked if nouns.get((e.start, e.end), e.id) == e.id)
        if len(kept) < len(state.linked) and state.focus == tuple(e.id for e in state.linked):
            changed = {"linked": kept, "focus": tuple(e.id for e in kept)}
            state = state.model_copy(update=changed)
        sides = {node: fitting(*asked, node, env.encoder, OF_A_CLASS) for node in classes}
    facts = surroundings(*asked, _entities(kg, state)[:FOCUS], env.encoder)
    triples = [ScoredTriple(fact.triple, 0.0, fact.through) for fact in facts]
    if not env.context.embedded and not sides:
        sides = next_class(*asked, facts, env.encoder, OF_THE_NEXT)
    for node, chosen in sides.items():
        triples += [ScoredTriple(fact, 0.0, is_a) for is_a, fact in class_facts(kg, node, chosen)]
    return {**_update(state, *triples), **changed}


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Relations with some values; nothing over a distance where a script is followed that reads none."""
    is_unread = runtime.context.embedded and environment(runtime).kg.is_remote
    return (none if is_unread else relations)(state, runtime)


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No observation (ablation; QueryAgent and SymAgent as published)."""
    return _update(state)


VARIANTS = {"auto": auto, "oda": oda, "one-hop": one_hop, "relations": relations, "none": none}


def _observe(state: State, runtime: Runtime[Context], depth: int) -> Update:
    env, context = environment(runtime), runtime.context
    width, keep, seed = context.observe_width, context.observe_keep, context.draw_seed
    settings = algorithm.ObserveSettings(depth=depth, width=width, keep=keep, seed=seed)
    seen = algorithm.observe(env.kg, state.question, _entities(env.kg, state), env.encoder, settings)
    # A fact of two hops is seen through its mediator.
    facts = ((f.hops[-1], f.score, f.hops[0] if len(f.hops) > 1 else None) for f in seen.facts)
    return {**_update(state, *(ScoredTriple(*fact) for fact in facts)), "observation_cuts": seen.cuts}


def _entities(kg: KnowledgeGraph, state: State) -> list[Term]:
    """Return the task-relevant entities, without ids that cannot be read."""
    return [n for i in state.focus if (n := read_term(i, kg.profile)) is not None]


def _update(state: State, *triples: ScoredTriple) -> Update:
    return {"observation": triples, "observation_cuts": (), "observed": state.focus}
