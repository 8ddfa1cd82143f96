"""`python -m triplewise.evals` is `triplewise eval`."""

import sys

from triplewise.evals.command import app
from triplewise.graphs.console import relax_collector, run_command

if __name__ == "__main__":
    relax_collector()
    sys.exit(run_command(sys.argv[1:], app, "python -m triplewise.evals"))
