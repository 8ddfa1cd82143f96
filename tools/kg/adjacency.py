"""Who is joined to whom in a loaded graph, as whole numbers in memory-mapped files: what makes paths quick.

Nodes are numbered in the order of their N-Triples form, relations in the order of their IRIs. A node's edges
lie side by side, those of one relation together and forward before backward: the order in which paths are
given. A loop (an edge from a node to itself) is on no simple path and left out.

The folder holds `about.json`, `edges.npy` (where each node's edges begin), `codes.npy` (relation * 2, plus 1
against its direction), `ends.npy` (far ends), and the nodes as text: `text.npy`, `starts.npy`.
"""

from __future__ import annotations

import json
import logging
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyoxigraph as ox
from numpy.typing import NDArray

from triplewise.tools.core.terms import IRI, XSD, Term
from triplewise.tools.kg.oxterms import from_ox, safe_iri
from triplewise.tools.kg.profile import Profile

Array: TypeAlias = NDArray[Any]

FORMAT = 1

_PARTS = ("edges", "codes", "ends", "text", "starts")
_ROWS = "SELECT ?o ?s WHERE {{ ?s {} ?o }}"
_INTEGER = f"{XSD}integer".encode()
_KEY_BITS = 64
_EVERY = 20_000
"""Edges between two reports of progress."""
_EDGE_BYTES, _NODE_BYTES = 80, 300
"""Memory that joining takes, by edge and by node."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adjacency:
    """The edges of a graph.

    Attributes:
        relations: in order. left_out: relations that the profile excluded when this was made.
        edges: shape (nodes + 1,): where the edges of each node begin and end.
        codes, ends: shape (2 * triples,): relation and direction, and far end, of each edge.
        text, starts: the nodes in N-Triples form, one behind the other, and where each begins and ends.
    """

    relations: tuple[IRI, ...]
    left_out: tuple[IRI, ...]
    edges: Array
    codes: Array
    ends: Array
    text: Array
    starts: Array

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.edges) - 1

    def allowed(self, profile: Profile) -> Array | None:
        """For each code whether the profile lets a path take it; None where all may be taken."""
        excluded = np.array([profile.excludes(r) for r in self.relations], bool)
        return np.repeat(~excluded, 2) if excluded.any() else None

    def number(self, term: Term) -> int | None:
        """The number of a node; None where it has no edge here."""
        wanted = term.n3().encode()
        low, high = 0, self.nodes
        while low < high:
            middle = (low + high) // 2
            if self._n3(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < self.nodes and self._n3(low) == wanted else None

    def term(self, number: int) -> Term:
        """The node of a number."""
        n3 = self._n3(number)
        return IRI(n3[1:-1].decode()) if n3.startswith(b"<") else _read(n3)

    def _n3(self, number: int) -> bytes:
        return self.text[self.starts[number] : self.starts[number + 1]].tobytes()


def build(
    store: ox.Store, profile: Profile, folder: Path, triples: int, progress: Callable[[int], None]
) -> int:
    """Write the adjacency of a store into a folder; returns how many edges of the graph it holds.

    Relations that the profile excludes are left out: no path may take them. Writes nothing where that would
    take half of the machine's memory, or more nodes than fit (60 million, with a hundred relations).

    Args:
        triples: how many the store holds: what was made for another store is not opened.
        progress: told how many edges are read so far.
    """
    every = sorted(safe_iri(row[0].value) for row in _select(store, "SELECT DISTINCT ?p WHERE { ?s ?p ?o }"))
    relations = [r for r in every if not profile.excludes(r)]
    numbers, pairs, bounds = _Numbers(), array("I"), [0]
    try:
        for relation in relations:
            rows = _Rows(numbers, pairs, progress)
            query = _ROWS.format(relation.n3())
            _select(store, query).serialize(rows, format=ox.QueryResultsFormat.TSV)
            bounds.append(len(pairs) // 2)
        packing = _Packing.of(len(numbers), len(relations))
    except _TooLarge as error:
        _log.warning("paths will be looked for in the store itself, which takes longer: %s", error)
        return 0
    serialised = list(numbers)
    numbers.clear()
    text, ranks = _ranked(serialised)
    keys = _keys(np.frombuffer(pairs, np.uintc).reshape(-1, 2), bounds, ranks, packing)
    about = {
        "format": FORMAT,
        "triples": triples,
        "relations": [r.value for r in relations],
        "left_out": [r.value for r in every if profile.excludes(r)],
    }
    _write(folder, keys, text, packing, about)
    return len(keys) // 2


def opened(folder: Path, triples: int) -> Adjacency | None:
    """What `build` wrote for a store of so many triples; None where that is missing, outdated or damaged."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        if (about["format"], about["triples"]) != (FORMAT, triples):
            return None
        parts = {name: np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in _PARTS}
        relations, left_out = (tuple(map(IRI, about[key])) for key in ("relations", "left_out"))
        _check_sizes(parts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be used (%s); paths are looked for without it: load again", folder, error)
        return None
    return Adjacency(relations, left_out, **parts)


def _check_sizes(parts: Mapping[str, Array]) -> None:
    """Raises ValueError where the files are not of one piece."""
    edges, starts = parts["edges"], parts["starts"]
    sizes = (len(starts), len(parts["codes"]), len(parts["ends"]), len(parts["text"]))
    if sizes != (len(edges), edges[-1], edges[-1], starts[-1]):
        raise ValueError("its files do not belong together")


class _TooLarge(Exception):  # noqa: N818 - no error: such a graph does without
    """The graph has more nodes or edges than can be joined here."""


class _Numbers(dict[bytes, int]):
    """Terms as they are serialised, numbered as they come."""

    def __missing__(self, term: bytes) -> int:
        self[term] = number = len(self)
        return number


class _Rows:
    """Takes the two columns of a serialised query as they are written, and keeps them as numbers."""

    def __init__(self, numbers: _Numbers, pairs: array[int], progress: Callable[[int], None]) -> None:
        self._numbers, self._pairs, self._progress = numbers, pairs, progress
        self._rest, self._heading = b"", True

    def write(self, data: bytes) -> int:
        """Take some bytes; a line may go on in the next ones."""
        lines, _, self._rest = (self._rest + data).rpartition(b"\n")
        if self._heading and (lines or data.endswith(b"\n")):
            self._heading = False
            lines = lines.partition(b"\n")[2]
        if lines:
            before = len(self._pairs) // 2
            self._take(lines)
            if len(self._pairs) // 2 // _EVERY > before // _EVERY:
                self._report(len(self._pairs) // 2)
        return len(data)

    def flush(self) -> None:
        """Nothing to do: rows are taken as they come."""

    def _report(self, edges: int) -> None:
        self._progress(edges)
        needed = edges * _EDGE_BYTES + len(self._numbers) * _NODE_BYTES
        if needed > _memory() / 2:
            raise _TooLarge(f"joining over {edges:,} edges needs {needed >> 20:,} MB of memory")

    def _take(self, lines: bytes) -> None:
        fields = lines.replace(b"\n", b"\t").split(b"\t")
        if len(fields) != 2 * (lines.count(b"\n") + 1):  # an IRI with a tab, which only lenient loads let in
            rows = (line.split(b"\t") for line in lines.split(b"\n"))
            fields = [field for row in rows if len(row) == 2 for field in row]
        self._pairs.extend(map(self._numbers.__getitem__, fields))


@dataclass(frozen=True, slots=True)
class _Packing:
    """How node, relation with direction, and far end share the bits of one number, in this order."""

    node_bits: int
    code_bits: int

    @classmethod
    def of(cls, nodes: int, relations: int) -> _Packing:
        found = cls(max(1, nodes.bit_length()), max(1, (2 * relations).bit_length()))
        if 2 * found.node_bits + found.code_bits > _KEY_BITS:
            raise _TooLarge(f"{nodes:,} nodes and {relations:,} relations do not fit into {_KEY_BITS} bits")
        return found

    def pack(self, near: Array, code: int, far: Array) -> Array:
        packed: Array = (near << (self.code_bits + self.node_bits)) | np.uint64(code << self.node_bits) | far
        return packed

    def near(self, keys: Array) -> Array:
        return keys >> (self.code_bits + self.node_bits)

    def code(self, keys: Array) -> Array:
        return (keys >> self.node_bits) & np.uint64((1 << self.code_bits) - 1)

    def far(self, keys: Array) -> Array:
        return keys & np.uint64((1 << self.node_bits) - 1)


def _select(store: ox.Store, query: str) -> Any:
    """The solutions of a query over all graphs of the store."""
    union = next(iter(store.named_graphs()), None) is not None
    return store.query(query, use_default_graph_as_union=union)


def _ranked(serialised: list[bytes]) -> tuple[list[bytes], Array]:
    """The distinct terms in N-Triples form, in order, and for each term as it came its place among them."""
    n3 = [_plain(term) for term in serialised]
    text: list[bytes] = []
    ranks = np.empty(len(n3), np.uint64)
    for place in sorted(range(len(n3)), key=n3.__getitem__):
        if not text or text[-1] != n3[place]:
            text.append(n3[place])
        ranks[place] = len(text) - 1
    return text, ranks


def _plain(term: bytes) -> bytes:
    """A term as `Term.n3` writes it, from how query results write it."""
    if term.startswith(b'"'):
        return term  # both write these alike
    if term.isdigit():
        return b'"%b"^^<%b>' % (term, _INTEGER)
    is_iri = term.startswith(b"<") and not term.startswith(b"<<")
    n3 = (safe_iri(term[1:-1].decode()) if is_iri else _read(term)).n3().encode()
    return term if n3 == term else n3  # a second copy of most terms would take much memory


def _memory() -> int:
    """Bytes of memory that the machine has."""
    if not hasattr(os, "sysconf"):
        return 8 << 30
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(term: bytes) -> Term:
    """A term from its Turtle form, of which N-Triples is a part."""
    (quad,) = ox.parse(b"<urn:s> <urn:p> " + term + b" .", format=ox.RdfFormat.TURTLE, lenient=True)
    found = from_ox(quad.object)
    if found is None:
        raise ValueError(f"not a term: {term!r}")
    return found


def _keys(pairs: Array, bounds: Sequence[int], ranks: Array, packing: _Packing) -> Array:
    """Every edge from both of its ends, each once, in order."""
    keys = np.empty(2 * len(pairs), np.uint64)
    for relation, (start, stop) in enumerate(pairwise(bounds)):
        objects, subjects = ranks[pairs[start:stop, 0]], ranks[pairs[start:stop, 1]]
        keys[2 * start : start + stop] = packing.pack(subjects, 2 * relation, objects)
        keys[start + stop : 2 * stop] = packing.pack(objects, 2 * relation + 1, subjects)
    keys = keys[packing.near(keys) != packing.far(keys)]
    keys.sort()
    fresh = np.ones(len(keys), bool)
    fresh[1:] = keys[1:] != keys[:-1]
    distinct: Array = keys[fresh]
    return distinct


def _write(
    folder: Path, keys: Array, text: Sequence[bytes], packing: _Packing, about: dict[str, Any]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts: Iterator[Array] = (
        _running(np.bincount(packing.near(keys).astype(np.int64), minlength=len(text))),
        packing.code(keys).astype(np.min_scalar_type(2 * len(about["relations"]))),
        packing.far(keys).astype(np.uint32),
        np.frombuffer(b"".join(text), np.uint8),
        _running(np.fromiter(map(len, text), np.int64, len(text))),
    ).__iter__()
    for name, part in zip(_PARTS, parts, strict=True):
        np.save(folder / f"{name}.npy", part)
    (folder / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")


def _running(counts: Array) -> Array:
    """Where each of some runs begins, and the end of the last: shape (runs + 1,)."""
    found: Array = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return found
