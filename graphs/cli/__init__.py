"""The command line: `triplewise`, or `python -m triplewise.graphs`.

Every command imports what it needs when it runs, so that `--help` is there at once.
"""

import os
import signal

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave with its exit code; Ctrl-C while it starts or ends is one line too."""

    def interrupt(*_: object) -> None:
        os.write(2, b"error: interrupted\n")
        os._exit(130)

    # An exception in the middle of an import may be lost there, or end in a traceback.
    handler = signal.getsignal(signal.SIGINT)
    is_minded = handler != signal.SIG_IGN  # as it is for a command in the background of a shell
    if is_minded:
        signal.signal(signal.SIGINT, interrupt)
    from triplewise.graphs.cli import app

    try:
        signal.signal(signal.SIGINT, handler)
        app.main()
    except KeyboardInterrupt:  # before a command has begun
        interrupt()
    finally:
        if is_minded:
            signal.signal(signal.SIGINT, interrupt)
