"""From the state to what an action may use: the KG, the program, and the reasoning memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.extract import extractor
from triplewise.nodes.plan import rule_service
from triplewise.nodes.sql import sql_services
from triplewise.nodes.state import State, Step
from triplewise.tools.actions.action import ActionContext, Ranker, ReasoningMemory
from triplewise.tools.core.call import Call
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.relation_ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

LOOKUPS = ("get_relation", "get_neighbors", "get_relations", "get_attributes")


def reasoning_memory(state: State, context: Context) -> ReasoningMemory:
    """What was linked, looked up, bound and tried in the steps before (QueryAgent, Algorithm 1).

    Steps that were rolled back stay only as attempts: what they bound or showed is forgotten.
    """
    valid = [s for s in state.steps if not s.rolled_back]
    calls = [_call_text(s) for s in state.steps]
    anchors = [r.anchor for r in state.rules]
    others = [c.value for r in state.rules for c in r.constraints if c.kind in ("meets", "type")]
    shown: dict[str, dict[str, list[str]]] = {}
    for feedback in (s.feedback for s in valid):
        if feedback.action in LOOKUPS and feedback.relations and feedback.arguments:
            node = feedback.arguments[0]
            shown[node] = {**shown.get(node, {}), **feedback.relations}
    # A call is doubtful on the program on which it failed; the same words on another program, such as the
    # next rule's, are another call. The last one is doubtful too, if it had failed on its program.
    failed = [(s.program_before, _call_text(s)) for s in state.steps if s.rolled_back]
    last = {(s.program_before, _call_text(s)) for s in state.steps[-1:]}
    return ReasoningMemory(
        # Nodes that the plan names besides the linked entities, such as the class a question asks for.
        linked={**{node: node for node in (*anchors, *others)}, **{e.id: e.label for e in state.linked}},
        looked_up=shown,
        bound=tuple(
            dict.fromkeys(n if n.startswith("#") else f"?{n}" for s in valid for n in s.feedback.values)
        ),
        seen=frozenset(i for s in valid for ids in s.feedback.ids.values() for i in ids)
        | frozenset(state.focus),
        tried=dict(Counter(calls)),
        failed=frozenset(call for _, call in failed),
        doubted=frozenset(call for at, call in failed if at == state.program or (at, call) in last),
        last=calls[-1] if calls else "",
        steps=len(state.steps),
        budget=context.max_steps or 0,
        calls=tuple(calls),
        planned=tuple(dict.fromkeys(r for rule in state.rules for r in rule.relations)),
    )


def _call_text(step: Step) -> str:
    """A call as guidelines see it; "" for a reply that was not carried out at all."""
    return Call(step.feedback.action, step.feedback.arguments).text() if step.feedback.action else ""


def ranker(question: str, kg: KnowledgeGraph, context: Context) -> Ranker:
    """Ranks and cuts the relations around a node for a question (QueryAgent, appendix B.3).

    Vectors of relation texts come from the store beside the KG, so that no text is embedded twice.
    """

    def rank(forward: list[str], backward: list[str]) -> tuple[list[str], list[str]]:
        names = list(dict.fromkeys([*forward, *backward]))
        texts = relation_texts(kg, names)
        encoder = environment(context).ranking_encoder

        def vectors(labels: Sequence[str]) -> np.ndarray:
            assert encoder is not None
            return vectors_of(kg, encoder).vectors(labels, encoder)

        ranked = rank_relations(
            question,
            [(n, texts[n].label) for n in names],
            method=context.ranking,
            encoder=encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            vectors=vectors,
        )
        order = {n: i for i, n in enumerate(ranked)}
        return (
            sorted((r for r in forward if r in order), key=order.__getitem__),
            sorted((r for r in backward if r in order), key=order.__getitem__),
        )

    return rank


def action_context(state: State, context: Context) -> ActionContext:
    """Everything an action may use in this step: the KG, the program, the memory, the plan, documents."""
    env = environment(context)
    services: dict[str, Any] = {"rules": rule_service(state, context)}
    if context.db is not None:
        services |= sql_services(state.question, context)
    if context.documents is not None:
        services["extract"] = extractor(state, context)
    return ActionContext(
        kg=env.action_kg,
        question=state.question,
        program=state.program,
        memory=reasoning_memory(state, context),
        rank=ranker(state.question, env.kg, context),
        services=services,
        path_hops=context.path_hops,
        path_limit=context.path_limit,
        path_seconds=context.path_seconds,
    )
