"""Baseline in the manner of RoG (Luo et al. 2024, Reasoning on Graphs): plan, retrieve, reason.

Relation paths are planned for the question, their instances retrieved from the graph, and the question is
answered from these alone: one plan, no look at whether it was right, no second try. RoG's planner is trained
on the paths of a graph. In place of training, a language model is shown seed questions with their paths;
without a model the paths are mined from seed questions, and their ends are weighed by their scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.answering import (
    Named,
    answer_step,
    asked,
    ended,
    extended,
    make_answer,
    make_step,
    name_answers,
    read_answers,
    said_nothing,
)
from triplewise.evals.baselines.wiring import Graph, own_prompt, wire
from triplewise.nodes.answer import labels_of
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.facts import told
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.plan import _around, _demonstrations, settings_of
from triplewise.nodes.routes import Route, find_routes, route_query
from triplewise.nodes.state import ProofTriple, State, Step
from triplewise.nodes.text import memory_lines, node_labels, triple_text
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError, ConfigurationError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule, path_text
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.bodies import answers, rule_program
from triplewise.tools.planning.lexical.planner import Plan, make_plan, seed_rules
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.planning.proposals import grounder_for, parse_bodies, with_proposals
from triplewise.tools.pyql.text import read_term

PLANS = 3
"""Relation paths that are planned, as many as RoG's beam keeps."""
SHOWN = 100
"""Instances of paths that are retrieved for one plan."""
LEAST = 0.5
"""Without a model an end is an answer if it has at least this share of the votes of the best one."""
PROVEN = 50
"""Most facts shown as proof."""


def build(*, plans: int = PLANS, link: str = "index") -> Graph:
    """Plan relation paths, retrieve them, answer from them.

    Args:
        plans: relation paths that are planned. link: variant of the linking phase.

    Raises:
        ConfigurationError: fewer than one path.
    """
    if not isinstance(plans, int) or plans < 1:
        raise ConfigurationError(f"plans must be a whole number above 0, got {plans!r}")
    return wire("rog", _acting(plans), _answer, link=link)


