"""Walk: a query program over the facts seen so far, where no action runs a query (ODA 2.2, SymAgent 4.2.1).

A program is walked hop by hop: from the nodes that it names over its facts to its answers. Superlatives,
comparisons with values and the like take a query; `order_of_walk` names the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from triplewise.nodes.state import State
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.program import (
    Aggregate,
    AnyOf,
    Clause,
    Extreme,
    Fact,
    Filter,
    Not,
    PyQL,
    TimeWindow,
    Typed,
    Union,
    all_facts,
)
from triplewise.tools.pyql.text import write_iri, write_node

Solution = dict[Variable, Term]

FAN_OUT = 12
"""Most entities expanded at one hop where each is looked at alone."""
WIDTH = 200
"""Most entities looked at at one hop, where one action looks at many."""
CLASS_DEPTH = 3
"""Steps up the classes over which a node is still an instance of one."""
UNWALKABLE = "unwalkable"
"""Code of the error for a program that takes a query."""
_NEEDS: dict[type[Clause], str] = {
    Extreme: "a superlative",
    Filter: "a comparison",
    Aggregate: "computing with numbers",
    Union: "alternatives",
    Not: "leaving something out",
    TimeWindow: "a period",
}


def order_of_walk(program: PyQL) -> list[Clause]:
    """Return the clauses in an order in which each starts from nodes that are known by then.

    Raises:
        ActionError: `unwalkable`, with what takes a query as its message.
    """
    left = [c for c in program.clauses if not _counts_answers(c, program)]
    if refused := next((c for c in left if not _is_walkable(c)), None):
        raise ActionError(UNWALKABLE, _NEEDS.get(type(refused), "an optional fact"))
    if program.order is not None:
        raise ActionError(UNWALKABLE, "an order of the answers")
    known, ordered = set[Variable](), list[Clause]()
    while left:
        clause = min(left, key=lambda c: _rank(c, known))
        if _rank(clause, known) == _UNREACHED:
            raise ActionError(UNWALKABLE, "facts that no named node leads to")
        left.remove(clause)
        ordered.append(clause)
        known.update(clause.mentions)
    return ordered


def _counts_answers(clause: Clause, program: PyQL) -> bool:
    """Whether a clause counts, as the answer, all values of a variable."""
    match clause:
        case Aggregate(output=output, per=None, function="count"):
            return program.answer == (output,)
    return False


def _is_walkable(clause: Clause) -> bool:
    match clause:
        case Filter(left, "=" | "!=", right):
            return all(isinstance(side, IRI | Variable) for side in (left, right))
    return isinstance(clause, Fact | Typed | AnyOf)


_UNREACHED = 6


def _rank(clause: Clause, known: set[Variable]) -> int:
    """Return how soon a clause is walked: what costs nothing first, then what starts from a named node."""
    match clause:
        case Filter():
            return 0 if known.issuperset(clause.mentions) else _UNREACHED
        case AnyOf():
            return 1
        case Fact(start, _, end):
            if not (isinstance(start, Variable) and isinstance(end, Variable)):
                return 2
            return 3 if known & {start, end} else _UNREACHED
        case Typed(variable):
            return 4 if variable in known else 5
    return _UNREACHED


class Walk:
    """What programs reach over the facts seen so far.

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
        self._hops: dict[tuple[IRI, bool], dict[Term, list[Term]]] = {}
        self.next_look: Call | None = None

    def answers(self, program: PyQL) -> list[str]:
        """Return the answers of a program: nodes as actions write them, a number, or true or false.

        They are [] while there is a `next_look`. Raises `ActionError` as `order_of_walk`.
        """
        clauses, solutions = order_of_walk(program), list[Solution]([{}])
        counted = next((c.of for c in program.clauses if isinstance(c, Aggregate)), None)
        for place, clause in enumerate(clauses):
            solutions = self._after(clause, solutions)
            if self.next_look is not None:
                return []
            needed = {*program.answer, *(v for c in clauses[place + 1 :] for v in c.mentions), counted}
            solutions = _distinct(solutions, needed)
        if program.boolean:
            return [str(bool(solutions)).lower()]
        shown = counted or program.answer[0]
        values = list(dict.fromkeys(s[shown] for s in solutions))
        return [str(len(values))] if counted else [write_node(n, self._profile) for n in values]

    def _after(self, clause: Clause, solutions: list[Solution]) -> list[Solution]:
        """Return the solutions that meet one more clause, over the facts seen."""
        match clause:
            case Fact():
                return self._over_fact(clause, solutions)
            case AnyOf(variable, nodes):
                pairs = ((s, node) for s in solutions for node in nodes)
                return [{**s, variable: node} for s, node in pairs if s.get(variable, node) == node]
            case Filter(left, operator, right):
                return [s for s in solutions if (_value(left, s) == _value(right, s)) == (operator == "=")]
            case Typed(variable, type_):
                return self._of_type(variable, type_, solutions)
        return solutions

    def _over_fact(self, fact: Fact, solutions: list[Solution]) -> list[Solution]:
        """Return the solutions that facts of one relation extend, from the end that is known."""
        bound = solutions[0] if solutions else {}
        starts = fact.subject in bound and isinstance(fact.object, Variable)
        forward = starts or isinstance(fact.subject, IRI)
        near, far = (fact.subject, fact.object) if forward else (fact.object, fact.subject)
        hops = self.over([n for s in solutions if (n := _value(near, s)) is not None], fact.relation, forward)
        extended = list[Solution]()
        for solution in solutions:
            start, end = _value(near, solution), _value(far, solution)
            for node in hops.get(start, ()) if start is not None else ():
                if end is None and isinstance(far, Variable):
                    extended.append({**solution, far: node})
                elif end == node:
                    extended.append(solution)
        return extended

    def _of_type(self, variable: Variable, type_: IRI, solutions: list[Solution]) -> list[Solution]:
        """Return the solutions whose variable is an instance of a type, or of a subclass of it.

        Where nothing binds the variable yet, its direct instances do.
        """
        links = [IRI(p) for p in self._profile.type_predicates]
        nodes = list(dict.fromkeys(s[variable] for s in solutions if variable in s))
        if not nodes:
            members = [m for link in links[:1] for m in self.over([type_], link, False).get(type_, ())]
            return [{**s, variable: member} for s in solutions for member in members]
        classes = {node: {node} for node in nodes}
        supers = [IRI(p) for p in self._profile.subclass_predicates]
        for step in range(1 + CLASS_DEPTH * bool(supers)):
            relations = links if step == 0 else supers
            open_ = {c for node in nodes if type_ not in classes[node] for c in classes[node]}
            for relation in relations:
                hops = self.over(sorted(open_, key=str), relation, True)
                for node in nodes:
                    classes[node] |= {far for c in classes[node] for far in hops.get(c, ())}
        return [s for s in solutions if type_ in classes[s[variable]]]

    def over(self, nodes: Iterable[Term], relation: IRI, forward: bool) -> dict[Term, list[Term]]:
        """Return node -> nodes that facts lead to over a relation; note what has to be looked at first."""
        self._note_looks(list(dict.fromkeys(nodes)), relation)
        key = (relation, forward)
        if key not in self._hops:
            hops = self._hops[key] = {}
            for t in dict.fromkeys(self._facts):
                if t.relation == relation:
                    start, end = (t.subject, t.object) if forward else (t.object, t.subject)
                    hops.setdefault(start, []).append(end)
        return self._hops[key]

    def _note_looks(self, nodes: Sequence[Term], relation: IRI) -> None:
        """Set `next_look` to the first call that shows the facts of a relation around some nodes."""
        if self.next_look is not None:
            return
        short, profile = self._profile.short, self._profile
        looks = list[Call]()
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
        self.next_look = next((call for call in looks if call.text() not in self._calls), None)


def _value(node: Node, solution: Solution) -> Term | None:
    """Return the term that a node of a clause stands for in a solution; None for a variable not bound yet."""
    return solution.get(node) if isinstance(node, Variable) else node


def _distinct(solutions: Iterable[Solution], variables: Iterable[Variable | None]) -> list[Solution]:
    """Return solutions with some variables only, each once."""
    kept = set(variables)
    short = ({v: t for v, t in s.items() if v in kept} for s in solutions)
    return list({frozenset(s.items()): s for s in short}.values())


def named_nodes(program: PyQL, profile: Profile) -> tuple[list[str], list[str]]:
    """Return short ids of the nodes and of the relations that a program names, in order of appearance."""
    facts = list(all_facts(program.clauses))
    nodes = [n for f in facts for n in (f.subject, f.object) if isinstance(n, IRI)]
    nodes += [c.type for c in program.clauses if isinstance(c, Typed)]
    nodes += [n for c in program.clauses if isinstance(c, AnyOf) for n in c.nodes if isinstance(n, IRI)]
    relations = dict.fromkeys(f.relation for f in facts)
    return [profile.short(n) for n in dict.fromkeys(nodes)], [profile.short(r) for r in relations]
