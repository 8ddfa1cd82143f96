"""The policy without a language model: follow the best rule, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from triplewise.nodes.state import State
from triplewise.tools.actions import Toolset
from triplewise.tools.actions.agentbench import set_script, unsayable
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.pyql import execute_program, script
from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.files import parse_yaml
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import Term
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.planning.bodies import rule_program
from triplewise.tools.planning.lexical.question import denies, form_of
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import read_term, write_node

FAN_OUT = 12
"""Most entities expanded at one hop where each is looked at alone."""

WIDTH = 200
"""Most entities looked at at one hop, where one action looks at many."""

WALKED = ("meets", "distinct", "count", "ask", "holds")
"""Constraints that walking from entity to entity can meet; the others need a query."""

GIVE_UP = Call("give_up")

CONFIRM = "If this query says what the question asks, execute(); if not, undo(all) and build another one."
"""What a model is told of a rule that was run as one program."""

SCRIPTS: Mapping[str, Callable[[Rule, Profile], tuple[Call, ...]]] = {
    "pyql": script,
    "agentbench": lambda rule, _: set_script(rule),
}
"""Toolset -> all the actions that follow a rule, where they can be said beforehand."""


_THOUGHTS: Mapping[str, str] = parse_yaml(
    (files("triplewise.nodes") / "thoughts.yaml").read_text(encoding="utf-8"), "thoughts.yaml"
).value
"""Action -> why it is taken; places in braces are its arguments."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: the thought, the call, the program it applies to, and the rule followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, kg: KnowledgeGraph, toolset: str) -> Choice:
    """Return the next action: `give_up` once no rule is left."""
    walk = _Walk(state, kg, toolset)
    for attempt, rule in enumerate(state.rules):
        kinds, obstacle = [c.kind for c in rule.constraints], ""
        if toolset == "agentbench" and (reason := unsayable(rule)):
            obstacle = f"The question needs to {reason}, which no action on sets can do."
        elif toolset not in SCRIPTS and (queried := [kind for kind in kinds if kind not in WALKED]):
            needs = f"The question needs a query ({queried[0]})"
            obstacle = f"{needs}; these actions only walk from entity to entity."
        if obstacle:
            if set(kinds) == {"distinct"} and rule is not state.rules[-1]:
                continue  # The question asks for nothing of the kind: only this path does, so try another.
            return Choice(obstacle, GIVE_UP, state.program, attempt)
        if toolset in SCRIPTS:
            choice = _next_call(state, rule, SCRIPTS[toolset](rule, kg.profile), attempt)
        else:
            choice = _next_look(state, walk, rule, attempt, toolset)
        if choice is not None:
            return choice
    return Choice("No rule is left to try.", GIVE_UP, state.program, len(state.rules))


def _next_call(state: State, rule: Rule, calls: Sequence[Call], attempt: int) -> Choice | None:
    """Return the first call of the rule's script not made yet; None if one of them failed before."""
    made = {(s.program_before, s.call): s.feedback.program for s in state.steps if not s.rolled_back}
    failed = {(s.program_before, s.call) for s in state.steps if s.rolled_back}
    program = ""
    for call in calls:
        key = (program, call.text())
        if key in failed:
            return None
        if key not in made:
            return Choice(_thought(state, rule, attempt, call), call, program, attempt)
        program = made[key]
    return None


def _thought(state: State, rule: Rule, attempt: int, call: Call) -> str:
    """Return why this call is made, in a sentence."""
    sentence = _THOUGHTS.get(call.name, "Follow the rule.").format(*call.arguments, *("", "", ""))
    if not state.steps:
        return f"Follow the best rule, {rule.text()} ({rule.provenance}). {sentence}"
    if state.steps[-1].rolled_back:
        return f"That did not work out. Try rule {attempt + 1}, {rule.text()} ({rule.provenance}). {sentence}"
    return sentence


