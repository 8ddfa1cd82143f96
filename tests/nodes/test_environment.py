"""What every phase shares: the preset's settings, the bill, and the budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Answer, Context, State
from triplewise.nodes.environment import Update, environment, spent_budget
from triplewise.nodes.phase import PhaseNode
from triplewise.nodes.state import Correction, Usage
from triplewise.tools.core.errors import ConfigurationError

from .conftest import GOETHE


def test_only_open_settings_are_filled() -> None:
    given, settings = Context(max_steps=3, model="openai:x"), {"max_steps": 40, "toolset": "explore"}
    assert given.resolved(settings) == Context(max_steps=3, model="openai:x", toolset="explore")
    assert Context(model="openai:x").resolved({"toolset": "explore"}).toolset == "explore"
    assert Context().resolved(settings).toolset == "pyql", "without a model readings are carried out"


def test_a_phase_is_billed_for_its_queries(runtime: Runtime[Context], state: Callable[..., State]) -> None:
    def asks(state: State, runtime: Runtime[Context]) -> Update:
        kg = environment(runtime).kg
        kg.query("ASK { ?s ?p ?o }")
        kg.query("ASK { ?s ?p 1 }")
        return {"answer": Answer("answered")}

    before = state(GOETHE, usage=Usage(calls=1, queries=5))
    update = PhaseNode(asks, {}).invoke(before, runtime=runtime)
    assert (update["usage"].queries, update["usage"].calls) == (7, 1)
    assert update["answer"].usage == update["usage"]
    assert update["usage"].seconds > 0


def test_the_unknown_keys_are_named(runtime: Runtime[Context], state: Callable[..., State]) -> None:
    def my_phase(state: State, runtime: Runtime[Context]) -> Update:
        return {"zeal": 1, "ardour": 2}

    with pytest.raises(
        ConfigurationError, match="phase my_phase returned unknown state keys: ardour, zeal; legal keys"
    ):
        PhaseNode(my_phase, {}).invoke(state(), runtime=runtime)


def test_every_budget_has_its_words(context: Context, state: Callable[..., State]) -> None:
    record = Correction(1, "", "", "", "")
    tight = replace(
        context,
        max_steps=40,
        max_corrections=1,
        max_model_calls=2,
        max_tokens=10,
        max_queries=3,
        max_seconds=0.5,
    )
    used = {
        "": Usage(),
        "2 model calls": Usage(calls=2),
        "10 model tokens": Usage(input_tokens=6, output_tokens=4),
        "3 KG queries": Usage(queries=3),
        "0.5 seconds": Usage(seconds=0.6),
    }
    for words, usage in used.items():
        reason = spent_budget(state(usage=usage), tight)
        assert reason == (f"the budget of {words} is spent" if words else "")
    corrected = state(corrections=(record,))
    assert spent_budget(corrected, tight) == ""
    assert spent_budget(corrected, tight, failed=True) == "the budget of 1 corrections is spent"
