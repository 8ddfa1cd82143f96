"""The policy without a language model: follow the best rule, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from triplewise.nodes.state import State
from triplewise.nodes.text import denies, form_of
from triplewise.tools.actions import Toolset
from triplewise.tools.actions.agentbench_sets import set_script, unsayable
from triplewise.tools.actions.pyql import execute_program
from triplewise.tools.actions.results import compared
from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Rule, script
from triplewise.tools.core.terms import Triple
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.bodies import rule_program
from triplewise.tools.pyql.text import write_node

FAN_OUT = 12
"""Most entities expanded at one hop where each is looked at alone."""

WALKED = ("meets", "distinct", "count", "ask", "holds")
"""Constraints that walking from entity to entity can meet; the others need a query."""

GIVE_UP = Call("give_up")

SCRIPTS: Mapping[str, Callable[[Rule], tuple[Call, ...]]] = {"pyql": script, "agentbench": set_script}
"""Toolset -> all the actions that follow a rule, where they can be said beforehand."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: the thought, the call, the program it applies to, and the rule followed."""

    thought: str
    call: Call
    program: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Ways:
    """How a rule may be walked. `together`: most entities looked at at one hop by one action."""

    together: int = 200


def decide(state: State, kg: KnowledgeGraph, toolset: str, ways: Ways | None = None) -> Choice:
    """The next action. `give_up` once no rule is left."""
    walk = _Walk(state, kg, toolset, ways or Ways())
    follow = _follow_script if toolset in SCRIPTS else _follow_walk
    for attempt, rule in enumerate(state.rules):
        if beyond := _beyond(rule, toolset):
            if {c.kind for c in rule.constraints} == {"distinct"} and rule is not state.rules[-1]:
                continue  # The question asks for nothing of the kind: only this path does, so try another.
            return Choice(beyond, GIVE_UP, state.program, attempt)
        choice = follow(state, walk, rule, attempt, toolset)
        if choice is not None:
            return choice
    return Choice("No rule is left to try.", GIVE_UP, state.program, len(state.rules))


def _beyond(rule: Rule, toolset: str) -> str:
    """Why a rule cannot be followed with these actions, in a sentence; "" if it can."""
    if toolset == "agentbench":
        reason = unsayable(rule)
        return f"The question needs to {reason}, which no action on sets can do." if reason else ""
    kinds = [] if toolset in SCRIPTS else [c.kind for c in rule.constraints if c.kind not in WALKED]
    needs = f"The question needs a query ({kinds[0]})" if kinds else ""
    return f"{needs}; these actions only walk from entity to entity." if needs else ""


def _follow_script(state: State, walk: _Walk, rule: Rule, attempt: int, toolset: str) -> Choice | None:
    """The first call of the rule's script not made yet; None if one of them failed before."""
    made = {(s.program_before, s.call): s.feedback.program for s in state.steps if not s.rolled_back}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    program = ""
    for call in SCRIPTS[toolset](rule):
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
        "get_relations": "See which relations {0} has, to check the next step of the rule.",
        "get_neighbors": "The rule goes on from {0} over {1}.",
        "intersection": "Both conditions have to hold: keep what is in {0} and in {1}.",
        "union": "Either condition may hold: take what is in {0} or in {1}.",
        "get_attributes": "The question has a superlative: see what {0} can be compared by.",
        "argmax": "The question asks for the greatest {1}.",
        "argmin": "The question asks for the smallest {1}.",
        "count": "The question asks how many: count {0}.",
        "answer": "{0} holds what is asked.",
        "ask": "The question wants yes or no.",
        "execute": "The query is complete: run it.",
    }.get(call.name, "Follow the rule.")
    sentence = why.format(*call.arguments, *("", "", ""))
    if not state.steps:
        return f"Follow the best rule, {rule.text()} ({rule.provenance}). {sentence}"
    if state.steps[-1].rolled_back:
        return f"That did not work out. Try rule {attempt + 1}, {rule.text()} ({rule.provenance}). {sentence}"
    return sentence


def _facts(state: State, toolset: str) -> list[Triple]:
    """The facts a policy reasons from: those that lookups brought up; in ODA, those that memory keeps.

    A run that reflects nothing has no memory: it goes by what it saw.
    """
    if toolset == "explore" and state.memory:
        return [t for path in state.memory for t in path]
    return [t for s in state.steps if not s.rolled_back for t in s.feedback.triples]


