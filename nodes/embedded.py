"""The policy without a language model: follow the best reading, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from triplewise.nodes.state import State
from triplewise.nodes.walk import Walk
from triplewise.tools.actions import Toolset
from triplewise.tools.actions.agentbench import set_script
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.pyql import execute_program, script
from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.files import parse_yaml
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.statements import denies, form_of
from triplewise.tools.pyql.program import Fact, Filter, PyQL

GIVE_UP = Call("give_up")
SCRIPTS: dict[str, Callable[[PyQL, Profile], tuple[Call, ...]]] = {"pyql": script, "agentbench": set_script}
"""Toolset -> all the actions that a program stands for, where they are known beforehand."""
_THOUGHTS: Mapping[str, str] = parse_yaml(
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


def decide(state: State, kg: KnowledgeGraph, toolset: str) -> Choice:
    """Return the next action: `give_up` once no reading is left.

    What the actions of a toolset cannot do ends the run: another reading would answer another question.
    """
    walk = Walk(state, kg, toolset)
    for attempt, reading in enumerate(state.readings):
        program = PyQL.parse(reading.program, kg.profile)
        try:
            if toolset in SCRIPTS:
                choice = _next_call(state, reading, SCRIPTS[toolset](program, kg.profile), attempt)
            else:
                choice = _next_look(state, reading, walk.follow(program), attempt, toolset)
        except ActionError as error:
            # Only this path excludes nodes, as simple paths do: the question asks for nothing of the kind.
            others = [clause for clause in program.clauses if not isinstance(clause, Fact)]
            only_excludes = all(isinstance(clause, Filter) and clause.operator == "!=" for clause in others)
            if only_excludes and reading is not state.readings[-1]:
                continue
            can = "no action on sets can do" if toolset in SCRIPTS else "takes a query"
            obstacle = f"The question needs {error.message}, which {can}."
            return Choice(obstacle, GIVE_UP, state.program, attempt)
        if choice is not None:
            return choice
    return Choice("No reading is left to try.", GIVE_UP, state.program, len(state.readings))


def _next_call(state: State, reading: Reading, calls: Sequence[Call], attempt: int) -> Choice | None:
    """Return the first call of the reading's script not made yet; None if one of them failed before."""
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


def _next_look(
    state: State, reading: Reading, found: Call | tuple[str, ...], attempt: int, toolset: str
) -> Choice | None:
    """Return what is looked at next on the walk along a reading, or its answers; None without any."""
    if toolset == "symbolic" and not state.steps:
        plan = Call("get_rules", (state.question,))
        return Choice("Plan first: which rules fit the question?", plan, state.program, attempt)
    if isinstance(found, Call):
        is_each = found.name == "search_each"
        where = f"{len(found.arguments) - 1} entities at once" if is_each else found.arguments[0]
        return Choice(f"Follow {reading.text}: look further from {where}.", found, state.program, attempt)
    if not found:
        return None
    thought = "The facts in memory answer the question."
    if form_of(state.question) == "claim":
        is_denial = denies(state.question)
        found = (str((found == ("true",)) != is_denial).lower(),)
        thought = f"The claim {'denies it' if is_denial else 'says so'}, and {reading.provenance}."
    finish = Call("answer" if toolset == "explore" else "finish", found)
    if finish.text() in {s.call for s in state.steps}:
        return None
    return Choice(thought, finish, state.program, attempt)


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
