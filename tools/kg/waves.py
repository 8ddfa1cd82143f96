"""Tasks in greenlets: each is suspended at its query until all are, and then all are sent at once.

A loop over independent parts is written once, part by part; over a network its parts advance side by side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class _Batch:
    """All tasks below one outermost call: how those go on that are ready, and the questions of the others."""

    def __init__(self, waves: object) -> None:
        self.waves, self.main = waves, getcurrent()
        self.ready: deque[Callable[[], object]] = deque()
        self.waiting: list[tuple[_Task, Any]] = []


class _Task(greenlet):  # type: ignore[misc]  # it has no types
    """A task, perhaps of another one (`owner`). `unfinished`: how many of its own still run."""

    def __init__(self, batch: _Batch, job: Callable[[], object], owner: _Task | None) -> None:
        super().__init__(self._live, batch.main)
        self.batch, self.job, self.owner, self.unfinished = batch, job, owner, 0
        self.outcome = Future[Any]()
        batch.ready.append(self.switch)

    def _live(self) -> None:
        try:
            self.outcome.set_result(self.job())
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            self.outcome.set_exception(error)
        if self.owner is not None:
            self.owner.unfinished -= 1
            if not self.owner.unfinished:
                self.batch.ready.append(self.owner.switch)


class Waves(Generic[Q, A]):
    """Runs tasks so that what they ask travels together. Exactly one task of a call runs at any moment.

    `send` answers some questions, all at once, in their order.
    """

    def __init__(self, send: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._send = send

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the values of tasks, which may run tasks themselves. An error is raised at the end."""
        if len(tasks) < 2:
            return [task() for task in tasks]
        owner = self._current()
        batch = _Batch(self) if owner is None else owner.batch
        started = [_Task(batch, task, owner) for task in tasks]
        if owner is not None:
            owner.unfinished = len(started)
            batch.main.switch()
        while not all(task.dead for task in started):
            if not batch.ready:
                waiting, batch.waiting = batch.waiting, []
                try:
                    pairs = zip(waiting, self._send([question for _, question in waiting]), strict=True)
                    batch.ready.extend(partial(task.switch, answer) for (task, _), answer in pairs)
                except BaseException as error:  # noqa: BLE001 - raised again in the caller
                    batch.ready.extend(partial(task.throw, error) for task, _ in waiting)
            batch.ready.popleft()()
        return [task.outcome.result() for task in started]

    def ask(self, question: Q) -> A:
        """Return the answer to a question: outside of tasks at once, else when all tasks wait or end."""
        if (task := self._current()) is None:
            return self._send([question])[0]
        task.batch.waiting.append((task, question))
        answer: A = task.batch.main.switch()
        return answer

    def _current(self) -> _Task | None:
        task = getcurrent()
        return task if isinstance(task, _Task) and task.batch.waves is self else None
