"""Plan: symbolic rules that may answer the question (SymAgent 4.1, Agent-Planner).

What is no question is planned by what it states: a slot wants the one relation it names, or none; a claim
wants facts that prove or contradict it (ODA, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import ModelPhase, Phase, Steps, Update, environment
from triplewise.nodes.link import link
from triplewise.nodes.models import ModelCall
from triplewise.nodes.state import State
from triplewise.tools.actions.symbolic import RuleService
from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule, path_text
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.planning.bodies import grow, node_form
from triplewise.tools.planning.confidence import calibration_for, read_plan
from triplewise.tools.planning.lexical.planner import SHOWN_BY_SEEDS, Plan, PlanSettings, make_plan
from triplewise.tools.planning.lexical.question import form_of, slot_of
from triplewise.tools.planning.lexical.statements import claim_rules, slot_rules
from triplewise.tools.planning.proposals import demonstrate, parse_bodies, with_proposals
from triplewise.tools.retrieval.encoder import Encoder, vectors_of

SHOWN = 60
"""Relations around the topic that a model is shown, the likest to the question first where there are more."""
REPLANNED = 3
"""Sub-questions that are planned for in one run: each may take a model call and dozens of queries."""


def settings_of(context: Context) -> PlanSettings:
    """Return what a context says about planning."""
    return PlanSettings(
        seed_count=context.seed_count,
        beam=context.plan_beam,
        rules=context.plan_rules,
        documents=context.documents is not None,
        guess=context.guess,
        caps=environment(context).caps,
    )


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """Rules from seed questions where the context names some, else from the neighbourhood. No model call."""
    context, env = runtime.context, environment(runtime)
    if context.embedded:
        return with_readings(state, runtime)
    plan = make_plan(state.question, state.linked, env.kg, env.encoder, env.seeds, settings_of(context))
    return {"rules": plan.rules, "dropped": plan.dropped}


def with_readings(state: State, runtime: Runtime[Context]) -> Update:
    """The rules that the policy without a model follows, with their readings; claims and slots have none."""
    context, env = runtime.context, environment(runtime)
    question, linked, slot = state.question, state.linked, slot_of(state.question)
    has_form, plan = form_of(question) != "question", Plan()
    if not has_form or env.seeds is not None:
        plan = make_plan(question, linked, env.kg, env.encoder, env.seeds, settings_of(context))
    # Seed questions may be slots and claims themselves: then they plan.
    if has_form and not any(rule.evidence >= SHOWN_BY_SEEDS for rule in plan.rules[:1]):
        if slot is not None:
            return {"rules": slot_rules(slot[1], linked, env.kg, env.encoder), "dropped": ()}
        rules = claim_rules(question, linked, env.kg, env.encoder, context.closed_world)
        return {"rules": rules, "dropped": ()}
    readings = read_plan(plan)
    return {"rules": plan.rules, "dropped": plan.dropped, "readings": readings}


@ModelPhase
def proposed(state: State, runtime: Runtime[Context]) -> Steps:
    """The model proposes rule bodies, shown like seed questions with their own mined ones (SymAgent, eq. 3).

    Proposals are aligned to relations the KG really has and grounded at the topic; mined rules follow them.
    Without a language model, the mined rules are the plan.
    """
    context = runtime.context
    if context.embedded or not state.linked:
        return mined(state, runtime)
    env, settings = environment(context), settings_of(context)
    plan = make_plan(state.question, state.linked, env.kg, env.encoder, env.seeds, settings)
    demonstrations = demonstrations_for(state, context)
    prompt = env.prompt.render(
        "plan",
        question=state.question,
        entities={e.label: e.id for e in state.linked},
        demonstrations=demonstrations,
        rules=[] if demonstrations else [path_text(r.body) for r in plan.rules if r.body],
        relations=relations_around(env.kg, env.encoder, state),
        limit=context.plan_rules,
    )
    reply = yield ModelCall(prompt)
    bodies, shown = parse_bodies(reply.text), not demonstrations
    plan = with_proposals(plan, bodies, state.linked, env.kg, env.encoder, settings, shown)
    return {"rules": plan.rules, "dropped": plan.dropped}


def demonstrations_for(state: State, context: Context) -> list[dict[str, object]]:
    """Return seed questions like this one, each with its own rule bodies; [] without seeds."""
    env, settings = environment(context), settings_of(context)
    if env.seeds is None:
        return []
    return demonstrate(state.question, state.linked, env.kg, env.encoder, env.seeds, settings)


def relations_around(kg: KnowledgeGraph, encoder: Encoder, state: State) -> list[str]:
    """Return relations around the linked entities as they are to be written, with how they read."""
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


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """The policy without a model and `fast_path` follow rules; a model is told those of seed questions.

    Rules that only fit the words of a question cost a model more than they gave: see docs/results.md. With
    `cascade`, a model is planned for as without one, and what the plan reads is kept where it is sure.
    """
    context = runtime.context
    if context.embedded:
        return with_readings(state, runtime)
    if context.cascade is not None and environment(runtime).toolset.name == "pyql":
        update = with_readings(state, runtime)
        if update["rules"] and (readings := update.get("readings")):
            calibration = calibration_for(environment(runtime).kg, context.calibration)
            if calibration.probability(readings[0].features) >= context.cascade:
                return update
    is_guided = context.fast_path or environment(runtime).seeds is not None
    return mined(state, runtime) if is_guided else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


def rule_service(state: State, context: Context) -> RuleService:
    """Return the service behind get_rules: the plan for the question, or one of its own for a part of it.

    A part is planned from the entities that it names, else from those of the question (SymAgent 4.2.1).
    """

    def rules(question: str) -> Sequence[str]:
        parts = (" ".join(s.feedback.arguments) for s in state.steps if s.feedback.action == "get_rules")
        whole = ("", normalise(state.question))
        planned = {part for text in parts if (part := normalise(text)) not in whole}
        own: tuple[Rule, ...] = ()
        if normalise(question) not in whole and len(planned) < REPLANNED:
            runtime: Runtime[Context] = Runtime(context=context)
            sub = State(question=question)
            linked = link(sub, runtime)["linked"] or state.linked
            plan = mined if context.embedded else proposed
            own = plan(sub.model_copy(update={"linked": linked}), runtime)["rules"]
        return [r.text() for r in own or state.rules]

    return rules


VARIANTS: dict[str, Phase] = {
    "auto": auto,
    "mined": mined,
    "proposed": proposed,
    "for-policy": for_policy,
    "none": none,
}
