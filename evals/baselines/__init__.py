"""Baselines: other ways to answer, as graphs over the same state, tools, knowledge graph and budgets.

Each is a LangGraph graph with the state and context of the presets, so that tasks, scorers and reports treat
all of them alike; `baselines.yaml` lists them. The AgentBench baselines of QueryAgent's table 6, with and
without ERASER, are the presets `agentbench` and `agentbench-plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.nodes.context import Context


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to answer.

    Attributes:
        summary: what it does, in a line. source: the paper, section and year it follows.
        builder: what compiles it: a function, or `module:function` of this package. embedded: whether it
            works without a language model.
    """

    summary: str
    source: str
    builder: str | Callable[..., Any]
    embedded: bool = True

    @property
    def build(self) -> Callable[..., Any]:
        """The builder, imported now. Its keyword parameters are the baseline's own, each with a default."""
        if callable(self.builder):
            return self.builder
        module, _, name = self.builder.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), name)
        return function


BASELINES: Mapping[str, Baseline] = {
    name: Baseline(**entry)
    for name, entry in yaml.safe_load((files(__name__) / "baselines.yaml").read_text("utf-8")).items()
}
"""Name -> baseline."""


def check_model(name: str, context: Context, baseline: Baseline | None = None) -> None:
    """Raise `ConfigurationError` where a baseline needs a language model and the context has none."""
    baseline = baseline or BASELINES.get(name)
    if context.embedded and baseline and not baseline.embedded:
        raise ConfigurationError(
            f"baseline {name} needs a language model: --set model=openai:NAME "
            "(and base_url=URL, for a server of your own)"
        )
