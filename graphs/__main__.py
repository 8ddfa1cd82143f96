"""`python -m triplewise.graphs` is the command line."""

from triplewise.graphs.cli import main

if __name__ == "__main__":
    main()
