"""The policy without a language model: follow the best reading; after an error, the next best one.

It uses PyQL's actions in every preset, and gets the same feedback and corrections as a model. A decision is a
pure function of the state, so a resumed run continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triplewise.nodes.state import State
from triplewise.tools.actions import Call
from triplewise.tools.actions.pyql import script
from triplewise.tools.core.files import packaged
from triplewise.tools.kg import Profile
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.pyql.program import PyQL

GIVE_UP = Call("give_up")
_THOUGHTS = packaged("triplewise.nodes", "thoughts.yaml")
"""Action -> the thought that explains it; placeholders in braces are its arguments."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The next step: thought, call, the program it applies to, and the index of the reading followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, profile: Profile) -> Choice:
    """Return the next action of the first reading without a failed action, else `give_up`."""
    for attempt, reading in enumerate(state.readings):
        calls = script(PyQL.parse(reading.program, profile), profile)
        if (choice := _next_call(state, reading, calls, attempt)) is not None:
            return choice
    return Choice("No reading is left to try.", GIVE_UP, state.program, len(state.readings))


def _next_call(state: State, reading: Reading, calls: Sequence[Call], attempt: int) -> Choice | None:
    """Return the first call of a reading that was not made yet; None if one has failed."""
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
