"""Plans for what is no question: a slot names its relation, a claim says a fact (ODA, section 3.1).

Planning by the words of a question would look for what answers them. A slot wants the one relation it names,
or none; a claim wants facts that prove or contradict it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import wraps

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.forms import form_of, slot_of
from triplewise.nodes.phase import Phase, Update
from triplewise.nodes.state import State
from triplewise.tools.core.rules import Rule
from triplewise.tools.planning.lexical.claims import claim_rules
from triplewise.tools.planning.lexical.slots import slot_rules

MINING = ("mined", "proposed", "for-policy")
"""Variants of the plan that look for rules by the words of a question."""


def rules_of(state: State, context: Context) -> tuple[Rule, ...] | None:
    """The rules that fill a slot or decide a claim; None for a question."""
    slot = slot_of(state.question)
    if slot is not None:
        return slot_rules(slot[1], state.linked, environment(context).kg, environment(context).encoder)
    if form_of(state.question) == "claim":
        kg, encoder = environment(context).kg, environment(context).encoder
        return claim_rules(state.question, state.linked, kg, encoder, context.closed_world)
    return None


def stating(phase: Phase) -> Phase:
    """A plan phase that plans slots and claims by what they state, for the policy without a model.

    Seed questions, where there are any, may be slots and claims themselves: then they plan.
    """

    @wraps(phase)
    def plan(state: State, runtime: Runtime[Context]) -> Update | Awaitable[Update]:
        context = runtime.context
        rules = rules_of(state, context) if context.embedded and context.seeds is None else None
        return phase(state, runtime) if rules is None else {"rules": rules}

    return plan


def with_statements(variants: Mapping[str, Phase]) -> dict[str, Phase]:
    """The variants of the plan; those that mine rules also plan slots and claims."""
    return {name: stating(phase) if name in MINING else phase for name, phase in variants.items()}
