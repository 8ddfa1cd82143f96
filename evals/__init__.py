"""Benchmarks of the agent as Inspect AI tasks; `scorers` has what they are scored with.

Every benchmark of the catalog is a function of this package that makes its task.

>>> from triplewise.evals import metaqa, run
>>> log = run(metaqa(hops=2, n=100))
>>> log.results.scores[0].metrics["mean"].value  # F1 of the answer sets, macro-averaged
"""

from collections.abc import Callable

from inspect_ai import Task

from triplewise.evals.evaluation import run
from triplewise.evals.solver import Run, agent
from triplewise.evals.tasks import TASKS

__all__ = ["Run", "agent", "run", *TASKS]


def __getattr__(name: str) -> Callable[..., Task]:
    """Return the task function of a benchmark."""
    try:
        return TASKS[name]
    except KeyError:
        raise AttributeError(f"no task {name!r}; choose one of: {', '.join(TASKS)}") from None
