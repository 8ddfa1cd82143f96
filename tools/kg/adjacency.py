"""A graph's edges as whole numbers, and the search for paths over them (ODA, section 2.2).

A node's edges lie side by side (compressed sparse rows), in the order in which paths are given: by relation,
forward before backward. Loops are on no simple path and left out. On disk it is a folder of mapped arrays.
"""

from __future__ import annotations

import json
import logging
import os
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import numpy as np
import pyoxigraph as ox
from numpy.typing import NDArray

from triplewise.tools.core.files import write_json
from triplewise.tools.core.terms import IRI, XSD, Term, Triple
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Deadline, Hop, Outcome, Paths, path_order
from triplewise.tools.kg.rdf import parse_term, safe_iri

Array: TypeAlias = NDArray[Any]

_PARTS = ("edges", "codes", "ends", "text", "starts")
_INTEGER = f"{XSD}integer".encode()
_KEY_BITS = 64
_PIECE_BYTES = 4 << 20  # serialised rows that are read at once
_TRIPLE_BYTES = 200  # memory that building takes a fact: 80 for its edges, the rest for nodes that it brings
_BY_QUERIES = "paths will be searched for by queries, which takes longer: %s"
_PIECE = 1 << 15  # edges looked at between two looks at the clock
_HALF = np.uint64(32)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adjacency:
    """The edges of a graph.

    Attributes:
        relations: by number, in the order of their IRIs. left_out: those that the profile excluded when this
            was built.
        edges: shape (nodes + 1,): where the edges of each node begin and end.
        codes, ends: shape (2 * triples,): relation * 2 (plus 1 against its direction), and far end.
        text, starts: the nodes in N-Triples form, sorted, one behind the other; where each begins and ends.
        new_nodes, new_edges: what `with_triples` added: terms behind the others, and near end, code and far
            end of edges, sorted by near end.
    """

    relations: tuple[IRI, ...]
    left_out: tuple[IRI, ...]
    edges: Array
    codes: Array
    ends: Array
    text: Array
    starts: Array
    new_nodes: tuple[Term, ...] = ()
    new_edges: Array | None = None

    def number(self, term: Term) -> int | None:
        """The number of a node; None where it has no edge here."""
        n3, last = term.n3().encode(), len(self.starts) - 1
        place = bisect_left(range(last), n3, key=self._n3)
        if place < last and self._n3(place) == n3:
            return place
        return last + self.new_nodes.index(term) if term in self.new_nodes else None

    def term(self, number: int) -> Term:
        """The node of a number."""
        if number >= len(self.starts) - 1:
            return self.new_nodes[number - len(self.starts) + 1]
        n3 = self._n3(number)
        return IRI(n3[1:-1].decode()) if n3.startswith(b"<") else parse_term(n3)

    def with_triples(self, triples: Iterable[Triple]) -> Adjacency:
        """This graph and further triples, which it must not hold yet. This one stays as it is."""
        edges = [t for t in triples if t.subject != t.object]
        ends = dict.fromkeys(end for t in edges for end in (t.subject, t.object))
        new = tuple(end for end in ends if self.number(end) is None)
        relations = tuple(dict.fromkeys((*self.relations, *(t.relation for t in edges))))
        grown = replace(
            self,
            relations=relations,
            edges=np.concatenate([self.edges, np.repeat(self.edges[-1:], len(new))]),
            new_nodes=(*self.new_nodes, *new),
        )
        codes = {relation: 2 * i for i, relation in enumerate(relations)}
        numbers = {end: grown.number(end) for end in ends}
        added = [] if self.new_edges is None else list(map(tuple, self.new_edges.T.tolist()))
        for t in edges:
            near, code, far = numbers[t.subject], codes[t.relation], numbers[t.object]
            added += [(near, code, far), (far, code + 1, near)]
        return replace(grown, new_edges=np.array(sorted(added), np.int64).reshape(-1, 3).T)

    def _n3(self, number: int) -> bytes:
        return self.text[self.starts[number] : self.starts[number + 1]].tobytes()


