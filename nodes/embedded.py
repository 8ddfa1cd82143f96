"""The policy without a language model: follow the best rule, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triplewise.nodes.state import State
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.terms import Triple
from triplewise.tools.rules import Atom, Rule, script
from triplewise.tools.toolsets.base import Call

FAN_OUT = 6
"""Most entities expanded at one hop by toolsets that look at one entity at a time."""

GIVE_UP = Call("give_up")


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: the thought, the call, the program it applies to, and the rule followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, kg: KnowledgeGraph, toolset: str) -> Choice:
    """The next action. `give_up` once no rule is left."""
    follow = _follow_query if toolset == "pyql" else _follow_walk
    for attempt, rule in enumerate(state.rules):
        choice = follow(state, kg, rule, attempt, toolset)
        if choice is not None:
            return choice
    return Choice("No rule is left to try.", GIVE_UP, state.program, len(state.rules))


def _follow_query(state: State, kg: KnowledgeGraph, rule: Rule, attempt: int, toolset: str) -> Choice | None:
    """The first call of the rule's script not made yet; None if one of them failed before."""
    made = {(s.program_before, s.call): s.feedback.program for s in state.steps if not s.rolled_back}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    program = ""
    for call in script(rule):
        key = (program, call.text())
        if key in failed:
            return None
        if key not in made:
            return Choice(_thought(state, rule, attempt, call), call, program, attempt)
        program = made[key]
    return None


def _thought(state: State, rule: Rule, attempt: int, call: Call) -> str:
    """Why this call, in a sentence."""
    why = {
        "get_relation": "See which relations {0} has, to check the next step of the rule.",
        "add_fact": "The rule goes on over {1}, so add it.",
        "add_filter": "Keep only what meets {0} {1} {2}.",
        "add_type": "The question names a kind: keep only {1}.",
        "add_max": "The question asks for the greatest {0}.",
        "add_min": "The question asks for the smallest {0}.",
        "add_most": "The question asks who has the most: group by {1} and count {0}.",
        "add_count": "The question asks how many: count {0}.",
        "set_answer": "{0} holds what is asked.",
        "ask": "The question wants yes or no.",
        "execute": "The query is complete: run it.",
    }.get(call.name, "Follow the rule.")
    sentence = why.format(*call.arguments, *("", "", ""))
    if not state.steps:
        return f"Follow the best rule, {rule.text()} ({rule.provenance}). {sentence}"
    if state.steps[-1].rolled_back:
        return f"That did not work out. Try rule {attempt + 1}, {rule.text()} ({rule.provenance}). {sentence}"
    return sentence


def _facts(state: State, failed: bool = False) -> list[Triple]:
    """Facts that lookups brought up."""
    return [t for s in state.steps if s.rolled_back is failed for t in s.feedback.triples]


def _step_over(nodes: Sequence[str], atom: Atom, facts: Sequence[Triple], kg: KnowledgeGraph) -> list[str]:
    """Nodes reached from `nodes` over one atom of a rule, as short ids."""
    short, reached = kg.profile.short, []
    for t in facts:
        head, tail = short(t.subject), short(t.object)
        start, end = (head, tail) if atom.forward else (tail, head)
        if short(t.relation) == atom.relation and start in nodes:
            reached.append(end)
    return list(dict.fromkeys(reached))


def _look(toolset: str, node: str, atom: Atom) -> Call:
    """The call that shows the neighbours of a node."""
    return (
        Call("get_neighbors", (node,))
        if toolset == "explore"
        else Call("search_neighbor", (node, atom.relation))
    )


def _follow_walk(state: State, kg: KnowledgeGraph, rule: Rule, attempt: int, toolset: str) -> Choice | None:
    """Walk a rule entity by entity, for toolsets without a query; None where it leads nowhere."""
    made = {s.call: s for s in state.steps}
    facts, nodes = _facts(state), [rule.anchor]
    if toolset == "symbolic" and not state.steps:
        return Choice(
            "Plan first: which rules fit the question?", Call("get_rules", (state.question,)), "", attempt
        )
    for atom in rule.body:
        for node in nodes[:FAN_OUT]:
            call = _look(toolset, node, atom)
            step = made.get(call.text())
            if step is None:
                thought = f"Follow {rule.text()}: look from {node} along {atom.relation}."
                return Choice(thought, call, state.program, attempt)
        came_from = nodes
        nodes = [n for n in _step_over(nodes, atom, facts, kg) if n != rule.anchor or n not in came_from]
        if not nodes:
            return None
    nodes = [n for n in _meet(state, rule, nodes, kg) if n != rule.anchor]
    if not nodes:
        return None
    finish = Call("answer" if toolset == "explore" else "finish", tuple(nodes))
    if finish.text() in made:
        return None
    return Choice("The facts in memory answer the question.", finish, state.program, attempt)


def _meet(state: State, rule: Rule, nodes: list[str], kg: KnowledgeGraph) -> list[str]:
    """Nodes that second topic entities reach too, as far as facts were seen; counts become numbers."""
    for constraint in rule.constraints:
        if constraint.kind == "count":
            return [str(len(nodes))]
        if constraint.kind == "meets" and constraint.atoms:
            reached = [constraint.value]
            for atom in constraint.atoms:
                reached = _step_over(reached, atom, _facts(state), kg)
            nodes = [n for n in nodes if n in reached] or nodes
    return nodes