def _hops(atom: Atom, facts: Sequence[Triple], kg: KnowledgeGraph) -> dict[str, list[str]]:
    """Node -> nodes reached over one atom of a rule, all in the form that rules and actions write."""
    relation = kg.profile.expand(atom.relation, relation=True)
    reached: dict[str, dict[str, None]] = {}
    for t in facts:
        if t.relation == relation:
            head, tail = (write_node(end, kg.profile) for end in (t.subject, t.object))
            start, end = (head, tail) if atom.forward else (tail, head)
            reached.setdefault(start, {})[end] = None
    return {start: list(ends) for start, ends in reached.items()}


def _look(toolset: str, node: str, atom: Atom) -> Call:
    """The call that shows the neighbours of a node."""
    return (
        Call("get_neighbors", (node,))
        if toolset == "explore"
        else Call("search_neighbor", (node, atom.relation))
    )


def _follow_walk(state: State, walk: _Walk, rule: Rule, attempt: int, toolset: str) -> Choice | None:
    """Walk a rule entity by entity, for toolsets without a query.

    None where it leads nowhere.
    """
    if toolset == "symbolic" and not state.steps:
        plan = Call("get_rules", (state.question,))
        return Choice("Plan first: which rules fit the question?", plan, state.program, attempt)
    nodes = walk.answers(rule)
    if walk.next_look is not None:
        return Choice(_looking(rule, walk.next_look), walk.next_look, state.program, attempt)
    if not nodes:
        return None
    thought = "The facts in memory answer the question."
    if form_of(state.question) == "claim":
        nodes, thought = _judged(state.question, rule, nodes)
    finish = Call("answer" if toolset == "explore" else "finish", tuple(nodes))
    if finish.text() in {s.call for s in state.steps}:
        return None
    return Choice(thought, finish, state.program, attempt)


def _looking(rule: Rule, look: Call) -> str:
    """Why to look somewhere, in a sentence."""
    if look.name == "search_each":
        return f"Follow {rule.text()}: look further from {len(look.arguments) - 1} entities at once."
    return f"Follow {rule.text()}: look further from {look.arguments[0]}."


def _judged(claim: str, rule: Rule, truth: Sequence[str]) -> tuple[list[str], str]:
    """What the truth of a rule says of a claim, which may deny it; and why."""
    holds = list(truth) == ["true"]
    claimed = "The claim denies it" if denies(claim) else "The claim says so"
    return [str(holds != denies(claim)).lower()], f"{claimed}, and {rule.provenance}."


