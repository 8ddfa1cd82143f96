"""One run of the state machine, from an order to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.types import Command

from triplewise.graphs.build import build_graph
from triplewise.graphs.cli.console import say
from triplewise.graphs.cli.runs import Order
from triplewise.graphs.presets import find_preset
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import Answer, State
from triplewise.tools.actions import Toolset
from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.kg import KnowledgeGraph, Outcome

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

Reviewer: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""What an interrupted run shows -> a person's word, as `Command(resume=...)` takes it."""

DOING = {
    "link": "finding the entities",
    "plan": "planning",
    "observe": "looking around",
    "act": "acting",
    "inspect": "inspecting",
    "correct": "correcting",
    "review": "waiting for your word",
    "reflect": "reflecting",
    "answer": "collecting the proof",
}


class Run:
    """A run that can be followed phase by phase. KG and model are opened at once, to fail early.

    `reviewer` gives a person's word on facts, where the run stops for it.

    Raises:
        ConfigurationError, DataError: a KG or model that cannot be opened.
        KGUnavailableError: an endpoint that does not answer.
    """

    def __init__(
        self,
        order: Order,
        saver: BaseCheckpointSaver[Any] | None = None,
        reviewer: Reviewer = lambda shown: "none",
    ) -> None:
        self.reviewer = reviewer
        self.order, self.context = order, Context(**order.context)
        full = self.context.resolved(find_preset(order.preset).settings)
        self.kg: KnowledgeGraph = environment(full).kg
        _probe(self.kg)
        self.toolset: Toolset = environment(full).toolset
        if not full.embedded:
            _ = environment(full).model
        self._saved = saver is not None
        self._graph: Any = build_graph(order.preset, checkpointer=saver or _waiting_place(full))
        self._values: dict[str, Any] = {"question": order.question, "entities": order.entities}

    def updates(self, resume: bool, tell: Callable[[str], object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each phase with its update, as it happens. `tell` is told what is being done.

        Args:
            resume: go on from the last checkpoint of the thread, where it has one.
        """
        config: Any = {"configurable": {"thread_id": self.order.thread}}
        begin: Any = dict(self._values)
        if resume and (saved := self._graph.get_state(config)).values:
            self._values |= saved.values
            begin = None
            say(f"going on after {_done(self._values)} (thread {self.order.thread})", "notice")
        # With "sync" no phase begins before the one before it is on disk: a killed run repeats nothing.
        durability = {"durability": "sync"} if self._saved else {}
        shown: Mapping[str, Any] | None = {}
        while shown is not None:
            shown = None
            stream = self._graph.stream(
                begin, config, context=self.context, stream_mode=["tasks", "updates"], **durability
            )
            for mode, data in stream:
                if mode == "tasks" and "input" in data:
                    tell(DOING.get(data["name"], data["name"]))
                elif mode == "updates" and "__interrupt__" in data:
                    shown = data["__interrupt__"][0].value
                elif mode == "updates":
                    for phase, update in data.items():
                        self._values |= update or {}
                        yield phase, update or {}
            if shown is not None:
                begin = Command(resume=self.reviewer(shown))

    def end(self) -> tuple[State, Answer]:
        """The final state and its answer."""
        state = State.model_validate(self._values)
        assert state.answer is not None, "a run that ends has an answer"
        return state, state.answer


def _waiting_place(context: Context) -> BaseCheckpointSaver[Any] | None:
    """Where a run that stops for a person waits, if it is not saved anywhere else."""
    if not context.review:
        return None
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


def _probe(kg: KnowledgeGraph) -> None:
    """Ask the cheapest question there is. Raises `KGUnavailableError` if nobody answers."""
    result = kg.query("ASK { ?s ?p ?o }")
    if result.outcome is Outcome.UNAVAILABLE:
        said = result.message
        raise KGUnavailableError(said if kg.name in said else f"{kg.name} does not answer: {said}")


def _done(values: Mapping[str, Any]) -> str:
    """How far a run had come."""
    steps = len(values.get("steps", ()))
    return f"{steps} step{'' if steps == 1 else 's'}"
