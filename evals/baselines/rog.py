"""Baseline in the manner of RoG (Luo et al. 2024, Reasoning on Graphs): plan, retrieve, reason.

Relation paths are planned for the question, their instances retrieved from the graph, and the question is
answered from these alone: one plan, no look at whether it was right, no second try. RoG's planner is trained
on the paths of a graph. In place of training, a language model is shown seed questions with their paths;
without a model the paths are mined from seed questions, and their ends are weighed by their scores.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.evals.baselines.loop import (
    Graph,
    add_step,
    answer_step,
    ask,
    build_loop,
    check_number,
    last_answer,
    make_answer,
    make_step,
    name_reply,
    named_values,
    shown_names,
)
from triplewise.nodes import answer as answering
from triplewise.nodes.answer import find_routes
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.plan import demonstrations_for, readings_of, relations_around, rules_of, settings_of
from triplewise.nodes.state import State, Step
from triplewise.nodes.text import memory_lines
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Rule, path_text
from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.bodies import answers, rule_program
from triplewise.tools.planning.mining import Plan, PlanSettings, seed_rules
from triplewise.tools.planning.proposals import parse_bodies, with_proposals
from triplewise.tools.pyql.text import read_term

PLANS = 3
"""Relation paths that are planned, as many as RoG's beam keeps."""
INSTANCES = 100
"""Instances of paths that are retrieved for one plan."""
LEAST = 0.5
"""Without a model an end is an answer if it has at least this share of the votes of the best one."""


def build(*, plans: int = PLANS, link: str = "index") -> Graph:
    """Plan relation paths, retrieve them, answer from them."""
    check_number("plans", plans)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        if not state.steps:
            return plan(state, runtime.context, plans)
        if len(state.steps) == 1:
            return retrieve(state, runtime.context)
        return add_step(state, reason(state, runtime.context))

    return build_loop("rog", act, answer, link=link)


def plan(state: State, context: Context, limit: int) -> Update:
    """Plan relation paths that may answer the question (RoG's planning module)."""
    thought = "Which relation paths lead from the question's entities to its answer?"
    paths, kg, encoder = Plan(), environment(context).kg, environment(context).encoder
    settings, seeds = replace(settings_of(context), documents=False), environment(context).seeds
    if state.linked and context.embedded:
        # Paths of the seed questions most like this one; without seeds, those of its readings.
        if seeds is not None:
            caps, count = PlanSettings().caps, PlanSettings().seed_count
            mined = seed_rules(state.question, state.linked, kg, seeds, caps, count)
            rules = sorted(mined, key=lambda rule: -rule.score)
        else:
            rules = list(rules_of(readings_of(state, context), kg.profile))
        paths = Plan(tuple(rules[:limit]))
    elif state.linked:
        thought = ask(
            state, context, "rog", "plan",
            demonstrations=demonstrations_for(state, context),
            rules=[], relations=relations_around(kg, encoder, state), limit=limit,
        ).text  # fmt: skip
        # What the model writes is aligned to relations of the graph.
        bodies, settings = parse_bodies(thought), replace(settings, rules=limit)
        paths = with_proposals(Plan(), bodies, state.linked, kg, encoder, settings)
    text = "; ".join(rule.text() for rule in paths.rules)
    why = "; ".join(f"{d.text}: {d.reason}" for d in paths.dropped) or "no relation path fits the question"
    feedback = Feedback(action="plan", observation=text or why, message="" if text else why)
    step = make_step(state, thought, Call("plan"), feedback)
    return add_step(state, step, rules=paths.rules, dropped=paths.dropped)


def retrieve(state: State, context: Context) -> Update:
    """Retrieve the instances of the planned paths in the graph (RoG's retrieval module)."""
    kg = environment(context).kg
    paths = list(dict.fromkeys(path for rule in state.rules for path in instances(kg, rule)))
    feedback = Feedback(
        action="retrieve",
        outcome=str(Outcome.ROWS if paths else Outcome.EMPTY),
        observation="\n".join(memory_lines(kg, paths)) or "no path of the plan is in the graph",
        triples=tuple(dict.fromkeys(triple for path in paths for triple in path)),
    )
    call = Call("retrieve", tuple(path_text(rule.body) for rule in state.rules))
    step = make_step(state, "Retrieve what lies on these paths.", call, feedback)
    return add_step(state, step, memory=tuple(paths))


def instances(kg: KnowledgeGraph, rule: Rule, limit: int = INSTANCES) -> list[tuple[Triple, ...]]:
    """Return the paths in a graph that a rule stands for, one to each of its first ends."""
    ends = answers(kg, rule, limit)
    start = read_term(rule.anchor, kg.profile)
    if not ends or start is None:
        return []
    try:
        query = rule_program(kg, rule)
    except ActionError:
        return []
    rows = kg.query(query.proof_sparql(kg.profile, ends), limit=4 * limit)
    routes = find_routes(query.proof(kg.profile, rows), [start], set(ends).__contains__)
    return [tuple(triple for triple, _ in route.hops) for route in routes]


def reason(state: State, context: Context) -> Step:
    """Answer from the retrieved paths (RoG's reasoning module).

    Without a model the answers are the ends of the paths, those with most votes first; the vote of a plan is
    its score.
    """
    kg = environment(context).kg
    if not context.embedded:
        reply = ask(state, context, "rog", "reason", paths=memory_lines(kg, state.memory)).text
        ends = [n for path in state.memory for t in path[-1:] for n in (t.object, t.subject)]
        others = [n for path in state.memory for t in path for n in (t.object, t.subject)]
        shown = shown_names(kg, [*ends, *others])
        return answer_step(state, "", *name_reply(reply, state, context, shown=shown))
    votes: dict[Term, float] = defaultdict(float)
    for rule in state.rules:
        for end in answers(kg, rule):
            votes[end] += rule.score
    least = LEAST * max(votes.values(), default=0.0)
    likely = sorted((end for end in votes if votes[end] >= least), key=lambda end: -votes[end])
    why = state.steps[0].feedback.message or "no path of the plan is in the graph"
    named = named_values(kg, [kg.profile.short(end) for end in likely])
    return answer_step(state, "The ends of the likeliest paths are the answer.", named, why)


def answer(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the retrieved paths that lead to the answers as proof."""
    named, why_none = last_answer(state)
    if not named:
        return {"answer": make_answer(state, runtime.context, (), why_none)}
    made = answering.memory(state, runtime)["answer"]
    if not made.proof and not runtime.context.embedded:
        reason = "no retrieved path leads to the answer: it is what the model knows"
        made = replace(made, reason=reason)
    return {"answer": made}
