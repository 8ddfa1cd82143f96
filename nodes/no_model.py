"""The policy without a language model: follow the best reading, read feedback, fall back to the next.

It takes PyQL's actions, whatever the preset's, and reads the same feedback and corrections as a model does. A
decision is a pure function of the state, so a resumed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from triplewise.nodes.state import State
from triplewise.tools.actions import ActionContext, Call, Feedback, Toolset
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.pyql import execute_program, script
from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.files import parse_yaml
from triplewise.tools.kg import Outcome, Profile
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.pyql.program import PyQL

GIVE_UP = Call("give_up")
_THOUGHTS = parse_yaml(
    (files("triplewise.nodes") / "thoughts.yaml").read_text(encoding="utf-8"), "thoughts.yaml"
).value
"""Action -> why it is taken; places in braces are its arguments."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: the thought, the call, the program it applies to, and the reading followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, profile: Profile) -> Choice:
    """Return the next action: that of the first reading none of whose actions has failed, else `give_up`."""
    for attempt, reading in enumerate(state.readings):
        calls = script(PyQL.parse(reading.program, profile), profile)
        if (choice := _next_call(state, reading, calls, attempt)) is not None:
            return choice
    return Choice("No reading is left to try.", GIVE_UP, state.program, len(state.readings))


def _next_call(state: State, reading: Reading, calls: Sequence[Call], attempt: int) -> Choice | None:
    """Return the first of a reading's calls that was not made yet; None if one of them failed before."""
    made = {(s.program_before, s.call): s.feedback.program for s in state.standing}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    program = ""
    for call in calls:
        key = (program, call.text())
        if key in failed:
            return None
        if key not in made:
            thought = _THOUGHTS.get(call.name, "Follow the reading.").format(*call.arguments, *("", "", ""))
            named = f"{reading.text} ({reading.provenance})"
            if not state.steps:
                thought = f"Follow the best reading, {named}. {thought}"
            elif state.last.rolled_back:
                thought = f"That did not work out. Try reading {attempt + 1}, {named}. {thought}"
            return Choice(thought, call, program, attempt)
        program = made[key]
    return None


def whole_program(state: State, actions: ActionContext, toolset: Toolset) -> tuple[str, str, Feedback] | None:
    """Thought, program and feedback of the best reading, run at once: the setting `cascade`.

    A reading was found in the KG, so its steps hold no surprise: what is left to see is whether the inspector
    has anything against the answer. If it has, the step is rolled back like any other and the model goes on.
    None where the actions build no query, or the reading finds nothing that can be shown as an answer.
    """
    if toolset.name != "pyql":
        return None
    reading, kg = state.readings[0], actions.kg
    try:
        program = compared(kg, PyQL(), PyQL.parse(reading.program, kg.profile))
        feedback = execute_program(actions, program)
    except (ActionError, QueryFailedError):
        return None
    shown = {label for labels in feedback.values.values() for label in labels}
    if not (Outcome(feedback.outcome).ok and feedback.answers) or UNNAMED in shown:
        return None
    # The reading as an argument tells this run from an `execute()` that a later step makes.
    feedback = replace(feedback, action="execute", arguments=(reading.text,))
    thought = f"The best reading, {reading.text} ({reading.provenance}), is run as one program."
    return thought, f"{program.text(kg.profile)}\nexecute()", feedback