def _looked(state: State, kg: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Nodes and relations that a search of the graph was made for, as rules and actions write them."""
    for step in state.steps:
        match step.feedback.action, step.feedback.arguments:
            case "search_neighbor", (node, relation):
                yield _written(node, kg), relation
            case "search_each", (relation, *nodes):
                yield from ((_written(node, kg), relation) for node in nodes)


def _written(short: str, kg: KnowledgeGraph) -> str:
    """A short id as actions write it."""
    iri = kg.profile.expand(short)
    return short if iri is None else write_node(iri, kg.profile)


class _Walk:
    """What a rule reaches over the facts seen so far.

    `next_look` is the first call still needed to go on; while there is one, answers are not complete.
    """

    def __init__(self, state: State, kg: KnowledgeGraph, toolset: str, ways: Ways) -> None:
        self._kg, self._toolset, self._ways = kg, toolset, ways
        self._looked = set(_looked(state, kg))
        self._known: dict[tuple[str, bool], dict[str, list[str]]] = {}
        self._made = {s.call for s in state.steps}
        self._facts = _facts(state, toolset)
        self.next_look: Call | None = None

    def answers(self, rule: Rule) -> list[str]:
        """Answers of a rule: nodes as actions write them, a number, or true or false."""
        held = next((c for c in rule.constraints if c.kind == "holds"), None)
        if held is not None:
            return [str(held.value in self.over([held.variable], held.atoms[0])).lower()]
        apart = {c.variable for c in rule.constraints if c.kind == "distinct"}
        nodes = self.chain(rule.anchor, rule.body, self._restrictions(rule), apart)
        kinds = {c.kind for c in rule.constraints}
        if "ask" in kinds:
            return [str(bool(nodes)).lower()]
        nodes = [n for n in nodes if n != rule.anchor]
        return [str(len(nodes))] if "count" in kinds else nodes

    def _restrictions(self, rule: Rule) -> dict[str, set[str]]:
        """Variable -> the nodes that second topic entities allow for it."""
        allowed: dict[str, set[str]] = {}
        for c in rule.constraints:
            if c.kind == "meets":
                found = set(self.chain(c.value, c.atoms, {}))
                allowed[c.variable] = allowed.get(c.variable, found) & found
        return allowed

    def chain(
        self,
        start: str,
        atoms: Sequence[Atom],
        allowed: Mapping[str, set[str]],
        apart: Collection[str] = (),
    ) -> list[str]:
        """Nodes at the end of a chain; those of variables `apart` differ from the node two steps before."""
        origins: dict[str, set[str]] = {start: set()}
        for atom in atoms:
            self.over(list(origins), atom)
            reached: dict[str, set[str]] = {}
            for node, before in origins.items():
                for far in self._hops(atom).get(node, ()):
                    if atom.variable not in apart or before - {far}:
                        reached.setdefault(far, set()).add(node)
            origins = {n: nodes for n, nodes in reached.items() if n in allowed.get(atom.variable, reached)}
        return list(origins)

    def _hops(self, atom: Atom) -> dict[str, list[str]]:
        """What the facts seen so far lead to over one atom."""
        key = (atom.relation, atom.forward)
        if key not in self._known:
            self._known[key] = _hops(atom, self._facts, self._kg)
        return self._known[key]

    def over(self, nodes: Sequence[str], atom: Atom) -> list[str]:
        """Nodes reached over one relation; notes what has to be looked at first."""
        if self._toolset == "symbolic":
            self.next_look = self.next_look or self._together(nodes, atom)
        else:
            looks = (_look(self._toolset, node, atom) for node in nodes[:FAN_OUT])
            self.next_look = self.next_look or next((c for c in looks if c.text() not in self._made), None)
        hops = self._hops(atom)
        return list(dict.fromkeys(far for node in nodes for far in hops.get(node, ())))

    def _together(self, nodes: Sequence[str], atom: Atom) -> Call | None:
        """The call that shows what is not seen yet of some nodes."""
        unseen = [n for n in nodes[: self._ways.together] if (n, atom.relation) not in self._looked]
        if len(unseen) == 1:
            call = Call("search_neighbor", (unseen[0], atom.relation))
        else:
            call = Call("search_each", (atom.relation, *unseen))
        return call if unseen and call.text() not in self._made else None


def whole_program(state: State, actions: ActionContext, toolset: Toolset) -> tuple[str, str, Feedback] | None:
    """Thought, program and feedback of the best rule, run at once: the setting `fast_path`.

    A rule was found in the KG, so its steps hold no surprise: what is left to see is whether its query finds
    something and whether the inspector has anything against the answer. If it has, the step is rolled back
    like any other and the run goes on step by step, with the same rule or another.

    None where a step was already made, the actions build no query, or the
    rule finds nothing that can be shown as an answer: then nothing is recorded and the steps begin.
    """
    if state.steps or not state.rules or toolset.name != "pyql":
        return None
    rule, kg = state.rules[0], actions.kg
    try:
        program = rule_program(kg, rule)
        for n, clause in enumerate(program.clauses):
            before = replace(program, clauses=program.clauses[:n])
            fitted = compared(kg, before, replace(before, clauses=(*before.clauses, clause)))
            program = replace(program, clauses=(*fitted.clauses, *program.clauses[n + 1 :]))
        feedback = execute_program(actions, program)
    except ActionError:
        return None
    shown = {label for labels in feedback.values.values() for label in labels}
    if feedback.outcome not in (Outcome.ROWS, Outcome.TRUNCATED) or not feedback.finished or UNNAMED in shown:
        return None
    if feedback.answers in ((), ("false",)):
        return None
    # The rule as an argument tells this run from an `execute()` that a later step makes.
    feedback = replace(feedback, action="execute", arguments=(rule.text(),))
    thought = f"The best rule, {rule.text()} ({rule.provenance}), is run as one program."
    return thought, f"{program.text(kg.profile)}\nexecute()", feedback
