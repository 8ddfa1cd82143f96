"""Benchmarks of the agent as Inspect AI tasks; `scorers` has what they are scored with.

>>> from triplewise.evals import metaqa, run
>>> log = run(metaqa(hops=2, n=100))
>>> log.results.scores[0].metrics["mean"].value  # F1 of the answer sets, macro-averaged
"""

from triplewise.evals.evaluation import run
from triplewise.evals.record import Run
from triplewise.evals.solver import agent
from triplewise.evals.tasks import (
    agentbench_kg,
    ck25,
    creak,
    cwq,
    grailqa,
    graphq,
    metaqa,
    qald10,
    simplequestions,
    trex,
    webqsp,
    wikisql,
    wikiwebquestions,
    zeroshot_re,
)

__all__ = [
    "Run",
    "agent",
    "agentbench_kg",
    "ck25",
    "creak",
    "cwq",
    "grailqa",
    "graphq",
    "metaqa",
    "qald10",
    "run",
    "simplequestions",
    "trex",
    "webqsp",
    "wikisql",
    "wikiwebquestions",
    "zeroshot_re",
]
