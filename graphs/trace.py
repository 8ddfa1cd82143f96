"""A run as plain data: what `ask --json` prints, evaluations keep, and the page of a run shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg.literals import readable

if TYPE_CHECKING:
    from triplewise.nodes.state import ProofTriple, State, Step
    from triplewise.tools.core.facts import ExtractedFact
    from triplewise.tools.kg.protocol import KnowledgeGraph

LENGTH = 1_200
"""Most characters of a step's observation in a trace."""
MOST = {
    "answer": 200,
    "labels": 200,
    "rows": 40,
    "proof": 40,
    "facts": 20,
    "rules": 12,
    "dropped": 12,
    "memory": 60,
    "observation": 40,
    "written": 20,
}
"""Most entries of a list in a trace; of memory, triples in all."""

Shown: TypeAlias = Callable[[Term], str]
"""A term as a trace holds it: a literal in quotes, everything else is an id."""


def trace_of(state: State, kg: KnowledgeGraph | None = None) -> dict[str, Any]:
    """An ended run as evaluations keep it and the page shows it: some kilobytes, long lists cut.

    It has the keys of `whole_trace`, and besides:

    - `program`; `written`: facts that a model wrote by itself.
    - `memory`: paths of (subject, relation, object). `observation`: `from` entities, `facts` of (subject,
      relation, object, score), and in words what was left out of sight as `cuts`.
    - `names`: id -> label of what is mentioned by id. Facts of the proof, and those read, get `ids`.
    - `cut`: name of a list -> how many of its entries were left out here; a step has `cut` characters.

    Args:
        kg: gives the labels (one query for nodes, one for relations, none that counts as the run's) and the
            short ids. Without it terms are N-Triples, and `names` has the linked entities and answers alone.
    """
    shown: Shown = _shown if kg is None else lambda term: _short(kg, term)
    trace = whole_trace(state)
    trace["steps"] = [_shortened(step) for step in trace["steps"]]
    trace |= {
        "program": state.program,
        "written": list(state.written),
        "memory": [[_fact_of(t, shown) for t in path] for path in state.memory],
        "observation": [[*_fact_of(o.triple, shown), round(o.score, 3)] for o in state.observation],
    }
    if kg is not None:
        for told, proof in zip(trace["proof"], state.answer.proof if state.answer else (), strict=True):
            told["ids"] = _fact_of(proof.triple, shown)
        for told, fact in zip(trace["facts"], state.facts, strict=True):
            told["ids"] = _fact_of(fact.triple, shown)
    trace["cut"] = _cut(trace)
    trace["observation"] = {
        "from": list(state.observed),
        "facts": trace["observation"],
        "cuts": list(state.observation_cuts),
    }
    return trace | {"names": _names(state, trace, kg)}


def whole_trace(state: State) -> dict[str, Any]:
    """An ended run, nothing left out: question, answer, query, proof, rules, steps, corrections, cost."""
    answer = state.answer
    assert answer is not None, "a run that ends has an answer"
    return {
        "question": state.question,
        "status": answer.status,
        "answer": list(answer.values),
        "labels": list(answer.labels),
        "text": answer.text,
        "reason": answer.reason,
        "sparql": answer.sparql,
        "sql": answer.sql,
        "rows": list(answer.rows),
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


def _triple(triple: Triple) -> dict[str, str]:
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
        "error": step.feedback.error,
        "observation": step.observation,
        "guideline": step.guideline,
        "rolled_back": step.rolled_back,
    }


def _shortened(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step whose observation is not too long, cut between two lines where it has some."""
    said, over = step["observation"], len(step["observation"]) - LENGTH
    if over <= 0:
        return dict(step)
    kept = said[:LENGTH]
    kept = kept[: kept.rfind("\n")] if "\n" in kept[LENGTH // 2 :] else kept
    return {**step, "observation": kept, "cut": len(said) - len(kept)}


def _cut(trace: dict[str, Any]) -> dict[str, int]:
    """Cut the lists of a trace, in place, to what `MOST` allows; how many entries each lost."""
    lost = {name: len(trace[name]) - most for name, most in MOST.items() if len(trace[name]) > most}
    paths, room = [], MOST["memory"]
    for path in trace["memory"]:
        if len(path) <= room:
            paths.append(path)
            room -= len(path)
    lost["memory"] = sum(map(len, trace["memory"])) - sum(map(len, paths))
    for name in lost:
        trace[name] = paths if name == "memory" else trace[name][: MOST[name]]
    return {name: count for name, count in lost.items() if count}


def _shown(term: Term) -> str:
    """A term as N-Triples; of a literal only the text, as people read it."""
    return text(readable(term)).n3() if isinstance(term, Literal) else term.n3()


def _short(kg: KnowledgeGraph, term: Term) -> str:
    """A term by its short id; a literal in quotes."""
    return kg.profile.short(term) if isinstance(term, IRI) else _shown(term)


def _fact_of(triple: Triple, shown: Shown) -> list[str]:
    """A fact as three texts."""
    return [shown(triple.subject), shown(triple.relation), shown(triple.object)]


def _names(state: State, trace: Mapping[str, Any], kg: KnowledgeGraph | None) -> dict[str, str]:
    """Labels of the ids that a trace mentions, as far as there are any."""
    names = {e.id: e.label for e in state.linked}
    names |= dict(zip(trace["answer"], trace["labels"], strict=True))
    if kg is not None:
        names |= _looked_up(kg, *_mentioned(state, trace))
        minted = (pair for fact in state.facts for pair in fact.labels.items())
        names |= {kg.profile.short(IRI(node)): label for node, label in minted}
    return {short: label for short, label in names.items() if label and label != short}


def _mentioned(state: State, trace: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Short ids that a trace mentions: of nodes, and of relations."""
    triples = [t for path in trace["memory"] for t in path]
    triples += [p["ids"] for p in (*trace["proof"], *trace["facts"])]
    triples += [o[:3] for o in trace["observation"]["facts"]]
    nodes = {n for s, _, o in triples for n in (s, o) if not n.startswith('"')}
    nodes |= {*state.focus, *state.observed, *(d.anchor for d in state.dropped)}
    relations = {r for _, r, _ in triples} | {r for d in state.dropped for r in d.relations}
    for rule in state.rules:
        relations |= set(rule.relations)
        nodes |= {rule.anchor, *(part for c in rule.constraints for part in (c.operator, c.value))}
    nodes |= {a for s in state.steps for a in s.feedback.arguments if not a.startswith("?")} - relations
    relations |= {r for s in state.steps for r in s.feedback.arguments if _offered(s, r)}
    return nodes - relations - {""}, relations


def _offered(step: Step, argument: str) -> bool:
    """Whether an argument is one of the relations that a step was offered or showed."""
    return any(argument in side for side in step.feedback.relations.values())


def _looked_up(kg: KnowledgeGraph, nodes: Iterable[str], relations: Iterable[str]) -> dict[str, str]:
    """Labels of nodes and of relations."""
    from triplewise.tools.kg.vocabulary import relation_texts

    iris = {n: kg.profile.expand(n) for n in sorted(nodes) if not any(c.isspace() for c in n)}
    found = kg.labels([iri for iri in iris.values() if iri is not None])
    labels = {n: found[iri] for n, iri in iris.items() if iri is not None and iri in found}
    return labels | {r: t.label for r, t in relation_texts(kg, sorted(relations)).items()}
