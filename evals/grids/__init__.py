"""Grids of ablations: the form of a file, its cells, their runs, the command, and the shipped files."""
