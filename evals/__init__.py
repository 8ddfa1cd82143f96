"""Benchmarks of the agent as Inspect AI tasks, with scorers named as the field names them.

>>> from triplewise.evals import metaqa, run
>>> log = run(metaqa(hops=2, n=100))
>>> log.results.scores[0].metrics["mean"].value  # F1 of the answer sets, macro-averaged
"""

from triplewise.evals.evaluation import run
from triplewise.evals.record import Run
from triplewise.evals.scorers import (
    accuracy,
    answerable,
    count,
    effort,
    median,
    slot,
    strict,
    total,
    verdict,
)
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
from triplewise.tools.core.overlap import Overlap, best_overlap, overlap

__all__ = [
    "Overlap",
    "Run",
    "accuracy",
    "agent",
    "agentbench_kg",
    "answerable",
    "best_overlap",
    "ck25",
    "count",
    "creak",
    "cwq",
    "effort",
    "grailqa",
    "graphq",
    "median",
    "metaqa",
    "overlap",
    "qald10",
    "run",
    "simplequestions",
    "slot",
    "strict",
    "total",
    "trex",
    "verdict",
    "webqsp",
    "wikisql",
    "wikiwebquestions",
    "zeroshot_re",
]
