"""Shipped grids of ablations: a YAML file each."""
