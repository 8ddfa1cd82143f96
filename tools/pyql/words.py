"""Programs in words, as people see what a question was read as."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Literal, Node, Variable
from triplewise.tools.kg import readable
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.program import Fact, PyQL

Label: TypeAlias = Callable[[Node], str]  # How a node, class or relation is called


def describe(program: PyQL, label: Callable[[IRI], str], literal: Callable[[Literal], str] = readable) -> str:
    """Return a program in words: `Goethe -[partner]-> ?partner -[place of birth]-> ?place_of_birth`."""

    def shown(node: Node) -> str:
        if isinstance(node, IRI):
            return label(node)
        return literal(node) if isinstance(node, Literal) else node.n3()

    parts = _in_words(program.clauses, shown)
    if order := program.order:
        first = f"the first {order.limit} " if order.limit else ""
        best = "largest" if order.descending else "smallest"
        parts.append(f"{first}by {_plain(order.variable)}, {best} first")
    return ("yes or no: " if program.boolean else "") + "; ".join(parts)


def _in_words(clauses: Iterable[pyql.Clause], label: Label) -> list[str]:
    """Return clauses in words; facts that follow from one another are one chain."""
    parts, known = list[str](), set[Node]()
    end: Node | None = None  # of the chain that the last part is
    for clause in clauses:
        if isinstance(clause, Fact):
            subject, object_, name = clause.subject, clause.object, label(clause.relation)
            if end not in (subject, object_):
                turned = subject not in known and isinstance(subject, Variable)
                turned = turned and (object_ in known or isinstance(object_, IRI))
                end = object_ if turned else subject
                parts.append(label(end))
            arrow, end = (f"-[{name}]->", object_) if end == subject else (f"<-[{name}]-", subject)
            parts[-1] += f" {arrow} {label(end)}"
        else:
            parts.append(_clause_in_words(clause, label))
            end = None
        known.update(clause.binds)
    return parts


def _clause_in_words(clause: pyql.Clause, label: Label) -> str:
    """Return a clause that is not a fact in words."""
    match clause:
        case pyql.Typed(variable, type_):
            name = label(type_)
            return f"{variable.n3()} is {'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
        case pyql.AnyOf(variable, nodes):
            return f"{variable.n3()} is {' or '.join(label(n) for n in nodes)}"
        case pyql.Filter(left, operator, right):
            word = {"=": "is", "!=": "is not"}.get(operator, operator) if isinstance(right, IRI) else operator
            return f"{label(left)} {word.replace('_', ' ')} {label(right)}"
        case pyql.Extreme(variable, largest, kind):
            by = " by the number in its name" if kind == "name" else ""
            return f"the {'greatest' if largest else 'smallest'} {_plain(variable)}{by}"
        case pyql.Aggregate(of, _, per, function):
            each = f" of each {_plain(per)}" if per else ""
            words = {"count": "how many", "sum": "the sum of", "average": "the average"}
            return f"{words[function]} {_plain(of)}{each}"
        case pyql.Union(alternatives):
            return " or ".join(_pattern_in_words(a, label) for a in alternatives)
        case pyql.Not(pattern):
            return f"but not {_pattern_in_words(pattern, label)}"
        case Fact():
            return _pattern_in_words([clause], label)


def _pattern_in_words(pattern: Iterable[pyql.Clause], label: Label) -> str:
    return " and ".join(_in_words(pattern, label))


def _plain(variable: Variable) -> str:
    return variable.name.replace("_", " ")