def build_adjacency(
    store: ox.Store, profile: Profile, progress: Callable[[int], None] | None = None
) -> Adjacency | None:
    """The adjacency of a store, without the relations that the profile excludes: no path may take them.

    None where building it would take half of the machine's memory, or more nodes than fit (60 million, with a
    hundred relations). `progress` is told how many edges are read so far.
    """
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    memory = os.sysconf("SC_PAGE_SIZE") * pages if pages else 8 << 30
    if (needed := len(store) * _TRIPLE_BYTES) > memory / 2:
        _log.warning(_BY_QUERIES, f"{len(store):,} facts need {needed >> 20:,} MB of memory")
        return None
    union = next(iter(store.named_graphs()), None) is not None

    def select(query: str) -> Any:
        return store.query(query, use_default_graph_as_union=union)

    every = sorted(safe_iri(row[0].value) for row in select("SELECT DISTINCT ?p WHERE { ?s ?p ?o }"))
    relations = [r for r in every if not profile.excludes(r)]
    numbers = defaultdict[bytes, int](count().__next__)  # terms as they are serialised, numbered as they come
    pairs, bounds = array("I"), [0]
    for relation in relations:
        for fields in _ends(select(f"SELECT ?o ?s WHERE {{ ?s {relation.n3()} ?o }}")):
            pairs.extend(map(numbers.__getitem__, fields))
            if progress is not None:
                progress(len(pairs) // 2)
        bounds.append(len(pairs) // 2)
    node_bits = np.uint64(max(1, len(numbers).bit_length()))
    code_bits = np.uint64(max(1, (2 * len(relations)).bit_length()))
    if 2 * node_bits + code_bits > _KEY_BITS:
        _log.warning(_BY_QUERIES, f"{len(numbers):,} nodes and {len(relations):,} relations are too many")
        return None
    # The distinct terms in N-Triples form, in order, and for each term as it came its place among them.
    n3 = [_plain(term) for term in numbers]
    text = sorted(set(n3))
    places = {term: place for place, term in enumerate(text)}
    ranks = np.fromiter(map(places.__getitem__, n3), np.uint64, len(n3))
    keys = _edge_keys(ranks, pairs, bounds, node_bits, code_bits)
    node_mask = np.uint64((1 << int(node_bits)) - 1)
    keys = np.unique(keys[keys >> (code_bits + node_bits) != keys & node_mask])
    near = (keys >> (code_bits + node_bits)).astype(np.int64)
    codes = (keys >> node_bits) & np.uint64((1 << int(code_bits)) - 1)
    return Adjacency(
        relations=tuple(relations),
        left_out=tuple(r for r in every if profile.excludes(r)),
        edges=_offsets(np.bincount(near, minlength=len(text))),
        codes=codes.astype(np.min_scalar_type(2 * len(relations))),
        ends=(keys & node_mask).astype(np.uint32),
        text=np.frombuffer(b"".join(text), np.uint8),
        starts=_offsets(np.fromiter(map(len, text), np.int64, len(text))),
    )


def _edge_keys(
    ranks: Array, pairs: array[int], bounds: list[int], node_bits: np.uint64, code_bits: np.uint64
) -> Array:
    """Near end, code and far end of each edge in the bits of one number: sorting sorts by all three."""
    keys = np.empty(len(pairs), np.uint64)
    by_row = np.frombuffer(pairs, np.uintc).reshape(-1, 2)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        objects, subjects = ranks[by_row[start:stop, 0]], ranks[by_row[start:stop, 1]]
        code = np.uint64(2 * number)
        keys[2 * start : start + stop] = ((subjects << code_bits | code) << node_bits) | objects
        code = np.uint64(2 * number + 1)
        keys[start + stop : 2 * stop] = ((objects << code_bits | code) << node_bits) | subjects
    return keys


def _ends(solutions: Any) -> Iterator[list[bytes]]:
    """The values of solutions of two variables, row by row, some thousand rows at a time."""
    with TemporaryFile() as rows:  # serialised rows are read ten times as fast as solutions
        solutions.serialize(rows, format=ox.QueryResultsFormat.TSV)
        rows.seek(0)
        next(rows)
        while lines := rows.readlines(_PIECE_BYTES):
            fields = b"".join(lines).replace(b"\n", b"\t").split(b"\t")[:-1]
            if len(fields) != 2 * len(lines):  # an IRI with a tab, which only lenient loads let in
                parts = (line[:-1].split(b"\t") for line in lines)
                fields = [field for part in parts if len(part) == 2 for field in part]
            yield fields


def _plain(term: bytes) -> bytes:
    """A term as `Term.n3` writes it, from how query results write it."""
    if term.startswith(b'"'):
        return term  # both write these alike
    if term.isdigit():
        return b'"%b"^^<%b>' % (term, _INTEGER)
    is_iri = term.startswith(b"<") and not term.startswith(b"<<")
    n3 = (safe_iri(term[1:-1].decode()) if is_iri else parse_term(term)).n3().encode()
    return term if n3 == term else n3  # a second copy of most terms would take much memory


def _offsets(counts: Array) -> Array:
    """Where each of some runs begins, and the end of the last: shape (runs + 1,)."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def save_adjacency(graph: Adjacency, folder: Path) -> None:
    """Write an adjacency into a new folder."""
    folder.mkdir()
    for name in _PARTS:
        np.save(folder / f"{name}.npy", getattr(graph, name))
    relations = {key: [r.value for r in getattr(graph, key)] for key in ("relations", "left_out")}
    write_json(folder / "about.json", relations, indent=1)


def open_adjacency(folder: Path) -> Adjacency | None:
    """What was saved in a folder, whose files the store's manifest vouches for; None if it was too large."""
    if not folder.exists():
        return None
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    parts = {name: np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in _PARTS}
    return Adjacency(tuple(map(IRI, about["relations"])), tuple(map(IRI, about["left_out"])), **parts)


class PathSearch:
    """All simple paths between two nodes of an adjacency, shortest first, in one fixed order.

    The paths of one length are grown hop by hop from the source, some thousand at a time, by array
    operations. Before the last hop only nodes beside the target are followed, and before that, where it is
    worth knowing, only nodes two hops away from it; so nearly every beginning that is followed becomes a
    path, and the search ends as soon as it has enough of them.

    Args:
        graph: the edges. profile: says which of them no path may take.
        deadline, limit: seconds and number of paths after which the search stops and says so.
    """

    def __init__(self, graph: Adjacency, profile: Profile, deadline: Deadline, limit: int) -> None:
        self._graph, self._deadline, self._limit = graph, deadline, limit
        excluded = np.array([profile.excludes(r) for r in graph.relations], bool)
        self._allowed = np.repeat(~excluded, 2) if excluded.any() else None  # by code; None for all
        self._late = deadline.passed

    def run(self, start: Term, end: Term, max_hops: int) -> Paths | None:
        """All simple paths of 1 to `max_hops` hops between two nodes; the outcome tells whether all.

        None for a literal that the graph lacks in just this form: another form of it may be meant.
        """
        source, target = self._graph.number(start), self._graph.number(end)
        if source is None or target is None:
            missing = [term for term, number in ((start, source), (end, target)) if number is None]
            return Paths(Outcome.EMPTY) if all(isinstance(term, IRI) for term in missing) else None
        self._target, self._near = target, dict[int, Array]()
        parts = [np.empty((2, 0), np.int64), *(np.stack(p[1:]) for p in self._pieces(np.array([target])))]
        codes, self._beside = np.concatenate(parts, axis=1)
        # Seen from their far ends: the direction of each edge is turned round.
        self._into = np.sort((self._beside.astype(np.uint64) << _HALF) | (codes.astype(np.uint64) ^ 1))
        paths: list[tuple[list[int], list[int]]] = []
        for length in range(1, max_hops + 1):
            beginning = np.array([[source]], np.int64), np.empty((1, 0), np.int64)
            for nodes, path_codes in self._grow(*beginning, length, length):
                more = self._limit + 1 - len(paths)
                paths += zip(nodes[:more].tolist(), path_codes[:more].tolist(), strict=True)
                if len(paths) > self._limit:
                    return self._answer(paths, Outcome.TRUNCATED, f"cut at the limit of {self._limit} paths")
            if self._late:
                message = f"no complete answer within {self._deadline.seconds:g} s"
                return self._answer(paths, Outcome.TIMEOUT, message)
        return self._answer(paths, Outcome.ROWS if paths else Outcome.EMPTY)

    def _grow(self, nodes: Array, codes: Array, left: int, length: int) -> Iterator[tuple[Array, Array]]:
        """Paths that begin with some nodes and codes, one a row, and go on for `left` hops."""
        if left == 1:
            last = nodes[:, -1].astype(np.uint64)
            low = np.searchsorted(self._into, last << _HALF)
            rows, at = _spread(low, np.searchsorted(self._into, (last + np.uint64(1)) << _HALF))
            code = (self._into[at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            yield nodes[rows], np.column_stack([codes[rows], code])
            return
        for rows, code, ends in self._pieces(nodes[:, -1], self._nearby(left - 1, length, nodes)):
            fresh = ends != self._target
            for column in nodes.T:
                fresh &= ends != column[rows]
            rows, code, ends = rows[fresh], code[fresh], ends[fresh]
            if len(rows):
                nodes_here, codes_here = np.column_stack([nodes[rows], ends]), codes[rows]
                yield from self._grow(nodes_here, np.column_stack([codes_here, code]), left - 1, length)

    def _nearby(self, hops: int, length: int, nodes: Array) -> Array | None:
        """Where so many hops lead to the target: shape (nodes of the graph,); None for not known.

        `nodes`: the beginnings of paths to follow one hop. What lies two hops from the target is found out
        only where that is cheaper than to follow all that lies ahead.
        """
        if hops == 2 and length == 3 and hops not in self._near:
            edges = self._graph.edges
            behind = int((edges[self._beside + 1] - edges[self._beside]).sum())
            ahead = self._graph.ends[edges[nodes[0, -1]] : edges[nodes[0, -1] + 1]].astype(np.int64)
            if behind >= int((edges[ahead + 1] - edges[ahead]).sum()):
                return None
        if hops not in self._near and hops < 3:
            self._near[hops] = near = np.zeros(len(self._graph.edges) - 1, bool)
            if hops == 1:
                near[self._beside] = True
            else:
                for _, _, ends in self._pieces(np.unique(self._beside)):
                    near[ends] = True
        return self._near.get(hops)

    def _pieces(self, nodes: Array, near: Array | None = None) -> Iterator[tuple[Array, Array, Array]]:
        """Edges at some nodes, in order and piece by piece, those that lead to where `near` is true.

        Yields the places of the nodes among `nodes`, codes, and far ends. Ends early when time is over.
        """
        graph = self._graph
        starts = graph.edges[nodes]
        behind = np.cumsum(graph.edges[nodes + 1] - starts)
        shift = starts - np.concatenate([[0], behind[:-1]])
        done, total = 0, int(behind[-1]) if len(behind) else 0
        while done < total:
            if self._deadline.passed:
                self._late = True
                return
            stop = min(done + _PIECE, total)
            first, last = np.searchsorted(behind, [done, stop - 1], "right")
            counts = np.diff(np.clip(behind[first : last + 1], done, stop), prepend=done)
            rows = np.repeat(np.arange(first, last + 1), counts)
            at = np.arange(done, stop) + shift[rows]
            ends = graph.ends[at]
            if near is not None:
                places = np.flatnonzero(near[ends])
                rows, at, ends = rows[places], at[places], ends[places]
            yield self._permitted(rows, graph.codes[at], ends.astype(np.int64))
            done = stop
        if graph.new_edges is not None:
            beginnings, codes, ends = graph.new_edges
            rows, at = _spread(*(np.searchsorted(beginnings, nodes, side) for side in ("left", "right")))
            yield self._permitted(rows, codes[at], ends[at])

    def _permitted(self, rows: Array, codes: Array, ends: Array) -> tuple[Array, Array, Array]:
        places = slice(None) if self._allowed is None else np.flatnonzero(self._allowed[codes])
        return rows[places], codes[places], ends[places]

    def _answer(
        self, numbers: list[tuple[list[int], list[int]]], outcome: Outcome, message: str = ""
    ) -> Paths:
        """The paths as terms."""
        term, paths = cache(self._graph.term), []
        for nodes, codes in numbers[: self._limit]:
            ends = [*map(term, nodes), term(self._target)]
            relations = (self._graph.relations[code // 2] for code in codes)
            forward = (code % 2 == 0 for code in codes)
            paths.append(tuple(map(Hop.between, ends, relations, ends[1:], forward)))
        if self._graph.new_edges is not None:
            paths.sort(key=path_order)
        return Paths(outcome, tuple(paths), message)


def _spread(low: Array, high: Array) -> tuple[Array, Array]:
    """All places of some runs `low[i]` to `high[i]`, and the run that each belongs to."""
    counts = high - low
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, low[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
