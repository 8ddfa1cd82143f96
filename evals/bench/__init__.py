"""Benches behind published figures, each against a named alternative in the same run.

`python -m triplewise.evals.bench NAME`; each has `--help`.
"""
