"""Plan: what the question may mean, and how it may be answered.

There are two kinds of plan. Readings are query programs that the parser derives from the question. Rules are
relation paths (SymAgent 4.1) mined from seed questions, i.e. questions with known answers.
Two inputs are not questions (ODA 3.1): a slot (`entity [SEP] relation`) is planned as that relation of the
entity, and a claim to verify as a yes-no question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Run, Update, environment
from triplewise.nodes.link import link
from triplewise.nodes.state import State
from triplewise.tools.actions.pyql import PYQL, take
from triplewise.tools.actions.symbolic import RuleService
from triplewise.tools.actions.toolset import Toolset
from triplewise.tools.core.names import normalise
from triplewise.tools.core.taught import ratings_of
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.parsing.confidence import calibration_for
from triplewise.tools.parsing.reading import Reading, read_question
from triplewise.tools.parsing.statements import denies, form_of, slot_of, slot_readings
from triplewise.tools.planning.mining import Plan, PlanSettings, seed_plan, seed_rules
from triplewise.tools.planning.paths import grow, node_form
from triplewise.tools.planning.proposals import demonstrate, parse_paths, with_proposals
from triplewise.tools.retrieval.encoder import Encoder, vectors_of

SHOWN = 60  # Most relations around the linked entities that a model is shown
REPLANNED = 3  # Most sub-questions that get a plan of their own in one run
MARKED_RIGHT = 0.99  # Confidence of a reading that a person marked right
READINGS, UNLIKELY = 3, 0.01  # Most readings that a model may choose from; least confidence after the best


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """Without a model: readings. With a model: rules if there are seed questions, otherwise no plan.

    With the setting `cascade`, a reading of at least that confidence replaces the model (PyQL only). Rules
    made without seed questions did not pay for their tokens: see docs/results.md.
    """
    env, context = environment(runtime), runtime.context
    if context.cascade is not None and not context.offline and env.toolset.name == PYQL.name:
        readings = readings_of(state, env)
        if is_sure(readings, context):
            return {"readings": readings, "rules": ()}
    return mined(state, runtime) if context.offline or env.seeds is not None else {"rules": ()}


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """Plan without a model call: readings, or rules of seed questions where a model follows the plan."""
    env = environment(runtime)
    if env.context.offline:
        return {"readings": readings_of(state, env)}
    plan = _mined_plan(state, env)
    return {"rules": plan.rules, "dropped": plan.dropped}


def proposed(state: State, runtime: Runtime[Context]) -> Update:
    """Let the model propose paths, given similar seed questions and their paths; then add mined ones."""
    context = runtime.context
    if context.offline or not state.linked:
        return mined(state, runtime)
    env = environment(runtime)
    kg, linked = env.kg, state.linked
    # SymAgent, equation 1: closed paths of the seed questions, scored by how well they give the answers.
    plan = _mined_plan(state, env)
    # Equation 3: the planner writes paths from the question, the demonstrations and the KG's relations.
    prompt = env.prompt.render(
        "plan",
        question=state.question,
        entities={e.label: e.id for e in linked},
        demonstrations=demonstrate(state.question, state.linked, kg, env.seeds, context.seed_count),
        relations=relations_around(kg, env.encoder, state),
        limit=context.plan_rules,
    )
    plan = with_proposals(plan, parse_paths(env.ask(prompt).text), linked, kg, env.encoder, settings_of(env))
    return {"rules": plan.rules, "dropped": plan.dropped}


def for_policy(state: State, runtime: Runtime[Context]) -> Update:
    """No plan for a model (QueryAgent and ODA as published); without a model, the readings to follow."""
    return mined(state, runtime) if runtime.context.offline else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


def with_readings(state: State, runtime: Runtime[Context]) -> Update:
    """Show a model the readings, to take one or to build on it."""
    return {"readings": readings_of(state, environment(runtime)), "rules": ()}


VARIANTS = {"auto": auto, "mined": mined, "proposed": proposed, "readings": with_readings}
VARIANTS |= {"for-policy": for_policy, "none": none}


def shown_readings(state: State, env: Environment) -> tuple[Reading, ...]:
    """Return the readings that a model may choose from; () once `cascade` has carried out the best one."""
    is_shown = not env.context.offline and env.toolset.name == PYQL.name
    likely = (r for i, r in enumerate(state.readings[:READINGS]) if r.confidence >= UNLIKELY or not i)
    return tuple(likely) if is_shown and not is_sure(state.readings, env.context) else ()


def toolset_of(state: State, env: Environment) -> Toolset:
    """Return the actions of this step, `take` among them where the model is shown readings."""
    return env.toolset.extended(take) if shown_readings(state, env) else env.toolset


def settings_of(env: Environment) -> PlanSettings:
    """Return the settings of rule mining."""
    context, documents = env.context, env.context.documents is not None
    return PlanSettings(context.seed_count, context.plan_rules, context.plan_hops, documents)


def is_sure(readings: Sequence[Reading], context: Context) -> bool:
    """Return whether the best reading reaches the confidence from which `cascade` needs no model."""
    least = context.cascade
    return least is not None and any(r.features and r.confidence >= least for r in readings[:1])


def readings_of(state: State, env: Environment) -> tuple[Reading, ...]:
    """Return the readings of a question, slot or claim: best first, those a person marked right before all.

    Those marked wrong are left out. () for a negated claim ("was never married"), which would be inverted.
    """
    asked = state.question, tuple(e.id for e in state.linked)
    if asked in env.readings:
        return env.readings[asked]
    slot, kg = slot_of(state.question), env.context.kg
    if slot is not None:
        readings = slot_readings(slot[1], state.linked, env.kg, env.encoder)
    else:
        is_inverted = form_of(state.question) == "claim" and denies(state.question)
        readings = () if is_inverted else _parsed(state, env)
    ratings = ratings_of(kg, state.question) if isinstance(kg, str) else {}
    not_rejected = [r for r in readings if ratings.get(r.program) != "wrong"]
    accepted = [r for r in not_rejected if r.program in ratings]
    right = (replace(r, confidence=MARKED_RIGHT, provenance="a person marked it right") for r in accepted)
    env.readings[asked] = (*right, *(r for r in not_rejected if r not in accepted))
    return env.readings[asked]


def _parsed(state: State, env: Environment) -> tuple[Reading, ...]:
    """Return what the parser reads in a question, or in a claim as a yes-no question."""
    context, is_claim, known = env.context, form_of(state.question) == "claim", env.seeds
    is_given = any(not e.candidates or e.candidates[0].kind == "given" for e in state.linked)
    # With None the parser links entities itself, as in a claim, which names more than its topic.
    entities = {e.mention: e.id for e in state.linked} if is_given and not is_claim else None
    seeds = partial(seed_rules, kg=env.kg, seeds=known, count=context.seed_count) if known else None
    text = f"Is {state.question}" if is_claim else state.question
    readings = read_question(text, env.kg, env.encoder, entities, seeds, context.plan_rules, state.turns)
    readings = tuple(r for r in readings if not is_claim or r.values in (("true",), ("false",)))
    if context.calibration is None:
        return readings
    calibration = calibration_for(env.kg, context.calibration)
    return tuple(replace(r, confidence=calibration.probability(r.features)) for r in readings)


def _mined_plan(state: State, env: Environment) -> Plan:
    """Return rules of seed questions that find something from the linked entities (SymAgent, eq. 1)."""
    if env.seeds is None or not state.linked:
        return Plan()
    return seed_plan(state.question, state.linked, env.kg, env.seeds, settings_of(env))


def relations_around(kg: KnowledgeGraph, encoder: Encoder, state: State) -> list[str]:
    """Return relations around the linked entities as `id (label)`; `^id` from object to subject."""
    atoms = [b[0] for e in state.linked for b in grow(kg, node_form(kg, e.id), ())]
    steps = list(dict.fromkeys((a.relation, a.forward) for a in atoms))
    texts = relation_texts(kg, [r for r, _ in steps])
    labels = {s: texts[s[0]].label if s[1] else texts[s[0]].inverse or texts[s[0]].label for s in steps}
    if len(steps) > SHOWN:
        vectors = vectors_of(kg, encoder).vectors([labels[s] for s in steps])
        order = np.argsort(-(vectors @ encoder.encode([state.question])[0]), kind="stable")
        steps = [steps[i] for i in order[:SHOWN]]
    return [f"{'' if forward else '^'}{r} ({labels[r, forward]})" for r, forward in steps]


def rule_service(state: State, env: Environment) -> RuleService:
    """Return what get_rules calls: rules of the question, or of `REPLANNED` parts of it (SymAgent 4.2.1)."""

    def rules(question: str) -> Sequence[str]:
        earlier = (" ".join(s.feedback.arguments) for s in state.steps if s.feedback.action == "get_rules")
        whole = ("", normalise(state.question))
        planned = {part for text in earlier if (part := normalise(text)) not in whole}
        plan: Update = {}
        if normalise(question) not in whole and len(planned) < REPLANNED:
            runtime, sub = Run(context=env.context, env=env), State(question=question)
            linked = link(sub, runtime)["linked"] or state.linked
            plan = proposed(sub.model_copy(update={"linked": linked}), runtime)
        return [r.text() for r in plan.get("rules") or state.rules]

    return rules
