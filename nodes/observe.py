"""Observe: what the KG holds around the task-relevant entities (ODA, section 2.1, Algorithm 1)."""

from __future__ import annotations

import re

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.plan import UNLIKELY, readings_of
from triplewise.nodes.state import ScoredTriple, State
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.linking.search import classes_of
from triplewise.tools.parsing.card import class_facts, fitting, leading_on, named_classes
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_term
from triplewise.tools.retrieval import observation as algorithm
from triplewise.tools.retrieval.surroundings import surroundings

ENTITIES = 3  # Most task-relevant entities whose relations are observed
OF_CLASS = 12  # Most relations observed for the members of a class that the question names


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """The paper's recursive observation (algorithm 1): D turns, top N, tails of the top P percent."""
    env, context = environment(runtime), runtime.context
    width, keep, seed = context.observe_width, context.observe_keep, context.draw_seed
    settings = algorithm.ObserveSettings(depth=context.observe_depth, width=width, keep=keep, seed=seed)
    seen = algorithm.observe(env.kg, state.question, _entities(env.kg, state), env.encoder, settings)
    # Of a fact of two hops, which leads through a mediator, the first is kept as `through`.
    facts = ((f.hops[-1], f.score, f.hops[0] if len(f.hops) > 1 else None) for f in seen.facts)
    return {**_observed(state, *(ScoredTriple(*fact) for fact in facts)), "observation_cuts": seen.cuts}


def relations(state: State, runtime: Runtime[Context]) -> Update:
    """The relations around the linked entities that fit the question, each with some values.

    A model is also shown relations of the classes that the question names, and what else likely readings use.
    Made once per question: actions look up what is around entities found later.
    """
    if state.observed:
        return {}
    env = environment(runtime)
    kg, question, changed = env.kg, state.question, Update()
    classes, likely = dict[IRI, tuple[int, int]](), list[str]()
    if not env.context.offline:
        likely = [r.program for r in readings_of(state, env) if r.confidence >= UNLIKELY]
        classes = _classes(state, env, likely)
        changed = _without_nouns(state, classes, kg)
        state = state.model_copy(update=changed)
    topics = _entities(kg, state)[:ENTITIES]
    facts = surroundings(kg, question, topics, env.encoder)
    by_class = {node: fitting(kg, question, node, env.encoder, OF_CLASS) for node in classes}
    shown = {f.triple.relation for f in facts} | {r for sides in by_class.values() for r, _ in sides}
    programs = [PyQL.parse(program, kg.profile) for program in likely]
    facts += leading_on(kg, programs, topics, classes, shown)
    triples = [ScoredTriple(fact.triple, 0.0, fact.through) for fact in facts]
    for node, chosen in by_class.items():
        triples += [ScoredTriple(fact, 0.0, is_a) for is_a, fact in class_facts(kg, node, chosen)]
    return {**_observed(state, *triples), **changed}


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Relations; nothing for a remote graph without a model, which would cost queries and not be read."""
    is_unread = runtime.context.offline and environment(runtime).kg.is_remote
    return (none if is_unread else relations)(state, runtime)


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No observation (ablation; QueryAgent and SymAgent as published)."""
    return _observed(state)


VARIANTS = {"auto": auto, "oda": oda, "relations": relations, "none": none}


def _classes(state: State, env: Environment, likely: list[str]) -> dict[IRI, tuple[int, int]]:
    """Return the classes that a question names or that are linked, and where; `likely`: query programs."""
    kg, used = env.kg, set(re.findall(r"[^\s(),]+", " ".join(likely)))
    classes = named_classes(kg, state.question, state.linked, env.encoder)
    known = {entry.id for entry in (classes_of(kg) if not kg.is_remote else ())}
    linked = ((kg.profile.expand(e.id), (e.start, e.end)) for e in state.linked if e.id in known)
    classes |= {node: place for node, place in linked if node is not None}
    if likely and GraphIndex.whole(kg, env.encoder) is None:  # among many, one has any word as its name
        classes = {node: place for node, place in classes.items() if kg.profile.short(node) in used}
    return classes


def _without_nouns(state: State, classes: dict[IRI, tuple[int, int]], kg: KnowledgeGraph) -> Update:
    """Return the update that unlinks entities whose mention is the noun of a class ("cities"), if any."""
    nouns = {span: kg.profile.short(node) for node, span in classes.items()}
    kept = tuple(e for e in state.linked if nouns.get((e.start, e.end), e.id) == e.id)
    if len(kept) == len(state.linked) or state.focus != tuple(e.id for e in state.linked):
        return {}
    return {"linked": kept, "focus": tuple(e.id for e in kept)}


def _entities(kg: KnowledgeGraph, state: State) -> list[Term]:
    """Return the task-relevant entities, without those whose ids are not valid terms."""
    return [n for i in state.focus if (n := read_term(i, kg.profile)) is not None]


def _observed(state: State, *triples: ScoredTriple) -> Update:
    return {"observation": triples, "observation_cuts": (), "observed": state.focus}
