"""Runs self-learning in child processes, each of which kills itself with SIGKILL at a point named beforehand.

    python -m tests.support.learning_kills FOLDER "explored 1 3" "torn 5" "update" ...

The folder holds `config.json`. A point is a phase with iteration and questions done; `torn N` is amidst
writing the Nth line of the process; `update` is amidst that. Last, a child runs to the
end. Each child adds the attempts it begins to `begun.jsonl`, and this process prints how each child ended, as
JSON lines. Children are forked, so that slow imports are made once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triplewise.graphs.learning import LearningConfig, SelfLearning, learn
from triplewise.tools.learning.exploration import Question
from triplewise.tools.learning.trajectory import Journal, Origin, Trajectory, write_line


def die() -> None:
    """What `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


class NoteLearner:
    """Learns nothing, but changes a setting; `fatal` kills it half-way."""

    def __init__(self, fatal: bool = False) -> None:
        self.fatal = fatal

    def __call__(
        self, trajectories: Sequence[Trajectory], into: Path, settings: Mapping[str, Any], progress: Any
    ) -> dict[str, Any]:
        """Write a file, as a training writes weights."""
        into.mkdir(exist_ok=True)
        (into / "weights").write_text("half")
        if self.fatal:
            die()
        (into / "weights").write_text("".join(t.id for t in trajectories))
        return {"draw_seed": settings.get("draw_seed", 1) + 1}


def note_attempts(folder: Path) -> None:
    """Have every attempt noted when it begins."""
    attempt_all = SelfLearning.attempt_all

    def noting(
        self: SelfLearning,
        origin: Origin,
        attempt: Callable[[Question, Trajectory], Trajectory],
        questions: Sequence[Question],
    ) -> dict[str, Trajectory]:
        def noted(question: Question, blank: Trajectory) -> Trajectory:
            with (folder / "begun.jsonl").open("a") as file:
                file.write(json.dumps([blank.iteration, origin, question.id, os.getpid()]) + "\n")
            return attempt(question, blank)

        return attempt_all(self, origin, noted, questions)

    SelfLearning.attempt_all = noting  # type: ignore[method-assign]


def tear(number: int) -> None:
    """Die in the middle of writing a line."""
    append, count = Journal.append, [0]

    def torn(self: Journal, trajectory: Trajectory) -> None:
        count[0] += 1
        if count[0] == number:
            line = write_line(trajectory)
            os.write(self._file.fileno(), line[: len(line) // 2])
            die()
        append(self, trajectory)

    Journal.append = torn  # type: ignore[method-assign]


def child(folder: Path, point: str) -> None:
    """One run, killed at a point."""
    config = LearningConfig(**json.loads((folder / "config.json").read_text()))
    kind, *numbers = point.split() or [""]
    note_attempts(folder)
    if kind == "torn":
        tear(int(numbers[0]))

    def report(phase: str, done: int, total: int | None, note: str = "") -> None:
        if point == f"{phase} {done}":
            die()

    learn(config, folder / "run", learner=NoteLearner(kind == "update"), report=report)


def main() -> None:
    """Run all children."""
    folder, points = Path(sys.argv[1]), sys.argv[2:]
    for point in [*points, ""]:
        pid = os.fork()
        if pid == 0:
            child(folder, point)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        kept = {path.name: path.read_text() for path in (folder / "run").glob("trajectories.jsonl")}
        sys.stdout.write(json.dumps({"point": point, "pid": pid, "status": status, "kept": kept}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
