"""Explore: the policy answers every question and is told what its answer is worth (SymAgent 4.3.1)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory


def explore(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make self-explored trajectories with their rewards (equation 6), one a question.

    The embedded policy follows its first rule. A language model makes some attempts, none after one that is
    perfect; the best by reward, then F1, then length is kept, the earliest of equals.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "explored")
    if learning.config.policy == "embedded":
        explorer = attempts.explorer()
        means = attempts.of_all(explorer.explore, learning.journal, learning.questions)
        return {"rounds": state.with_figures(explored=means)}

    def attempt(question: Question) -> Trajectory:
        made: list[Trajectory] = []
        while len(made) < learning.config.attempts and not (made and made[-1].f1 == 1.0):
            made.append(attempts.run(question))
        return max(made, key=lambda t: (t.reward, t.f1, -len(t.turns)))

    means = attempts.of_all(attempt, learning.journal, learning.questions)
    return {"rounds": state.with_figures(explored=means)}
