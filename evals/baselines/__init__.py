"""Baselines: other ways to answer, as graphs over the same state, tools, knowledge graph and budgets.

Each is a LangGraph graph with the state and context of the presets, so that tasks, scorers and reports treat
all of them alike. The AgentBench baselines of QueryAgent's table 6, with and without ERASER, are the presets
`agentbench` and `agentbench-plain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
        """The builder, imported now. Its keyword parameters are the baseline's own, each with a default.

        `link`, the variant of the linking phase, is among them.
        """
        if callable(self.builder):
            return self.builder
        module, _, name = self.builder.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), name)
        return function


BASELINES: Mapping[str, Baseline] = {
    "direct": Baseline(
        "a language model's own answer, at once",
        "ODA (2024), table 2: direct answering",
        "knowledge:direct",
        embedded=False,
    ),
    "cot": Baseline(
        "a language model's own answer after a chain of thought",
        "Wei et al. 2022, section 2; SymAgent (2025), table 1",
        "knowledge:cot",
        embedded=False,
    ),
    "self-consistency": Baseline(
        "the answer that most of several sampled chains of thought give",
        "Wang et al. 2023, section 2; ODA (2024), table 2",
        "knowledge:self_consistency",
        embedded=False,
    ),
    "react": Baseline(
        "thought, action and observation in turn, without plan, observed subgraph, correction or reflection",
        "Yao et al. 2023, section 2; SymAgent (2025), table 1",
        "react:build",
        embedded=True,
    ),
    "documents": Baseline(
        "answers read from passages that are retrieved for the question",
        "SymAgent (2025), table 1: document retrieval augmentation",
        "knowledge:documents",
        embedded=False,
    ),
    "rog": Baseline(
        "relation paths are planned, retrieved, and answered from",
        "Luo et al. 2024, section 4; SymAgent (2025), table 1",
        "rog:build",
        embedded=True,
    ),
    "tog": Baseline(
        "beam search over the graph: relations, entities and the end of the search are chosen by the model",
        "Sun et al. 2024 (Think-on-Graph), section 2.1 and algorithm 1",
        "tog:build",
        embedded=False,
    ),
    "tog-r": Baseline(
        "beam search over chains of relations; the entities on them are drawn at random, by a seed",
        "Sun et al. 2024 (Think-on-Graph), section 2.2 and algorithm 2",
        "tog:build_relations",
        embedded=False,
    ),
    "kb-binder": Baseline(
        "programs drafted after like questions, bound to what the graph has, run, and voted on",
        "Li et al. 2023 (KB-BINDER), section 3",
        "kb_binder:build",
        embedded=False,
    ),
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
