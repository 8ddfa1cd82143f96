"""Verified corrections: what may have been meant by a step that failed, tried on the KG before it is offered.

```python
found = mended(bench, toolset, feedback, budget=12, most=3, encoder=encoder)
for offer in found.offers:
    offer.text()            # add_fact(?x, P36, Q1490) -> ?x: Japan
```
Kinds of mend are registered in `facts`, `names` and `values`; a new one is a function with `@kind(...)`.
"""

from triplewise.tools.actions.repair import facts, names, values
from triplewise.tools.actions.repair.budget import Allowance, SpentError
from triplewise.tools.actions.repair.failed_step import KINDS, Mend, Trouble, candidates, kind
from triplewise.tools.actions.repair.verify import Mended, Offer, mended, verified

__all__ = [
    "KINDS",
    "Allowance",
    "Mend",
    "Mended",
    "Offer",
    "SpentError",
    "Trouble",
    "candidates",
    "facts",
    "kind",
    "mended",
    "names",
    "values",
    "verified",
]
