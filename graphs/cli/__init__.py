"""The command line: `triplewise`, or `python -m triplewise.graphs`.

Every command imports what it needs when it runs, so that `--help` is there at once.
"""

from triplewise.graphs.cli.app import main

__all__ = ["main"]
