"""`python -m triplewise.evals`."""

from triplewise.evals.command import app

app(prog_name="python -m triplewise.evals")