def _next_look(state: State, walk: _Walk, rule: Rule, attempt: int, toolset: str) -> Choice | None:
    """Return what is looked at next on the walk along a rule, or its answers; None where it leads nowhere."""
    if toolset == "symbolic" and not state.steps:
        plan = Call("get_rules", (state.question,))
        return Choice("Plan first: which rules fit the question?", plan, state.program, attempt)
    nodes = walk.answers(rule)
    if (look := walk.next_look) is not None:
        is_each = look.name == "search_each"
        where = f"{len(look.arguments) - 1} entities at once" if is_each else look.arguments[0]
        return Choice(f"Follow {rule.text()}: look further from {where}.", look, state.program, attempt)
    if not nodes:
        return None
    thought = "The facts in memory answer the question."
    if form_of(state.question) == "claim":
        is_denial = denies(state.question)
        nodes = [str((nodes == ["true"]) != is_denial).lower()]
        thought = f"The claim {'denies it' if is_denial else 'says so'}, and {rule.provenance}."
    finish = Call("answer" if toolset == "explore" else "finish", tuple(nodes))
    if finish.text() in {s.call for s in state.steps}:
        return None
    return Choice(thought, finish, state.program, attempt)


class _Walk:
    """What a rule reaches over the facts seen so far.

    `next_look` is the first call still needed to go on; while there is one, answers are not complete.
    """

    def __init__(self, state: State, kg: KnowledgeGraph, toolset: str) -> None:
        self._profile, self._toolset = kg.profile, toolset
        self._calls = {s.call for s in state.steps}
        # In ODA a policy reasons from what memory keeps; a run that reflects nothing goes by what it saw.
        if toolset == "explore" and state.memory:
            self._facts = [t for path in state.memory for t in path]
        else:
            self._facts = [t for s in state.steps if not s.rolled_back for t in s.feedback.triples]
        self._searched: set[tuple[str, str]] = set()
        for step in state.steps:
            match step.feedback.action, step.feedback.arguments:
                case "search_neighbor", (node, relation):
                    self._searched.add((node, relation))
                case "search_each", (relation, *nodes):
                    self._searched |= {(node, relation) for node in nodes}
        self._hops: dict[tuple[str, bool], dict[Term, list[Term]]] = {}
        self.next_look: Call | None = None

    def answers(self, rule: Rule) -> list[str]:
        """Return the answers of a rule: nodes as actions write them, a number, or true or false."""
        kinds = {c.kind: c for c in rule.constraints}
        if stated := kinds.get("holds"):
            reached = self.over(self._start(stated.variable), stated.atoms[0])
            return [str(read_term(stated.value, self._profile) in reached).lower()]
        # Second topic entities allow only some nodes for a variable.
        allowed: dict[str, set[Term]] = {}
        for c in rule.constraints:
            if c.kind == "meets":
                ends = set(self.chain(c.value, c.atoms, {}))
                allowed[c.variable] = allowed.get(c.variable, ends) & ends
        distinct = {c.variable for c in rule.constraints if c.kind == "distinct"}
        nodes = self.chain(rule.anchor, rule.body, allowed, distinct)
        if "ask" in kinds:
            return [str(bool(nodes)).lower()]
        nodes = [n for n in nodes if n not in self._start(rule.anchor)]
        return [str(len(nodes))] if "count" in kinds else [write_node(n, self._profile) for n in nodes]

    def chain(
        self,
        start: str,
        atoms: Sequence[Atom],
        allowed: Mapping[str, set[Term]],
        distinct: Collection[str] = (),
    ) -> list[Term]:
        """Return nodes at the end of a chain; of `distinct` variables none that stands two before."""
        origins: dict[Term, set[Term]] = {node: set() for node in self._start(start)}
        for atom in atoms:
            self.over(list(origins), atom)
            reached: dict[Term, set[Term]] = {}
            for node, before in origins.items():
                for far in self.hops(atom).get(node, ()):
                    if atom.variable not in distinct or before - {far}:
                        reached.setdefault(far, set()).add(node)
            origins = {n: nodes for n, nodes in reached.items() if n in allowed.get(atom.variable, reached)}
        return list(origins)

    def hops(self, atom: Atom) -> dict[Term, list[Term]]:
        """Return node -> nodes that the facts lead to over one atom."""
        key = (atom.relation, atom.forward)
        if key not in self._hops:
            relation = self._profile.expand(atom.relation, relation=True)
            hops: dict[Term, list[Term]] = {}
            for t in dict.fromkeys(self._facts):
                if t.relation == relation:
                    start, end = (t.subject, t.object) if atom.forward else (t.object, t.subject)
                    hops.setdefault(start, []).append(end)
            self._hops[key] = hops
        return self._hops[key]

    def over(self, nodes: Sequence[Term], atom: Atom) -> list[Term]:
        """Return nodes reached over one relation; note what has to be looked at first."""
        short, looks = self._profile.short, list[Call]()
        if self._toolset == "explore":
            looks = [Call("get_neighbors", (write_node(node, self._profile),)) for node in nodes[:FAN_OUT]]
        else:
            relation = self._profile.expand(atom.relation, relation=True)
            written = atom.relation if relation is None else short(relation)
            unseen = [n for n in nodes[:WIDTH] if (short(n), written) not in self._searched]
            forms = [write_node(n, self._profile) for n in unseen]
            if len(forms) == 1:
                looks = [Call("search_neighbor", (forms[0], atom.relation))]
            elif forms:
                looks = [Call("search_each", (atom.relation, *forms))]
        if self.next_look is None:
            self.next_look = next((call for call in looks if call.text() not in self._calls), None)
        hops = self.hops(atom)
        return list(dict.fromkeys(far for node in nodes for far in hops.get(node, ())))

    def _start(self, form: str) -> list[Term]:
        """Return the node that a rule names, if it can be read."""
        return [term] if (term := read_term(form, self._profile)) is not None else []


