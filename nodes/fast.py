"""The fast path: the best rule of the plan run as one program, instead of step by step.

A rule was found in the KG, so its steps hold no surprise: what is left to see is whether its query finds
something and whether the inspector has anything against the answer. If it has, the step is rolled back like
any other and the run goes on step by step, with the same rule or another.
"""

from __future__ import annotations

from dataclasses import replace

from triplewise.nodes.action_context import action_context
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State
from triplewise.tools.actions.action import ActionContext
from triplewise.tools.actions.results import compared
from triplewise.tools.actions.terms import UNNAMED, Resolver
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Rule, script
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.text import apply

_FOUND = (Outcome.ROWS, Outcome.TRUNCATED)


def whole_program(state: State, context: Context) -> tuple[str, str, Feedback] | None:
    """Thought, program and feedback of the best rule, run at once.

    None where the setting `fast_path` is off, a step was already made, the actions build no query, or the
    rule finds nothing that can be shown as an answer: then nothing is recorded and the steps begin.
    """
    toolset = environment(context).toolset
    if not context.fast_path or state.steps or not state.rules or toolset.name != "pyql":
        return None
    rule, bench = state.rules[0], action_context(state, context)
    calls = [c for c in script(rule) if c.name != "get_relation"]
    program = _built(bench, calls[:-1])
    if program is None:
        return None
    feedback = toolset.execute(replace(bench, program=program.text(bench.kg.profile)), calls[-1])
    shown = {label for labels in feedback.values.values() for label in labels}
    if feedback.outcome not in _FOUND or not feedback.finished or UNNAMED in shown:
        return None
    if feedback.answers in ((), ("false",)):
        return None
    # The rule as an argument tells this run from an `execute()` that a later step makes.
    feedback = replace(feedback, arguments=(rule.text(),))
    return _thought(rule), "\n".join(call.text() for call in calls), feedback


def _thought(rule: Rule) -> str:
    """Why all at once, in a sentence."""
    return f"The best rule, {rule.text()} ({rule.provenance}), is run as one program."


def _built(bench: ActionContext, calls: list[Call]) -> PyQL | None:
    """The program of some construct calls, without looking at what each finds; None if one does not fit."""
    program, profile = PyQL(), bench.kg.profile
    resolver = Resolver(bench)
    try:
        for call in calls:
            forms = resolver.comparison(*call.arguments) if call.name == "add_filter" else call.arguments
            program = compared(bench.kg, program, apply(program, call.name, forms, profile))
    except ActionError:
        return None
    return program
