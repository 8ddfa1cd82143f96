"""What a cut computes, as expressions: which triples a hop takes, which nodes are hubs, what comes next.

Nodes and literals are told apart by their first character: a term is written as N-Triples writes it, and
blank nodes have become IRIs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import ibis.expr.types as ir

Direction = Literal["both", "out"]
DIRECTIONS: tuple[Direction, ...] = ("both", "out")


def touched(triples: ir.Table, followed: ir.Table, frontier: ir.Table, direction: Direction) -> ir.Table:
    """The triples at the nodes of a frontier: `s`, `p`, `o`, `node`, `side`.

    Args:
        triples: `s`, `p`, `o`. followed: relations to follow, as `p`. frontier: nodes, as `node`.
        direction: `out` takes triples by their subject, `both` by their object too.
    """
    edges = triples.semi_join(followed, "p")
    touching = edges.semi_join(frontier, edges.s == frontier.node).mutate(
        node=lambda t: t.s, side=_text("out")
    )
    if direction == "both":
        into = edges.filter(is_node(edges.o)).semi_join(frontier, edges.o == frontier.node)
        touching = touching.union(into.mutate(node=lambda t: t.o, side=_text("in")))
    return touching.distinct()


def hubs(touching: ir.Table, limit: int, seeds: ir.Table) -> ir.Table:
    """Nodes with more neighbours on one side than the limit: `node`, `side`, `neighbours`, largest first.

    Seeds never are hubs.

    Args:
        touching: what `touched` gave. limit: most neighbours (distinct nodes). seeds: as `node`.
    """
    import ibis

    nodes = touching.filter(is_node(touching.o))
    pairs = nodes.select("node", "side", other=ibis.ifelse(nodes.side == "out", nodes.o, nodes.s)).distinct()
    counts = pairs.group_by("node", "side").agg(neighbours=lambda t: t.count())
    over = counts.filter(counts.neighbours > limit).anti_join(seeds, "node")
    return over.order_by(ibis.desc("neighbours"), "node", "side")


def taken(touching: ir.Table, over: ir.Table | None) -> ir.Table:
    """The triples that a hop takes: all but those of hubs; their literals all the same.

    Args:
        touching: what `touched` gave. over: what `hubs` gave; None for no limit.
    """
    if over is not None:
        node = is_node(touching.o)
        others = touching.filter(node).anti_join(over, ["node", "side"])
        touching = touching.filter(~node).union(others)
    return touching.select("s", "p", "o").distinct()


def reached(triples: ir.Table, seen: ir.Table) -> ir.Table:
    """The nodes of some triples that are not among those seen before, as `node`."""
    return nodes_of(triples).anti_join(seen, "node")


def nodes_of(triples: ir.Table) -> ir.Table:
    """The subjects and objects of triples that are nodes, each once, as `node`."""
    objects = triples.filter(is_node(triples.o)).select(node="o")
    return triples.select(node="s").union(objects).distinct()


def first_hops(by_hop: Sequence[ir.Table]) -> ir.Table:
    """Each triple once, with the hop that took it first, from the triples of hop 1, 2, ...; sorted."""
    import ibis

    tables = [table.select("s", "p", "o", hop=ibis.literal(n, "int64")) for n, table in enumerate(by_hop, 1)]
    every = union_of(tables)
    once = every.group_by("s", "p", "o").agg(hop=every.hop.min())
    return once.order_by("s", "p", "o")


def names_of(triples: ir.Table, naming: ir.Table, named: ir.Table, languages: Sequence[str] = ()) -> ir.Table:
    """The labels, aliases and descriptions of some nodes, each once, sorted.

    Args:
        triples: all. naming: the predicates that name, as `p`. named: the nodes, as `node`.
        languages: tags to keep with their regional forms; texts without a tag stay. All if empty.
    """
    texts = triples.semi_join(naming, "p")
    texts = texts.semi_join(named, texts.s == named.node)
    if languages:
        tags = "|".join(tag.lower() for tag in languages)
        tagged = texts.o.re_search(r'"@[a-z0-9-]+$')
        texts = texts.filter(~tagged | texts.o.re_search(rf'"@({tags})(-[a-z0-9]+)*$'))
    return texts.select("s", "p", "o").distinct().order_by("s", "p", "o")


def union_of(tables: Sequence[ir.Table]) -> ir.Table:
    """The rows of some tables, as often as they occur."""
    return tables[0].union(*tables[1:]) if len(tables) > 1 else tables[0]


def is_node(term: ir.StringColumn) -> ir.BooleanValue:
    """Whether a term is an IRI."""
    return term.startswith("<")


def _text(value: str) -> ir.StringScalar:
    import ibis

    return ibis.literal(value)
