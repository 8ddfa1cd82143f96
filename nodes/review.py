"""Review: a person decides which facts read from documents may be used (SymAgent 4.2.1), or what was meant.

The graph stops here with a LangGraph interrupt that shows the facts, and continues with
`Command(resume=...)`: `"all"`, `"none"`, or `{id: true | false}`. For an unsure answer it shows the readings
and continues with the number of one. A checkpointer keeps a run that waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from triplewise.nodes.answer import answer_of_reading
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.link import begin
from triplewise.nodes.result import UNSURE
from triplewise.nodes.state import Rival, State, Step
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import triple_text
from triplewise.tools.linking.linker import EntityCandidate, LinkedEntity
from triplewise.tools.overlay.overlay import overlaid

QUESTION = 'Which facts may be used? "all", "none", or {"id": true | false}.'
CHOICE = "Which reading is meant, or which other meaning of a mention? Its number, or 0 for none of them."
MEANINGS, SHOWN = 4, 10  # Most meanings of a mention, and most answers of a reading, that a person is shown


def review(state: State, runtime: Runtime[Context]) -> Update:
    """Wait for a person's decision on the facts that are not reviewed yet; rejected ones are removed."""
    env, waiting = environment(runtime), state.unreviewed
    if not waiting:
        return {}
    decisions, store = ask(waiting, env.kg), env.fact_store
    store.add(waiting)
    statuses: tuple[FactStatus, ...] = ("rejected", "accepted")
    facts = tuple(replace(f, status=statuses[decisions[f.id]]) for f in waiting)
    for status in statuses:
        store.decide([f.id for f in facts if f.status == status], status)
    if not (rejected := [f for f in facts if f.status == "rejected"]):
        return {"facts": facts}
    dropped = {f.triple for f in rejected}

    def without(step: Step) -> Step:
        triples = tuple(t for t in step.feedback.triples if t not in dropped)
        return replace(step, feedback=replace(step.feedback, triples=triples))

    *steps, last = map(without, state.steps)
    sources = "; ".join(f.sentence for f in rejected)
    note = f"A person rejected {len(rejected)} of these triples, do not use what was read from: {sources}"
    return {"facts": facts, "steps": (*steps, replace(last, observation=f"{last.observation}\n{note}"))}


def ask(facts: Sequence[ExtractedFact], kg: KnowledgeGraph) -> dict[str, bool]:
    """Return a person's decision on each fact, by id; the interrupt is repeated for undecided ones."""
    decisions, error = dict[str, bool](), dict[str, str]()
    while left := [f for f in facts if f.id not in decisions]:
        shown, texts = list[dict[str, Any]](), triple_text(overlaid(kg, left), [f.triple for f in left])
        for fact, text in zip(left, texts, strict=True):
            about = {n: getattr(fact, n) for n in ("id", "sentence", "document", "source", "confidence")}
            shown.append({**about, "fact": text, "triple": fact.triple.n3(), "conflicts": [*fact.conflicts]})
        reply = interrupt({"review": QUESTION, "facts": shown, **error})
        decisions |= (answers := read_decisions(reply, left))
        error = {} if answers else {"error": f"{reply!r} decides none of them"}
    return decisions


def read_decisions(reply: Any, facts: Sequence[ExtractedFact]) -> dict[str, bool]:
    """Return the decisions of a reply, by fact id; it may abbreviate ids. {} if it decides nothing."""
    if isinstance(reply, str) and reply.lower() in ("all", "none"):
        return {f.id: reply.lower() == "all" for f in facts}
    if not isinstance(reply, Mapping):
        return {}
    words = {str(id).lower(): word for id, word in reply.items() if id and isinstance(word, bool)}
    return {f.id: word for f in facts for id, word in words.items() if f.id.startswith(id)}


def _options(
    readings: Sequence[Rival], meanings: Iterable[tuple[LinkedEntity, EntityCandidate]]
) -> list[dict[str, Any]]:
    """Return readings, then other meanings of mentions, as a person is shown them, numbered from 1."""
    options: list[dict[str, Any]] = [
        {"answers": [*r.labels[:SHOWN]], "confidence": r.confidence, "query": r.sparql, "reading": r.reading}
        for r in readings
    ]
    about = ("id", "label", "description")
    options += [{"mention": e.mention} | {name: getattr(c, name) for name in about} for e, c in meanings]
    return [{"number": number, **option} for number, option in enumerate(options, 1)]


def choose(state: State, runtime: Runtime[Context]) -> Update:
    """Wait for a person to pick a reading of an unsure answer, another meaning (planned anew), or 0: none."""
    env, answer = environment(runtime), state.answer
    assert answer is not None
    own = state.followed.text if env.context.offline and state.followed else "the query of the model"
    sure = answer.confidence or 0.0
    readings = [Rival(own, answer.values, answer.labels, answer.sparql, sure), *answer.rivals]
    meanings = [(e, c) for e in state.linked for c in e.candidates[:MEANINGS] if c.id != e.id]
    options = _options(readings, meanings)
    value = {"choose": CHOICE, "readings": options[: len(readings)], "meanings": options[len(readings) :]}
    reply = interrupt(value)
    while not (str(reply).strip().isdecimal() and int(reply) <= len(options)):
        reply = interrupt({**value, "error": f"{reply!r} is not a number from 0 to {len(options)}"})
    number, note = int(reply), f"a person picked reading {int(reply)} of {len(readings)}"
    if number == 0:
        return {"answer": answer}
    if number > len(readings):
        entity, meaning = meanings[number - len(readings) - 1]
        given = replace(meaning, kind="given")
        only = replace(entity, id=meaning.id, label=meaning.label, score=meaning.score, candidates=(given,))
        return {**begin(tuple(only if e is entity else e for e in state.linked)), "usage": state.usage}
    if number == 1:
        text = answer.text.removeprefix(UNSURE)
        return {"answer": replace(answer, status="answered", text=text, confidence=None, reason=note)}
    rival = readings[number - 1]
    place = next(i for i, r in enumerate(state.readings) if r.text == rival.reading)
    reading, rivals = state.readings[place], tuple(r for r in answer.rivals if r is not rival)
    picked = replace(answer_of_reading(reading, state, env, note), rivals=rivals)
    return {"attempt": place, "program": reading.program, "answer": picked}
