"""Review: a person says which facts read from documents may be used (SymAgent 4.2.1).

The graph stops here with a LangGraph interrupt that shows the facts, and goes on with
`Command(resume=...)`: `"all"`, `"none"`, or `{id: true | false}`. A checkpointer keeps a run that waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.state import State, Step
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.overlay.overlay import overlaid
from triplewise.tools.kg.vocabulary import triple_text

QUESTION = 'Which facts may be used? "all", "none", or {"id": true | false}.'


def review(state: State, runtime: Runtime[Context]) -> Update:
    """Wait for a person's word on the facts that nobody has decided on; the others are left as they are.

    Rejected facts are out of this run, and are never proposed again.
    """
    context, waiting = runtime.context, state.unreviewed
    if not waiting:
        return {}
    decisions = ask(waiting, environment(context).kg)
    accepted = [f for f in waiting if decisions[f.id]]
    rejected = [f for f in waiting if not decisions[f.id]]
    store = environment(context).fact_store
    store.add(waiting)
    store.decide([f.id for f in accepted], "accepted")
    store.decide([f.id for f in rejected], "rejected")
    status: dict[str, FactStatus] = {f.id: "accepted" if decisions[f.id] else "rejected" for f in waiting}
    facts = tuple(replace(f, status=status.get(f.id, f.status)) for f in state.facts)
    if not rejected:
        return {"facts": facts}
    dropped = {f.triple for f in rejected}
    steps: list[Step] = []
    for step in state.steps:
        triples = tuple(t for t in step.feedback.triples if t not in dropped)
        steps.append(replace(step, feedback=replace(step.feedback, triples=triples)))
    sources = "; ".join(f.sentence for f in rejected)
    note = f"A person rejected {len(rejected)} of these triples, do not use what was read from: {sources}"
    steps[-1] = replace(steps[-1], observation=f"{steps[-1].observation}\n{note}")
    return {"facts": facts, "steps": tuple(steps)}


def ask(facts: Sequence[ExtractedFact], kg: KnowledgeGraph) -> dict[str, bool]:
    """Return a person's decision on each fact, by id. What a reply leaves open is asked for again."""
    decisions: dict[str, bool] = {}
    error = ""
    while left := [f for f in facts if f.id not in decisions]:
        texts = triple_text(overlaid(kg, left), [f.triple for f in left])
        shown = [
            {
                "id": fact.id,
                "fact": text,
                "triple": fact.triple.n3(),
                "sentence": fact.sentence,
                "document": fact.document,
                "source": fact.source,
                "confidence": fact.confidence,
                "conflicts": list(fact.conflicts),
            }
            for fact, text in zip(left, texts, strict=True)
        ]
        reply = interrupt({"review": QUESTION, "facts": shown, **({"error": error} if error else {})})
        decisions |= (answers := read_decisions(reply, left))
        error = "" if answers else f"{reply!r} says nothing about them"
    return decisions


def read_decisions(reply: Any, facts: Sequence[ExtractedFact]) -> dict[str, bool]:
    """Return the decisions of a reply on facts by id, which may be cut; {} if it says nothing."""
    if isinstance(reply, str) and reply.lower() in ("all", "none"):
        return {f.id: reply.lower() == "all" for f in facts}
    if not isinstance(reply, Mapping):
        return {}
    words = {str(id).lower(): word for id, word in reply.items() if id and isinstance(word, bool)}
    return {f.id: word for f in facts for id, word in words.items() if f.id.startswith(id)}
