"""A run as plain data: what `ask --json` prints, evaluations keep, and the page of a run shows."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import accumulate, chain
from typing import Any

from triplewise.nodes.state import Answer, State
from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg import KnowledgeGraph, Profile, readable
from triplewise.tools.kg.vocabulary import relation_texts

DOING: Mapping[str, str] = packaged("triplewise.graphs", "phases.yaml")  # what each phase does, in words
LENGTH = 1_200  # most characters of a step's observation
MOST = {"answer": 200, "labels": 200, "memory": 60, "rules": 12, "dropped": 12, "facts": 20, "written": 20}
MOST |= {"iris": 200, "readings": 8, "rows": 40, "proof": 40, "observation": 40}
"""Most entries of a list in a trace; of memory, triples in all."""
_QUOTED = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LIST = re.compile(rf"\[({_QUOTED}(?:, {_QUOTED})*)(, \.\.\.[^\]']*)?\]")
"""A list as Python writes it, which a model is shown."""
_NUMBER = re.compile(r"[-+]?\d[\d.,:TZ+-]*")


def names_of(
    kg: KnowledgeGraph, nodes: Iterable[str] = (), relations: Iterable[str] = (), facts: Sequence[Triple] = ()
) -> dict[str, str]:
    """Return the labels of short ids, and of what facts mention, by id; what has no label is its own."""
    short = kg.profile.short
    ends = (short(n) for t in facts for n in (t.subject, t.object) if isinstance(n, IRI))
    texts = relation_texts(kg, [*relations, *(short(t.relation) for t in facts)])
    iris = {n: kg.profile.expand(n) for n in (*nodes, *ends)}
    labels = kg.labels([iri for iri in iris.values() if iri is not None])
    named = {n: labels.get(iri, n) if iri else n for n, iri in iris.items()}
    return named | {r: text.label or r for r, text in texts.items()}


def trace_of(state: State, kg: KnowledgeGraph | None = None) -> dict[str, Any]:
    """Return an ended run as evaluations keep it and the page shows it: some kilobytes, long lists cut.

    It has the keys of `whole_trace`, and besides `followed`, the index of the reading that gave the answer;
    `types`, relations that lead to a class; `memory`, paths of (subject, relation, object); `observation`
    with scores; `names` of what is mentioned by id; `cut`, how much of which list is left out. Without `kg`,
    which gives labels and short ids by two queries, terms are N-Triples.
    """
    profile = kg.profile if kg is not None else None
    ids = partial(_ids, profile)
    trace = whole_trace(state, profile)
    for correction in trace["corrections"]:
        del correction["text"]
    for shown, step in zip(trace["steps"], state.steps, strict=True):
        shown |= _cut_observation(step.feedback.observation)
    trace |= {
        "program": state.program,
        "followed": state.attempt if state.followed is not None and state.followed.features else None,
        "types": [profile.short(IRI(p)) for p in profile.type_predicates] if profile is not None else [],
        "written": list(state.written),
        "memory": [list(map(ids, path)) for path in state.memory],
        "observation": [[*ids(o.triple), round(o.score, 3)] for o in state.observation],
    }
    if profile is not None:
        triples = [p.triple for p in (state.answer.proof if state.answer else ())]
        triples += [extracted.triple for extracted in state.facts]
        for fact, triple in zip((*trace["proof"], *trace["facts"]), triples, strict=True):
            fact["ids"] = ids(triple)
    _cut_lists(trace)
    seen = {"from": list(state.observed), "facts": trace["observation"]}
    trace["observation"] = seen | {"cuts": list(state.observation_cuts)}
    names = {e.id: e.label for e in state.linked}
    names |= dict(zip(trace["answer"], trace["labels"], strict=True))
    names |= _labels(state, trace, kg) if kg is not None else {}
    trace["names"] = {id: label for id, label in names.items() if label and label != id}
    return trace


def _cut_observation(observation: str) -> dict[str, Any]:
    """Return an observation in words, and how many characters beyond `LENGTH` are left out."""
    shown = observation if observation.startswith("{") else in_words(observation)
    if len(shown) <= LENGTH:
        return {"observation": shown}
    end = max(shown.rfind("\n", LENGTH // 2, LENGTH), 0) or LENGTH
    return {"observation": shown[:end], "cut": len(shown) - end}


def _ids(profile: Profile | None, triple: Triple) -> list[str]:
    """Return the terms of a triple by short ids, a literal in quotes, as people read it."""

    def id_of(term: Term) -> str:
        if isinstance(term, Literal):
            return text(readable(term)).n3()
        return profile.short(term) if profile is not None and isinstance(term, IRI) else term.n3()

    return list(map(id_of, (triple.subject, triple.relation, triple.object)))


def _cut_lists(trace: dict[str, Any]) -> None:
    """Cut the lists of a trace to the lengths of `MOST`; `cut` says how much of which is left out."""
    paths, sums = trace["memory"], accumulate(map(len, trace["memory"]))
    trace["memory"] = [path for path, length in zip(paths, sums, strict=True) if length <= MOST["memory"]]
    cut = {name: len(trace.get(name, ())) - most for name, most in MOST.items()}
    cut["memory"] = sum(map(len, paths)) - sum(map(len, trace["memory"]))
    trace |= {name: trace[name][:most] for name, most in MOST.items() if name in trace}
    trace["cut"] = {name: count for name, count in cut.items() if count > 0}


def in_words(observation: str) -> str:
    """Return an observation for people: lists without brackets and quotes."""

    def plain(match: re.Match[str]) -> str:
        return ", ".join(str(literal_eval(part)) for part in re.findall(_QUOTED, match[1])) + (match[2] or "")

    return _LIST.sub(plain, observation)


def iris_of(answer: Answer, profile: Profile) -> list[str]:
    """Return the full IRI of each value of an answer, "" for a literal."""
    terms = [term for fact in answer.proof for term in (fact.triple.subject, fact.triple.object)]
    iris = {profile.short(term): term.value if isinstance(term, IRI) else "" for term in terms}
    iris |= dict.fromkeys(("true", "false"), "")
    for value in set(answer.values) - iris.keys():
        iri = None if _NUMBER.fullmatch(value) else profile.expand(value)
        iris[value] = iri.value if iri is not None else ""
    return [iris[value] for value in answer.values]


def whole_trace(state: State, profile: Profile | None = None) -> dict[str, Any]:
    """Return an ended run, nothing left out; with a profile the full IRI of each answer too, as `iris`."""
    answer = state.answer
    assert answer is not None, "a run that ends has an answer"
    plain, proof, facts = asdict(answer), [], []
    for p in answer.proof:
        read = {"id": p.fact, "document": p.document, "source": p.source, "sentence": p.sentence}
        proof.append({**_terms(p.triple), "text": p.text, **({"from_document": read} if p.fact else {})})
    for f in state.facts:
        provenance = {name: value for name, value in asdict(f).items() if name != "triple"}
        facts.append({"id": f.id, **_terms(f.triple), **provenance})
    own = ("values", "proof", "corrections", "usage")
    return {
        "question": state.question,
        "answer": answer.values,
        **({"iris": iris_of(answer, profile)} if profile is not None else {}),
        **{name: value for name, value in plain.items() if name not in own},
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
    return {name: getattr(triple, name).n3() for name in ("subject", "relation", "object")}


def _labels(state: State, trace: dict[str, Any], kg: KnowledgeGraph) -> dict[str, str]:
    """Return the labels of the nodes and relations that a trace mentions by their ids."""
    triples = list(chain(*trace["memory"]))
    triples += [fact["ids"] for fact in (*trace["proof"], *trace["facts"])]
    triples += [seen[:3] for seen in trace["observation"]["facts"]]
    rules: list[Any] = [*state.dropped, *state.rules]
    relations = {r for _, r, _ in triples}.union(*(rule.relations for rule in rules))
    nodes = {n for s, _, o in triples for n in (s, o) if not n.startswith('"')}
    nodes |= {*state.focus, *state.observed, *(rule.anchor for rule in rules)}
    for feedback in (s.feedback for s in state.steps):
        relations |= set(feedback.arguments).intersection(chain(*feedback.relations.values()))
        nodes |= {a for a in feedback.arguments if not a.startswith("?")}
    named = names_of(kg, sorted(n for n in nodes if n and not re.search(r"\s", n)), sorted(relations))
    minted = (pair for fact in state.facts for pair in fact.labels.items())
    return named | {kg.profile.short(IRI(node)): label for node, label in minted}
