"""Presets: which variant of each phase, which actions, prompt and budget make up each paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triplewise.nodes import act, answer, correct, inspect, link, observe, plan, reflect, sql
from triplewise.nodes.phase import Phase
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError

VARIANTS: Mapping[str, Mapping[str, Phase]] = {
    "link": {**link.VARIANTS, "database": sql.start},
    "plan": plan.VARIANTS,
    "observe": observe.VARIANTS,
    "act": act.VARIANTS,
    "inspect": inspect.VARIANTS,
    "correct": correct.VARIANTS,
    "reflect": reflect.VARIANTS,
    "answer": {**answer.VARIANTS, "sql": sql.answer},
}
"""Every phase in the order of the state machine: variant name -> callable `(state, runtime) -> update`."""


@dataclass(frozen=True, slots=True, eq=False)
class Preset:
    """A named machine: phase -> variant, and settings for where a context holds the default."""

    summary: str
    phases: Mapping[str, str | Phase]
    settings: Mapping[str, Any]


_STEP_BY_STEP = {"link": "index", "plan": "for-policy", "observe": "none", "act": "auto"}
_STEP_BY_STEP |= {"inspect": "eraser", "correct": "eraser", "reflect": "none", "answer": "program"}
"""QueryAgent's phases; the other presets say where theirs differ."""
_AS_PUBLISHED = {"model_confidence": False}
_FAITHFUL = {"history": "full", "relation_cut": 40, "shuffle_seed": 0, "verify_corrections": False}
"""QueryAgent's loop as its paper has it: algorithm 1 and appendices B.1 (the history is concatenated), B.3
(relations cut at 40 and shuffled) and D (eight actions).
"""
_SQL = _STEP_BY_STEP | {"link": "database", "plan": "none", "answer": "sql"}

PRESETS: dict[str, Preset] = {
    "agent": Preset(
        "all three papers together: rules plan, observation guides, a query is built and corrected",
        _STEP_BY_STEP | {"plan": "auto", "observe": "auto", "reflect": "similarity"},
        {"toolset": "pyql", "prompt": "agent", "max_steps": 40, "max_actions": 8},
    ),
    "agent-sparql": Preset(
        "the agent with SPARQL that the model writes in place of PyQL actions (needs a model)",
        _STEP_BY_STEP | {"plan": "auto", "observe": "auto", "reflect": "none"},
        {"toolset": "sparql", "prompt": "sparql", "max_steps": 20, "max_actions": 4},
    ),
    "queryagent": Preset(
        "QueryAgent with ERASER: PyQL step by step, no plan and no observation beforehand",
        _STEP_BY_STEP,
        {"toolset": "pyql", "prompt": "queryagent", "max_steps": 30, **_AS_PUBLISHED},
    ),
    "oda": Preset(
        "ODA: recursive observation, exploring actions, memory as a network of paths",
        _STEP_BY_STEP | {"observe": "oda", "reflect": "oda", "answer": "memory"},
        {"toolset": "explore", "prompt": "oda", "max_steps": 24, **_AS_PUBLISHED},
    ),
    "symagent": Preset(
        "SymAgent: rules mined from seed questions plan the search for neighbours and documents",
        _STEP_BY_STEP | {"plan": "proposed", "reflect": "similarity", "answer": "memory"},
        {"toolset": "symbolic", "prompt": "symagent", "max_steps": 30, **_AS_PUBLISHED},
    ),
    "agentbench": Preset(
        "AgentBench with ERASER: sets of entities made one from another (QueryAgent, table 6)",
        _STEP_BY_STEP,
        {"toolset": "agentbench", "prompt": "agentbench", "max_steps": 30, **_AS_PUBLISHED},
    ),
    "agentbench-plain": Preset(
        "AgentBench without ERASER: only what the interpreter refuses is an error, in its own words",
        _STEP_BY_STEP | {"inspect": "none", "correct": "raw"},
        {"toolset": "agentbench", "prompt": "agentbench", "max_steps": 30, **_AS_PUBLISHED},
    ),
    "sql": Preset(
        "a relational database queried in SQL, every query checked before it runs",
        _SQL,
        {"toolset": "select", "prompt": "select", "max_steps": 20, "max_actions": 4},
    ),
    "sql-paper": Preset(
        "QueryAgent on a relational database: columns, conditions and an answer, of one table a question",
        _SQL,
        {"toolset": "sql", "prompt": "sql", "max_steps": 20},
    ),
    "queryagent-faithful": Preset(
        "QueryAgent's own loop, to compare with: whole history, shuffled relations",
        _STEP_BY_STEP,
        {"toolset": "pyql", "max_steps": 30, "prompt": "queryagent-faithful", **_FAITHFUL, **_AS_PUBLISHED},
    ),
}
"""Every preset by its name."""


def find_preset(given: str | Preset) -> Preset:
    """Return a preset: see `find_part`. Raises `ConfigurationError` on an unknown name."""
    preset: Preset = find_part("preset", given, PRESETS, lambda part: isinstance(part, Preset))
    return preset


def choose_phases(preset: Preset, swapped: Mapping[str, str | Phase]) -> dict[str, Phase]:
    """Return the callable of every phase. Raises `ConfigurationError` on an unknown phase or variant."""
    for name in swapped.keys() - VARIANTS.keys():
        raise ConfigurationError.unknown("phase", name, VARIANTS)
    chosen = {**preset.phases, **swapped}
    return {
        name: find_part(f"variant of phase {name}", chosen[name], variants, callable)
        for name, variants in VARIANTS.items()
    }
