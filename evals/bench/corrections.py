"""Verified corrections on gold steps that were broken: is the gold step among the fixes that are offered?

Each fact of a gold program is broken in every way that applies; what then fails is repaired with nothing but
the feedback, the memory and the question, and the fixes are compared with the fact that was broken. The share
"any" stands beside it: steps for which anything was offered at all.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer

from triplewise.evals.bench.gold_programs import GRAPHS, TOOLSET, Fact, gold_questions, gold_steps
from triplewise.evals.data import graph, prepared
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.tools.actions import ActionContext, Call
from triplewise.tools.actions.repair.verify import find_fixes, finds
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import Reader, apply, read_iri
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

MISTAKES = ("direction", "relation", "variable", "label", "misspelt")
"""Ways to break a step: turned around, over a relation that reads alike, a variable that does not exist, the
label of an entity that was not linked, and a linked entity's label with a letter left out."""
SIMILAR = 5
"""A wrong relation is drawn among so many that read most like the right one."""
BUDGET, OFFERS = 12, 3
"""KG queries that a correction may take, and fixes offered at one: as many as an agent has."""


def corrections(
    graphs: Annotated[str, typer.Option(help="Graphs, with commas between.")] = ",".join(GRAPHS),
    questions: Annotated[int, typer.Option(min=1, help="Questions drawn on each graph.")] = 200,
) -> list[dict[str, Any]]:
    """Break the steps of gold programs and see how often the gold step is among the verified corrections."""
    encoder, rows = open_encoder(), []
    for name in graphs.split(","):
        context = Context(kg=prepared(graph(name)).path)
        kg = environment(context).kg
        every = list(gold_questions(name, kg.profile))
        order = random.Random(0)
        drawn = order.sample(every, min(questions, len(every)))
        relations = sorted({fact[1] for question in every for fact in question.facts})
        breaker = Breaker(kg, encoder, relations, order)
        tried: dict[str, list[Outcome | None]] = defaultdict(list)
        for question in drawn:
            for known, fact in gold_steps(question, context):
                for way in MISTAKES:
                    broken = breaker.broken(way, known, fact)
                    if broken and broken != fact:
                        tried[way].append(breaker.repaired(way, known, fact, broken))
        rows += [shares(name, way, outcomes) for way, outcomes in tried.items()]
    return rows


Outcome = tuple[int | None, int, int, float]
"""Place of the gold step among the fixes, their number, queries, seconds."""


def shares(name: str, way: str, tried: Sequence[Outcome | None]) -> dict[str, Any]:
    """Shares of the steps that failed."""
    failed = np.array([[np.nan if o[0] is None else o[0], *o[1:]] for o in tried if o] or [[np.nan, 0, 0, 0]])
    places, fixes, queries, seconds = failed.T
    return {
        "graph": name, "broken": way, "steps": len(tried),
        "failed": sum(outcome is not None for outcome in tried),
        "gold among": float((places >= 0).mean()), "gold first": float((places == 0).mean()),
        "any": float((fixes > 0).mean()), "queries": float(queries.mean()), "most": int(queries.max()),
        "seconds": float(np.median(seconds)),
    }  # fmt: skip


@dataclass
class Breaker:
    """Breaks and repairs gold steps on one graph."""

    kg: KnowledgeGraph
    encoder: Encoder
    relations: Sequence[str]
    random: random.Random

    def broken(self, way: str, context: ActionContext, fact: Fact) -> Fact | None:
        """The fact with something wrong; None where this cannot go wrong in it."""
        subject, relation, end = fact
        if way == "direction":
            return end, relation, subject
        if way == "relation":
            others = [r for r in self.relations if r != relation]
            texts = relation_texts(self.kg, [relation, *others])
            vectors = self.encoder.encode([texts[r].label for r in (relation, *others)])
            best = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:SIMILAR]
            return (subject, others[self.random.choice(best)], end) if others else None
        for place in (0, 2):
            name: str | None = fact[place]
            if way == "variable":
                name = name if name in context.memory.bound else None
            else:
                iri = None if fact[place].startswith("?") else read_iri(fact[place], self.kg.profile)
                name = context.memory.linked.get(self.kg.profile.short(iri)) if iri is not None else None
                name = name if name and "," not in name else None
            if name and way != "label":  # a letter less, or one more where it is short
                at = self.random.randrange(1, max(len(name), 2))
                name = name[:at] + name[at + 1 :] if len(name) > 3 else name + self.random.choice("abc")
            if name and name != fact[place]:
                return (name, relation, end) if place == 0 else (subject, relation, name)
        return None

    def repaired(self, way: str, context: ActionContext, fact: Fact, broken: Fact) -> Outcome | None:
        """What comes of the broken step; None where it does not fail.

        A longer fix that begins with the gold step counts.
        """
        if way == "label":
            context = replace(context, memory=replace(context.memory, linked={}, seen=frozenset()))
        feedback = TOOLSET.execute(context, Call("add_fact", broken))
        new = [e for e in (broken[0], broken[2]) if e.startswith("?") and e not in context.memory.bound]
        if finds(feedback) and len(new) < 2:
            return None
        start, profile = time.perf_counter(), self.kg.profile
        with context.kg.meter.block() as meter:
            fixes = find_fixes(context, TOOLSET, feedback, budget=BUDGET, most=OFFERS, encoder=self.encoder)
        seconds = time.perf_counter() - start
        program = PyQL.parse(context.program, profile)
        gold, place = apply(program, "add_fact", fact, Reader(profile)), None
        for i, verified in reversed(list(enumerate(fixes))):
            call = verified.fix.calls[0]
            try:
                place = i if apply(program, call.name, call.arguments, Reader(profile)) == gold else place
            except ActionError:
                continue
        return place, len(fixes), meter.queries, seconds
