"""Tasks in greenlets: each is suspended at its query until all are, and then all are sent at once.

A loop over independent parts (rules to run, paths to grow) is written once, part by part. Over a network
its parts advance side by side, so that a level costs one round trip however many parts it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


class _Batch:
    """All tasks below one outermost call: those that are ready, and those that wait, with their queries."""

    def __init__(self, waves: object) -> None:
        self.waves, self.main = waves, getcurrent()
        self.ready: deque[_Task] = deque()
        self.waiting: list[tuple[_Task, Any]] = []


class _Task:
    """A task, perhaps of another one (`owner`). `unfinished`: how many of its own still run."""

    def __init__(self, batch: _Batch, job: Callable[[], object], owner: _Task | None) -> None:
        self.batch, self.job, self.owner, self.unfinished = batch, job, owner, 0
        self.greenlet = greenlet(self._live, batch.main)
        self.greenlet.task = self
        self.value: Any = None
        self.error: BaseException | None = None

    def _live(self) -> None:
        try:
            self.value = self.job()
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            self.error = error
        if self.owner is not None:
            self.owner.unfinished -= 1
            if not self.owner.unfinished:
                self.batch.ready.append(self.owner)


class Waves(Generic[Q, A]):
    """Runs tasks so that what they ask travels together. Exactly one task of a call runs at any moment.

    Args:
        send: answers some questions, all at once; in the order of the questions.
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
        batch.ready.extend(started)
        if owner is not None:
            owner.unfinished = len(started)
            batch.main.switch()
        while not all(task.greenlet.dead for task in started):
            if not batch.ready:
                waiting, batch.waiting = batch.waiting, []
                try:
                    answers = self._send([question for _, question in waiting])
                    for (task, _), answer in zip(waiting, answers, strict=True):
                        task.value = answer
                except BaseException as error:  # noqa: BLE001 - raised again by `ask`
                    for task, _ in waiting:
                        task.error = error
                batch.ready.extend(task for task, _ in waiting)
            batch.ready.popleft().greenlet.switch()
        for task in started:
            if task.error is not None:
                raise task.error
        return [task.value for task in started]

    def ask(self, question: Q) -> A:
        """Return the answer to a question: outside of tasks at once, else when all tasks wait or end."""
        if (task := self._current()) is None:
            return self._send([question])[0]
        task.batch.waiting.append((task, question))
        task.batch.main.switch()
        if task.error is not None:
            error, task.error = task.error, None
            raise error
        answer: A = task.value
        return answer

    def _current(self) -> _Task | None:
        task = getattr(getcurrent(), "task", None)
        return task if isinstance(task, _Task) and task.batch.waves is self else None
