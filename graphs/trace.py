"""A run as plain data: what `ask --json` prints, evaluations keep, and the page of a run shows."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg.literals import readable

if TYPE_CHECKING:
    from triplewise.nodes.state import Answer, State
    from triplewise.tools.kg.profile import Profile
    from triplewise.tools.kg.protocol import KnowledgeGraph

DOING = {
    "link": "finding the entities",
    "plan": "planning",
    "observe": "looking around",
    "act": "acting",
    "inspect": "inspecting",
    "correct": "correcting",
    "review": "waiting for your word",
    "choose": "waiting for your word",
    "reflect": "reflecting",
    "answer": "collecting the proof",
}
"""What each phase does, in words."""
LENGTH = 1_200
"""Most characters of a step's observation in a trace."""
MOST = {"answer": 200, "labels": 200, "memory": 60, "rules": 12, "dropped": 12, "facts": 20, "written": 20}
MOST |= {"iris": 200, "readings": 8, "rows": 40, "proof": 40, "observation": 40}
"""Most entries of a list in a trace; of memory, triples in all."""
_QUOTED = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LIST = re.compile(rf"\[({_QUOTED}(?:, {_QUOTED})*)(, \.\.\.[^\]']*)?\]")
"""A list as Python writes it, which a model is shown."""
_NUMBER = re.compile(r"[-+]?\d[\d.,:TZ+-]*")


def trace_of(state: State, kg: KnowledgeGraph | None = None) -> dict[str, Any]:
    """Return an ended run as evaluations keep it and the page shows it: some kilobytes, long lists cut.

    It has the keys of `whole_trace`, and besides:

    - `program`; `written`: facts that a model wrote by itself. `followed`: index of the reading that gave the
      answer, or None. `types`: relations that lead to a class.
    - `memory`: paths of (subject, relation, object). `observation`: `from` entities, `facts` of (subject,
      relation, object, score), and in words what was left out of sight as `cuts`.
    - `names`: id -> label of what is mentioned by id. Facts of the proof, and those read, get `ids`.
    - `cut`: name of a list -> how many of its entries were left out here; a step has `cut` characters.

    What only the model was told is left out: a step has what its action showed, a correction what was wrong.

    Args:
        kg: gives the labels (one query for nodes, one for relations, none that counts as the run's) and the
            short ids. Without it terms are N-Triples, and `names` has the linked entities and answers alone.
    """

    profile = kg.profile if kg is not None else None
    trace = whole_trace(state, profile)
    trace["corrections"] = [
        {name: value for name, value in correction.items() if name != "text"}
        for correction in trace["corrections"]
    ]
    for step, whole in zip(trace["steps"], (s.feedback.observation for s in state.steps), strict=True):
        step |= _shortened(whole if whole.startswith("{") else in_words(whole))
    trace |= {
        "program": state.program,
        "followed": state.attempt if state.followed is not None and state.followed.features else None,
        "types": [profile.short(IRI(p)) for p in profile.type_predicates] if profile is not None else [],
        "written": list(state.written),
        "memory": [[_ids(t, profile) for t in path] for path in state.memory],
        "observation": [[*_ids(o.triple, profile), round(o.score, 3)] for o in state.observation],
    }
    if profile is not None:
        for fact, proof in zip(trace["proof"], state.answer.proof if state.answer else (), strict=True):
            fact["ids"] = _ids(proof.triple, profile)
        for fact, extracted in zip(trace["facts"], state.facts, strict=True):
            fact["ids"] = _ids(extracted.triple, profile)
    _cut(trace)
    facts = {"facts": trace["observation"], "cuts": list(state.observation_cuts)}
    trace["observation"] = {"from": list(state.observed), **facts}
    return trace | {"names": _names(state, trace, kg)}


def _ids(triple: Triple, profile: Profile | None) -> list[str]:
    """Return the terms of a fact as ids, and literals in quotes as people read them."""

    def shown(term: Term) -> str:
        if isinstance(term, Literal):
            return text(readable(term)).n3()
        return profile.short(term) if profile is not None and isinstance(term, IRI) else term.n3()

    return [shown(triple.subject), shown(triple.relation), shown(triple.object)]


