"""Refine: the policy makes a trajectory anew, given the one before and its reward (SymAgent 4.3.1).

It is never shown a gold answer. A language model reads its earlier attempt in the prompt. The embedded policy
has no words to reflect on, so it does what they would come to: where the attempt found everything, it goes
again without the failed and repeated steps; where not, it follows rules not tried yet, of a wider plan and
beyond it, with one hop more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import as_file, files

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.course import Course, Learning, Order, Update
from triplewise.nodes.learning.pool import attempt_all, figures
from triplewise.nodes.prompting import Prompt, load_prompt
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory

WIDER = 2
"""How many times as many rules, and partial rules at each hop, a plan for a second try has."""
LOOKS = 30
"""Most rules that a second try runs for their reward."""


def refine(state: Learning, runtime: Runtime[Course]) -> Update:
    """Refined trajectories, one for every explored one."""
    course, order = runtime.context, runtime.context.order
    before = course.journal.of(state.iteration, "explored")
    again = Attempts(course, state.settings, state.iteration, "refined")
    wide = _wide(course, state) if order.policy == "embedded" else again

    def attempt(question: Question) -> Trajectory:
        earlier = before[question.id]
        if order.policy == "model":
            return reflected(again, question, earlier)
        if earlier.f1 == 1.0:
            return shortened(again, question, earlier)
        return retried(wide, question, earlier, order)

    safely = again.guarded(attempt)
    found = attempt_all(course, course.journal, course.questions, state.iteration, "refined", safely)
    return {"rounds": state.noted(refined=figures(list(found.values())))}


def _wide(course: Course, state: Learning) -> Attempts:
    """Attempts with a wider plan, one hop longer."""
    plain = Attempts(course, state.settings, state.iteration, "refined").context
    return Attempts(
        course,
        state.settings,
        state.iteration,
        "refined",
        plan_rules=WIDER * max(plain.plan_rules, course.order.width),
        plan_beam=WIDER * plain.plan_beam,
        plan_hops=plain.plan_hops + 1,
    )


def reflected(attempts: Attempts, question: Question, earlier: Trajectory) -> Trajectory:
    """A language model's attempt after it has read its earlier one and the reward."""
    text = _words().render(
        "earlier", turns=earlier.turns, answers=list(earlier.predicted), reward=earlier.reward
    )
    return attempts.run(question, earlier=text).trajectory


@lru_cache(maxsize=1)
def _words() -> Prompt:
    """The text around an earlier attempt."""
    with as_file(files("triplewise.nodes") / "prompts" / "_refine.yaml") as path:
        return load_prompt(path)


def shortened(attempts: Attempts, question: Question, earlier: Trajectory) -> Trajectory:
    """The rule that found everything, followed at once: no failed and no repeated step."""
    if earlier.tried[:1] == (earlier.rule,):
        return replace(earlier, origin="refined")  # nothing had failed before it
    state = attempts.planned(question)
    rule = next((r for r in state.rules if r.text() == earlier.rule), None)
    if rule is None:
        return replace(earlier, origin="refined")
    again = attempts.run(question, rule=rule).trajectory
    return again if again.reward >= earlier.reward else replace(earlier, origin="refined")


def retried(attempts: Attempts, question: Question, earlier: Trajectory, order: Order) -> Trajectory:
    """The best of the rules that were not tried yet; where none is better, the earlier attempt stands.

    The rules are run as queries for their rewards, and the best of them is followed. Recall alone (equation
    6) would choose what reaches everything, so recall and F1 together decide.
    """
    known = attempts.rules(attempts.planned(question), WIDER * order.width)
    rules = [r for r in known if r.text() not in earlier.tried][:LOOKS]
    worth = {rule.text(): attempts.worth(question, rule) for rule in rules}
    tried = tuple(dict.fromkeys((*earlier.tried, *worth)))
    best = max(rules, key=lambda rule: worth[rule.text()], default=None)
    if best is None or worth[best.text()] <= earlier.reward + earlier.f1:
        return replace(earlier, origin="refined", tried=tried)
    return replace(attempts.run(question, rule=best).trajectory, tried=tried)
