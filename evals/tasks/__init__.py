"""The benchmarks as Inspect AI tasks; each file also runs by `inspect eval FILE --model none`."""

from triplewise.evals.tasks.creak import creak
from triplewise.evals.tasks.metaqa import metaqa
from triplewise.evals.tasks.qald10 import qald10
from triplewise.evals.tasks.trex import trex
from triplewise.evals.tasks.webqsp import webqsp
from triplewise.evals.tasks.wikisql import wikisql
from triplewise.evals.tasks.wikiwebquestions import wikiwebquestions
from triplewise.evals.tasks.zeroshot_re import zeroshot_re

__all__ = [
    "creak",
    "metaqa",
    "qald10",
    "trex",
    "webqsp",
    "wikisql",
    "wikiwebquestions",
    "zeroshot_re",
]
