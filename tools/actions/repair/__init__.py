"""Verified corrections: what may have been meant by a step that failed, tried on the KG before it is offered.

```python
for fix in find_fixes(context, toolset, feedback, budget=12, most=3, encoder=encoder).fixes:
    fix.text()            # add_fact(?x, P36, Q1490) -> ?x: Japan
```
Kinds of fix are registered in `fixes`; a new one is a function with `@kind(...)`.
"""

# Importing the module registers the kinds.
from triplewise.tools.actions.repair import fixes
from triplewise.tools.actions.repair.failed_step import KINDS, FailedStep, Fix, QueryBudget, SpentError, kind
from triplewise.tools.actions.repair.verify import Repair, VerifiedFix, find_fixes, finds

__all__ = [
    "KINDS",
    "FailedStep",
    "Fix",
    "QueryBudget",
    "Repair",
    "SpentError",
    "VerifiedFix",
    "find_fixes",
    "finds",
    "fixes",
    "kind",
]