def whole_program(
    state: State, actions: ActionContext, toolset: Toolset, offered: bool = False, no: bool = False
) -> tuple[str, str, Feedback] | None:
    """Thought, program and feedback of the best rule, run at once: the setting `fast_path`.

    A rule was found in the KG, so its steps hold no surprise: what is left to see is whether its query finds
    something and whether the inspector has anything against the answer. If it has, the step is rolled back
    like any other and the run goes on step by step, with the same rule or another. None where a step was
    already made, the actions build no query, or the rule finds nothing that can be shown as an answer.

    Args:
        offered: leave it to a language model whether the query is executed.
        no: take the answer no too; otherwise the steps look whether another rule says yes.
    """
    if state.steps or not state.rules or toolset.name != "pyql":
        return None
    rule, kg = state.rules[0], actions.kg
    try:
        program = compared(kg, PyQL(), rule_program(kg, rule))
        feedback = execute_program(actions, program)
    except (ActionError, QueryFailedError):
        return None
    shown = {label for labels in feedback.values.values() for label in labels}
    if feedback.outcome not in (Outcome.ROWS, Outcome.TRUNCATED) or not feedback.finished or UNNAMED in shown:
        return None
    if not feedback.answers or (feedback.answers == ("false",) and not no):
        return None
    thought = f"The best rule, {rule.text()} ({rule.provenance}), is run as one program."
    if offered:
        name, arguments = "ask" if program.boolean else "set_answer", [v.n3() for v in program.answer]
        observation = f"{feedback.observation} {CONFIRM}"
        feedback = replace(
            feedback,
            action=name,
            arguments=tuple(arguments),
            finished=False,
            answers=(),
            observation=observation,
        )
        return thought, program.text(kg.profile), feedback
    # The rule as an argument tells this run from an `execute()` that a later step makes.
    feedback = replace(feedback, action="execute", arguments=(rule.text(),))
    return thought, f"{program.text(kg.profile)}\nexecute()", feedback
