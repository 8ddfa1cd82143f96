"""The benchmarks as Inspect AI tasks: `metaqa(hops=2)`, `inspect eval triplewise/metaqa --model none`.

What they ask stands in one table, `registry.BENCHMARK_TASKS`; every entry becomes a function in `TASKS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from inspect_ai import Task, task

from triplewise.evals.data import catalog
from triplewise.evals.tasks.benchmark_task import Question, own_task
from triplewise.evals.tasks.registry import BENCHMARK_TASKS


def task_function(name: str) -> Callable[..., Task]:
    """A benchmark as Inspect registers tasks: a function with its name, parameters, defaults and docs."""
    of = BENCHMARK_TASKS[name]

    def build(*args: Any, **given: Any) -> Task:
        return of.build(**signature.bind(*args, **given).arguments)

    parameters = [
        inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for parameter, default in of.defaults.items()
    ]
    signature = inspect.Signature(parameters, return_annotation=Task)
    docs = catalog().parameters
    arguments = "\n".join(f"    {parameter}: {docs[parameter]}" for parameter in of.defaults)
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{of.about}\n\nArgs:\n{arguments}\n\nRaises what `BenchmarkTask.build` raises."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return task(build)


__all__ = ["TASKS", "Question", "own_task", "task_function"]

TASKS: Mapping[str, Callable[..., Task]] = {name: task_function(name) for name in BENCHMARK_TASKS}
"""Name of a benchmark -> the function that makes its task."""
