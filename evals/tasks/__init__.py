"""The benchmarks as Inspect AI tasks; each file also runs by `inspect eval FILE --model none`."""

from triplewise.evals.tasks.metaqa import metaqa
from triplewise.evals.tasks.qald10 import qald10
from triplewise.evals.tasks.webqsp import webqsp
from triplewise.evals.tasks.wikisql import wikisql

__all__ = ["metaqa", "qald10", "webqsp", "wikisql"]
