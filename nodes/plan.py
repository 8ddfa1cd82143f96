"""Plan: symbolic rules that may answer the question (SymAgent 4.1, Agent-Planner)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import encoder_of, kg_of, model_of, prompt_of, seeds_of
from triplewise.nodes.state import State
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import (
    Body,
    ground,
    grow,
    node_form,
    relation_form,
    rename,
    signature,
)
from triplewise.tools.planning.planner import plan as plan_rules
from triplewise.tools.planning.search import PlanSettings
from triplewise.tools.rules import Rule

_PATH = re.compile(r"[\[(]([^\[\]()]+)[\])]")
_ARROW = re.compile(r"-\[([^\]\n]+)\]-")
_CHAIN = re.compile(r"<?-\[[^\]\n]+\]->?(?:[ \t]*\?\w+[ \t]*<?-\[[^\]\n]+\]->?)*")


def mined(state: State, runtime: Runtime[Context]) -> Update:
    """Rules from seed questions where the context names some, else from the neighbourhood. No model call."""
    context = runtime.context
    settings = PlanSettings(
        seed_count=context.seed_count,
        hops=context.plan_hops,
        beam=context.plan_beam,
        rules=context.plan_rules,
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
        demonstrations=_demonstrations(state, rules),
        relations=_around(kg, state),
        limit=context.plan_rules,
    )
    reply = model_of(context).complete([{"role": "user", "content": prompt}])
    proposals = [r for body in parse_bodies(reply.text) for r in _proposals(kg, state, body)]
    known = {r.body for r in proposals}
    return {"rules": (*proposals, *(r for r in rules if r.body not in known))[: context.plan_rules]}


def _demonstrations(state: State, rules: tuple[Rule, ...]) -> list[dict[str, object]]:
    """Mined rules as an example of what rules look like."""
    return [{"question": state.question, "rules": [_path_text(r.body) for r in rules]}] if rules else []


def _path_text(body: Body) -> str:
    """A body as the papers write it: [r1, r2]."""
    return "[" + ", ".join(a.relation for a in body) + "]"


def _around(kg: KnowledgeGraph, state: State) -> list[str]:
    """Relations around the linked entities, readable."""
    found = [a[0].relation for e in state.linked for a in grow(kg, node_form(kg, e.id), ())]
    texts = relation_texts(kg, dict.fromkeys(found))
    return [f"{r} ({t.label})" for r, t in texts.items()][:60]


def parse_bodies(reply: str) -> list[tuple[str, ...]]:
    """Rule bodies in a reply: lists of relation ids in brackets, or chains `-[r1]-> ?x -[r2]-> ?y`."""
    bodies: list[tuple[str, ...]] = []
    for listed in _PATH.findall(_CHAIN.sub(_as_list, reply)):
        bodies.append(tuple(part.strip(" \n'\"`?") for part in re.split(r",|->|∧", listed)))
    return list(dict.fromkeys(b for b in bodies if b and all(b)))


def _as_list(chain: re.Match[str]) -> str:
    """A chain of arrows as a list of its relations."""
    return f"[{', '.join(_ARROW.findall(chain[0]))}]"


def _proposals(kg: KnowledgeGraph, state: State, relations: tuple[str, ...]) -> list[Rule]:
    """A proposal as rules: from every linked entity that it leads on from, else from the first one.

    A KG may lack facts, so a proposal that leads nowhere stays a plan, for documents to fill in (SymAgent
    4.2.1); one that names a relation the KG does not have at all was made up and is dropped.
    """
    forms = [relation_form(kg, r) for r in relations]
    if not all(_is_relation(kg, form) for form in forms):
        return []
    walked = [(node_form(kg, e.id), _walk(kg, node_form(kg, e.id), forms)) for e in state.linked]
    whole = [(anchor, body) for anchor, body in walked if len(body) == len(forms)]
    rules = []
    for anchor, body in whole or walked[:1]:
        ahead = [(form, True) for form in forms[len(body) :]]
        path = rename(kg, [*signature(body), *ahead])
        known = "" if whole else ", with a gap in the graph"
        rules.append(replace(ground(anchor, path), score=1.0, provenance=f"proposed by the model{known}"))
    return rules


def _is_relation(kg: KnowledgeGraph, form: str) -> bool:
    """Whether the KG has any fact of a relation."""
    iri = kg.profile.expand(form, relation=True)
    return iri is not None and kg.query(f"ASK {{ ?s {iri.n3()} ?o }}").boolean is not False


def _walk(kg: KnowledgeGraph, anchor: str, relations: Sequence[str]) -> Body:
    """The relations walked as far as the KG leads, each in a direction it has."""
    body: Body = ()
    for relation in relations:
        steps = [b for b in grow(kg, anchor, body) if b[-1].relation == relation]
        if not steps:
            break
        body = steps[0]
    return body


def for_policy(state: State, runtime: Runtime[Context]) -> Update:
    """No plan for a language model (QueryAgent and ODA as published); the one without follows rules."""
    return mined(state, runtime) if runtime.context.embedded else {"rules": ()}


def none(state: State, runtime: Runtime[Context]) -> Update:
    """No plan (ablation)."""
    return {"rules": ()}


VARIANTS = {"mined": mined, "proposed": proposed, "for-policy": for_policy, "none": none}
