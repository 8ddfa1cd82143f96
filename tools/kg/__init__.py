"""Knowledge graphs: one protocol, two engines, and everything it takes to open one.

`open_kg` opens, `load_kg` builds a store on disk. What needs the store's own library is imported when it is
first used, so that a process that only wants terms or a profile starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.terms import IRI, Literal, Node, Term, Triple, Variable, text
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.kg.profile import Profile, RelationText, load_profile, profile_names
from triplewise.tools.kg.protocol import (
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

if TYPE_CHECKING:
    from triplewise.tools.kg.infer import infer_profile
    from triplewise.tools.kg.labels import Candidate, Entry, LabelIndex
    from triplewise.tools.kg.load import LoadReport, load_kg
    from triplewise.tools.kg.open import open_kg

__all__ = [
    "IRI",
    "Candidate",
    "Entry",
    "Hop",
    "KnowledgeGraph",
    "LabelIndex",
    "Literal",
    "LoadReport",
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
    "infer_profile",
    "load_kg",
    "load_profile",
    "metered",
    "open_kg",
    "profile_names",
    "readable",
    "readable_text",
    "text",
]

_LAZY = {
    "Candidate": "labels",
    "Entry": "labels",
    "LabelIndex": "labels",
    "LoadReport": "load",
    "infer_profile": "infer",
    "load_kg": "load",
    "open_kg": "open",
}


def __getattr__(name: str) -> Any:
    """Import the modules that need the store's library when they are asked for."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
