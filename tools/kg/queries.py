"""The queries that the engines send, built from terms (`.n3()`) only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.protocol import Direction
from triplewise.tools.kg.readonly import variable_names


def _fresh_names(names: Sequence[str], taken: frozenset[str]) -> Iterator[str]:
    for name in names:
        while name in taken:
            name += "_"
        yield f"?{name}"


def relations_query(node: Term | Variable, where: str) -> str:
    """Both directions in one query: outgoing relations in the first column, incoming in the second."""
    out, into, other = _fresh_names(("out", "in", "other"), variable_names(f"{where} {node.n3()}"))
    n = node.n3()
    bound = f"{{ SELECT DISTINCT {n} WHERE {{ {where} }} }}" if isinstance(node, Variable) else ""
    branches = [] if isinstance(node, Literal) else [f"{{ {bound} {n} {out} {other} }}"]
    branches.append(f"{{ {bound} {other} {into} {n} }}")
    return f"SELECT DISTINCT {out} {into} WHERE {{ {' UNION '.join(branches)} }}"


def neighbours_query(node: Term, relations: tuple[IRI, ...] | None, forward: bool) -> str:
    """Relation and other end of the triples that leave (or arrive at) a node; None for all relations."""
    pattern = f"{node.n3()} ?p ?o" if forward else f"?o ?p {node.n3()}"
    values = "" if relations is None else f"VALUES ?p {{ {_block(relations)} }} "
    return f"SELECT ?p ?o WHERE {{ {values}{pattern} }}"


def labels_query(subjects: Sequence[IRI], predicates: Sequence[IRI], language: str | None) -> str:
    """Labels of many nodes, in one language or none; in any language if it is None."""
    chosen = "" if language is None else f'FILTER(LANG(?l) = {_tag(language)} || LANG(?l) = "") '
    return (
        f"SELECT ?s ?p ?l WHERE {{ VALUES ?s {{ {_block(subjects)} }} "
        f"VALUES ?p {{ {_block(predicates)} }} ?s ?p ?l {chosen}}}"
    )


def chains_query(
    sources: Sequence[Term], targets: Sequence[Term], hops: int, avoided: Sequence[Term] = ()
) -> str:
    """Chains of so many edges between two sets of nodes, in any direction.

    The columns are ?k, the relations ?p0, ?p1 ..., and the nodes ?n0, ?n1 ... from end to end, without those
    that are given alone; the bits of ?k, lowest first, tell which edges go against their direction.
    `avoided` are nodes that no chain may touch.
    """
    nodes = [f"?n{i}" for i in range(hops + 1)]
    values = ""
    for place, ends in ((0, sources), (hops, targets)):
        if len(ends) == 1:
            nodes[place] = ends[0].n3()
        else:
            values += f"VALUES {nodes[place]} {{ {_block(ends)} }} "
    branches = []
    for k in range(2**hops):
        steps = [
            f"{nodes[i + 1]} ?p{i} {nodes[i]}" if k >> i & 1 else f"{nodes[i]} ?p{i} {nodes[i + 1]}"
            for i in range(hops)
        ]
        if any(step.startswith('"') for step in steps):
            continue  # no fact leaves a literal
        apart = [f"{a} != {b}" for i, a in enumerate(nodes) for b in nodes[i + 1 :] if "?" in a[0] + b[0]]
        apart += [f"{n} != {x.n3()}" for n in nodes if n[0] == "?" for x in avoided if isinstance(x, IRI)]
        simple = f" FILTER({' && '.join(apart)})" if apart else ""
        branches.append(f"{{ {values}{' . '.join(steps)}{simple} BIND({k} AS ?k) }}")
    columns = " ".join(["?k", *(f"?p{i}" for i in range(hops)), *(n for n in nodes if n[0] == "?")])
    return f"SELECT {columns} WHERE {{ {' UNION '.join(branches)} }}"


def bundles_query(nodes: Sequence[Term], direction: Direction) -> str:
    """How many facts many nodes have over each relation: outgoing ones in ?p, incoming ones in ?q.

    "" if there is nothing to ask: no fact leaves a literal.
    """
    sides = []
    subjects = [n for n in nodes if isinstance(n, IRI)]
    if direction != "backward" and subjects:
        sides.append(f"{{ VALUES ?n {{ {_block(subjects)} }} ?n ?p ?o }}")
    if direction != "forward" and nodes:
        sides.append(f"{{ VALUES ?n {{ {_block(nodes)} }} ?s ?q ?n }}")
    if not sides:
        return ""
    return f"SELECT ?n ?p ?q (COUNT(*) AS ?c) WHERE {{ {' UNION '.join(sides)} }} GROUP BY ?n ?p ?q"


def pairs_query(pairs: Sequence[tuple[Term, IRI, bool]]) -> str:
    """The facts of (node, relation, outgoing), in the columns of `edges_query`."""
    out = " ".join(f"({n.n3()} {r.n3()})" for n, r, forward in pairs if forward)
    into = " ".join(f"({n.n3()} {r.n3()})" for n, r, forward in pairs if not forward)
    sides = [f"{{ VALUES (?n ?p) {{ {out} }} ?n ?p ?o }}"] if out else []
    sides += [f"{{ VALUES (?n ?q) {{ {into} }} ?s ?q ?n }}"] if into else []
    return f"SELECT ?n ?p ?o ?q ?s WHERE {{ {' UNION '.join(sides)} }}"


def samples_query(bundles: Sequence[tuple[Term, IRI, bool, int]], seed: int) -> str:
    """So many facts of each (node, relation, outgoing), in the columns of `edges_query`.

    Drawn by a digest of seed and far end: an engine's own order would be another one in each engine.
    """
    sides = []
    for node, relation, forward, count in bundles:
        n, r = node.n3(), relation.n3()
        far, pattern, names = ("?o", f"{n} {r} ?o", "?n ?p") if forward else ("?s", f"?s {r} {n}", "?n ?q")
        order = f"ORDER BY MD5(CONCAT({Literal(f'{seed} ', XSD + 'string').n3()}, STR({far}))) {far}"
        drawn = f"{{ SELECT {far} WHERE {{ {pattern} }} {order} LIMIT {count} }}"
        sides.append(f"{{ {drawn} VALUES ({names}) {{ ({n} {r}) }} }}")
    return f"SELECT ?n ?p ?o ?q ?s WHERE {{ {' UNION '.join(sides)} }}"


def _block(terms: Iterable[Term]) -> str:
    return " ".join(t.n3() for t in terms)


def _tag(language: str) -> str:
    return Literal(language.lower(), XSD + "string").n3()
