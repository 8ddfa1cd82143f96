"""Explore: the policy answers every question and is told what its answer is worth (SymAgent 4.3.1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts, best_of
from triplewise.nodes.learning.course import Course, Learning, Order, Update
from triplewise.nodes.learning.pool import attempt_all, figures
from triplewise.tools.core.rules import Rule
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory


def explore(state: Learning, runtime: Runtime[Course]) -> Update:
    """Self-explored trajectories with their rewards (equation 6), one a question."""
    course = runtime.context
    attempts = attempts_of(course, state)

    def attempt(question: Question) -> Trajectory:
        return explored(attempts, question, course.order)

    safely = attempts.guarded(attempt)
    found = attempt_all(course, course.journal, course.questions, state.iteration, "explored", safely)
    return {"rounds": state.noted(explored=figures(list(found.values())))}


def attempts_of(course: Course, state: Learning) -> Attempts:
    """What explores: the embedded policy plans more rules than it needs, to draw from."""
    wider = {}
    if course.order.policy == "embedded":
        planned = course.order.context.get("plan_rules", 8)
        wider = {"plan_rules": max(planned, course.order.width)}
    return Attempts(course, state.settings, state.iteration, "explored", **wider)


def explored(attempts: Attempts, question: Question, order: Order) -> Trajectory:
    """The best of some attempts at a question.

    The first is the policy's own. The embedded policy then follows other rules, of its plan and beyond it,
    drawn with chances that fall with their rank; a language model tries again. No attempt follows one that
    is perfect.
    """
    first, state = attempts.run(question)
    made, tried = [first], list(first.tried)
    others: Sequence[Rule | None] = [None] * (order.tries - 1)
    if first.f1 < 1.0 and attempts.context.embedded:
        draw = random.Random(f"{order.seed} {attempts.iteration} {question.id}")
        rules = [r for r in attempts.rules(state, order.width) if r.text() not in tried]
        others = drawn(rules, order.tries - 1, draw)
    for rule in others:
        if made[-1].f1 == 1.0:
            break
        made.append(attempts.run(question, rule=rule).trajectory)
        tried += made[-1].tried
    return replace(best_of(made), tried=tuple(dict.fromkeys(tried)))


def drawn(rules: Sequence[Rule], count: int, draw: random.Random) -> list[Rule]:
    """Some rules without replacement, each with a chance of one by its rank."""
    left, taken = list(enumerate(rules, 1)), list[Rule]()
    while left and len(taken) < count:
        chosen = draw.choices(left, [1 / rank for rank, _ in left])[0]
        left.remove(chosen)
        taken.append(chosen[1])
    return taken
