"""Plan: symbolic rules that may answer the question (SymAgent 4.1, Agent-Planner)."""

from __future__ import annotations

import re
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import encoder_of, kg_of, model_of, prompt_of, seeds_of
from triplewise.nodes.state import State
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import Body, ground, grow, node_form, rename
from triplewise.tools.planning.planner import plan as plan_rules
from triplewise.tools.planning.search import PlanSettings
from triplewise.tools.rules import Rule

_PATH = re.compile(r"[\[(]([^\[\]()]+)[\])]")


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """Rules from seed questions where the context names some, else from the neighbourhood. No model call."""
    context = runtime.context
    settings = PlanSettings(
        seed_count=context.seed_count, hops=context.plan_hops, beam=context.plan_beam, rules=context.plan_rules
    )
    rules = plan_rules(
        state.question, state.linked, kg_of(context), encoder_of(context), seeds_of(context), settings
    )
    return {"rules": rules}


def proposed(state: State, runtime: Runtime[Context]) -> Update:
    """The model proposes rule bodies from mined ones as demonstrations (SymAgent, equation 3).

    Proposals are aligned to relations the KG really has around the topic; mined rules follow them. Without
    a language model, the mined rules are the plan.
    """
    update = mined(state, runtime)
    context = runtime.context
    if context.embedded or not state.linked:
        return update
    kg = kg_of(context)
    rules: tuple[Rule, ...] = update["rules"]
    prompt = prompt_of(context).render(
        "plan",
        question=state.question,
        entities={e.label: e.id for e in state.linked},
        demonstrations=[{"question": state.question, "rules": [_path_text(r.body) for r in rules]}] if rules else [],
        relations=_around(kg, state),
        limit=context.plan_rules,
    )
    reply = model_of(context).complete([{"role": "user", "content": prompt}])
    proposals = [r for body in parse_bodies(reply.text) for r in _grounded(kg, state, body)]
    known = {r.body for r in proposals}
    return {"rules": (*proposals, *(r for r in rules if r.body not in known))[: context.plan_rules]}


def _path_text(body: Body) -> str:
    """A body as the papers write it: [r1, r2]."""
    return "[" + ", ".join(a.relation for a in body) + "]"


def _around(kg: KnowledgeGraph, state: State) -> list[str]:
    """Relations around the linked entities, readable."""
    found = [a[0].relation for e in state.linked for a in grow(kg, node_form(kg, e.id), ())]
    texts = relation_texts(kg, dict.fromkeys(found))
    return [f"{r} ({t.label})" for r, t in texts.items()][:60]


def parse_bodies(reply: str) -> list[tuple[str, ...]]:
    """Rule bodies in a reply: bracketed lists of relation ids."""
    bodies = (tuple(p.strip(" '\"`?") for p in re.split(r",|->|∧", m)) for m in _PATH.findall(reply))
    return list(dict.fromkeys(b for b in bodies if b and all(b)))


def _grounded(kg: KnowledgeGraph, state: State, relations: tuple[str, ...]) -> list[Rule]:
    """A proposal walked from a linked entity; relations take the direction the KG has; [] if it leads nowhere."""
    rules = []
    for entity in state.linked:
        anchor, body = node_form(kg, entity.id), ()
        for relation in relations:
            steps = [b for b in grow(kg, anchor, body) if b[-1].relation == relation]
            if not steps:
                break
            body = steps[0]
        else:
            signature = [(a.relation, a.forward) for a in body]
            rules.append(replace(ground(anchor, rename(kg, signature)), score=1.0, provenance="proposed by the model"))
    return rules


def for_policy(state: State, runtime: Runtime[Context]) -> Update:
    """No plan for a language model (QueryAgent and ODA as published); the policy without one follows rules."""
    return mined(state, runtime) if runtime.context.embedded else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


VARIANTS = {"mined": mined, "proposed": proposed, "for-policy": for_policy, "none": none}
