"""The obvious script that `kg cut` is measured beside: a pass over the dump for each hop, all in memory.

It follows the same rules (excluded relations, hub limit on each side), so that its triples can be compared.
What it leaves out is what makes a cut of use: other spellings of terms, blank nodes, bad lines, labels, going
on after a stop, a result larger than memory.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile, load_profile

Fact = tuple[str, str, str]


def facts_of(dumps: Sequence[str]) -> Iterator[Fact]:
    """The lines of plain or gzip N-Triples, split at their first two spaces."""
    for dump in dumps:
        opener: Any = gzip.open if dump.endswith(".gz") else open
        with opener(dump, "rt", encoding="utf-8") as file:
            for line in file:
                subject, relation, value = line.split(" ", 2)
                yield subject, relation, value.rstrip().removesuffix(" .")


def three_passes(seeds: Sequence[str], dumps: Sequence[str], hub_limit: int, profile: Profile) -> set[Fact]:
    """The triples within three hops of the seeds, without labels."""
    skip = {f"<{p}>" for p in (*profile.label_predicates, *profile.alias_predicates)}
    skip |= {f"<{p}>" for p in profile.description_predicates}

    @cache
    def followed(relation: str) -> bool:
        return relation not in skip and not profile.excludes(IRI(relation[1:-1]))

    triples: set[Fact] = set()
    frontier, seen = set(seeds), set(seeds)
    for hop in range(3):
        at: dict[tuple[str, bool], set[Fact]] = defaultdict(set)
        for fact in facts_of(dumps):
            if (fact[0] in frontier or fact[2] in frontier) and followed(fact[1]):
                for out in (True, False):
                    if (node := fact[0 if out else 2]) in frontier:
                        at[node, out].add(fact)
        taken: set[Fact] = set()
        for (_, out), found in at.items():
            others = {f[2 if out else 0] for f in found if f[2].startswith("<")}
            is_hub = hub_limit and hop and len(others) > hub_limit
            taken |= {f for f in found if not f[2].startswith("<")} if is_hub else found
        triples |= taken
        frontier = {term for f in taken for term in (f[0], f[2]) if term.startswith("<")} - seen
        seen |= frontier
    return triples


def main(seeds: str, out: str, profile: str, hub_limit: str, *dumps: str) -> None:
    """Run the script and write what it took to a file of JSON."""
    start = time.perf_counter()
    wanted = Path(seeds).read_text(encoding="utf-8").split()
    found = three_passes(wanted, dumps, int(hub_limit), load_profile(profile))
    facts = {
        "seconds": time.perf_counter() - start,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "triples": len(found),
    }
    Path(out).write_text(json.dumps(facts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
