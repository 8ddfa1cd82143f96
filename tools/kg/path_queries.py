"""Paths between two nodes (ODA, section 2.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Literal, Term, whole_number
from triplewise.tools.kg import protocol
from triplewise.tools.kg.protocol import Deadline, Hop, KnowledgeGraph, Outcome

CHAIN_CAP = 50_000  # chains of one length fetched at most
HERE = 1.0  # seconds that nobody waits longer for what lies in this process; a cut search says so

Path: TypeAlias = tuple[Hop, ...]


def path_order(path: Path) -> tuple[int, list[tuple[str, bool, str]]]:
    """Sort key: shortest first, then by relation, direction and far end of the hops."""
    return len(path), [(hop.triple.relation.value, not hop.forward, hop.far.n3()) for hop in path]


@dataclass(frozen=True, slots=True)
class Paths:
    """Simple paths between two nodes, shortest first; a search that ran out of time has those seen so far."""

    outcome: Outcome
    paths: tuple[Path, ...] = ()
    message: str = ""


def find_paths(kg: KnowledgeGraph, source: Term, target: Term, max_hops: int, limit: int) -> Paths:
    """The simple paths of up to three hops between two nodes, shortest first, until there are enough.

    Edges are walked in both directions, but those of excluded relations. Chains of one or two edges are one
    query each. Longer ones are looked for from the neighbours of an end that has few: engines scan all edges
    for one whose ends are both open. Raises `QueryFailedError` where it finds none because a query failed.
    """
    if source == target:
        return Paths(Outcome.EMPTY, message="source and target are the same node")
    deadline = Deadline(kg._seconds(kg.timeout if kg.is_remote else min(kg.timeout, HERE)))
    paths: dict[Path, None] = {}
    outcome, message = Outcome.ROWS, ""
    for hops in range(1, min(max_hops, 3) + 1):
        start, end, begins = _begun(kg, source, target, hops, deadline)
        if not begins:
            break
        first, is_begun = list(begins), start not in begins
        inner = hops - is_begun
        rows = min(max(4 * limit, 1_000), CHAIN_CAP)  # many chains are not simple paths
        sparql = _chains_query(first, end, inner, start if is_begun else None)
        result = kg.query(sparql, timeout=deadline.left, limit=rows)
        if not result.outcome.ok:
            outcome, message = (result if paths else result.check()).outcome, result.message
            break
        chains = filter(None, (_chain(first, end, inner, row) for row in result.rows))
        whole = [(*begin, *chain) for chain in chains for begin in begins.get(chain[0].near, ())]
        if start is not source:
            whole = [tuple(Hop(hop.triple, not hop.forward) for hop in reversed(path)) for path in whole]
        paths |= dict.fromkeys(sorted((path for path in whole if _is_simple(kg, path)), key=path_order))
        if len(paths) > limit:
            outcome, message = Outcome.TRUNCATED, f"cut at the limit of {limit} paths"
            break
        if result.outcome is Outcome.TRUNCATED:
            outcome, message = result.outcome, result.message
    outcome = Outcome.EMPTY if outcome is Outcome.ROWS and not paths else outcome
    return Paths(outcome, tuple(islice(paths, limit)), message)


def _is_simple(kg: KnowledgeGraph, path: Path) -> bool:
    """Whether a path meets no node twice, and takes no relation that the profile excludes."""
    nodes = {path[0].near, *(hop.far for hop in path)}
    return len(nodes) > len(path) and not any(kg.profile.excludes(hop.triple.relation) for hop in path)


def _begun(
    kg: KnowledgeGraph, source: Term, target: Term, hops: int, deadline: Deadline
) -> tuple[Term, Term, Mapping[Term, Sequence[Path]]]:
    """From where to where paths of so many hops are looked for, and how they begin, by where that leads to:
    with a hop, or with none at the node itself."""
    for near, far in ((source, target), (target, source)) if hops == 3 else ():
        if (first := _hops_from(kg, near, deadline)) is not None:
            return near, far, first
    return source, target, {source: [()]}


def _hops_from(kg: KnowledgeGraph, node: Term, deadline: Deadline) -> Mapping[Term, Sequence[Path]] | None:
    """All hops from a node to others as paths; None where they are many, or cannot be found out."""
    paths = defaultdict[Term, list[Path]](list)
    for forward in (False,) if isinstance(node, Literal) else (True, False):
        pattern = f"{node.n3()} ?p ?o" if forward else f"?o ?p {node.n3()}"
        result = kg.query(f"SELECT ?p ?o WHERE {{ {pattern} }}", timeout=deadline.left, limit=protocol.BATCH)
        if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
            return None
        for relation, far in result.rows:
            if isinstance(relation, IRI) and far not in (None, node) and (forward or isinstance(far, IRI)):
                paths[far].append((Hop.between(node, relation, far, forward),))
    return paths


def _chain(sources: Sequence[Term], target: Term, hops: int, row: protocol.Row) -> Path:
    """A row of `_chains_query` as a path; () where it is none."""
    cells = iter(row[hops + 1 :])
    nodes = [*(sources if len(sources) == 1 else ()), *cells, target]
    against = whole_number(row[0]) or 0
    path = []
    for i, relation in enumerate(row[1 : hops + 1]):
        near, far, forward = nodes[i], nodes[i + 1], not against >> i & 1
        subject = near if forward else far
        if not (near and far and isinstance(relation, IRI) and isinstance(subject, IRI)):
            return ()
        path.append(Hop.between(near, relation, far, forward))
    return tuple(path)


def _chains_query(sources: Sequence[Term], target: Term, hops: int, avoided: Term | None) -> str:
    """Chains of so many edges from some nodes to another, in any direction, that do not touch `avoided`.

    The columns are ?k, the relations ?p0, ?p1 ..., and the nodes ?n0, ?n1 ... from end to end, without those
    that are given alone; the bits of ?k, lowest first, tell which edges go against their direction.
    """
    values = f"VALUES ?n0 {{ {protocol.terms_n3(sources)} }} " if len(sources) > 1 else ""
    nodes = ["?n0" if values else sources[0].n3(), *(f"?n{i}" for i in range(1, hops)), target.n3()]
    apart = [f"{a} != {b}" for i, a in enumerate(nodes) for b in nodes[i + 1 :] if "?" in a[0] + b[0]]
    apart += [f"{n} != {avoided.n3()}" for n in nodes if n[0] == "?" and isinstance(avoided, IRI)]
    simple = f" FILTER({' && '.join(apart)})" if apart else ""
    branches = []
    for k in range(2**hops):
        ways = ((i + 1, i) if k >> i & 1 else (i, i + 1) for i in range(hops))
        steps = [f"{nodes[a]} ?p{min(a, b)} {nodes[b]}" for a, b in ways]
        if not any(step.startswith('"') for step in steps):  # no fact leaves a literal
            branches.append(f"{{ {values}{' . '.join(steps)}{simple} BIND({k} AS ?k) }}")
    columns = " ".join(["?k", *(f"?p{i}" for i in range(hops)), *(n for n in nodes if n[0] == "?")])
    return f"SELECT {columns} WHERE {{ {' UNION '.join(branches)} }}"
