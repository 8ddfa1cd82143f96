"""Tasks that take turns: each stands still at its question until all do, and then all are asked at once.

A loop over independent parts (rules to run, bodies to grow) is written once, part by part. Over a distance
its parts advance side by side, so that a level costs one round trip however many parts it has.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


@dataclass
class _Crew:
    """All tasks below one outermost call: those that can go on, and those that wait, with what they ask."""

    ready: deque[_Strand] = field(default_factory=deque)
    waiting: list[tuple[_Strand, Any]] = field(default_factory=list)


class _Strand:
    """A task in its thread. `turn` is released when it may go on; `tasks`: of its own that still run."""

    def __init__(self, crew: _Crew) -> None:
        self.crew, self.turn, self.tasks = crew, threading.Semaphore(0), 0
        self.value: Any = None
        self.error: BaseException | None = None


class Waves(Generic[Q, A]):
    """Runs tasks so that what they ask travels together. Exactly one task of a call runs at any moment.

    Args:
        send: answers some questions, all at once; in the order of the questions.
    """

    def __init__(self, send: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        self._send = send
        self._strands: dict[int, _Strand] = {}  # by thread

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the values of tasks, which may run tasks themselves. An error is raised at the end."""
        if len(tasks) < 2:
            return [task() for task in tasks]
        thread = threading.get_ident()
        own, is_outermost = self._strands.get(thread), thread not in self._strands
        if own is None:
            own = self._strands[thread] = _Strand(_Crew())
        strands = [_Strand(own.crew) for _ in tasks]
        own.tasks = len(strands)
        for strand, task in zip(strands, tasks, strict=True):
            name = "triplewise-wave"
            threading.Thread(target=self._live, args=(strand, own, task), name=name, daemon=True).start()
        own.crew.ready.extend(strands)
        try:
            self._hand_on(own.crew)
            own.turn.acquire()
        finally:
            if is_outermost:
                del self._strands[thread]
        for strand in strands:
            if strand.error is not None:
                raise strand.error
        return [strand.value for strand in strands]

    def ask(self, question: Q) -> A:
        """Return the answer to a question: outside of tasks at once, else when all tasks wait or end."""
        strand = self._strands.get(threading.get_ident())
        if strand is None:
            return self._send([question])[0]
        strand.crew.waiting.append((strand, question))
        self._hand_on(strand.crew)
        strand.turn.acquire()
        if strand.error is not None:
            error, strand.error = strand.error, None
            raise error
        answer: A = strand.value
        return answer

    def _live(self, strand: _Strand, parent: _Strand, task: Callable[[], object]) -> None:
        """Run one task from its first turn to its end."""
        strand.turn.acquire()
        self._strands[threading.get_ident()] = strand
        try:
            strand.value = task()
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            strand.error = error
        del self._strands[threading.get_ident()]
        parent.tasks -= 1
        if not parent.tasks:
            strand.crew.ready.append(parent)
        self._hand_on(strand.crew)

    def _hand_on(self, crew: _Crew) -> None:
        """Let another task go on; where none can, ask what they wait for."""
        if not crew.ready:
            waiting, crew.waiting = crew.waiting, []
            try:
                answers = self._send([question for _, question in waiting])
                for (strand, _), answer in zip(waiting, answers, strict=True):
                    strand.value = answer
            except BaseException as error:  # noqa: BLE001 - raised again by `ask`
                for strand, _ in waiting:
                    strand.error = error
            crew.ready.extend(strand for strand, _ in waiting)
        crew.ready.popleft().turn.release()
