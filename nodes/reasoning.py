"""What an action may use: KG, query so far, reasoning memory, ranking of relations, documents.

The reasoning memory is what was linked, shown and tried so far (QueryAgent, algorithm 1); `State.memory`, a
network of paths, is ODA's. Documents are read by a model, prompted as in figure 6 of SymAgent; those triples
of its reply that passages support are aligned to the KG (SymAgent 4.2.1, extractTriples).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import nearest_examples
from triplewise.nodes.plan import rule_service, shown_readings
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.sql import rank_names
from triplewise.nodes.state import State
from triplewise.tools.actions.symbolic import Extraction
from triplewise.tools.actions.toolset import ActionContext, Call, Ranker, ReasoningMemory
from triplewise.tools.core.errors import DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.terms import IRI
from triplewise.tools.extraction.alignment import align
from triplewise.tools.extraction.triples import fact_request, supported_triples
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.ranking import rank_relations

_NAME = re.compile(r"[^\s(),;{}]+")  # In a query: an id, a variable or a literal
LOOKUPS = ("get_relation", "get_neighbors", "get_relations", "get_attributes")
PASSAGES, CHARACTERS = 40, 12_000
"""Most passages for an entity and relation, and most characters of passages in one prompt."""


def action_context(state: State, env: Environment) -> ActionContext:
    """Return everything an action may use in this step."""
    context, is_full = env.context, env.context.history == "full"
    services: dict[str, Any] = {"rules": rule_service(state, env)}
    services["queries"] = {str(s.number): s.feedback.program for s in state.standing if s.feedback.program}
    services["readings"] = [r.program for r in shown_readings(state, env)]
    if context.db is not None:
        services["database"] = env.database
        services["rank_names"] = lambda named: rank_names(state.question, named, env)
    if context.documents is not None:
        _ = env.documents  # raises now where they cannot be opened
        services["extract"] = partial(accepted_facts, state.question, env)
    return ActionContext(
        kg=env.kg,
        question=state.question,
        program=state.program,
        memory=reasoning_memory(state, env),
        rank=ranker(state.question, env),
        preview=5 if is_full else 10,
        published=is_full,
        services=services,
        encoder=env.encoder,
    )


def reasoning_memory(state: State, env: Environment) -> ReasoningMemory:
    """Return what was linked, looked up, bound and tried before (QueryAgent, algorithm 1, RM)."""
    calls = ((s.program_before, Call(s.feedback.action, s.feedback.arguments)) for s in state.steps)
    made = [(program, call.text() if call.name else "") for program, call in calls]
    failed = {call for call, step in zip(made, state.steps, strict=True) if step.rolled_back}
    # A call that failed on some program is doubted only there: after other steps it may succeed. The last
    # call is doubted if it had failed before on the program it was made on.
    doubted = failed & {*made[-1:], *((state.program, call) for _, call in made)}
    nodes, relations = _shown(state, env)
    looked_up = dict[str, dict[str, list[str]]]()  # the relations offered last around each node, by direction
    for feedback in (s.feedback for s in state.standing):
        if feedback.action in LOOKUPS and feedback.relations and feedback.arguments:
            looked_up.setdefault(feedback.arguments[0], {}).update(feedback.relations)
    return ReasoningMemory(
        linked={entity.id: entity.label for entity in state.linked},
        looked_up=looked_up,
        bound=_bound(state),
        seen=nodes,
        shown=relations,
        calls=tuple(call for _, call in made),
        failed=frozenset(call for _, call in failed),
        doubted=frozenset(call for _, call in doubted),
        steps=len(state.steps),
        budget=env.context.max_steps or 0,
    )


def _bound(state: State) -> tuple[str, ...]:
    """Return the variables of the query, and the sets of AgentBench (`#1`) that steps made."""
    sets = (name for step in state.standing for name in step.feedback.values if name.startswith("#"))
    return tuple(dict.fromkeys((*re.findall(r"\?\w+", state.program), *sets)))


def _shown(state: State, env: Environment) -> tuple[frozenset[str], frozenset[str]]:
    """Return nodes and relations shown so far: by links, steps, observation, plan and what prompts hold."""
    short, in_programs = env.kg.profile.short, _in_programs(state, env)
    observed = [t for seen in state.observation for t in (seen.triple, seen.through) if t is not None]
    nodes = {short(node) for t in observed for node in (t.subject, t.object) if isinstance(node, IRI)}
    nodes |= {id for step in state.standing for ids in step.feedback.ids.values() for id in ids}
    nodes |= {candidate.id for entity in state.linked for candidate in entity.candidates}
    nodes |= {*state.focus, *(rule.anchor for rule in state.rules), *in_programs}
    relations = {short(t.relation) for t in observed}.union(*(rule.relations for rule in state.rules))
    relations |= {id for step in state.steps for id in step.feedback.ids.get("search", ())}
    return frozenset(nodes), frozenset((*relations, *in_programs))


def _in_programs(state: State, env: Environment) -> list[str]:
    """Return the nodes and relations of readings that are followed or shown, and of solved questions."""
    readings = shown_readings(state, env) or ((state.followed,) if state.followed else ())
    lines = [line.partition("(")[2] for reading in readings for line in reading.program.splitlines()]
    found = [value for reading in readings for value in reading.values]
    solved = (iri for example in nearest_examples(state, env) for iri in example.answers[1:])
    found += [env.kg.profile.short(IRI(iri)) for iri in solved]
    return [*found, *(name for line in lines for name in _NAME.findall(line) if name[0] != "?")]


def ranker(question: str, env: Environment) -> Ranker:
    """Return the function that ranks and cuts relations for a question (QueryAgent, appendix B.3)."""
    kg, context = env.kg, env.context

    def rank(forward: list[str], backward: list[str]) -> tuple[list[str], list[str]]:
        names = list(dict.fromkeys([*forward, *backward]))
        texts = relation_texts(kg, names)
        named, order = [(n, texts[n].label) for n in names], (context.relation_cut, context.shuffle_seed)
        is_hybrid = context.ranking == "hybrid"
        ranked = rank_relations(question, named, env.ranking_encoder, *order, kg, is_hybrid)
        return [n for n in ranked if n in forward], [n for n in ranked if n in backward]

    return rank


def accepted_facts(question: str, env: Environment, entity: str, relation: str) -> Extraction:
    """Read facts about a relation of an entity from the documents, without those that a person rejected."""
    found = extract_facts(entity, relation, question, env)
    facts = tuple(f for f in env.fact_store.add(found.facts) if f.status != "rejected")
    rejected = len(found.facts) - len(facts)
    reasons = (f"{rejected} that a person has rejected before are left out",) if rejected else ()
    return Extraction(found.passages, facts, (*reasons, *found.reasons))


def extract_facts(entity: str, relation: str, question: str, env: Environment) -> Extraction:
    """Search the documents, let the model extract triples (figure 6), align them to the KG."""
    kg, request = env.kg, fact_request(env.kg, entity, relation)
    if env.documents is None or request is None:
        why = "no documents are configured" if request else f"the graph has no relation {relation}"
        return Extraction((), (), (why,))
    short = kg.profile.short(request.relation)
    text = relation_texts(kg, [short])[short]
    words = " ".join((text.label, *text.aliases[:3], text.description)).strip()
    passages, reason = list[Passage](), f"no document names {request.name}"
    try:
        passages += env.documents.find(request.name, words, question, aliases=request.aliases, limit=PASSAGES)
    except DocumentsUnavailableError as error:
        reason = str(error)
    if not passages:
        return Extraction((), (), (reason,))
    prompt = (env.prompt if "extract" in env.prompt else load_prompt("symagent")).render(
        "extract",
        question=question,
        entity=request.name,
        relation=text.label,
        document="\n\n".join(fitting_texts(passages)),
    )
    triples, reasons = supported_triples(env.ask(prompt).text, passages, request, kg, env.encoder)
    facts = align(triples, kg, question, env.context.name_of("model"))
    return Extraction(tuple(p.text for p in passages), facts, tuple(reasons))


def fitting_texts(passages: Sequence[Passage]) -> list[str]:
    """Return as many passages as fit into a prompt, each after the title of its document."""
    texts, left = list[str](), CHARACTERS
    for passage in passages:
        text = f"{passage.title}: {passage.text}" if passage.title else passage.text
        if len(text) > left and texts:
            break
        texts.append(text[:left])
        left -= len(text)
    return texts
