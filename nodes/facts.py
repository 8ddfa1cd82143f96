"""Facts read from documents, for a run: which ones its queries see, and how they come to be (SymAgent 4.2.1).

What was read for the question at hand is part of the state and seen by every later phase of the run; what was
kept from other runs is seen where the context asks for it. With review, nothing of the run itself is seen
before a person has said yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from triplewise.nodes.context import Context
from triplewise.nodes.state import ProofTriple, State
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.overlay.overlay import facts_of
from triplewise.tools.kg.overlay.store import FactStore, Wanted, open_facts


def store_of(context: Context) -> FactStore:
    """Where facts of the context's KG are kept."""
    return open_facts(context.kg, context.facts)


def is_usable(fact: ExtractedFact, context: Context) -> bool:
    """Whether a fact of the run itself may be used."""
    return fact.status == "accepted" or (fact.status == "proposed" and not context.review)


def unreviewed(state: State) -> tuple[ExtractedFact, ...]:
    """Facts of the run that nobody has decided on."""
    return tuple(f for f in state.facts if f.status == "proposed")


def facts_in_store(context: Context) -> tuple[ExtractedFact, ...]:
    """Facts of other runs that the context asks for, from the store of its KG."""
    if context.overlay == "none" or context.db is not None:
        return ()
    store = store_of(context)
    proposed: tuple[FactStatus, ...] = ("proposed",) if context.overlay == "proposed" else ()
    return _read(store.path, ("accepted", *proposed), _version(store.path))


def _version(path: Path) -> tuple[tuple[int, int], ...]:
    """What changes when a store does: its file and its log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    stats = (f.stat() if f.exists() else None for f in files)
    return tuple((s.st_size, s.st_mtime_ns) if s else (0, 0) for s in stats)


@lru_cache(maxsize=4)
def _read(path: Path, wanted: tuple[FactStatus, ...], _: object) -> tuple[ExtractedFact, ...]:
    return tuple(k.fact for k in FactStore(path).facts(Wanted(status=wanted)))


def keep(context: Context, facts: Iterable[ExtractedFact]) -> tuple[ExtractedFact, ...]:
    """Keep facts that were read, with their provenance; those that nobody has rejected come back."""
    return tuple(f for f in store_of(context).add(facts) if f.status != "rejected")


def with_facts(facts: Sequence[ExtractedFact], new: Iterable[ExtractedFact]) -> tuple[ExtractedFact, ...]:
    """Facts of a run with further ones, each triple once: the first reading stays, and so does its status."""
    known = {f.triple for f in facts}
    return (*facts, *{f.triple: f for f in new if f.triple not in known}.values())


def told(kg: KnowledgeGraph, proof: Iterable[ProofTriple]) -> tuple[ProofTriple, ...]:
    """A proof in which each fact that stands in no KG names its document and sentence."""
    read = facts_of(kg)
    return tuple(
        replace(p, document=fact.document, source=fact.source, sentence=fact.sentence, fact=fact.id)
        if (fact := read.get(p.triple)) is not None
        else p
        for p in proof
    )


def from_documents(proof: Sequence[ProofTriple]) -> str:
    """How many facts of a proof were read from documents, in a sentence; "" if none were."""
    count = sum(bool(p.fact) for p in proof)
    if not count:
        return ""
    if count == len(proof):
        whole = "The fact that proves this was" if count == 1 else f"All {count} facts that prove this were"
        return f"{whole} read from documents, not in the knowledge graph."
    were = "was" if count == 1 else "were"
    return f"{count} of the {len(proof)} facts that prove this {were} read from documents."
