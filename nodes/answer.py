"""Answer: what was asked, the query that gives it, and the facts that prove it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.plan import is_sure, readings_of
from triplewise.nodes.state import Answer, AnswerStatus, ProofTriple, Rival, State
from triplewise.nodes.text import contains_name
from triplewise.tools.actions.comparison import compared
from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Triple, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.kg.protocol import facts_of
from triplewise.tools.kg.vocabulary import node_labels, triple_labels
from triplewise.tools.parsing.confidence import calibration_for, query_features
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.statements import LINKED, decides, denies, form_of, slot_of
from triplewise.tools.pyql.program import Fact, PyQL, all_facts
from triplewise.tools.pyql.raw_sparql import parts_of, proof_sparql
from triplewise.tools.pyql.sparql import instantiate
from triplewise.tools.pyql.text import read_term

_TRUE = {"true", "yes", "correct", "right", "supported"}
_FALSE = {"false", "no", "incorrect", "wrong", "refuted", "not true"}

YES_NO = {"true": "Yes", "false": "No"}

PROOF_LIMIT = 50
"""Most facts shown as proof."""
UNSURE = "Not sure, perhaps: "
"""What goes before an answer that is not sure."""
UNKNOWN = "no entity of the question was found in the knowledge graph"
"""Why nothing is found where nothing that the question names is there."""
NO_PROOF = "the facts that prove it could not be read"
"""Why an answer comes without proof."""
RIVALS, RIVAL_VALUES = 3, 10
"""Most other readings that an answer names, and most answers of each."""
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
    """Return the readable text of answer values, in their order; numbers are grouped, dates are in words."""
    values = list(values)
    if len(values) == 1 and values[0] in YES_NO:
        return (YES_NO[values[0]],)
    iris = {v: iri for v in values if (iri := kg.profile.expand(v)) is not None}
    labels = kg.labels(iris.values(), partial=True)
    texts = []
    for value in values:
        iri = iris.get(value)
        label = labels.get(iri, "") if iri is not None else ""
        # Where ids are names, a literal would pass for one too: no node is called so.
        if iri is not None and label and label == kg.profile.local_text(iri):
            label = label if kg.index is not None and kg.index.node(iri) is not None else ""
        if not label and (iri is None or kg.profile.entity_text == "local"):
            is_number = value.lstrip("-").replace(".", "", 1).isdigit()
            number = Literal(value, XSD + ("decimal" if "." in value else "integer"))
            label = readable(number) if is_number else readable_text(value)
        texts.append(label or value)
    return tuple(texts)


def normal_values(text: str, values: Sequence[str]) -> tuple[str, ...]:
    """The values of an answer; yes, no and their like are `true` or `false` where a text asks for that."""
    if not decides(text) or len(values) != 1:
        return tuple(values)
    word = values[0].strip(" .!\"'").casefold()
    truth = "true" if word in _TRUE else "false" if word in _FALSE else ""
    return (truth,) if truth else tuple(values)


def sentence(labels: tuple[str, ...]) -> str:
    """Return the answer in words."""
    if len(labels) > 1:
        return f"{', '.join(labels[:-1])} and {labels[-1]}."
    return f"{labels[0]}." if labels else ""


def _ending(state: State, values: tuple[str, ...]) -> tuple[AnswerStatus, str]:
    """Return how the run ended, and why, in words."""
    if state.verdict is not None and state.verdict.status == "spent":
        so_far = "the answer is what was proven so far" if values else "nothing was proven so far"
        return "budget_spent", f"{state.verdict.note}; {so_far}"
    if values:
        return "answered", ""
    names, slot = " and ".join(e.label for e in state.linked), slot_of(state.question)
    if state.steps and state.last.feedback.action == "unknown":
        reason = ", ".join(state.last.feedback.arguments)
    elif not state.linked:
        reason = UNKNOWN
    elif not state.steps:
        reason = "no action was taken"
    elif state.last.feedback.action != "give_up":
        tried = f"{len(state.corrections)} corrections" if state.corrections else "no correction was needed"
        reason = f"every way tried gave no result ({len(state.steps)} steps, {tried})"
    elif state.readings:
        reason = state.last.thought.rstrip(".")
    elif slot is not None:
        reason = f'the knowledge graph holds no "{slot[1]}" of {names}'
    else:
        is_claim = form_of(state.question) == "claim"
        lacks = "proves or contradicts the claim" if is_claim else "fits the words of the question"
        reason = f"nothing the knowledge graph holds about {names} {lacks}"
    return "not_found", reason


def _build(
    state: State,
    env: Environment,
    values: tuple[str, ...],
    sparql: str,
    proof: Iterable[Triple],
    note: str = "",
    calibrate: bool = True,
) -> Answer:
    """Return the answer; `note` is the reason of one that was found, and may stand in for a confidence."""
    context, kg = env.context, env.kg
    status, reason = _ending(state, values)
    missing = next((r.missing for r in state.readings if r.missing), "") if status == "not_found" else ""
    reason = missing or reason or note
    if status == "not_found" and context.closed_world and decides(state.question):
        values, status = (str(denies(state.question)).lower(),), "answered"
        reason = f"{reason}; assumed, for what the graph does not prove counts as untrue (closed_world)"
    confidence: float | None = None
    rivals: tuple[Rival, ...] = ()
    is_found = calibrate and status == "answered" and bool(values)
    reading = _reading_of(state, env, values) if is_found else None
    if reading is not None and reading.features:
        calibration, confidence = calibration_for(kg, context.calibration), round(reading.confidence, 4)
        if reading is not state.followed:
            calibration = calibration.models[context.name_of("model")]
        least = calibration.min_confidence if context.min_confidence is None else context.min_confidence
        if confidence < least:
            status, reason = "unsure", "; ".join(filter(None, (reason, doubts(reading))))
        if confidence < min(calibration.floor, least) and not context.guess:
            status, values, proof, sparql, confidence = "not_found", (), (), "", None
            reason = reason if state.linked else UNKNOWN
        else:
            rivals = rivals_of(reading, state, kg)
    shown = list(dict.fromkeys(proof))[:PROOF_LIMIT]
    try:
        names = triple_labels(kg, shown, exact=False)
    except QueryFailedError as error:
        shown, names, reason = [], [], "; ".join(filter(None, (reason, f"{NO_PROOF}: {error}")))
    documents, facts = facts_of(kg), list[ProofTriple]()
    for triple, triple_names in zip(shown, names, strict=True):
        read = documents.get(triple)
        origin = () if read is None else (read.document, read.source, read.sentence, read.id)
        facts.append(ProofTriple(triple, triple_names, *origin))
    labels = labels_of(kg, values)
    text = (UNSURE if status == "unsure" else "") + (sentence(labels) or f"Not found: {reason}.")
    if count := sum(bool(fact.fact) for fact in facts):
        were = "was" if count == 1 else "were"
        text += f" {count} of the {len(facts)} facts that prove this {were} read from documents."
    return Answer(
        status=status,
        values=values,
        labels=labels,
        text=text,
        sparql=sparql,
        proof=tuple(facts),
        reason=reason,
        corrections=state.corrections,
        confidence=confidence,
        unaccounted=reading.uncovered if reading is not None and values else (),
        rivals=rivals,
        note=state.closing_note,
    )


def _reading_of(state: State, env: Environment, values: Sequence[str]) -> Reading | None:
    """Return the reading that gave the answer, or a model's own query as one where it is calibrated."""
    context = env.context
    reading = state.followed
    # A model that took over from `cascade` or `fast_path` answers with a query of its own.
    is_own = reading is not None and bool(state.steps) and state.last.feedback.arguments == (reading.text,)
    if context.embedded or (is_own and is_sure(state.readings, context)):
        return reading
    calibration = calibration_for(env.kg, context.calibration)
    calibration_of_model = calibration.models.get(context.name_of("model"))
    if calibration_of_model is None or (own := reading_of_query(state, env, values)) is None:
        return None
    return replace(own, confidence=calibration_of_model.probability(own.features))


