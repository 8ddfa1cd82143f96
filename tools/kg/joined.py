"""The adjacency of a store's folder, opened when paths are first asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.protocol import Outcome, Paths

if TYPE_CHECKING:
    from triplewise.tools.kg.adjacency import Adjacency, Array
    from triplewise.tools.kg.profile import Profile


class Joined:
    """Finds paths by the adjacency in a folder, where it fits the store and the profile.

    Args:
        folder: where it lies, if it was made. triples: how many facts the store beside it holds.
    """

    def __init__(self, folder: Path, triples: int) -> None:
        self._folder, self._triples = folder, triples
        self._lock = threading.Lock()
        self._opened: tuple[Profile, Adjacency | None, Array | None] | None = None

    def paths(
        self, profile: Profile, source: Term, target: Term, max_hops: int, deadline: Deadline, limit: int
    ) -> Paths | None:
        """All simple paths of up to `max_hops` hops; None if they cannot be told.

        That is so without a fitting adjacency, and for a literal in another form than the store's own.
        """
        graph, allowed = self._fitting(profile)
        if graph is None:
            return None
        ends = [graph.number(end) for end in (source, target)]
        if any(n is None and not isinstance(end, IRI) for n, end in zip(ends, (source, target), strict=True)):
            return None
        from triplewise.tools.kg.walks import Walks

        if ends[0] is None or ends[1] is None:
            found = Paths(Outcome.EMPTY)
        else:
            found = Walks(graph, allowed, deadline, limit).run(ends[0], ends[1], max_hops)
        return found

    def _fitting(self, profile: Profile) -> tuple[Adjacency | None, Array | None]:
        """The adjacency, if it has all relations that the profile allows; and which codes it allows."""
        with self._lock:
            if self._opened is None or self._opened[0] is not profile:
                self._opened = (profile, *self._open(profile))
            return self._opened[1:]

    def _open(self, profile: Profile) -> tuple[Adjacency | None, Array | None]:
        from triplewise.tools.kg.adjacency import opened

        graph = opened(self._folder, self._triples)
        if graph is None or not all(map(profile.excludes, graph.left_out)):
            return None, None
        return graph, graph.allowed(profile)
