"""The queries that the engines send, built from terms (`.n3()`) only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from triplewise.tools.kg.readonly import variable_names
from triplewise.tools.kg.terms import IRI, XSD, Literal, Term, Variable


def _fresh_names(wanted: Sequence[str], taken: frozenset[str]) -> Iterator[str]:
    for name in wanted:
        while name in taken:
            name += "_"
        yield f"?{name}"


def relations_query(node: Term | Variable, where: str) -> str:
    """Both directions in one query: outgoing relations in the first column, incoming in the second."""
    out, into, other = _fresh_names(("out", "in", "other"), variable_names(f"{where} {_n3(node)}"))
    n = _n3(node)
    bound = f"{{ SELECT DISTINCT {n} WHERE {{ {where} }} }}" if isinstance(node, Variable) else ""
    branches = [] if isinstance(node, Literal) else [f"{{ {bound} {n} {out} {other} }}"]
    branches.append(f"{{ {bound} {other} {into} {n} }}")
    return f"SELECT DISTINCT {out} {into} WHERE {{ {' UNION '.join(branches)} }}"


def neighbours_query(node: Term, relations: tuple[IRI, ...] | None, forward: bool) -> str:
    """Relation and other end of the triples that leave (or arrive at) a node; None for all relations."""
    pattern = f"{_n3(node)} ?p ?o" if forward else f"?o ?p {_n3(node)}"
    values = "" if relations is None else f"VALUES ?p {{ {_block(relations)} }} "
    return f"SELECT ?p ?o WHERE {{ {values}{pattern} }}"


def labels_query(subjects: Sequence[IRI], predicates: Sequence[IRI], language: str | None) -> str:
    """Labels of many nodes, in one language or none; in any language if it is None."""
    chosen = "" if language is None else f'FILTER(LANG(?l) = {_tag(language)} || LANG(?l) = "") '
    return (
        f"SELECT ?s ?p ?l WHERE {{ VALUES ?s {{ {_block(subjects)} }} "
        f"VALUES ?p {{ {_block(predicates)} }} ?s ?p ?l {chosen}}}"
    )


def edges_query(nodes: Sequence[Term]) -> str:
    """Edges at many nodes: outgoing ones as ?n ?p ?o, incoming ones as ?s ?q ?n."""
    values = f"VALUES ?n {{ {_block(nodes)} }}"
    return f"SELECT ?n ?p ?o ?q ?s WHERE {{ {{ {values} ?n ?p ?o }} UNION {{ {values} ?s ?q ?n }} }}"


def between_query(left: Sequence[Term], right: Sequence[Term]) -> str:
    """Edges between two sets of nodes, in the columns of `edges_query`."""
    values = f"VALUES ?n {{ {_block(left)} }} VALUES ?m {{ {_block(right)} }}"
    return (
        f"SELECT ?n ?p ?o ?q ?s WHERE {{ {{ {values} ?n ?p ?m BIND(?m AS ?o) }} "
        f"UNION {{ {values} ?m ?q ?n BIND(?m AS ?s) }} }}"
    )


def degree_query(nodes: Sequence[Term]) -> str:
    """How many edges many nodes have."""
    values = f"VALUES ?n {{ {_block(nodes)} }}"
    return f"SELECT (COUNT(*) AS ?c) WHERE {{ {{ {values} ?n ?p ?o }} UNION {{ {values} ?s ?q ?n }} }}"


def _block(terms: Iterable[Term]) -> str:
    return " ".join(_n3(t) for t in terms)


def _n3(node: Term | Variable) -> str:
    return node.n3()


def _tag(language: str) -> str:
    return Literal(language.lower(), XSD + "string").n3()
