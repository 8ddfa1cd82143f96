"""Benches behind published figures; each compares with a named alternative in the same run.

`python -m triplewise.evals.bench NAME`, each with `--help`.
"""
