"""Observe: what the KG holds around the task-relevant entities (ODA, section 2.1, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import encoder_of, kg_of
from triplewise.nodes.state import ScoredTriple, State
from triplewise.nodes.text import node_labels
from triplewise.tools.encoder import Encoder
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.kg.terms import IRI, Term, Triple
from triplewise.tools.pyql.text import read_term
from triplewise.tools.vectors import vectors_of

NODE_CAP = 300
"""Most neighbouring triples read of one node, so that a hub costs no more than another."""
CANDIDATES = 4
"""Triples encoded exactly, as a multiple of N; relations alone choose them."""


def _around(kg: KnowledgeGraph, nodes: Iterable[Term]) -> list[Triple]:
    """Neighbouring triples of several nodes, each once."""
    found = (t for n in nodes for t in kg.neighbours(n, limit=NODE_CAP).triples)
    return [t for t in dict.fromkeys(found) if not kg.profile.excludes(t.relation)]


def score_relations(
    kg: KnowledgeGraph, question: str, triples: Sequence[Triple], encoder: Encoder
) -> np.ndarray:
    """Cosine of the question with each triple's relation text, shape (n,); encodes each relation once."""
    names = [kg.profile.short(t.relation) for t in triples]
    distinct = list(dict.fromkeys(names))
    texts = relation_texts(kg, distinct)
    vectors = vectors_of(kg, encoder).vectors([texts[n].label for n in distinct])
    by_name = dict(zip(distinct, vectors @ encoder.encode([question])[0], strict=True))
    return np.array([by_name[n] for n in names], dtype=np.float32)


def score_triples(
    kg: KnowledgeGraph, question: str, triples: Sequence[Triple], context: Context, around: frozenset[Term]
) -> list[ScoredTriple]:
    """Top N triples by the cosine of the question with "relation tail", best first."""
    encoder, width = encoder_of(context), context.observe_width
    if len(triples) > CANDIDATES * width:
        order = score_relations(kg, question, triples, encoder).argsort(kind="stable")[::-1]
        triples = [triples[i] for i in order[: CANDIDATES * width]]
    if not triples:
        return []
    far = [t.subject if t.object in around else t.object for t in triples]
    labels = node_labels(kg, far)
    texts = relation_texts(kg, [kg.profile.short(t.relation) for t in triples])
    lines = [
        f"{texts[kg.profile.short(t.relation)].label} {labels[f]}" for t, f in zip(triples, far, strict=True)
    ]
    vectors = encoder.encode([question, *lines])
    scores = vectors[1:] @ vectors[0]
    best = scores.argsort(kind="stable")[::-1][:width]
    return [ScoredTriple(triples[i], float(scores[i])) for i in best]


def _next_nodes(scored: Sequence[ScoredTriple], share: float, seen: frozenset[Term]) -> list[Term]:
    """Far ends of the top P percent (at least one triple), without those already observed."""
    top = scored[: max(1, round(len(scored) * share / 100))]
    ends = (n for s in top for n in (s.triple.object, s.triple.subject))
    return [n for n in dict.fromkeys(ends) if n not in seen and isinstance(n, IRI)]


def _expand(state: State, context: Context, depth: int) -> tuple[ScoredTriple, ...]:
    """D turns of update and refine from the task-relevant entities."""
    kg = kg_of(context)
    nodes: list[Term] = [n for i in state.focus if (n := read_term(i, kg.profile)) is not None]
    seen: frozenset[Term] = frozenset()
    found: dict[Triple, ScoredTriple] = {}
    for _turn in range(depth):
        seen |= frozenset(nodes)
        scored = score_triples(kg, state.question, _around(kg, nodes), context, frozenset(nodes))
        found |= {s.triple: s for s in scored if s.triple not in found}
        nodes = _next_nodes(scored, context.observe_keep, seen)
        if not nodes:
            break
    return tuple(sorted(found.values(), key=lambda s: -s.score))


def oda(state: State, runtime: Runtime[Context]) -> Update:
    """The paper's recursive observation: D turns, top N, tails of the top P percent."""
    observation = _expand(state, runtime.context, runtime.context.observe_depth)
    return {"observation": observation, "observed": state.focus}


def one_hop(state: State, runtime: Runtime[Context]) -> Update:
    """Only the neighbourhood of the task-relevant entities (ablation)."""
    return {"observation": _expand(state, runtime.context, 1), "observed": state.focus}


def by_relation(state: State, runtime: Runtime[Context]) -> Update:
    """One hop around the first task-relevant entities, ranked by relation text alone.

    Costs no embedding once a KG's relations were seen: what the policy without a model can afford at
    every step.
    """
    context = runtime.context
    kg = kg_of(context)
    focus = [n for i in state.focus[:3] if (n := read_term(i, kg.profile)) is not None]
    triples = _around(kg, focus)
    if not triples:
        return {"observation": (), "observed": state.focus}
    scores = score_relations(kg, state.question, triples, encoder_of(context))
    best = scores.argsort(kind="stable")[::-1][: context.observe_width]
    kept = tuple(ScoredTriple(triples[i], float(scores[i])) for i in best)
    return {"observation": kept, "observed": state.focus}


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """The paper's observation with a language model, the one by relation without."""
    return by_relation(state, runtime) if runtime.context.embedded else oda(state, runtime)


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No observation (ablation; QueryAgent and SymAgent as published)."""
    return {"observation": (), "observed": state.focus}


VARIANTS = {"auto": auto, "oda": oda, "one-hop": one_hop, "by-relation": by_relation, "none": none}