def reading_of_query(state: State, env: Environment, values: Sequence[str]) -> Reading | None:
    """Return the answer of a model's own query as a reading, not calibrated; None where nothing was asked.

    It is compared with what the question is read as without a model: some KG queries, no model call.
    """
    if form_of(state.question) != "question":
        return None
    readings = readings_of(state, env)
    wrong = [s for s in state.steps if s.rolled_back or s.feedback.error or s.feedback.outcome == "empty"]
    same = next((r for r in readings if frozenset(r.values) == frozenset(values)), None)
    uncovered, evidence = (same.uncovered, same.features) if same is not None else ((), {})
    best = readings[0].features if readings else {}
    features = query_features(evidence, best, len(uncovered), len(wrong))
    words = "the query of the model"
    return Reading("", words, 0.0, 0.0, "a model", tuple(values), uncovered, features=features)


def doubts(reading: Reading) -> str:
    """Return in words why a reading is not sure."""
    reasons = [reading.missing]
    if reading.uncovered:
        words, be = ", ".join(map(repr, reading.uncovered)), "is" if len(reading.uncovered) == 1 else "are"
        near = f" (nearest: {', '.join(reading.nearest)})" if reading.nearest else ""
        reasons.append(f"{words} {be} nothing that this graph's relations speak of{near}")
    return "; ".join(filter(None, reasons)) or "readings like this one are too often wrong"


