"""Explore and refine: the policy answers every question, then makes each attempt anew (SymAgent 4.3.1)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update
from triplewise.nodes.prompting import load_prompt
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory


def explore(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make self-explored trajectories with their rewards (equation 6), one a question.

    The embedded policy follows its first rule. A language model makes some attempts, none after one that is
    perfect; the best by reward, then F1, then length is kept, the earliest of equals.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "explored")

    def attempt(question: Question) -> Trajectory:
        made: list[Trajectory] = []
        while len(made) < learning.config.attempts and not (made and made[-1].f1 == 1.0):
            made.append(attempts.run(question))
        return max(made, key=lambda t: (t.reward, t.f1, -len(t.turns)))

    embedded = learning.config.policy == "embedded"
    make = attempts.explorer().explore if embedded else attempt
    figures = attempts.of_all(make, learning.journal, learning.questions)
    return {"rounds": state.with_figures(explored=figures)}


def refine(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make refined trajectories, one for every explored one, given that one and its reward.

    The policy is never shown a gold answer. A language model reads its earlier attempt in the prompt. The
    embedded policy has no words to reflect on, so it does what they would come to: it follows rules that it
    had not chosen.
    """
    learning = runtime.context
    explored = learning.journal.of(state.iteration, "explored")
    attempts = Attempts(learning, state, "refined")
    explorer = attempts.explorer() if learning.config.policy == "embedded" else None
    prompt = load_prompt("_refine")

    def attempt(question: Question) -> Trajectory:
        earlier = explored[question.id]
        if explorer is not None:
            return explorer.refine(question, earlier)
        text = prompt.render(
            "earlier", turns=earlier.turns, answers=list(earlier.predicted), reward=earlier.reward
        )
        return attempts.run(question, earlier=text)

    figures = attempts.of_all(attempt, learning.journal, learning.questions)
    return {"rounds": state.with_figures(refined=figures)}
