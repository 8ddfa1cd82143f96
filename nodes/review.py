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
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import Update
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import triple_text
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.core.terms import Triple
from triplewise.tools.kg.overlay.overlay import overlaid

ASKED = 'Which facts may be used? "all", "none", or {"id": true | false}.'
_YES = {True: True, False: False, "all": True, "none": False, "y": True, "n": False, "yes": True, "no": False}


def review(state: State, runtime: Runtime[Context]) -> Update:
    """Wait for a person's word on the facts that nobody has decided on; the others are left as they are.

    Rejected facts are out of this run, and are never proposed again.
    """
    context, waiting = runtime.context, state.unreviewed
    if not waiting:
        return {}
    said = ask(waiting, environment(context).kg)
    store = environment(context).fact_store
    store.add(waiting)
    store.accept([f.id for f in waiting if said[f.id]])
    store.reject([f.id for f in waiting if not said[f.id]])
    facts = tuple(replace(f, status=_status(said[f.id])) if f.id in said else f for f in state.facts)
    gone = frozenset(f.triple for f in waiting if not said[f.id])
    return {"facts": facts, "steps": _without(state.steps, gone, [f for f in waiting if not said[f.id]])}


def _status(yes: bool) -> FactStatus:
    return "accepted" if yes else "rejected"


def ask(facts: Sequence[ExtractedFact], kg: Any) -> dict[str, bool]:
    """A person's word on each fact, by id. What is left out, or is no word on it, is asked for again."""
    said: dict[str, bool] = {}
    error = ""
    while left := [f for f in facts if f.id not in said]:
        reply = interrupt(payload(left, kg, error))
        said |= (answers := read(reply, left))
        error = "" if answers else f"{reply!r} says nothing about them"
    return said


def payload(facts: Sequence[ExtractedFact], kg: Any, error: str = "") -> dict[str, Any]:
    """What a person is shown, as plain JSON."""
    texts = triple_text(overlaid(kg, facts), [f.triple for f in facts])
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
        for fact, text in zip(facts, texts, strict=True)
    ]
    return {"review": ASKED, "facts": shown, **({"error": error} if error else {})}


def read(reply: Any, facts: Sequence[ExtractedFact]) -> dict[str, bool]:
    """A reply as a word on facts by id; {} for one that says nothing about them."""
    if isinstance(reply, Mapping):
        words = {str(i): _word(word) for i, word in reply.items()}
        return {
            f.id: word
            for f in facts
            for i, word in words.items()
            if word is not None and i and f.id.startswith(i.lower())
        }
    word = _word(reply)
    return {} if word is None else {f.id: word for f in facts}


def _word(word: Any) -> bool | None:
    """Yes, no, or neither."""
    if isinstance(word, str):
        return _YES.get(word.strip().lower())
    return word if isinstance(word, bool) else None


def _without(
    steps: Sequence[Step], gone: frozenset[Triple], rejected: Sequence[ExtractedFact]
) -> tuple[Step, ...]:
    """The steps without rejected triples; the newest one says so to the agent."""
    if not gone:
        return tuple(steps)
    kept = [
        replace(
            s, feedback=replace(s.feedback, triples=tuple(t for t in s.feedback.triples if t not in gone))
        )
        for s in steps
    ]
    names = "; ".join(f.sentence for f in rejected)
    note = f"A person rejected {len(rejected)} of these triples, do not use what was read from: {names}"
    return (*kept[:-1], replace(kept[-1], observation=f"{kept[-1].observation}\n{note}"))