def rivals_of(chosen: Reading, state: State, kg: KnowledgeGraph) -> tuple[Rival, ...]:
    """Return the likeliest readings with other answers than the one that was chosen."""
    distinct, others = {frozenset(chosen.values)}, list[Reading]()
    for reading in sorted(state.readings, key=lambda r: -r.confidence):
        if len(others) < RIVALS and reading.values and frozenset(reading.values) not in distinct:
            distinct.add(frozenset(reading.values))
            others.append(replace(reading, values=reading.values[:RIVAL_VALUES]))
    values = list(dict.fromkeys(value for reading in others for value in reading.values))
    labels = dict(zip(values, labels_of(kg, values), strict=True))  # with one query for all of them
    rivals = []
    for reading in others:
        sparql = PyQL.parse(reading.program, kg.profile).sparql(kg.profile)
        texts = tuple(labels[value] for value in reading.values)
        rivals.append(Rival(reading.text, reading.values, texts, sparql, round(reading.confidence, 4)))
    return tuple(rivals)


def program(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the query that was built (QueryAgent).

    Where the budget ran out before `execute()`, the query so far is asked for its newest variable.
    """
    env = environment(runtime)
    context, kg, toolset = env.context, env.kg, env.toolset
    if not state.program:
        return memory(state, runtime)
    if toolset.name == "sparql":
        return {"answer": _of_sparql(state, env)}
    query = toolset.to_pyql(state.program, kg.profile)
    finished = bool(state.steps) and state.last.feedback.finished
    values: tuple[str, ...] = state.last.feedback.answers if finished else ()
    if state.verdict is not None and state.verdict.status == "spent" and not finished:
        if not query.answer and query.variables and not query.boolean:
            query = query.set_answer(query.variables[-1])
        with suppress(QueryFailedError):  # then nothing is proven so far
            values = _values_of(query, kg)
    claim, note = _claim_reading(state, context), ""
    try:
        proof: Sequence[Triple] = _proof_of(query, kg) if values else ()
    except QueryFailedError as error:
        proof, note = (), f"{NO_PROOF}: {error}"
    if claim is not None and values:
        note = note or claim.provenance
        if values in (("true",), ("false",)):
            # What the graph holds in the place of the fact that the claim states.
            if not proof and (stated := _stated(query)) is not None and isinstance(stated.subject, IRI):
                proof = kg.neighbours(stated.subject, stated.relation, "forward", limit=PROOF_LIMIT).triples
            values = (str((values == ("true",)) != denies(state.question)).lower(),)
        proof = () if note == LINKED else proof
    return {"answer": _build(state, env, values, query.sparql(kg.profile), proof, note)}


def _values_of(query: PyQL, kg: KnowledgeGraph) -> tuple[str, ...]:
    """Return what a query gives, as an answer has it."""
    result = kg.query(query.sparql(kg.profile))
    if result.boolean is not None:
        return (str(result.boolean).lower(),)
    return tuple(kg.profile.short(t) for t in (result.column(result.variables[0]) if result.rows else ()))


def _proof_of(query: PyQL, kg: KnowledgeGraph) -> Sequence[Triple]:
    """Return the facts that a query rests on."""
    result = kg.query(query.sparql(kg.profile))
    answers = result.column(result.variables[0])[:PROOF_LIMIT] if result.rows else ()
    return query.proof(kg.profile, kg.query(query.proof_sparql(kg.profile, answers), limit=PROOF_LIMIT * 4))


def answer_of_reading(reading: Reading, state: State, env: Environment, note: str) -> Answer:
    """Return the answer that a reading gives, with no confidence; `note` says why it is taken."""
    kg = env.kg
    query = compared(kg, PyQL(), PyQL.parse(reading.program, kg.profile))
    values = _values_of(query, kg)
    proof = _proof_of(query, kg)
    return _build(state, env, values, query.sparql(kg.profile), proof, note, calibrate=False)


def _of_sparql(state: State, env: Environment) -> Answer:
    """Answer from SPARQL that the model wrote: its patterns, instantiated, are the proof."""
    kg, last = env.kg, state.last.feedback
    values = last.answers if last.finished else ()
    patterns = parts_of(state.program).patterns if values else []
    rows = kg.query(proof_sparql(patterns), limit=PROOF_LIMIT * 4, foreign=True) if patterns else None
    shown = instantiate(patterns, rows) if rows is not None else ()
    proof = [t for t in shown if {kg.profile.short(t.subject), kg.profile.short(t.object)} & set(values)]
    return _build(state, env, normal_values(state.question, values), state.program, proof or shown)


def _claim_reading(state: State, context: Context) -> Reading | None:
    """Return the reading by which the policy without a model judged a claim; None for anything else."""
    return state.followed if context.embedded and form_of(state.question) == "claim" else None


def _stated(query: PyQL) -> Fact | None:
    """Return the fact between two nodes that a question of yes or no states."""
    return next((f for f in all_facts(query.clauses) if not f.mentions), None)


def memory(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from memory alone (ODA 2.2), with the paths of memory that prove it.

    Those that lead to the answer, or to it over facts seen in any step or observed, where memory holds none;
    for true and false, those between what the question names.
    """
    env = environment(runtime)
    context, kg = env.context, env.kg
    given = state.last.feedback.answers if state.steps and state.last.feedback.finished else ()
    values, claim = normal_values(state.question, given), _claim_reading(state, context)
    memorised = [t for path in state.memory for t in path]
    seen = [t for s in state.steps if not s.rolled_back for t in s.feedback.triples]
    observed = [t for s in state.observation for t in (s.through, s.triple) if t is not None]
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    query: PyQL | None = None
    routes: list[Route] = []
    if values in (("true",), ("false",)):
        routes = _routes_between(state.question, memorised, starts, kg)
        facts = dict.fromkeys(triple for route in routes for triple, _ in route.hops)
        if values == ("true",) and facts:
            query = PyQL().ask()
            for triple in facts:
                query = query.add_fact(triple.subject, triple.relation, triple.object)
    elif values:
        for facts_of_source in (memorised, seen, observed):
            routes = routes or find_routes(
                facts_of_source, starts, lambda node: kg.profile.short(node) in values
            )
        query = route_query(routes)
    sparql = query.sparql(kg.profile) if query is not None else ""
    proof = [triple for route in routes for triple, _ in route.hops]
    note = ""
    if claim is not None and values:
        note = claim.provenance
        program = PyQL.parse(claim.program, kg.profile)
        proof = [] if note == LINKED else _claim_facts(program, memorised) or proof
    else:
        # Facts like those of the proof that were seen, and that memory does not keep.
        relations = {t.relation for t in proof} & {t.relation for t in memorised}
        others = (t for t in set(seen) - set(memorised) if t.relation in relations)
        if lost := sum(t.subject in starts or t.object in starts for t in others):
            limit = f"memory keeps {context.reflect_limit} facts a step (reflect_limit)"
            note = f"{limit}; {lost} more like these were seen"
    return {"answer": _build(state, env, values, sparql, proof, note)}


def _claim_facts(query: PyQL, facts: Sequence[Triple]) -> list[Triple]:
    """Return the facts by which a claim holds or does not: those of its relations and of its first node."""
    relations = {f.relation for f in all_facts(query.clauses)}
    own = [t for t in facts if t.relation in relations]
    if (stated := _stated(query)) is None:
        return own
    about = [t for t in own if stated.subject in (t.subject, t.object)]
    return [t for t in about if stated.object in (t.subject, t.object)] or about


def _routes_between(
    question: str, facts: Sequence[Triple], starts: Sequence[Term], kg: KnowledgeGraph
) -> list[Route]:
    """Return chains between what a question names, each once: linked nodes, and those in its words."""
    labels = node_labels(kg, [n for t in facts for n in (t.subject, t.object)])
    named = dict.fromkeys([*starts, *(n for n, label in labels.items() if contains_name(question, label))])
    routes: dict[frozenset[Triple], Route] = {}
    for route in find_routes(facts, named, named.__contains__):
        if route.start in named and route.end in named:
            routes.setdefault(frozenset(t for t, _ in route.hops), route)
    return list(routes.values())


def find_routes(
    facts: Iterable[Triple], starts: Iterable[Term], is_answer: Callable[[Term], bool]
) -> list[Route]:
    """Return the shortest chain from every start to every answer; without one, the facts that name an answer.

    No chain leads through another start: what that one leads to is its own.
    """
    facts, anchors = list(dict.fromkeys(facts)), dict.fromkeys(starts)
    edges: dict[Term, list[tuple[Term, Triple, bool]]] = {}
    for triple in facts:
        edges.setdefault(triple.subject, []).append((triple.object, triple, True))
        edges.setdefault(triple.object, []).append((triple.subject, triple, False))
    routes: list[Route] = []
    for start in anchors:
        chains: dict[Term, tuple[tuple[Triple, bool], ...]] = {start: ()}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if node != start and node in anchors:
                continue
            for neighbour, triple, forward in edges.get(node, ()):
                if neighbour not in chains:
                    chains[neighbour] = (*chains[node], (triple, forward))
                    queue.append(neighbour)
        routes += [Route(start, end, hops) for end, hops in chains.items() if hops and is_answer(end)]
    reached = {route.end for route in routes}
    for triple in facts:
        head, tail = triple.subject, triple.object
        for start, end, forward in ((head, tail, True), (tail, head, False)):
            if is_answer(end) and end not in reached:
                routes.append(Route(start, end, ((triple, forward),)))
    return routes


def route_query(routes: Sequence[Route]) -> PyQL | None:
    """Return the query that routes stand for: starts stay, others become variables; None without routes.

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
    query, answer, used = PyQL(), Variable("answer"), 0
    for start, shape in joined or [max(best.values(), key=lambda k: len(ends[k]))]:
        node: Node = start
        for place, (relation, forward) in enumerate(shape, 1):
            used += place < len(shape)
            following = answer if place == len(shape) else Variable(f"x{used}")
            subject, object_ = (node, following) if forward else (following, node)
            query, node = query.add_fact(subject, relation, object_), following
    return query.set_answer(answer)


VARIANTS = {"program": program, "memory": memory}
