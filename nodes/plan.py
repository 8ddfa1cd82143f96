"""Plan: what the question may mean, and how it may be answered.

Two kinds of plan. Readings: candidate query programs of the parser. Rules: relation paths (SymAgent 4.1) from
seed questions, i.e. questions with known answers.
A question may also be a slot (`entity [SEP] relation`), planned as that one relation of the entity, or a
claim, planned as the question whether it is so (ODA, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from triplewise.tools.planning.mining import Plan, PlanSettings, seed_chains, seed_plan
from triplewise.tools.planning.paths import grow, node_form
from triplewise.tools.planning.proposals import demonstrate, parse_paths, with_proposals
from triplewise.tools.retrieval.encoder import Encoder, vectors_of

SHOWN = 60  # Relations around the linked entities that a model is shown
REPLANNED = 3  # Sub-questions that are planned for in one run
MARKED_RIGHT = 0.99  # Confidence of a reading that a person marked right
READINGS = 3  # Readings that a model is shown, and may take


def auto(state: State, runtime: Runtime[Context]) -> Update:
    """No model: readings. A model with seeds: rules. A model without seeds: no plan.

    With `cascade`, a reading at or above that confidence is run without a call (PyQL only). Without seeds,
    rules cost a model more than they gave: see docs/results.md.
    """
    env, context = environment(runtime), runtime.context
    if context.cascade is not None and not context.embedded and env.toolset.name == PYQL.name:
        readings = readings_of(state, env)
        if is_sure(readings, context):
            return {"readings": readings, "rules": ()}
    return mined(state, runtime) if context.embedded or env.seeds is not None else {"rules": ()}


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """The plan without a model call: readings, or for a model the rules of seed questions."""
    env = environment(runtime)
    if env.context.embedded:
        return {"readings": readings_of(state, env)}
    plan = _mined_plan(state, env)
    return {"rules": plan.rules, "dropped": plan.dropped}


def proposed(state: State, runtime: Runtime[Context]) -> Update:
    """The model proposes paths, shown like seed questions with theirs (SymAgent, eq. 3); mined ones next."""
    context = runtime.context
    if context.embedded or not state.linked:
        return mined(state, runtime)
    env = environment(runtime)
    kg, linked = env.kg, state.linked
    # Equation 1: closed paths of the seed questions, scored by how well they give the seeds' answers.
    plan = _mined_plan(state, env)
    # Equation 3: the planner writes paths, shown the question, the demonstrations and the KG's relations.
    prompt = env.prompt.render(
        "plan",
        question=state.question,
        entities={e.label: e.id for e in linked},
        demonstrations=demonstrations_for(state, env),
        relations=relations_around(kg, env.encoder, state),
        limit=context.plan_rules,
    )
    paths = parse_paths(env.ask(prompt).text)
    plan = with_proposals(plan, paths, linked, kg, env.encoder, settings_of(env))
    return {"rules": plan.rules, "dropped": plan.dropped}


def for_policy(state: State, runtime: Runtime[Context]) -> Update:
    """No plan for a language model (QueryAgent and ODA as published); the one without follows readings."""
    return mined(state, runtime) if runtime.context.embedded else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


def read(state: State, runtime: Runtime[Context]) -> Update:
    """The readings, for a model to take one or to change it."""
    return {"readings": readings_of(state, environment(runtime)), "rules": ()}


VARIANTS = {"auto": auto, "mined": mined, "proposed": proposed, "readings": read}
VARIANTS |= {"for-policy": for_policy, "none": none}


def shown_readings(state: State, env: Environment) -> tuple[Reading, ...]:
    """Return the readings that a model is shown, and may take: none that `cascade` has tried without it."""
    is_shown = not env.context.embedded and env.toolset.name == PYQL.name
    return state.readings[:READINGS] if is_shown and not is_sure(state.readings, env.context) else ()


def toolset_of(state: State, env: Environment) -> Toolset:
    """Return the actions that may be taken in this step: a model that is shown readings may take one."""
    return env.toolset.extended(take) if shown_readings(state, env) else env.toolset


def settings_of(env: Environment) -> PlanSettings:
    """Return what the settings say about rules."""
    context, documents = env.context, env.context.documents is not None
    return PlanSettings(context.seed_count, context.plan_rules, context.plan_hops, documents)


def is_sure(readings: Sequence[Reading], context: Context) -> bool:
    """Whether `cascade` takes the best reading without asking a model."""
    least = context.cascade
    return least is not None and any(r.features and r.confidence >= least for r in readings[:1])


def readings_of(state: State, env: Environment) -> tuple[Reading, ...]:
    """Return the readings of a question, slot or claim, best first, as a person marked them.

    () for a claim that denies ("was never married"): yes and no would change places.
    """
    context, question, readings = env.context, state.question, tuple[Reading, ...]()
    slot, is_claim = slot_of(question), form_of(question) == "claim"
    if slot is not None:
        readings = slot_readings(slot[1], state.linked, env.kg, env.encoder)
    elif not (is_claim and denies(question)):
        # The entities, where a caller or a person named them; None where linking found them.
        is_given = any(not e.candidates or e.candidates[0].kind == "given" for e in state.linked)
        # The topic of a claim is not all that it names.
        entities = {e.mention: e.id for e in state.linked} if is_given and not is_claim else None
        seeds = seed_chains(env.kg, env.seeds, context.seed_count) if env.seeds is not None else None
        asked = f"Is {question}" if is_claim else question
        readings = read_question(asked, env.kg, env.encoder, entities, seeds, context.plan_rules)
        readings = tuple(r for r in readings if not is_claim or r.values in (("true",), ("false",)))
        if context.calibration is not None:
            calibration = calibration_for(env.kg, context.calibration)
            readings = tuple(replace(r, confidence=calibration.probability(r.features)) for r in readings)
    ratings = ratings_of(context.kg, question) if isinstance(context.kg, str) else {}
    not_rejected = [r for r in readings if ratings.get(r.program) != "wrong"]
    accepted = [r for r in not_rejected if r.program in ratings]
    sure = (replace(r, confidence=MARKED_RIGHT, provenance="a person marked it right") for r in accepted)
    return (*sure, *(r for r in not_rejected if r not in accepted))


def _mined_plan(state: State, env: Environment) -> Plan:
    """Return the rules of seed questions that lead somewhere (SymAgent, equation 1)."""
    if env.seeds is None or not state.linked:
        return Plan()
    return seed_plan(state.question, state.linked, env.kg, env.seeds, settings_of(env))


def demonstrations_for(state: State, env: Environment) -> list[dict[str, object]]:
    """Return seed questions like this one, each with its own paths; [] without seeds."""
    seeds, count = env.seeds, env.context.seed_count
    return [] if seeds is None else demonstrate(state.question, state.linked, env.kg, seeds, count)


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


def rule_service(state: State, env: Environment) -> RuleService:
    """Return the service of get_rules: the plan for the question, or for a part of it (SymAgent 4.2.1)."""

    def rules(question: str) -> Sequence[str]:
        parts = (" ".join(s.feedback.arguments) for s in state.steps if s.feedback.action == "get_rules")
        whole = ("", normalise(state.question))
        planned = {part for text in parts if (part := normalise(text)) not in whole}
        own: Update = {}
        if normalise(question) not in whole and len(planned) < REPLANNED:
            runtime, sub = Run(context=env.context, env=env), State(question=question)
            linked = link(sub, runtime)["linked"] or state.linked
            own = proposed(sub.model_copy(update={"linked": linked}), runtime)
        return [r.text() for r in own.get("rules") or state.rules]

    return rules
