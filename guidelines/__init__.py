"""ERASER's guidelines as data: what can go wrong in a step, and what to tell the agent (QueryAgent 3.3).

```python
guidelines = load_guidelines()              # the shipped ones; load_guidelines(["my.yaml"]) puts yours first
match = guidelines.match(feedback, memory)  # None, or the one guideline that fits, with its text
counts = guideline_counts(states)           # how often each fired over many runs
```
Adding a guideline needs YAML only; `NAMES` says what its expressions may use, besides the filters and tests
of `triplewise.guidelines.language`.
"""

from triplewise.guidelines.counts import Counts, guideline_counts
from triplewise.guidelines.guideline import (
    SEVERITIES,
    SHIPPED,
    SOURCES,
    Example,
    Guideline,
    Guidelines,
    Match,
    load_guidelines,
)
from triplewise.guidelines.language import NAMES

__all__ = [
    "NAMES",
    "SEVERITIES",
    "SHIPPED",
    "SOURCES",
    "Counts",
    "Example",
    "Guideline",
    "Guidelines",
    "Match",
    "guideline_counts",
    "load_guidelines",
]
