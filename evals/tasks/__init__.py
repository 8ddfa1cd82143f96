"""The benchmarks as Inspect AI tasks: `metaqa(hops=2)`, `inspect eval triplewise/metaqa --model none`.

What they ask stands in one table, `registry.BENCHMARK_TASKS`; every entry becomes a task function here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from inspect_ai import Task, task

from triplewise.evals.data import parameter_docs
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
    docs = parameter_docs()
    arguments = "\n".join(f"    {parameter}: {docs[parameter]}" for parameter in of.defaults)
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{of.about}\n\nArgs:\n{arguments}\n\nRaises what `BenchmarkTask.build` raises."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return task(build)


agentbench_kg = task_function("agentbench_kg")
ck25 = task_function("ck25")
creak = task_function("creak")
cwq = task_function("cwq")
grailqa = task_function("grailqa")
graphq = task_function("graphq")
metaqa = task_function("metaqa")
qald10 = task_function("qald10")
simplequestions = task_function("simplequestions")
trex = task_function("trex")
webqsp = task_function("webqsp")
wikisql = task_function("wikisql")
wikiwebquestions = task_function("wikiwebquestions")
zeroshot_re = task_function("zeroshot_re")

__all__ = [*BENCHMARK_TASKS]
