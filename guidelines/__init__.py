"""ERASER's guidelines as data: what can go wrong in a step, and how to correct the agent (QueryAgent 3.3).

```python
guidelines = load_guidelines()              # the shipped ones; load_guidelines(["my.yaml"]) puts yours first
match = guidelines.match(feedback, memory)  # None, or the one guideline that fits, with its text
```
Adding a guideline needs YAML only; `NAMES` says what its expressions may use, besides the filters and tests
of `triplewise.guidelines.language`.
"""

from triplewise.guidelines.guideline import (
    SOURCES,
    Guideline,
    Guidelines,
    Match,
    load_guidelines,
    what_is_wrong,
)
from triplewise.guidelines.language import NAMES

__all__ = ["NAMES", "SOURCES", "Guideline", "Guidelines", "Match", "load_guidelines", "what_is_wrong"]
