"""Benchmarks of the agent as Inspect AI tasks, with scorers named as the field names them.

>>> from triplewise.evals import metaqa, run
>>> log = run(metaqa(hops=2, n=100))
>>> log.results.scores[0].metrics["mean"].value  # F1 of the answer sets, macro-averaged
"""

from triplewise.evals.command import run
from triplewise.evals.record import Run
from triplewise.evals.scorers import accuracy, count, effort, median, strict, total
from triplewise.evals.solver import agent
from triplewise.evals.tasks import metaqa, qald10, webqsp, wikisql
from triplewise.evals.values import Overlap, best_overlap, overlap

__all__ = [
    "Overlap",
    "Run",
    "accuracy",
    "agent",
    "best_overlap",
    "count",
    "effort",
    "median",
    "metaqa",
    "overlap",
    "qald10",
    "run",
    "strict",
    "total",
    "webqsp",
    "wikisql",
]
