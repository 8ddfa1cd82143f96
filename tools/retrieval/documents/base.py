"""What every source of documents offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from triplewise.tools.core.facts import Passage

SHOWN = 5
"""Passages a search gives."""

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with a stage in words, how much of it is done, and how much there is (None: not known)."""


@runtime_checkable
class Documents(Protocol):
    """Passages that can be searched by the name of an entity and what is asked of it."""

    def find(
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
    ) -> tuple[Passage, ...]:
        """Passages about an entity, best first; those that name it nowhere are left out.

        Args:
            name: label of the entity; "" for passages about the question alone.
            relation: what is asked of it, in words. question: what it is asked for.
            aliases: other names of the entity. limit: passages to give at most.

        Raises:
            DocumentsUnavailableError: the service that has them does not answer.
        """
        ...

    def search(self, name: str, relation: str, limit: int = SHOWN) -> list[str]:
        """The texts of `find`; none without a name."""
        ...

    def prepare(self, progress: Progress | None = None) -> None:
        """Make ready what the first search would wait for: passages read, vectors made."""
        ...
