"""Actions: declared once, from which prompts, function-calling schemas and argument checks are derived.

An action takes a `ActionContext` (what the environment knows in this step) and arguments as text, and
returns `Feedback`. It never raises for what a model wrote: `ActionError` becomes interpreter feedback.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import KnowledgeGraph

_SURROGATE = re.compile("[\ud800-\udfff]")
ParameterKind = OneOf["node", "entity", "relation", "variable", "operator", "value", "text"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an action."""

    name: str
    kind: ParameterKind
    doc: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class ReasoningMemory:
    """What was linked, looked up, bound and tried so far (the RM of QueryAgent, Algorithm 1).

    Attributes:
        linked: short id -> label of every linked entity.
        looked_up: entity or `?variable` -> its relations as last offered,
            {"forward": [...], "backward": [...]}.
        bound: `?variable` names of the current program, in order of appearance.
        seen: short ids seen in any observation.
        tried: call text -> number of times tried; failed: the ones that ended in an error.
        doubted: those of them that failed on the very program that is there now (or, for `last`, was then).
        last: text of the last call; steps, budget: how many steps were used, and how many there are.
        calls: texts of all calls in order, failed ones too.
        planned: short ids of the relations that the plan's verified rules use.
    """

    linked: dict[str, str] = field(default_factory=dict)
    looked_up: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    bound: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()
    tried: dict[str, int] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    doubted: frozenset[str] = frozenset()
    last: str = ""
    steps: int = 0
    budget: int = 0
    calls: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()


Ranker = Callable[[list[str], list[str]], tuple[list[str], list[str]]]
"""(forward, backward) short relation ids -> the same, cut and ordered for the question."""


@dataclass(frozen=True)
class ActionContext:
    """All that an action may use in one step.

    `preview` is how many values are shown. `path_hops`, `path_limit` and `path_seconds` bound one search for
    paths: triples a path, paths, and seconds (None leaves those to the KG).
    """

    kg: KnowledgeGraph
    question: str = ""
    program: str = ""
    memory: ReasoningMemory = field(default_factory=ReasoningMemory)
    rank: Ranker = lambda forward, backward: (forward, backward)
    preview: int = 5
    services: Mapping[str, Any] = field(default_factory=dict)
    path_hops: int = 3
    path_limit: int = 100
    path_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """The single declaration of an action.

    Attributes:
        name: as the agent writes it.
        doc: one or two sentences for the prompt.
        parameters: in order. `variadic`: the last one may repeat.
        run: what it does; may raise `ActionError`.
        example: a legal call, for documentation and tests.
        finishes: whether a successful call ends the reasoning.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    run: Callable[[ActionContext, tuple[str, ...]], Feedback]
    example: str
    variadic: bool = False
    finishes: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """E.g. `add_fact(head, relation, tail)`."""
        return f"{self.name}({', '.join(p.name for p in self.parameters)})"


def whole(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs: JSON may carry them, no engine or file can."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unknown_action(name: str, legal: Collection[str]) -> ActionError:
    """The error for a name that no action has."""
    names = sorted(legal)
    return ActionError("unknown_action", f"{name} is no action: {', '.join(names)}", name=name, legal=names)