def _shortened(whole: str) -> dict[str, Any]:
    """Return the beginning of an observation, up to a line end where there is one, and what was cut."""
    part = whole[:LENGTH]
    if len(whole) <= LENGTH:
        return {"observation": part}
    part = part[: part.rfind("\n")] if "\n" in part[LENGTH // 2 :] else part
    return {"observation": part, "cut": len(whole) - len(part)}


def _cut(trace: dict[str, Any]) -> None:
    """Shorten the lists of a trace, and note as `cut` how much."""
    cut = {name: len(trace.get(name, ())) - most for name, most in MOST.items() if name != "memory"}
    cut = {name: count for name, count in cut.items() if count > 0}
    trace |= {name: trace[name][: MOST[name]] for name in cut}
    paths, free = [], MOST["memory"]
    for path in trace["memory"]:
        if len(path) <= free:
            paths.append(path)
            free -= len(path)
        else:
            cut["memory"] = cut.get("memory", 0) + len(path)
    trace |= {"memory": paths, "cut": cut}


def in_words(observation: str) -> str:
    """Return an observation for people: lists without brackets and quotes."""

    def plain(match: re.Match[str]) -> str:
        return ", ".join(str(literal_eval(part)) for part in re.findall(_QUOTED, match[1])) + (match[2] or "")

    return _LIST.sub(plain, observation)


def iris_of(answer: Answer, profile: Profile) -> list[str]:
    """Return the full IRI of each value of an answer, "" for a literal."""
    terms = [term for fact in answer.proof for term in (fact.triple.subject, fact.triple.object)]
    nodes = {profile.short(term): term.value for term in terms if isinstance(term, IRI)}
    literals = {"true", "false", *(profile.short(term) for term in terms if isinstance(term, Literal))}

    def full(value: str) -> str:
        if value in nodes or value in literals or _NUMBER.fullmatch(value):
            return nodes.get(value, "")
        iri = profile.expand(value)
        return iri.value if iri is not None else ""

    return [full(value) for value in answer.values]


def whole_trace(state: State, profile: Profile | None = None) -> dict[str, Any]:
    """Return an ended run, nothing left out: answer, query, proof, plan, steps, corrections, cost.

    With a profile it has `iris` too, the full IRI of each value of the answer.
    """
    answer = state.answer
    assert answer is not None, "a run that ends has an answer"
    plain = asdict(answer)
    proof, facts = [], []
    for p in answer.proof:
        read = {"id": p.fact, "document": p.document, "source": p.source, "sentence": p.sentence}
        proof.append({**_terms(p.triple), "text": p.text, **({"from_document": read} if p.fact else {})})
    for f in state.facts:
        provenance = {name: value for name, value in asdict(f).items() if name != "triple"}
        facts.append({"id": f.id, **_terms(f.triple), **provenance})
    words = (
        "labels",
        "text",
        "reason",
        "note",
        "confidence",
        "unaccounted",
        "rivals",
        "sparql",
        "sql",
        "rows",
    )
    return {
        "question": state.question,
        "status": answer.status,
        "answer": answer.values,
        **({"iris": iris_of(answer, profile)} if profile is not None else {}),
        **{name: plain[name] for name in words},
        "proof": proof,
        "facts": facts,
        "entities": [
            {"mention": e.mention, "id": e.id, "label": e.label, "score": round(e.score, 4)}
            for e in state.linked
        ],
        "readings": [
            {"reading": r.text, "program": r.program, "provenance": r.provenance, "answer": r.values}
            | {"confidence": round(r.confidence, 4), "uncovered": r.uncovered}
            for r in state.readings
        ],
        "rules": [
            {"rule": r.text(), "provenance": r.provenance, "support": r.support}
            | {name: round(getattr(r, name), 4) for name in ("precision", "recall", "score")}
            for r in state.rules
        ],
        "dropped": [asdict(d) for d in state.dropped],
        "steps": [
            {"number": s.number, "thought": s.thought, "action": s.call, "outcome": str(s.feedback.outcome)}
            | {"error": s.feedback.error, "observation": s.observation}
            | {"guideline": s.guideline, "rolled_back": s.rolled_back}
            for s in state.steps
        ],
        "corrections": plain["corrections"],
        "usage": plain["usage"],
    }


def _terms(triple: Triple) -> dict[str, str]:
    """Return a fact as N-Triples terms."""
    return {"subject": triple.subject.n3(), "relation": triple.relation.n3(), "object": triple.object.n3()}


def _names(state: State, trace: Mapping[str, Any], kg: KnowledgeGraph | None) -> dict[str, str]:
    """Return the labels of the ids that a trace mentions, as far as there are any."""
    names = {e.id: e.label for e in state.linked}
    names |= dict(zip(trace["answer"], trace["labels"], strict=True))
    if kg is not None:
        from triplewise.tools.kg.vocabulary import relation_texts

        nodes, relations = _mentioned(state, trace)
        known = sorted(n for n in nodes - relations if n and not any(c.isspace() for c in n))
        iris = {n: iri for n in known if (iri := kg.profile.expand(n)) is not None}
        labels = kg.labels(list(iris.values()))
        names |= {n: labels[iri] for n, iri in iris.items() if iri in labels}
        names |= {r: t.label for r, t in relation_texts(kg, sorted(relations)).items()}
        minted = (pair for fact in state.facts for pair in fact.labels.items())
        names |= {kg.profile.short(IRI(node)): label for node, label in minted}
    return {short: label for short, label in names.items() if label and label != short}


def _mentioned(state: State, trace: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Return the ids of nodes and of relations that a trace mentions."""
    triples = [t for path in trace["memory"] for t in path]
    triples += [p["ids"] for p in (*trace["proof"], *trace["facts"])]
    triples += [o[:3] for o in trace["observation"]["facts"]]
    nodes = {n for s, _, o in triples for n in (s, o) if not n.startswith('"')}
    chains: list[Any] = [*state.dropped, *state.rules]
    nodes |= {*state.focus, *state.observed, *(chain.anchor for chain in chains)}
    relations = {r for _, r, _ in triples}.union(*(chain.relations for chain in chains))
    for feedback in (s.feedback for s in state.steps):
        offered = {r for side in feedback.relations.values() for r in side}
        relations |= offered & set(feedback.arguments)
        nodes |= {a for a in feedback.arguments if not a.startswith("?")}
    return nodes, relations
