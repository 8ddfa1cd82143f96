"""Tasks that take turns: each stands still at its question until all do, and then all are asked at once.

A loop over independent parts (rules to run, bodies to grow) is written once, part by part. Over a distance
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


class _Crew:
    """All tasks below one outermost call: those that can go on, and those that wait, with what they ask."""

    def __init__(self, waves: object) -> None:
        self.waves, self.hub = waves, getcurrent()
        self.ready: deque[_Task] = deque()
        self.waiting: list[tuple[_Task, Any]] = []


class _Task:
    """A task, perhaps of another one (`owner`). `unfinished`: how many of its own still run."""

    def __init__(self, crew: _Crew, job: Callable[[], object], owner: _Task | None) -> None:
        self.crew, self.job, self.owner, self.unfinished = crew, job, owner, 0
        self.strand = greenlet(self._live, crew.hub)
        self.strand.task = self
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
                self.crew.ready.append(self.owner)


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
        crew = _Crew(self) if owner is None else owner.crew
        started = [_Task(crew, task, owner) for task in tasks]
        crew.ready.extend(started)
        if owner is not None:
            owner.unfinished = len(started)
            crew.hub.switch()
        while not all(task.strand.dead for task in started):
            if not crew.ready:
                self._answer(crew)
            crew.ready.popleft().strand.switch()
        for task in started:
            if task.error is not None:
                raise task.error
        return [task.value for task in started]

    def ask(self, question: Q) -> A:
        """Return the answer to a question: outside of tasks at once, else when all tasks wait or end."""
        if (task := self._current()) is None:
            return self._send([question])[0]
        task.crew.waiting.append((task, question))
        task.crew.hub.switch()
        if task.error is not None:
            error, task.error = task.error, None
            raise error
        answer: A = task.value
        return answer

    def _current(self) -> _Task | None:
        task = getattr(getcurrent(), "task", None)
        return task if isinstance(task, _Task) and task.crew.waves is self else None

    def _answer(self, crew: _Crew) -> None:
        """Ask what the tasks of a crew wait for."""
        waiting, crew.waiting = crew.waiting, []
        try:
            answers = self._send([question for _, question in waiting])
            for (task, _), answer in zip(waiting, answers, strict=True):
                task.value = answer
        except BaseException as error:  # noqa: BLE001 - raised again by `ask`
            for task, _ in waiting:
                task.error = error
        crew.ready.extend(task for task, _ in waiting)
