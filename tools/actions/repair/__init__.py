"""Verified corrections: what may have been meant by a step that failed, tried on the KG before it is offered.

```python
found = find_fixes(context, toolset, feedback, budget=12, most=3, encoder=encoder)
for fix in found.fixes:
    fix.text()            # add_fact(?x, P36, Q1490) -> ?x: Japan
```
Kinds of fix are registered in `fixes`; a new one is a function with `@kind(...)`.
"""

from triplewise.tools.actions.repair.budget import QueryBudget, SpentError
from triplewise.tools.actions.repair.failed_step import KINDS, FailedStep, Fix, candidates, kind
from triplewise.tools.actions.repair.verify import Repair, VerifiedFix, find_fixes, verified

__all__ = [
    "KINDS",
    "FailedStep",
    "Fix",
    "QueryBudget",
    "Repair",
    "SpentError",
    "VerifiedFix",
    "candidates",
    "find_fixes",
    "kind",
    "verified",
]
