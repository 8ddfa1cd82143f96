"""A run as plain data: what `ask --json` prints, evaluations keep, and the page of a run shows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triplewise.nodes.state import ProofTriple, State, Step
    from triplewise.tools.facts.base import ExtractedFact


def trace_of(state: State) -> dict[str, Any]:
    """An ended run: question, answer, query, proof, rules, steps, corrections, cost; as JSON holds them."""
    answer = state.answer
    assert answer is not None, "a run that ends has an answer"
    return {
        "question": state.question,
        "status": answer.status,
        "answer": answer.values,
        "labels": answer.labels,
        "text": answer.text,
        "reason": answer.reason,
        "sparql": answer.sparql,
        "sql": answer.sql,
        "rows": answer.rows,
        "proof": [{**_triple(p.triple), "text": p.text, **_origin(p)} for p in answer.proof],
        "facts": [_fact(f) for f in state.facts],
        "entities": [
            {"mention": e.mention, "id": e.id, "label": e.label, "score": round(e.score, 4)}
            for e in state.linked
        ],
        "rules": [
            {
                "rule": r.text(),
                "provenance": r.provenance,
                "support": r.support,
                "precision": round(r.precision, 4),
                "recall": round(r.recall, 4),
                "score": round(r.score, 4),
            }
            for r in state.rules
        ],
        "dropped": [asdict(d) for d in state.dropped],
        "steps": [_step(s) for s in state.steps],
        "corrections": [asdict(c) for c in answer.corrections],
        "usage": asdict(answer.usage),
    }


def _triple(triple: Any) -> dict[str, str]:
    """A fact as N-Triples terms."""
    return {"subject": triple.subject.n3(), "relation": triple.relation.n3(), "object": triple.object.n3()}


def _origin(proof: ProofTriple) -> dict[str, object]:
    """Where a fact of the proof was read, if not in the KG."""
    if not proof.fact:
        return {}
    read = {"id": proof.fact, "document": proof.document, "source": proof.source, "sentence": proof.sentence}
    return {"from_document": read}


def _fact(fact: ExtractedFact) -> dict[str, object]:
    """A fact read from a document for this question."""
    known = {name: value for name, value in asdict(fact).items() if name != "triple"}
    return {"id": fact.id, **_triple(fact.triple), **known}


def _step(step: Step) -> dict[str, Any]:
    """A step of the trajectory."""
    return {
        "number": step.number,
        "thought": step.thought,
        "action": step.call,
        "outcome": str(step.feedback.outcome),
        "observation": step.observation,
        "guideline": step.guideline,
        "rolled_back": step.rolled_back,
    }
