"""A generated graph with skewed degrees: most nodes have a handful of facts, a few a large share of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from triplewise.tools.core.terms import IRI

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers: TypeAlias = NDArray[np.int64]

SPACE = "http://skewed.example/"
RELATIONS = 40
_FACTS_A_NODE = 8
_CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class Skewed:
    """A graph that is made when asked for, from its size and its seed alone.

    Subjects are drawn evenly, objects and relations by Zipf's law with exponent 1: node 0 of a graph of a
    million triples is the object of about 60,000 of them.

    Attributes:
        triples: facts drawn; the few drawn twice count once in a store. seed: of the draws.
    """

    triples: int
    seed: int = 0

    @property
    def nodes(self) -> int:
        """How many nodes there are, numbered from 0."""
        return max(2, self.triples // _FACTS_A_NODE)

    def chunks(self) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Subjects, relations and objects as numbers, some at a time."""
        import numpy as np

        draw = np.random.default_rng(self.seed)
        for start in range(0, self.triples, _CHUNK):
            size = min(_CHUNK, self.triples - start)
            subjects = draw.integers(0, self.nodes, size)
            yield subjects, _zipf(draw.random(size), RELATIONS), _zipf(draw.random(size), self.nodes)

    def degrees(self) -> Integers:
        """Facts of every node, shape (nodes,)."""
        import numpy as np

        found = np.zeros(self.nodes, dtype=np.int64)
        for subjects, _, objects in self.chunks():
            found += np.bincount(subjects, minlength=self.nodes)
            found += np.bincount(objects, minlength=self.nodes)
        return found

    def write(self, path: Path, progress: Callable[[int], None] | None = None) -> None:
        """Write the graph as N-Triples; `progress` is told how many triples are written so far."""
        done = 0
        with path.open("w", encoding="ascii") as file:
            for chunk in self.chunks():
                rows = zip(*(part.tolist() for part in chunk), strict=True)
                file.writelines(f"<{SPACE}n{s}> <{SPACE}r{r}> <{SPACE}n{o}> .\n" for s, r, o in rows)
                done += len(chunk[0])
                if progress is not None:
                    progress(done)


def node(number: int) -> IRI:
    """A node by its number."""
    return IRI(f"{SPACE}n{number}")


def _zipf(draws: NDArray[np.float64], size: int) -> Integers:
    """Ranks below `size` by Zipf's law with exponent 1, from draws between 0 and 1."""
    import numpy as np

    ranks: Integers = np.minimum((size + 1.0) ** draws - 1, size - 1).astype(np.int64)
    return ranks
