"""Baseline in the manner of RoG (Luo et al. 2024, Reasoning on Graphs): plan, retrieve, reason.

Relation paths are planned for the question, their instances retrieved from the graph, and the question is
answered from these alone: one plan, no check of it, no second try. RoG's planner is trained on the paths of a
graph. In place of training, a language model is shown seed questions with their paths; without a model the
paths are mined from seed questions, and their ends are weighed by their scores.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes import answer as answering
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.plan import demonstrations_for, readings_of, relations_around, rules_of, settings_of
from triplewise.nodes.routes import find_routes
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_lines
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Rule, path_text
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.mining import Plan, PlanSettings, seed_rules
from triplewise.tools.planning.paths import answers, rule_program
from triplewise.tools.planning.proposals import parse_paths, with_proposals
from triplewise.tools.pyql.text import read_term

PLANS = 3
"""Relation paths that are planned, as many as RoG's beam keeps."""
INSTANCES = 100
"""Instances of paths that are retrieved for one plan."""
LEAST = 0.5
"""Without a model an end is an answer if it has at least this share of the votes of the best one."""


def build(*, plans: int = PLANS, link: str = "index") -> loop.Graph:
    """Plan relation paths, retrieve them, answer from them."""
    loop.check_number("plans", plans)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        match len(state.steps):
            case 0:
                return plan(state, environment(runtime), plans)
            case 1:
                return retrieve(state, environment(runtime).kg)
            case _:
                return loop.add_step(state, reason(state, environment(runtime)))

    return loop.build_loop("rog", act, answer, link=link)


def plan(state: State, env: Environment, limit: int) -> Update:
    """Plan relation paths that may answer the question (RoG's planning module)."""
    thought, rules, why = "Which relation paths lead from the question's entities to its answer?", [], ""
    dropped = state.dropped
    if state.linked and env.context.embedded:
        rules = mined_rules(state, env)[:limit]
    elif state.linked:
        shown, around = demonstrations_for(state, env), relations_around(env.kg, env.encoder, state)
        values = {"demonstrations": shown, "rules": [], "relations": around}  # as SymAgent's planner
        thought = loop.ask(state, env, "rog", "plan", limit=limit, **values).text
        settings = replace(settings_of(env), documents=False, rules=limit)
        found = with_proposals(Plan(), parse_paths(thought), state.linked, env.kg, env.encoder, settings)
        rules, dropped = list(found.rules), found.dropped
        why = "; ".join(f"{d.text}: {d.reason}" for d in dropped)
    text, why = "; ".join(rule.text() for rule in rules), why or "no relation path fits the question"
    feedback = Feedback(action="plan", observation=text or why, message="" if text else why)
    step = loop.make_step(state, thought, Call("plan"), feedback)
    return loop.add_step(state, step, rules=tuple(rules), dropped=dropped)


def mined_rules(state: State, env: Environment) -> list[Rule]:
    """Return rules of the seed questions most like this one; without seeds, those of its readings."""
    kg, seeds = env.kg, env.seeds
    if seeds is None:
        return list(rules_of(readings_of(state, env), kg.profile))
    mined = seed_rules(state.question, state.linked, kg, seeds, PlanSettings().seed_count)
    return sorted(mined, key=lambda rule: -rule.score)


def retrieve(state: State, kg: KnowledgeGraph) -> Update:
    """Retrieve the instances of the planned paths in the graph (RoG's retrieval module)."""
    paths = list(dict.fromkeys(path for rule in state.rules for path in instances(kg, rule)))
    feedback = Feedback(
        action="retrieve",
        outcome=str(Outcome.ROWS if paths else Outcome.EMPTY),
        observation="\n".join(memory_lines(kg, paths)) or "no path of the plan is in the graph",
        triples=tuple(dict.fromkeys(triple for path in paths for triple in path)),
    )
    call = Call("retrieve", tuple(path_text(rule.path) for rule in state.rules))
    step = loop.make_step(state, "Retrieve what lies on these paths.", call, feedback)
    return loop.add_step(state, step, memory=tuple(paths))


def instances(kg: KnowledgeGraph, rule: Rule, limit: int = INSTANCES) -> list[tuple[Triple, ...]]:
    """Return the paths in a graph that a rule stands for, one to each of its first ends."""
    ends, start = answers(kg, rule, limit), read_term(rule.anchor, kg.profile)
    if not ends or start is None:
        return []
    try:
        query = rule_program(kg, rule)
    except ActionError:
        return []
    rows = kg.query(query.proof_sparql(kg.profile, ends), limit=4 * limit)
    routes = find_routes(query.proof(kg.profile, rows), [start], set(ends).__contains__)
    return [tuple(triple for triple, _ in route.hops) for route in routes]


def reason(state: State, env: Environment) -> Step:
    """Answer from the retrieved paths (RoG's reasoning module).

    Without a model the answers are the ends of the paths, those with most votes first; the vote of a plan is
    its score.
    """
    kg = env.kg
    if not env.context.embedded:
        reply = loop.ask(state, env, "rog", "reason", paths=memory_lines(kg, state.memory)).text
        ends = [n for path in state.memory for t in path[-1:] for n in (t.object, t.subject)]
        others = [n for path in state.memory for t in path for n in (t.object, t.subject)]
        shown = loop.shown_names(kg, [*ends, *others])
        return loop.answer_step(state, "", *loop.name_reply(reply, state, env, shown=shown))
    votes: dict[Term, float] = defaultdict(float)
    for rule in state.rules:
        for end in answers(kg, rule):
            votes[end] += rule.score
    least = LEAST * max(votes.values(), default=0.0)
    likely = sorted((end for end in votes if votes[end] >= least), key=lambda end: -votes[end])
    why = state.steps[0].feedback.message or "no path of the plan is in the graph"
    named = loop.named_values(kg, [kg.profile.short(end) for end in likely])
    return loop.answer_step(state, "The ends of the likeliest paths are the answer.", named, why)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the retrieved paths that lead to the answers as proof."""
    named, why_none = loop.last_answer(state)
    if not named:
        return {"answer": loop.make_answer(state, runtime.context, (), why_none)}
    made = answering.memory(state, runtime)["answer"]
    if not made.proof and not runtime.context.embedded:
        made = replace(made, reason="no retrieved path leads to the answer: it is what the model knows")
    return {"answer": made}
