"""Answer: what was asked, the query that gives it, and the facts that prove it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.phase import Update
from triplewise.nodes.state import Answer, AnswerStatus, ProofTriple, State
from triplewise.nodes.text import decides, denies, form_of, node_labels, normal_values, slot_of, triple_text
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Triple, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.kg.overlay.overlay import facts_of
from triplewise.tools.planning.lexical.claims import LINKED
from triplewise.tools.planning.lexical.search import GUESS
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import read_term, write_node

PROOF_LIMIT = 50
"""Most facts shown as proof."""
Shape = tuple[tuple[IRI, bool], ...]
"""Relations of a chain, each with whether it is walked from subject to object."""


@dataclass(frozen=True, slots=True)
class Route:
    """A chain of facts from `start` to `end`; each hop says whether it is walked forward."""

    start: Term
    end: Term
    hops: tuple[tuple[Triple, bool], ...]

    @property
    def shape(self) -> Shape:
        """The chain without its nodes."""
        return tuple((triple.relation, forward) for triple, forward in self.hops)


def labels_of(kg: KnowledgeGraph, values: Iterable[str]) -> tuple[str, ...]:
    """Readable text of answer values, in their order."""
    values = list(values)
    iris = {v: iri for v in values if (iri := kg.profile.expand(v)) is not None}
    found = kg.labels(iris.values())
    return tuple(found.get(iris[v], v) if v in iris else _literal_text(v) for v in values)


def _literal_text(value: str) -> str:
    """A literal as people write it: numbers grouped, dates in words."""
    if value.lstrip("-").replace(".", "", 1).isdigit():
        return readable(Literal(value, XSD + ("decimal" if "." in value else "integer")))
    return readable_text(value)


def _proof(kg: KnowledgeGraph, triples: Iterable[Triple]) -> tuple[ProofTriple, ...]:
    """Facts with their readable text."""
    kept = list(dict.fromkeys(triples))[:PROOF_LIMIT]
    return tuple(
        ProofTriple(t, text) for t, text in zip(kept, triple_text(kg, kept, exact=False), strict=True)
    )


def sentence(labels: tuple[str, ...]) -> str:
    """The answer in words."""
    if labels in (("true",), ("false",)):
        return "Yes." if labels == ("true",) else "No."
    if len(labels) > 1:
        return f"{', '.join(labels[:-1])} and {labels[-1]}."
    return f"{labels[0]}." if labels else ""


def _status(state: State, values: tuple[str, ...]) -> tuple[AnswerStatus, str]:
    """How the run ended, and why, in words."""
    verdict = state.verdict
    if verdict is not None and verdict.status == "spent":
        so_far = "the answer is what was proven so far" if values else "nothing was proven so far"
        return "budget_spent", f"{verdict.note}; {so_far}"
    if values:
        return "answered", ""
    if not state.linked:
        return "not_found", "no entity of the question was found in the knowledge graph"
    if not state.steps:
        return "not_found", "no action was taken"
    if state.last.feedback.action == "give_up":
        return "not_found", _nothing(state)
    tried = f"{len(state.corrections)} corrections" if state.corrections else "no correction was needed"
    return "not_found", f"every way tried gave no result ({len(state.steps)} steps, {tried})"


def _nothing(state: State) -> str:
    """Why a run gave up."""
    names, slot = " and ".join(e.label for e in state.linked), slot_of(state.question)
    if state.rules:
        return state.last.thought.rstrip(".")
    if slot is not None:
        return f'the knowledge graph holds no "{slot[1]}" of {names}'
    if form_of(state.question) == "claim":
        return f"nothing the knowledge graph holds about {names} proves or contradicts the claim"
    return f"nothing the knowledge graph holds about {names} fits the words of the question"


def _build(
    state: State,
    context: Context,
    values: tuple[str, ...],
    sparql: str,
    proof: Iterable[Triple],
    note: str = "",
) -> Update:
    """The answer value; `note` is its reason where it is an answer."""
    kg = environment(context).kg
    status, reason = _status(state, values)
    reason = reason or note or _guessed(state, context)
    if status == "not_found" and context.closed_world and decides(state.question):
        values, status = (str(denies(state.question)).lower(),), "answered"
        reason = f"{reason}; assumed, for what the graph does not prove counts as untrue (closed_world)"
    labels, facts = labels_of(kg, values), with_documents(kg, _proof(kg, proof))
    answer = Answer(
        status=status,
        values=values,
        labels=labels,
        text=" ".join(filter(None, (sentence(labels) or f"Not found: {reason}.", from_documents(facts)))),
        sparql=sparql,
        proof=facts,
        reason=reason,
        corrections=state.corrections,
    )
    return {"answer": answer}


def _guessed(state: State, context: Context) -> str:
    """That the rule which was followed is a guess, or ""."""
    followed = state.rules[state.attempt] if context.embedded and state.attempt < len(state.rules) else None
    return GUESS if followed is not None and followed.provenance == GUESS else ""


def _best_effort(program: PyQL, kg: KnowledgeGraph) -> tuple[PyQL, tuple[str, ...]]:
    """When the budget ran out before `execute()`: the newest variable of the query so far."""
    if not program.answer and program.variables and not program.boolean:
        program = program.set_answer(program.variables[-1])
    result = kg.query(program.sparql(kg.profile))
    if result.boolean is not None:
        return program, (str(result.boolean).lower(),)
    terms = result.column(result.variables[0]) if result.rows else ()
    return program, tuple(kg.profile.short(t) for t in terms)


def program(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the query that was built (QueryAgent)."""
    kg = environment(runtime.context).kg
    if not state.program:
        return memory(state, runtime)
    query = environment(runtime.context).toolset.to_pyql(state.program, kg.profile)
    finished = bool(state.steps) and state.last.feedback.finished
    values: tuple[str, ...] = state.last.feedback.answers if finished else ()
    if state.verdict is not None and state.verdict.status == "spent" and not finished:
        query, values = _best_effort(query, kg)
    proof = _query_proof(query, kg) if values else ()
    rule = _judging(state, runtime.context)
    if rule is not None and values in (("true",), ("false",)):
        proof = proof or _other_values(rule, kg)
        values = (str((values == ("true",)) != denies(state.question)).lower(),)
    note = rule.provenance if rule is not None and values else ""
    proof = () if note == LINKED else proof
    return _build(state, runtime.context, values, query.sparql(kg.profile), proof, note)