def _acting(limit: int) -> Phase:
    """The next of the three steps."""

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Plan, retrieve, reason."""
        match len(state.steps):
            case 0:
                return _plan(state, runtime.context, limit)
            case 1:
                return _retrieve(state, runtime.context)
            case _:
                return _reason(state, runtime.context)

    return act


def _plan(state: State, context: Context, limit: int) -> Update:
    """Relation paths that may answer the question."""
    thought = "Which relation paths lead from the question's entities to its answer?"
    if not state.linked:
        plan = Plan()
    elif context.embedded:
        plan = Plan(tuple(_mined(state, context)[:limit]))
    else:
        thought, plan = _proposed(state, context, limit)
    found = "; ".join(rule.text() for rule in plan.rules)
    why = "; ".join(f"{d.text}: {d.reason}" for d in plan.dropped) or "no relation path fits the question"
    feedback = Feedback(action="plan", observation=found or why, message="" if found else why)
    step = make_step(state, thought, Call("plan"), feedback)
    return extended(state, step, rules=plan.rules, dropped=plan.dropped)


def _mined(state: State, context: Context) -> list[Rule]:
    """Paths of the seed questions most like this one; without seeds, those whose words fit it best."""
    kg, encoder, seeds = environment(context).kg, environment(context).encoder, environment(context).seeds
    if seeds is not None:
        rules = seed_rules(state.question, state.linked, kg, encoder, seeds, PlanSettings())
        return sorted(rules, key=lambda rule: -rule.score)
    settings = replace(settings_of(context), documents=False)
    return list(make_plan(state.question, state.linked, kg, encoder, None, settings).rules)


def _proposed(state: State, context: Context, limit: int) -> tuple[str, Plan]:
    """Paths that the model writes, aligned to relations of the graph; its reply too."""
    kg, encoder = environment(context).kg, environment(context).encoder
    written = own_prompt("rog", context).render(
        "plan",
        **asked(state),
        demonstrations=_demonstrations(state, context),
        rules=[],
        relations=_around(kg, encoder, state),
        limit=limit,
    )
    reply = environment(context).model.complete([{"role": "user", "content": written}]).text
    settings = replace(settings_of(context), documents=False)
    grounder = grounder_for(kg, encoder, state.linked, settings, Plan())
    return reply, with_proposals(Plan(), parse_bodies(reply), grounder, limit)


def _retrieve(state: State, context: Context) -> Update:
    """The instances of the planned paths in the graph."""
    kg = environment(context).kg
    paths = list(dict.fromkeys(path for rule in state.rules for path in instances(kg, rule)))
    triples = tuple(dict.fromkeys(triple for path in paths for triple in path))
    feedback = Feedback(
        action="retrieve",
        outcome=str(Outcome.ROWS if paths else Outcome.EMPTY),
        observation="\n".join(memory_lines(kg, paths)) or "no path of the plan is in the graph",
        triples=triples,
    )
    call = Call("retrieve", tuple(path_text(rule.body) for rule in state.rules))
    step = make_step(state, "Retrieve what lies on these paths.", call, feedback)
    return extended(state, step, memory=tuple(paths))


def instances(kg: KnowledgeGraph, rule: Rule, limit: int = SHOWN) -> list[tuple[Triple, ...]]:
    """The paths in a graph that a rule stands for, one to each of its first ends."""
    ends = answers(kg, rule, limit)
    start = read_term(rule.anchor, kg.profile)
    if not ends or start is None:
        return []
    try:
        query = rule_program(kg, rule)
    except ActionError:
        return []
    rows = kg.query(query.proof_sparql(kg.profile, ends), limit=4 * limit)
    facts = query.proof(kg.profile, rows)
    routes = find_routes(facts, [start], set(ends).__contains__)
    return [tuple(triple for triple, _ in route.hops) for route in routes]


def _reason(state: State, context: Context) -> Update:
    """Answer from the retrieved paths."""
    if context.embedded:
        return extended(state, _weighed(state, context))
    kg = environment(context).kg
    written = own_prompt("rog", context).render(
        "reason", **asked(state), paths=memory_lines(kg, state.memory)
    )
    reply = environment(context).model.complete([{"role": "user", "content": written}]).text
    named = name_answers(read_answers(reply), state, context, _names(kg, state.memory))
    return extended(state, answer_step(state, "", named, said_nothing(reply)))


def _names(kg: KnowledgeGraph, paths: Sequence[Sequence[Triple]]) -> dict[str, str]:
    """Normalised name -> short id of what stands on some paths; their ends go before what is on the way."""
    nodes: list[Term] = [n for path in paths for t in path[-1:] for n in (t.object, t.subject)]
    nodes += [n for path in paths for t in path for n in (t.object, t.subject)]
    names: dict[str, str] = {}
    for node, label in node_labels(kg, nodes).items():
        names.setdefault(normalise(label), kg.profile.short(node))
    return names


def _weighed(state: State, context: Context) -> Step:
    """The ends of the paths, most votes first; a plan's vote is its score."""
    kg = environment(context).kg
    votes: dict[Term, float] = defaultdict(float)
    for rule in state.rules:
        for end in answers(kg, rule):
            votes[end] += rule.score
    least = LEAST * max(votes.values(), default=0.0)
    ends = sorted((e for e in votes if votes[e] >= least), key=lambda e: -votes[e])
    values = [kg.profile.short(end) for end in ends]
    named = [Named(*pair) for pair in zip(values, labels_of(kg, values), strict=True)]
    why = state.steps[0].feedback.message or "no path of the plan is in the graph"
    return answer_step(state, "The ends of the likeliest paths are the answer.", named, why)


def _answer(state: State, runtime: Runtime[Context]) -> Update:
    """What was answered, with the retrieved paths that lead to it."""
    context, kg = runtime.context, environment(runtime.context).kg
    named, note = ended(state)
    routes = _routes(kg, state, {n.value for n in named})
    query = route_query(routes)
    if named and not routes and not context.embedded:
        note = "no retrieved path leads to the answer: it is what the model knows"
    answer = make_answer(
        state,
        context,
        named,
        note,
        proof=told(kg, _proof(kg, routes)),
        sparql=query.sparql(kg.profile) if query is not None else "",
    )
    return {"answer": answer}


def _routes(kg: KnowledgeGraph, state: State, values: set[str]) -> list[Route]:
    """The chains of retrieved facts from the question's entities to some values."""
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    facts = [triple for path in state.memory for triple in path]
    return find_routes(facts, starts, lambda node: kg.profile.short(node) in values) if values else []


def _proof(kg: KnowledgeGraph, routes: Sequence[Route]) -> list[ProofTriple]:
    """The facts of some chains, with their text."""
    facts = list(dict.fromkeys(triple for route in routes for triple, _ in route.hops))[:PROVEN]
    texts = triple_text(kg, facts, exact=False)
    return [ProofTriple(fact, text) for fact, text in zip(facts, texts, strict=True)]
