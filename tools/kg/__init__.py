"""Knowledge graphs: one protocol, two engines, and everything it takes to open one.

`open_kg` opens; `triplewise.tools.kg.load.load_kg` builds a store on disk. What needs the store's own library
is imported when it is first used, so that a process that only wants terms or a profile starts at once.
"""

from __future__ import annotations

from triplewise.tools.core.terms import IRI, Literal, Node, Term, Triple, Variable, text
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile, RelationText, load_profile, profile_names
from triplewise.tools.kg.protocol import (
    Deadline,
    Hop,
    KnowledgeGraph,
    Meter,
    Neighbours,
    Outcome,
    Paths,
    Relations,
    Result,
    metered,
)

__all__ = [
    "IRI",
    "Deadline",
    "Hop",
    "KnowledgeGraph",
    "Literal",
    "Meter",
    "Neighbours",
    "Node",
    "Outcome",
    "Paths",
    "Profile",
    "RelationText",
    "Relations",
    "Result",
    "Term",
    "Triple",
    "Variable",
    "load_profile",
    "metered",
    "open_kg",
    "profile_names",
    "readable",
    "readable_text",
    "text",
]
