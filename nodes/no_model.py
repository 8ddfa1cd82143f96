"""The policy without a language model: follow the best reading, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was. Where no action runs a query
(ODA 2.2, SymAgent 4.2.1), the nodes that a program goes over are looked at one hop after the other, from
those that it names to its answers; superlatives, comparisons with values and the like take a query.
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
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg import KnowledgeGraph, Outcome, Profile
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import write_iri, write_node

GIVE_UP = Call("give_up")
_THOUGHTS = parse_yaml(
    (files("triplewise.nodes") / "thoughts.yaml").read_text(encoding="utf-8"), "thoughts.yaml"
).value
"""Action -> why it is taken; places in braces are its arguments."""
FAN_OUT, WIDTH = 12, 200
"""Most entities expanded at one hop where each is looked at alone, and where one action looks at many."""
_NEEDS: dict[type[pyql.Clause], str] = {
    pyql.Extreme: "a superlative",
    pyql.Filter: "a comparison",
    pyql.Aggregate: "computing with numbers",
    pyql.Union: "alternatives",
    pyql.Not: "leaving something out",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: the thought, the call, the program it applies to, and the reading followed."""

    thought: str
    call: Call
    program: str
    attempt: int


def decide(state: State, kg: KnowledgeGraph, toolset: str) -> Choice:
    """Return the next action: `give_up` once no reading is left, or one needs what no action can do."""
    for attempt, reading in enumerate(state.readings):
        program = PyQL.parse(reading.program, kg.profile)
        try:
            is_query = toolset == "pyql"
            calls = script(program, kg.profile) if is_query else walk(program, kg, toolset, state.question)
        except ActionError as error:
            obstacle = f"The question needs {error.message}, which takes a query."
            return Choice(obstacle, GIVE_UP, state.program, attempt)
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


def walk(program: PyQL, kg: KnowledgeGraph, toolset: str, question: str) -> tuple[Call, ...]:
    """Return the looks at what a program goes over, hop by hop, then its answers (no call where it has none).

    Raises `ActionError` with what takes a query.
    """
    refuse_what_takes_a_query(program)
    profile, looks = kg.profile, [Call("get_rules", (question,))] if toolset == "symbolic" else []
    result = kg.query(program.sparql(profile))
    values = result.column(result.variables[0]) if result.rows else ()
    rows = kg.query(program.proof_sparql(profile, values[:WIDTH])) if values or program.boolean else result
    walked = pyql.Fact | pyql.Typed
    left, known = [c for c in program.clauses if isinstance(c, walked)], set[Node]()

    def start_of(clause: pyql.Fact | pyql.Typed) -> Node | None:
        """Return the end of a fact that is named or known by now; of a condition on classes its variable."""
        ends = (clause.subject, clause.object) if isinstance(clause, pyql.Fact) else (clause.variable,)
        return next((n for n in ends if n in known or not isinstance(n, Variable)), None)

    while left:
        clause = next((c for c in left if start_of(c) is not None), left[0])
        left.remove(clause)
        start = start_of(clause) or (clause.type if isinstance(clause, pyql.Typed) else clause.subject)
        relation = clause.relation if isinstance(clause, pyql.Fact) else IRI(profile.type_predicates[0])
        nodes: Sequence[Node | Term] = [start]
        if isinstance(start, Variable) and start.name in rows.variables:
            nodes = rows.column(start.name)
        looks += _looks(nodes, relation, profile, toolset)
        known.update(clause.mentions)
    is_count = any(isinstance(clause, pyql.Aggregate) for clause in program.clauses)
    found = [v.value if is_count else write_node(v, profile) for v in values]
    if program.boolean:
        found = [str(bool(result.boolean)).lower()]
    finish = Call("answer" if toolset == "explore" else "finish", tuple(found))
    return (*dict.fromkeys(looks), finish) if found else ()


def refuse_what_takes_a_query(program: PyQL) -> None:
    """Raise `ActionError` with what no look at facts can do."""
    for clause in program.clauses:
        match clause:
            case pyql.Aggregate(output=output, per=None, function="count") if program.answer == (output,):
                pass  # all answers are counted
            case pyql.Filter(one, "=" | "!=", other) if {type(one), type(other)} <= {IRI, Variable}:
                pass
            case pyql.Fact() | pyql.Typed() | pyql.AnyOf():
                pass
            case _:
                raise ActionError("unwalkable", _NEEDS.get(type(clause), "an optional fact"))
    if program.order is not None:
        raise ActionError("unwalkable", "an order of the answers")


def _looks(nodes: Sequence[Node | Term], relation: IRI, profile: Profile, toolset: str) -> list[Call]:
    """Return the calls that show the facts of a relation around some nodes."""
    forms = [write_node(node, profile) for node in nodes if isinstance(node, IRI)]
    if toolset == "explore":
        return [Call("get_neighbors", (form,)) for form in forms[:FAN_OUT]]
    name = write_iri(relation, profile, relation=True)
    if len(forms := forms[:WIDTH]) == 1:
        return [Call("search_neighbor", (forms[0], name))]
    return [Call("search_each", (name, *forms))] if forms else []


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
