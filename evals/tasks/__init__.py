"""The benchmarks as Inspect AI tasks: `metaqa(hops=2)`, `inspect eval triplewise/metaqa --model none`."""

from triplewise.evals.tasks.benchmark_task import Question, own_task
from triplewise.evals.tasks.registry import TASKS

__all__ = ["TASKS", "Question", "own_task"]
