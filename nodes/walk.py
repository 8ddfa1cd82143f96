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
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.rdf import from_ox
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
    """What programs reach over the facts seen so far: SPARQL over a store that holds nothing else.

    `next_look` is the first call still needed to go on; while there is one, answers are not complete.
    """

    def __init__(self, state: State, kg: KnowledgeGraph, toolset: str) -> None:
        self._profile, self._toolset = kg.profile, toolset
        self._calls = {s.call for s in state.steps}
        # In ODA a policy reasons from what memory keeps; a run that reflects nothing goes by what it saw.
        if toolset == "explore" and state.memory:
            facts = [t for path in state.memory for t in path]
        else:
            facts = [t for s in state.steps if not s.rolled_back for t in s.feedback.triples]
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
        self.next_look: Call | None = None

    def answers(self, program: PyQL) -> list[str]:
        """Return the answers of a program: nodes as actions write them, a number, or true or false.

        They are [] while there is a `next_look`. Raises `ActionError` as `order_of_walk`.
        """
        clauses = order_of_walk(program)
        for place, clause in enumerate(clauses):
            self.next_look = self._look_for(clause, clauses[:place])
            if self.next_look is not None:
                return []
        result: Any = self._store.query(program.sparql(self._profile))
        if program.boolean:
            return [str(bool(result)).lower()]
        values = [term for row in result if (term := from_ox(row[0])) is not None]
        is_count = any(isinstance(clause, Aggregate) for clause in program.clauses)
        return [v.value if is_count else write_node(v, self._profile) for v in values]

    def _reached(self, clauses: Sequence[Clause], node: Node) -> list[Term]:
        """Return what a variable may be after some clauses; of a node, itself."""
        if not isinstance(node, Variable):
            return [node]
        rows: Any = self._store.query(PyQL(tuple(clauses), (node,)).sparql(self._profile))
        return [term for row in rows if (term := from_ox(row[0])) is not None]

    def _look_for(self, clause: Clause, before: Sequence[Clause]) -> Call | None:
        """Return the first call that a clause needs after those before it; None where all was seen."""
        known = {v for c in before for v in c.mentions}
        match clause:
            case Fact(subject, relation, object_):
                forward = isinstance(subject, IRI) or (subject in known and isinstance(object_, Variable))
                return self._look(self._reached(before, subject if forward else object_), relation)
            case Typed(variable, type_):
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
            forms, name = (
                [write_node(n, profile) for n in unseen],
                write_iri(relation, profile, relation=True),
            )
            if len(forms) == 1:
                looks = [Call("search_neighbor", (forms[0], name))]
            elif forms:
                looks = [Call("search_each", (name, *forms))]
        return next((call for call in looks if call.text() not in self._calls), None)


def named_nodes(program: PyQL, profile: Profile) -> tuple[list[str], list[str]]:
    """Return short ids of the nodes and of the relations that a program names, in order of appearance."""
    facts = list(all_facts(program.clauses))
    nodes = [n for f in facts for n in (f.subject, f.object) if isinstance(n, IRI)]
    nodes += [c.type for c in program.clauses if isinstance(c, Typed)]
    nodes += [n for c in program.clauses if isinstance(c, AnyOf) for n in c.nodes if isinstance(n, IRI)]
    relations = dict.fromkeys(f.relation for f in facts)
    return [profile.short(n) for n in dict.fromkeys(nodes)], [profile.short(r) for r in relations]
