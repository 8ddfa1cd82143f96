"""Presets: which variant of each phase, which actions, prompt and budget make up each paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triplewise.nodes import act, answer, correct, inspect, link, observe, plan, reflect, sql
from triplewise.nodes.phase import Phase
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import packaged

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


def read_presets(package: str, name: str) -> dict[str, Preset]:
    """Return the presets of a file of a package by name; its first entry has the usual phases."""
    entries = packaged(package, name)
    usual = entries.pop("step-by-step")["phases"]
    return {n: Preset(e["summary"], usual | e.get("phases", {}), e["settings"]) for n, e in entries.items()}


PRESETS = read_presets("triplewise.graphs", "presets.yaml")  # Every preset by its name


def find_preset(given: str | Preset) -> Preset:
    """Return a preset: see `find_part`. Raises `ConfigurationError` on an unknown name."""
    preset: Preset = find_part("preset", given, PRESETS, lambda part: isinstance(part, Preset))
    return preset


def choose_phases(preset: Preset, swapped: Mapping[str, str | Phase]) -> dict[str, Phase]:
    """Return the callable of every phase. Raises `ConfigurationError` on an unknown phase or variant."""
    for name in swapped.keys() - VARIANTS.keys():
        raise ConfigurationError.unknown("phase", name, VARIANTS)
    given = {**preset.phases, **swapped}
    return {n: find_part(f"variant of phase {n}", given[n], legal, callable) for n, legal in VARIANTS.items()}
