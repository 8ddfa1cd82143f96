"""Baselines: other ways to answer, as graphs over the same state, tools, knowledge graph and budgets.

Each is a LangGraph graph with the state and context of the presets, so that tasks, scorers and reports treat
all of them alike. The AgentBench baselines of QueryAgent's table 6, with and without ERASER, are the presets
`agentbench` and `agentbench-plain`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from triplewise.tools.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to answer.

    Attributes:
        summary: what it does, in a line. source: the paper, section and year it follows.
        build: compiles it; its keyword parameters are the baseline's own (each with a default, `link` among
            them: the variant of the linking phase). embedded: whether it works without a language model.
    """

    summary: str
    source: str
    build: Callable[..., Any]
    embedded: bool


def without_model(name: str) -> ConfigurationError:
    """What is to be said where a baseline needs a language model and there is none."""
    return ConfigurationError(
        f"baseline {name} needs a language model: --set model=openai:NAME "
        "(and base_url=URL, for a server of your own)"
    )


@dataclass(frozen=True)
class Builder:
    """A builder that is imported when it is called, or asked for its parameters.

    Attributes:
        module: of this package. name: of the function in it.
    """

    module: str
    name: str = "build"

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the function, for `inspect.signature`."""
        return inspect.signature(self._function)

    def __call__(self, **parameters: Any) -> Any:
        """Compile the baseline."""
        return self._function(**parameters)

    @property
    def _function(self) -> Callable[..., Any]:
        """The function itself."""
        found: Callable[..., Any] = getattr(import_module(f"{__name__}.{self.module}"), self.name)
        return found


BASELINES: Mapping[str, Baseline] = {
    "direct": Baseline(
        "a language model's own answer, at once",
        "ODA (2024), table 2: direct answering",
        Builder("knowledge", "direct"),
        embedded=False,
    ),
    "cot": Baseline(
        "a language model's own answer after a chain of thought",
        "Wei et al. 2022, section 2; SymAgent (2025), table 1",
        Builder("knowledge", "cot"),
        embedded=False,
    ),
    "self-consistency": Baseline(
        "the answer that most of several sampled chains of thought give",
        "Wang et al. 2023, section 2; ODA (2024), table 2",
        Builder("knowledge", "self_consistency"),
        embedded=False,
    ),
    "react": Baseline(
        "thought, action and observation in turn, without plan, observed subgraph, correction or reflection",
        "Yao et al. 2023, section 2; SymAgent (2025), table 1",
        Builder("react"),
        embedded=True,
    ),
    "documents": Baseline(
        "answers read from passages that are retrieved for the question",
        "SymAgent (2025), table 1: document retrieval augmentation",
        Builder("documents"),
        embedded=False,
    ),
    "rog": Baseline(
        "relation paths are planned, retrieved, and answered from",
        "Luo et al. 2024, section 4; SymAgent (2025), table 1",
        Builder("rog"),
        embedded=True,
    ),
    "tog": Baseline(
        "beam search over the graph: relations, entities and the end of the search are chosen by the model",
        "Sun et al. 2024 (Think-on-Graph), section 2.1 and algorithm 1",
        Builder("tog"),
        embedded=True,
    ),
    "tog-r": Baseline(
        "beam search over chains of relations; the entities on them are drawn at random, by a seed",
        "Sun et al. 2024 (Think-on-Graph), section 2.2 and algorithm 2",
        Builder("tog", "build_relations"),
        embedded=True,
    ),
    "kb-binder": Baseline(
        "programs drafted after like questions, bound to what the graph has, run, and voted on",
        "Li et al. 2023 (KB-BINDER), section 3",
        Builder("kb_binder"),
        embedded=True,
    ),
}
"""Name -> baseline."""
