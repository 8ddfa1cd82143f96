"""Trajectories played through the product's own phases, on the graphs of the data folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pyoxigraph as ox
from langgraph.runtime import Runtime

from tests.support.states import after
from triplewise.nodes import correct, inspect
from triplewise.nodes.act import carry_out, read_reply
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.reasoning import reasoning_memory
from triplewise.nodes.state import State, Verdict
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.rdf import GraphReader
from triplewise.tools.linking.linker import LinkedEntity

FILES = {
    "freebase": (
        ("freebase_kg/observed.nt.gz", "freebase_kg/gold_derived.nt.gz"),
        "freebase_kg/labels.tsv.gz",
    ),
    "wikidata": (
        ("wikidata_kg/observed.nt.gz", "wikidata_kg/gold_derived.nt.gz", "wikidata_kg/background.nt.gz"),
        "wikidata_kg/labels.tsv.gz",
    ),
    "metaqa": (("metaqa/kb.txt.gz",), ""),
}
"""Graph, which is also its profile -> facts and labels in the data folder."""


@cache
def graph_store(folder: Path, name: str) -> ox.Store:
    """A graph with its labels, without a label index: nothing here is linked by name."""
    facts, labels = FILES[name]
    profile, store = load_profile(name), ox.Store()
    reader = GraphReader(profile)
    store.bulk_extend(reader.facts([folder / f for f in facts], profile))
    if labels:
        store.bulk_extend(reader.labels([folder / labels], profile))
    return store


def open_graph(folder: Path, name: str) -> LocalKG:
    """The graph as the product opens it."""
    return LocalKG(graph_store(folder, name), load_profile(name), name)


class Trajectory:
    """The steps of one question; `state` is as the machine would hold it after the steps so far."""

    def __init__(self, context: Context, question: str, linked: Mapping[str, str]) -> None:
        """Begin before the first step, with entities linked (id -> label)."""
        self.context, self.runtime = context, Runtime(context=context)
        entities = tuple(LinkedEntity(label, -1, -1, i, label, 1.0) for i, label in linked.items())
        self.state = State(question=question, linked=entities, focus=tuple(linked))

    def call(self, call: str) -> Verdict:
        """Take a step with a call as a model writes it."""
        number = len(self.state.steps) + 1
        return self.step(f"Thought {number}: I go on from what is there.\nAction {number}: {call}")

    def step(self, reply: str) -> Verdict:
        """Carry out one reply and inspect it; an error is rolled back, as the machine does."""
        thought, calls = read_reply(reply, Environment(self.context).toolset)
        call = calls if isinstance(calls, ActionError) else calls[0]
        self._update(carry_out(self.state, Environment(self.context), thought, call))
        self._update(inspect.eraser(self.state, self.runtime))
        verdict = self.state.verdict
        assert verdict is not None
        if verdict.status == "error":
            self._update(correct.VARIANTS["raw"](self.state, self.runtime))
        return verdict

    def triggered(self) -> set[str]:
        """Every guideline whose situation the last step is."""
        before = self.state.model_copy(update={"steps": self.state.steps[:-1]})
        tools = Environment(self.context)
        ids = tools.guidelines.triggered(
            self.state.last.feedback,
            reasoning_memory(before, Environment(self.context)),
            question=self.state.question,
            budget_left=(self.context.max_steps or 0) - len(self.state.steps),
            actions=tuple(a.signature for a in tools.toolset.actions.values()),
            step=self.state.last.number + 1,
            toolset=self.context.toolset or "pyql",
        )
        return set(ids)

    def _update(self, update: Mapping[str, Any]) -> None:
        self.state = after(self.state, update)
