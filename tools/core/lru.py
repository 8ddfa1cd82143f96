"""A dictionary of bounded size for caches that threads share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from threading import Lock
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(MutableMapping[K, V]):
    """Values by key; the least recently used leave first once there are more than `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, key: K) -> V:
        with self._lock:
            self._items.move_to_end(key)
            return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def __delitem__(self, key: K) -> None:
        with self._lock:
            self._items.pop(key, None)  # another thread may have been quicker

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)
