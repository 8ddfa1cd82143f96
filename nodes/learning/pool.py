"""Work on many questions at a time; every result is in the journal before it counts as done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from triplewise.nodes.learning.course import Course, Progress
from triplewise.tools.learning.journal import Journal
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Origin, Trajectory

Attempted = Callable[[Question], Trajectory]


def attempt_all(
    course: Course,
    journal: Journal,
    questions: Sequence[Question],
    iteration: int,
    origin: Origin,
    attempt: Attempted,
) -> dict[str, Trajectory]:
    """The trajectory of every question, in the questions' order; those in the journal are not made anew.

    Raises:
        whatever an attempt raises, once the attempts under way have ended and are in the journal.
    """
    done = journal.of(iteration, origin)
    todo = [q for q in questions if q.id not in done]
    meter = _Meter(course, origin, iteration, len(questions))
    for question in questions:
        if question.id in done:
            meter.add(done[question.id])

    def kept(question: Question) -> Trajectory:
        trajectory = attempt(question)
        journal.append(trajectory)
        return trajectory

    with ThreadPoolExecutor(course.order.workers, thread_name_prefix="attempt") as pool:
        futures = [pool.submit(kept, question) for question in todo]
        try:
            for future in as_completed(futures):
                meter.add(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    made = journal.of(iteration, origin)
    return {q.id: made[q.id] for q in questions}


class _Meter:
    """Counts trajectories and their mean reward."""

    def __init__(self, course: Course, phase: str, iteration: int, total: int) -> None:
        self._course, self._phase, self._iteration, self._total = course, phase, iteration, total
        self._done, self._sum = 0, 0.0
        self._tell()

    def add(self, trajectory: Trajectory) -> None:
        """One more."""
        self._done, self._sum = self._done + 1, self._sum + trajectory.reward
        self._tell()

    def _tell(self) -> None:
        mean = self._sum / self._done if self._done else None
        self._course.tell(Progress(self._phase, self._iteration, self._done, self._total, mean))


def figures(trajectories: Sequence[Trajectory]) -> dict[str, float | int]:
    """Means over trajectories (0 without any): reward, F1, and the share with a reward; and their number."""
    count = len(trajectories) or 1
    return {
        "questions": len(trajectories),
        "reward": sum(t.reward for t in trajectories) / count,
        "f1": sum(t.f1 for t in trajectories) / count,
        "rewarded": sum(t.reward > 0 for t in trajectories) / count,
        "crashed": sum(t.status.startswith("crashed") for t in trajectories),
    }
