"""Refine: the policy makes a trajectory anew, given the one before and its reward (SymAgent 4.3.1).

It is never shown a gold answer. A language model reads its earlier attempt in the prompt. The embedded policy
has no words to reflect on, so it does what they would come to: it follows rules that it had not chosen.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update
from triplewise.nodes.prompting import load_prompt
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory


def refine(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make refined trajectories, one for every explored one."""
    learning = runtime.context
    explored = learning.journal.of(state.iteration, "explored")
    attempts = Attempts(learning, state, "refined")
    explorer = attempts.explorer() if learning.config.policy == "embedded" else None
    with as_file(files("triplewise.nodes") / "prompts" / "_refine.yaml") as path:
        prompt = load_prompt(path)

    def attempt(question: Question) -> Trajectory:
        earlier = explored[question.id]
        if explorer is not None:
            return explorer.refine(question, earlier)
        text = prompt.render(
            "earlier", turns=earlier.turns, answers=list(earlier.predicted), reward=earlier.reward
        )
        return attempts.run(question, earlier=text)

    means = attempts.of_all(attempt, learning.journal, learning.questions)
    return {"rounds": state.with_figures(refined=means)}
