"""From the state to what an action may use: the KG, the program, and the reasoning memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from triplewise.nodes.context import Context
from triplewise.nodes.database import sql_services
from triplewise.nodes.environment import environment
from triplewise.nodes.extract import extractor
from triplewise.nodes.plan import rule_service
from triplewise.nodes.state import State, Step
from triplewise.tools.actions.action import ActionContext, Ranker, ReasoningMemory
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.relation_ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

LOOKUPS = ("get_relation", "get_neighbors", "get_relations", "get_attributes")


def reasoning_memory(state: State, context: Context) -> ReasoningMemory:
    """What was linked, looked up, bound and tried in the steps before (QueryAgent, Algorithm 1).

    Steps that were rolled back stay only as attempts: what they bound or showed is forgotten.
    """
    kept = [s for s in state.steps if not s.rolled_back]
    calls = Counter(_said(s) for s in state.steps)
    return ReasoningMemory(
        linked={**_planned(state), **{e.id: e.label for e in state.linked}},
        looked_up=_looked_up(s.feedback for s in kept if _is_lookup(s.feedback)),
        bound=tuple(dict.fromkeys(_variable(name) for s in kept for name in s.feedback.values)),
        seen=frozenset(i for s in kept for ids in s.feedback.ids.values() for i in ids)
        | frozenset(state.focus),
        tried=dict(calls),
        failed=frozenset(_said(s) for s in state.steps if s.rolled_back),
        doubted=_doubted(state),
        last=_said(state.steps[-1]) if state.steps else "",
        steps=len(state.steps),
        budget=context.max_steps or 0,
        calls=tuple(_said(s) for s in state.steps),
        planned=tuple(dict.fromkeys(r for rule in state.rules for r in rule.relations)),
    )


def _doubted(state: State) -> frozenset[str]:
    """Calls that failed on the program as it is now; the last one too, if it had failed on its program.

    The same words on another program, such as the next rule's, are another call.
    """
    failed = [(s.program_before, _said(s)) for s in state.steps if s.rolled_back]
    again = {(s.program_before, _said(s)) for s in state.steps[-1:]}
    return frozenset(call for at, call in failed if at == state.program or (at, call) in again)


def _said(step: Step) -> str:
    """A call as guidelines see it; "" for a reply that was not carried out at all."""
    return Call(step.feedback.action, step.feedback.arguments).text() if step.feedback.action else ""


def _planned(state: State) -> dict[str, str]:
    """Nodes that the plan found in the KG besides the linked entities, such as the class a question names."""
    anchors = (r.anchor for r in state.rules)
    others = (c.value for r in state.rules for c in r.constraints if c.kind in ("meets", "type"))
    return {node: node for node in (*anchors, *others)}


def _variable(name: str) -> str:
    """A variable as actions name it: `?x`, or the `#0` of a set."""
    return name if name.startswith("#") else f"?{name}"


def _looked_up(lookups: Iterable[Feedback]) -> dict[str, dict[str, list[str]]]:
    """What each node was offered: its relations as last shown, and its attributes if asked for."""
    found: dict[str, dict[str, list[str]]] = {}
    for feedback in lookups:
        node = feedback.arguments[0]
        found[node] = {**found.get(node, {}), **feedback.relations}
    return found


def _is_lookup(feedback: Feedback) -> bool:
    """Whether a step showed the relations of something."""
    return feedback.action in LOOKUPS and bool(feedback.relations) and bool(feedback.arguments)


def ranker(question: str, kg: KnowledgeGraph, context: Context) -> Ranker:
    """Ranks and cuts the relations around a node for a question (QueryAgent, appendix B.3).

    Vectors of relation texts come from the store beside the KG, so that no text is embedded twice.
    """

    def rank(forward: list[str], backward: list[str]) -> tuple[list[str], list[str]]:
        names = list(dict.fromkeys([*forward, *backward]))
        texts = relation_texts(kg, names)
        encoder = environment(context).ranking_encoder

        def vectors(wanted: Sequence[str]) -> np.ndarray:
            assert encoder is not None
            return vectors_of(kg, encoder).vectors(wanted, encoder)

        kept = rank_relations(
            question,
            [(n, texts[n].label) for n in names],
            method=context.ranking,
            encoder=encoder,
            cut=context.relation_cut,
            shuffle_seed=context.shuffle_seed,
            vectors=vectors,
        )
        order = {n: i for i, n in enumerate(kept)}
        return (
            sorted((r for r in forward if r in order), key=order.__getitem__),
            sorted((r for r in backward if r in order), key=order.__getitem__),
        )

    return rank


def _services(state: State, context: Context) -> dict[str, Any]:
    """What actions may ask for besides the KG: the plan's rules, and documents where some are configured."""
    services: dict[str, Any] = {"rules": rule_service(state, context)}
    if context.db is not None:
        services |= sql_services(state.question, context)
    if context.documents is not None:
        services["extract"] = extractor(state, context)
    return services


def workbench(state: State, context: Context) -> ActionContext:
    """Everything an action may use in this step."""
    kg = environment(context).kg
    return ActionContext(
        kg=environment(context).action_kg,
        question=state.question,
        program=state.program,
        memory=reasoning_memory(state, context),
        rank=ranker(state.question, kg, context),
        services=_services(state, context),
        path_hops=context.path_hops,
        path_limit=context.path_limit,
        path_seconds=context.path_seconds,
    )
