"""`python -m triplewise.evals` is `triplewise eval`."""

import sys

from triplewise.evals.command import app
from triplewise.graphs.cli.app import relax_collector, run

if __name__ == "__main__":
    relax_collector()
    sys.exit(run(sys.argv[1:], app, "python -m triplewise.evals"))
