"""Benchmarks in the form in which they are published: files as they are downloaded become our records.

A reader takes nothing for granted: an entry that is not what the benchmark's description says ends in a
`DataError` that names file, line or entry, field, and what to do.
"""

from triplewise.evals.formats.published_formats import FORMATS, PublishedFormat, read_published, sniff
from triplewise.evals.formats.wikisql_files import read_tables

__all__ = ["FORMATS", "PublishedFormat", "read_published", "read_tables", "sniff"]
