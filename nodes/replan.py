"""Rules for a part of the question: get_rules plans for what it is asked (SymAgent 4.2.1, equation 3)."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.link import link
from triplewise.nodes.plan import mined, proposed
from triplewise.nodes.state import State
from triplewise.tools.actions.symbolic import RuleService
from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule

REPLANNED = 3
"""Sub-questions that are planned for in one run: each may take a model call and dozens of queries."""


def rule_service(state: State, context: Context) -> RuleService:
    """The service behind get_rules: the plan for the question itself, a plan of its own for another one."""

    def rules(question: str) -> Sequence[str]:
        if _same(question, state.question) or _asked(state) >= REPLANNED:
            return [r.text() for r in state.rules]
        own = _planned(question, state, context)
        return [r.text() for r in own or state.rules]

    return rules


def _same(question: str, other: str) -> bool:
    return normalise(question) in ("", normalise(other))


def _asked(state: State) -> int:
    """Sub-questions that were planned for so far."""
    calls = [s.feedback.arguments for s in state.steps if s.feedback.action == "get_rules"]
    return len({normalise(" ".join(a)) for a in calls if not _same(" ".join(a), state.question)})


def _planned(question: str, state: State, context: Context) -> tuple[Rule, ...]:
    """Rules for a sub-question, from the entities that it names, else from those of the question."""
    runtime: Runtime[Context] = Runtime(context=context)
    sub = State(question=question)
    linked = link(sub, runtime)["linked"] or state.linked
    planned = (mined if context.embedded else proposed)(sub.model_copy(update={"linked": linked}), runtime)
    rules: tuple[Rule, ...] = planned["rules"]
    return rules
