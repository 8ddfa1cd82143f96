"""Reading triples from passages without a language model (SymAgent 4.2.1, extractTriples)."""

from __future__ import annotations

from triplewise.tools.reading.base import Asked
from triplewise.tools.reading.reader import LEAST, read_passages

__all__ = ["LEAST", "Asked", "read_passages"]
