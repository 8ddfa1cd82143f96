"""Knowledge graphs: one protocol, two engines, and everything it takes to open one.

`open_kg` opens; `triplewise.tools.kg.load.load_kg` builds a store on disk. What needs the store's own library
is imported when it is first used, so that a process that only wants terms or a profile starts at once.
"""

from __future__ import annotations

from triplewise.tools.core.terms import IRI, Literal, Triple
from triplewise.tools.kg.literals import readable, readable_text
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Meter, Outcome, Result

__all__ = ["IRI", "Deadline", "KnowledgeGraph", "Literal", "Meter", "Outcome", "Profile", "Result", "Triple",
           "load_profile", "open_kg", "readable", "readable_text"]  # fmt: skip
