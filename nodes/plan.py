"""Plan: symbolic rules that may answer the question (SymAgent 4.1, Agent-Planner)."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import Update
from triplewise.nodes.state import State
from triplewise.tools.core.rules import path_text
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import grow, node_form
from triplewise.tools.planning.demonstrations import demonstrate
from triplewise.tools.planning.lexical.planner import Plan, make_plan
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.planning.proposals import grounder_for, parse_bodies, with_proposals
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

SHOWN = 60
"""Relations around the topic that a model is shown, the likest to the question first where there are more."""


def settings_of(context: Context) -> PlanSettings:
    """What a context says about planning."""
    return PlanSettings(
        seed_count=context.seed_count,
        hops=context.plan_hops,
        beam=context.plan_beam,
        rules=context.plan_rules,
        documents=context.documents is not None,
        guess=context.guess,
        caps=environment(context).caps,
    )


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """Rules from seed questions where the context names some, else from the neighbourhood. No model call."""
    return _update(_mined(state, runtime.context))


def _mined(state: State, context: Context) -> Plan:
    """The plan without a model."""
    encoder, seeds = environment(context).encoder, environment(context).seeds
    return make_plan(
        state.question, state.linked, environment(context).kg, encoder, seeds, settings_of(context)
    )


def _update(plan: Plan) -> Update:
    """A plan as an update of the state."""
    return {"rules": plan.rules, "dropped": plan.dropped}


def proposed(state: State, runtime: Runtime[Context]) -> Update:
    """The model proposes rule bodies, shown like seed questions with their own mined ones (SymAgent, eq. 3).

    Proposals are aligned to relations the KG really has and grounded at the topic; mined rules follow them.
    Without a language model, the mined rules are the plan.
    """
    context = runtime.context
    plan = _mined(state, context)
    if context.embedded or not state.linked:
        return _update(plan)
    kg, encoder = environment(context).kg, environment(context).encoder
    demonstrations = _demonstrations(state, context)
    prompt = environment(context).prompt.render(
        "plan",
        question=state.question,
        entities={e.label: e.id for e in state.linked},
        demonstrations=demonstrations,
        rules=[] if demonstrations else [path_text(r.body) for r in plan.rules if r.body],
        relations=_around(kg, encoder, state),
        limit=context.plan_rules,
    )
    reply = environment(context).model.complete([{"role": "user", "content": prompt}])
    grounder = grounder_for(kg, encoder, state.linked, settings_of(context), plan)
    return _update(with_proposals(plan, parse_bodies(reply.text), grounder, context.plan_rules))


def _demonstrations(state: State, context: Context) -> list[dict[str, object]]:
    """Seed questions like this one, each with its own rule bodies; [] without seeds."""
    seeds = environment(context).seeds
    if seeds is None:
        return []
    kg, encoder = environment(context).kg, environment(context).encoder
    found = demonstrate(state.question, state.linked, kg, encoder, seeds, settings_of(context))
    return [asdict(d) for d in found]


def _around(kg: KnowledgeGraph, encoder: Encoder, state: State) -> list[str]:
    """Relations around the linked entities as they are to be written, with how they read."""
    atoms = [b[0] for e in state.linked for b in grow(kg, node_form(kg, e.id), ())]
    steps = list(dict.fromkeys((a.relation, a.forward) for a in atoms))
    texts = relation_texts(kg, [r for r, _ in steps])
    read = {s: texts[s[0]].label if s[1] else texts[s[0]].inverse or texts[s[0]].label for s in steps}
    if len(steps) > SHOWN:
        vectors = vectors_of(kg, encoder).vectors([read[s] for s in steps])
        order = np.argsort(-(vectors @ encoder.encode([state.question])[0]), kind="stable")
        steps = [steps[i] for i in order[:SHOWN]]
    return [f"{'' if forward else '^'}{r} ({read[r, forward]})" for r, forward in steps]


def for_policy(state: State, runtime: Runtime[Context]) -> Update:
    """No plan for a language model (QueryAgent and ODA as published); the one without follows rules."""
    return mined(state, runtime) if runtime.context.embedded else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


VARIANTS = {"mined": mined, "proposed": proposed, "for-policy": for_policy, "none": none}
