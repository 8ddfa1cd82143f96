"""Baselines: other ways to answer, as presets of the same machine with the same tools, graph and budgets.

`baselines.yaml` lists them. The AgentBench baselines of QueryAgent's table 6 are the presets `agentbench` and
`agentbench-plain`.
"""

from __future__ import annotations

from triplewise.graphs.presets import PRESETS, Preset, read_presets
from triplewise.tools.core.configuration import find_part

BASELINES = read_presets(__name__, "baselines.yaml")
NEED_MODEL = BASELINES.keys() - {"react"}
"""Those that do nothing without a language model."""


def find_system(given: str) -> Preset:
    """Return a preset or baseline: see `find_part`. Raises `ConfigurationError` on an unknown name."""
    known = {**PRESETS, **BASELINES}
    system: Preset = find_part("preset or baseline", given, known, lambda part: isinstance(part, Preset))
    return system
