"""The benchmarks as Inspect AI tasks; each file also runs by `inspect eval FILE --model none`."""

from triplewise.evals.tasks.agentbench_kg import agentbench_kg
from triplewise.evals.tasks.ck25 import ck25
from triplewise.evals.tasks.creak import creak
from triplewise.evals.tasks.cwq import cwq
from triplewise.evals.tasks.grailqa import grailqa
from triplewise.evals.tasks.graphq import graphq
from triplewise.evals.tasks.metaqa import metaqa
from triplewise.evals.tasks.qald10 import qald10
from triplewise.evals.tasks.simplequestions import simplequestions
from triplewise.evals.tasks.trex import trex
from triplewise.evals.tasks.webqsp import webqsp
from triplewise.evals.tasks.wikisql import wikisql
from triplewise.evals.tasks.wikiwebquestions import wikiwebquestions
from triplewise.evals.tasks.zeroshot_re import zeroshot_re

__all__ = [
    "agentbench_kg",
    "ck25",
    "creak",
    "cwq",
    "grailqa",
    "graphq",
    "metaqa",
    "qald10",
    "simplequestions",
    "trex",
    "webqsp",
    "wikisql",
    "wikiwebquestions",
    "zeroshot_re",
]
