"""The policy without a language model: follow the best reading, read feedback, fall back to the next.

It takes the same actions and reads the same feedback and corrections as a language model does. A
decision is a pure function of the state, so a resumed run goes on where it was. Where no action runs a query
(ODA 2.2, SymAgent 4.2.1), a program is walked hop by hop over the facts seen so far, from the nodes that it
names to its answers; superlatives, comparisons with values and the like take a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from pyoxigraph import RdfFormat, Store

from triplewise.nodes.state import State
from triplewise.tools.actions import Toolset
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.pyql import execute_program, script
from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.files import parse_yaml
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.rdf import from_ox
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import write_iri, write_node

GIVE_UP = Call("give_up")
_THOUGHTS: Mapping[str, str] = parse_yaml(
    (files("triplewise.nodes") / "thoughts.yaml").read_text(encoding="utf-8"), "thoughts.yaml"
).value
"""Action -> why it is taken; places in braces are its arguments."""
FAN_OUT, WIDTH = 12, 200
"""Most entities expanded at one hop where each is looked at alone, and where one action looks at many."""
CLASS_DEPTH = 3  # Steps up the classes over which a node is still an instance of one
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
    walk = Walk(state, kg, toolset)
    for attempt, reading in enumerate(state.readings):
        program = PyQL.parse(reading.program, kg.profile)
        try:
            if toolset == "pyql":
                choice = _next_call(state, reading, script(program, kg.profile), attempt)
            else:
                choice = _next_look(state, reading, walk.follow(program), attempt, toolset)
        except ActionError as error:
            # Only this path excludes nodes, as simple paths do: the question asks for nothing of the kind.
            others = [c for c in program.clauses if not isinstance(c, pyql.Fact)]
            only_excludes = all(isinstance(c, pyql.Filter) and c.operator == "!=" for c in others)
            if only_excludes and reading is not state.readings[-1]:
                continue
            obstacle = f"The question needs {error.message}, which takes a query."
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
    finish = Call("answer" if toolset == "explore" else "finish", found)
    if finish.text() in {s.call for s in state.steps}:
        return None
    return Choice("The facts in memory answer the question.", finish, state.program, attempt)


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


def order_of_walk(program: PyQL) -> list[pyql.Clause]:
    """Return the clauses, each after what it starts from. Raises `ActionError` with what takes a query."""
    left, known, ordered = list[pyql.Clause](), set[Variable](), list[pyql.Clause]()
    for clause in program.clauses:
        match clause:
            case pyql.Aggregate(output=output, per=None, function="count") if program.answer == (output,):
                continue  # all answers are counted
            case pyql.Filter(one, "=" | "!=", other) if {type(one), type(other)} <= {IRI, Variable}:
                left.append(clause)
            case pyql.Fact() | pyql.Typed() | pyql.AnyOf():
                left.append(clause)
            case _:
                raise ActionError("unwalkable", _NEEDS.get(type(clause), "an optional fact"))
    if program.order is not None:
        raise ActionError("unwalkable", "an order of the answers")

    def place(clause: pyql.Clause) -> int:
        match clause:  # what costs nothing first, then what starts from a named node
            case pyql.Filter() if known.issuperset(clause.mentions):
                return 0
            case pyql.AnyOf():
                return 1
            case pyql.Fact(start, _, end) if not (isinstance(start, Variable) and isinstance(end, Variable)):
                return 2
            case pyql.Fact(start, _, end) if known & {start, end}:
                return 3
            case pyql.Typed(variable):
                return 4 if variable in known else 5
        return 6

    while left:
        if place(clause := min(left, key=place)) == 6:
            raise ActionError("unwalkable", "facts that no named node leads to")
        left.remove(clause)
        ordered.append(clause)
        known.update(clause.mentions)
    return ordered


class Walk:
    """What programs reach over the facts seen so far: SPARQL over a store that holds nothing else."""

    def __init__(self, state: State, kg: KnowledgeGraph, toolset: str) -> None:
        self._profile, self._toolset = kg.profile, toolset
        self._calls = {s.call for s in state.steps}
        # In ODA a policy reasons from what memory keeps; a run that reflects nothing goes by what it saw.
        if toolset == "explore" and state.memory:
            facts = [t for path in state.memory for t in path]
        else:
            facts = [t for s in state.standing for t in s.feedback.triples]
        self._facts, self._store = tuple(dict.fromkeys(facts)), Store()
        statements = "\n".join(t.n3() for t in self._facts)
        self._store.load(statements, RdfFormat.N_TRIPLES, lenient=True)
        self._searched: set[tuple[str, str]] = set()
        for step in state.steps:
            match step.feedback.action, step.feedback.arguments:
                case "search_neighbor", (node, relation):
                    self._searched.add((node, relation))
                case "search_each", (relation, *nodes):
                    self._searched |= {(node, relation) for node in nodes}

    def follow(self, program: PyQL) -> Call | tuple[str, ...]:
        """Return the first call still needed, else the answers: nodes as actions write them, or a value."""
        clauses = order_of_walk(program)
        for place, clause in enumerate(clauses):
            if (look := self._look_for(clause, clauses[:place])) is not None:
                return look
        result: Any = self._store.query(program.sparql(self._profile))
        if program.boolean:
            return (str(bool(result)).lower(),)
        values = [term for row in result if (term := from_ox(row[0])) is not None]
        is_count = any(isinstance(clause, pyql.Aggregate) for clause in program.clauses)
        return tuple(v.value if is_count else write_node(v, self._profile) for v in values)

    def _reached(self, clauses: Sequence[pyql.Clause], node: Node) -> list[Term]:
        """Return what a variable may be after some clauses; of a node, itself."""
        if not isinstance(node, Variable):
            return [node]
        rows: Any = self._store.query(PyQL(tuple(clauses), (node,)).sparql(self._profile))
        return [term for row in rows if (term := from_ox(row[0])) is not None]

    def _look_for(self, clause: pyql.Clause, before: Sequence[pyql.Clause]) -> Call | None:
        """Return the first call that a clause needs after those before it; None where all was seen."""
        known = {v for c in before for v in c.mentions}
        match clause:
            case pyql.Fact(subject, relation, object_):
                forward = isinstance(subject, IRI) or (subject in known and isinstance(object_, Variable))
                return self._look(self._reached(before, subject if forward else object_), relation)
            case pyql.Typed(variable, type_):
                links = [IRI(p) for p in self._profile.type_predicates]
                if variable not in known:
                    return self._look([type_], links[0])
                supers = [IRI(p) for p in self._profile.subclass_predicates]
                met = set(self._reached([*before, clause], variable))
                open_ = [node for node in self._reached(before, variable) if node not in met]
                for relations in (links, *[supers] * CLASS_DEPTH):
                    looks = (self._look(open_, relation) for relation in relations)
                    if look := next(filter(None, looks), None):
                        return look
                    open_ = [t.object for t in self._facts if t.subject in open_ and t.relation in relations]
        return None

    def _look(self, nodes: Iterable[Term], relation: IRI) -> Call | None:
        """Return the first call that shows the facts of a relation around some nodes; None for none."""
        short, profile, looks = self._profile.short, self._profile, list[Call]()
        nodes = [node for node in dict.fromkeys(nodes) if isinstance(node, IRI)]
        if self._toolset == "explore":
            looks = [Call("get_neighbors", (write_node(node, profile),)) for node in nodes[:FAN_OUT]]
        else:
            unseen = [n for n in nodes[:WIDTH] if (short(n), short(relation)) not in self._searched]
            forms = [write_node(n, profile) for n in unseen]
            name = write_iri(relation, profile, relation=True)
            if len(forms) == 1:
                looks = [Call("search_neighbor", (forms[0], name))]
            elif forms:
                looks = [Call("search_each", (name, *forms))]
        return next((call for call in looks if call.text() not in self._calls), None)