def _judging(state: State, context: Context) -> Rule | None:
    """The rule by which the policy without a model judged a claim; None for anything else."""
    judged = context.embedded and form_of(state.question) == "claim" and state.attempt < len(state.rules)
    return state.rules[state.attempt] if judged else None


def _other_values(rule: Rule, kg: KnowledgeGraph) -> tuple[Triple, ...]:
    """The facts that contradict a claim: what the graph holds in the place of the fact that is asked for."""
    held = next((c for c in rule.constraints if c.kind == "holds"), None)
    subject = kg.profile.expand(rule.anchor)
    relation = kg.profile.expand(held.atoms[0].relation, relation=True) if held is not None else None
    if held is None or subject is None or relation is None:
        return ()
    return kg.neighbours(subject, relation, "forward", limit=PROOF_LIMIT).triples


def _query_proof(query: PyQL, kg: KnowledgeGraph) -> tuple[Triple, ...]:
    """The facts behind the first answers of a query."""
    result = kg.query(query.sparql(kg.profile))
    answers = result.column(result.variables[0])[:PROOF_LIMIT] if result.rows else ()
    instances = kg.query(query.proof_sparql(kg.profile, answers), limit=PROOF_LIMIT * 4)
    return query.proof(kg.profile, instances)


def memory(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from memory alone (ODA 2.2), with the paths of memory that prove it.

    Those that lead to the answer; for true and false, those between what the question names.
    """
    context, kg = runtime.context, environment(runtime.context).kg
    given = state.last.feedback.answers if state.steps and state.last.feedback.finished else ()
    values = normal_values(state.question, given)
    rule = _judging(state, context)
    if values in (("true",), ("false",)):
        routes = _routes_between(state, kg)
        query = _asking(routes) if values == ("true",) else None
    else:
        routes = _routes(state, kg, values)
        query = route_query(routes)
    sparql = query.sparql(kg.profile) if query is not None else ""
    proof = [triple for r in routes for triple, _ in r.hops]
    if rule is not None and values:
        proof = [] if rule.provenance == LINKED else _speaking(rule, state, kg) or proof
        return _build(state, context, values, sparql, proof, rule.provenance)
    return _build(state, context, values, sparql, proof, _forgotten(state, kg, proof, context))


def _speaking(rule: Rule, state: State, kg: KnowledgeGraph) -> list[Triple]:
    """The facts of memory by which a rule holds or does not: those of its relation and topic."""
    relations = set(rule.relations)
    known = [t for t in _sources(state)[0] if kg.profile.short(t.relation) in relations]
    held = next((c for c in rule.constraints if c.kind == "holds"), None)
    if held is None:
        return known
    same = [t for t in known if rule.anchor in _forms(t, kg)]
    return [t for t in same if held.value in _forms(t, kg)] or same


def _forms(triple: Triple, kg: KnowledgeGraph) -> tuple[str, ...]:
    """Both ends of a fact as rules write them."""
    return tuple(write_node(n, kg.profile) for n in (triple.subject, triple.object))


def _forgotten(state: State, kg: KnowledgeGraph, proof: Sequence[Triple], context: Context) -> str:
    """Says where more facts like those that prove an answer were seen than memory keeps; "" otherwise."""
    kept, seen = (set(facts) for facts in _sources(state))
    like = {t.relation for t in proof} & {t.relation for t in kept}
    lost = [t for t in seen - kept if t.relation in like and {t.subject, t.object} & set(_starts(state, kg))]
    limit = context.reflect_limit
    return (
        f"memory keeps {limit} facts a step (reflect_limit); {len(lost)} more like these were seen"
        if lost
        else ""
    )


def _starts(state: State, kg: KnowledgeGraph) -> list[Term]:
    """The entities of the question."""
    return [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]


def _sources(state: State) -> tuple[list[Triple], list[Triple]]:
    """Facts that may prove an answer: memory, then those seen in any step."""
    return (
        [t for path in state.memory for t in path],
        [t for s in state.steps if not s.rolled_back for t in s.feedback.triples],
    )


def _routes(state: State, kg: KnowledgeGraph, values: tuple[str, ...]) -> list[Route]:
    """Chains of memory that lead to the answer; facts seen in any step serve where memory holds none."""
    wanted, short, starts = set(values), kg.profile.short, _starts(state, kg)
    found = (find_routes(facts, starts, lambda node: short(node) in wanted) for facts in _sources(state))
    return next((routes for routes in found if routes), []) if wanted else []


def _routes_between(state: State, kg: KnowledgeGraph) -> list[Route]:
    """Chains of memory between what the question names, each once: linked nodes, and those in its words."""
    facts, starts = _sources(state)[0], _starts(state, kg)
    labels = node_labels(kg, [n for t in facts for n in (t.subject, t.object)])
    text = state.question.casefold()
    named = dict.fromkeys([*starts, *(n for n, label in labels.items() if _stands_in(label, text))])
    found = [r for r in find_routes(facts, named, named.__contains__) if r.start in named and r.end in named]
    kept: dict[frozenset[Triple], Route] = {}
    for route in found:
        kept.setdefault(frozenset(t for t, _ in route.hops), route)
    return list(kept.values())


def _stands_in(label: str, text: str) -> bool:
    """Whether a name stands in a text (in small letters), as whole words."""
    return bool(label) and re.search(rf"(?<!\w){re.escape(label.casefold())}(?!\w)", text) is not None


def _asking(routes: Sequence[Route]) -> PyQL | None:
    """The query that asks whether the facts of some chains hold; None without any."""
    facts = dict.fromkeys(triple for route in routes for triple, _ in route.hops)
    query = PyQL().ask()
    for triple in facts:
        query = query.add_fact(triple.subject, triple.relation, triple.object)
    return query if facts else None


def with_documents(kg: KnowledgeGraph, proof: Iterable[ProofTriple]) -> tuple[ProofTriple, ...]:
    """A proof in which each fact that stands in no KG names its document and sentence."""
    read = facts_of(kg)
    return tuple(
        replace(p, document=fact.document, source=fact.source, sentence=fact.sentence, fact=fact.id)
        if (fact := read.get(p.triple)) is not None
        else p
        for p in proof
    )


def from_documents(proof: Sequence[ProofTriple]) -> str:
    """How many facts of a proof were read from documents, in a sentence; "" if none were."""
    count = sum(bool(p.fact) for p in proof)
    if not count:
        return ""
    if count == len(proof):
        whole = "The fact that proves this was" if count == 1 else f"All {count} facts that prove this were"
        return f"{whole} read from documents, not in the knowledge graph."
    were = "was" if count == 1 else "were"
    return f"{count} of the {len(proof)} facts that prove this {were} read from documents."


def find_routes(
    facts: Iterable[Triple], starts: Iterable[Term], is_answer: Callable[[Term], bool]
) -> list[Route]:
    """The shortest chain from every start to every answer; without one, the facts that name an answer.

    No chain leads through another start: what that one leads to is its own.
    """
    known = list(dict.fromkeys(facts))
    around: dict[Term, list[tuple[Triple, bool]]] = {}
    for triple in known:
        around.setdefault(triple.subject, []).append((triple, True))
        around.setdefault(triple.object, []).append((triple, False))
    anchors = dict.fromkeys(starts)
    routes = [r for start in anchors for r in _from(start, around, anchors, is_answer)]
    reached = {route.end for route in routes}
    for triple in known:
        for start, end, forward in (
            (triple.subject, triple.object, True),
            (triple.object, triple.subject, False),
        ):
            if is_answer(end) and end not in reached:
                routes.append(Route(start, end, ((triple, forward),)))
    return routes


def _from(
    start: Term,
    around: Mapping[Term, Sequence[tuple[Triple, bool]]],
    anchors: Collection[Term],
    is_answer: Callable[[Term], bool],
) -> list[Route]:
    """Shortest chains from one node to answers, breadth first, ending where they meet another anchor."""
    chains: dict[Term, tuple[tuple[Triple, bool], ...]] = {start: ()}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node != start and node in anchors:
            continue
        for triple, forward in around.get(node, ()):
            far = triple.object if forward else triple.subject
            if far not in chains:
                chains[far] = (*chains[node], (triple, forward))
                queue.append(far)
    return [Route(start, end, hops) for end, hops in chains.items() if hops and is_answer(end)]


def route_query(routes: Sequence[Route]) -> PyQL | None:
    """The query that routes stand for: starts stay, every other node becomes a variable; None without routes.

    Chains of several starts are joined where each leads to all the answers; otherwise the chain that leads
    to most of them is taken.
    """
    ends: dict[tuple[Term, Shape], set[Term]] = {}
    for route in routes:
        ends.setdefault((route.start, route.shape), set()).add(route.end)
    if not ends:
        return None
    answers = {route.end for route in routes}
    best: dict[Term, tuple[Term, Shape]] = {}
    for key in sorted(ends, key=lambda k: -len(ends[k])):
        best.setdefault(key[0], key)
    joined = [key for key in best.values() if ends[key] == answers]
    chosen = joined or [max(best.values(), key=lambda k: len(ends[k]))]
    return _join(chosen)


def _join(chains: Collection[tuple[Term, Shape]]) -> PyQL:
    """Chains that end in one variable."""
    query, answer, used = PyQL(), Variable("answer"), 0
    for start, shape in chains:
        node: Node = start
        for place, (relation, forward) in enumerate(shape, 1):
            used += place < len(shape)
            following = answer if place == len(shape) else Variable(f"x{used}")
            ends = (node, following) if forward else (following, node)
            query, node = query.add_fact(ends[0], relation, ends[1]), following
    return query.set_answer(answer)


VARIANTS = {"program": program, "memory": memory}
