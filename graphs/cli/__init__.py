"""The command line: `triplewise`, or `python -m triplewise.graphs`.

Every command imports what it needs when it runs, so that `--help` is there at once.
"""

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code; Ctrl-C while it starts ends it in one line too."""
    try:
        from triplewise.graphs.cli import app

        app.main()
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
