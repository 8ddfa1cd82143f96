"""Benchmarks in the form in which they are published."""
