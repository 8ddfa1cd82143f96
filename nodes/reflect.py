"""Reflect: keep what the last action brought up as a network of paths (ODA, section 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import encoder_of, kg_of, model_of, prompt_of
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_lines, observation_lines, parse_triples, triple_text
from triplewise.tools.kg.terms import IRI, Triple

PathNetwork = tuple[tuple[Triple, ...], ...]


def add_to_network(memory: PathNetwork, triple: Triple) -> PathNetwork:
    """Append a triple to the first path whose last tail is its head, otherwise start a path (ODA 2.3)."""
    if any(triple in path for path in memory):
        return memory
    for i, path in enumerate(memory):
        if path[-1].object == triple.subject:
            return (*memory[:i], (*path, triple), *memory[i + 1 :])
    return (*memory, (triple,))


def remember(memory: PathNetwork, triples: Iterable[Triple]) -> PathNetwork:
    """Add reflected triples one by one."""
    for triple in triples:
        memory = add_to_network(memory, triple)
    return memory


def _settle(state: State) -> tuple[Step, ...]:
    """The steps, with a note of the inspector appended to the last observation."""
    note = state.verdict.note if state.verdict else ""
    if not note:
        return state.steps
    step = replace(state.last, observation=f"{state.last.observation}\n{note}".strip())
    return (*state.steps[:-1], step)


def _focus(state: State, context: Context, triples: tuple[Triple, ...]) -> tuple[str, ...]:
    """Tails of the reflected triples are the next task-relevant entities; without any, they stay."""
    profile = kg_of(context).profile
    tails = (t.object for t in triples if isinstance(t.object, IRI))
    return tuple(dict.fromkeys(profile.short(t) for t in tails)) or state.focus


def _update(state: State, context: Context, triples: tuple[Triple, ...]) -> Update:
    """Memory, focus and settled steps after keeping `triples`."""
    return {
        "memory": remember(state.memory, triples),
        "focus": _focus(state, context, triples),
        "steps": _settle(state),
    }


def similarity(state: State, runtime: Runtime[Context]) -> Update:
    """Keep the K triples most like the question."""
    context, triples = runtime.context, state.last.feedback.triples
    if len(triples) > context.reflect_limit:
        kg, encoder = kg_of(context), encoder_of(context)
        vectors = encoder.encode([state.question, *triple_text(kg, triples)])
        order = (vectors[1:] @ vectors[0]).argsort(kind="stable")[::-1][: context.reflect_limit]
        triples = tuple(triples[i] for i in order)
    return _update(state, context, triples)


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model pick the triples that help to answer (ODA, table 8).

    Triples the KG did not give are dropped. Falls back to `similarity` without a language model.
    """
    context, triples = runtime.context, state.last.feedback.triples
    if context.embedded or not triples:
        return similarity(state, runtime)
    kg = kg_of(context)
    prompt = prompt_of(context).render(
        "reflect",
        question=state.question,
        triples=triple_text(kg, triples, ids=True),
        observation=observation_lines(kg, state.observation),
        memory=memory_lines(kg, state.memory),
        limit=context.reflect_limit,
    )
    reply = model_of(context).complete([{"role": "user", "content": prompt}])
    kept = parse_triples(kg, reply.text, triples)[: context.reflect_limit]
    return _update(state, context, tuple(kept))


def none(state: State, runtime: Runtime[Context]) -> Update:
    """Keep nothing (ablation)."""
    return {"steps": _settle(state)}


VARIANTS = {"oda": oda, "similarity": similarity, "none": none}
