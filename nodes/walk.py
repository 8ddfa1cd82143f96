"""Walk: a query program over the facts seen so far, where no action runs a query (ODA 2.2, SymAgent 4.2.1).

A program is walked hop by hop: from the nodes that it names over its facts to its answers. Superlatives,
comparisons with values and the like take a query; `order_of_walk` names the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyoxigraph import RdfFormat, Store

from triplewise.nodes.state import State
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Node, Term, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.rdf import from_ox
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import write_iri, write_node

FAN_OUT, WIDTH = 12, 200
"""Most entities expanded at one hop where each is looked at alone, and where one action looks at many."""
CLASS_DEPTH = 3
"""Steps up the classes over which a node is still an instance of one."""
_NEEDS: dict[type[pyql.Clause], str] = {
    pyql.Extreme: "a superlative",
    pyql.Filter: "a comparison",
    pyql.Aggregate: "computing with numbers",
    pyql.Union: "alternatives",
    pyql.Not: "leaving something out",
    pyql.TimeWindow: "a period",
}


def order_of_walk(program: PyQL) -> list[pyql.Clause]:
    """Return the clauses in an order in which each starts from nodes that are known by then.

    Raises `ActionError` `unwalkable`, with what takes a query as its message.
    """
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
        """Return the first call still needed, else the answers: nodes as actions write them, or a value.

        Raises `ActionError` as `order_of_walk` does.
        """
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
