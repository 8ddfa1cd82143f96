"""One run of the state machine: followed phase by phase, then as one JSON document or a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from triplewise.graphs.around import Held, held_around
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import say
from triplewise.graphs.page import Page, Question, RunBlock, write_page
from triplewise.graphs.presets import find_preset
from triplewise.graphs.runs import RunRequest
from triplewise.graphs.trace import DOING, trace_of, whole_trace
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import Answer, State
from triplewise.tools.core.errors import DataError, KGUnavailableError
from triplewise.tools.kg import Outcome

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from rich.status import Status


class Run:
    """A run that can be followed phase by phase. KG and model are opened at once, to fail early.

    Attributes:
        kg, toolset: what the run works with. state: the final state, once the run has ended.

    Args:
        reviewer: gives a person's word, as `Command(resume=...)` takes it, on what a run shows that stops.

    Raises:
        ConfigurationError, DataError: a KG or model that cannot be opened.
        KGUnavailableError: an endpoint that does not answer.
    """

    def __init__(
        self,
        request: RunRequest,
        saver: BaseCheckpointSaver[Any] | None = None,
        reviewer: Callable[[Mapping[str, Any]], Any] = lambda shown: "none",
    ) -> None:
        self.request, self.context, self._reviewer = request, Context(**request.context), reviewer
        settings = self.context.resolved(find_preset(request.preset).settings)
        tools = Environment(settings)
        self.kg, self.toolset, self._tools = tools.kg, tools.toolset, tools
        probe = self.kg.query("ASK { ?s ?p ?o }")
        if probe.outcome is Outcome.UNAVAILABLE:
            raise KGUnavailableError(f"{self.kg.name}: {probe.message}")
        if not settings.embedded:
            _ = tools.model
        # With "sync" no phase begins before the one before it is on disk: a killed run repeats nothing.
        self._durability = {"durability": "sync"} if saver else {}
        if saver is None and (settings.review or settings.interactive):
            saver = InMemorySaver()
        self._graph: Any = build_graph(request.preset, checkpointer=saver)
        self._values: dict[str, Any] = {"question": request.question, "entities": request.entities}

    def updates(
        self,
        resume: bool = False,
        status: Status | None = None,
        on_token: Callable[[str], None] | None = None,
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each phase with its update, as it happens.

        Args:
            resume: go on from the last checkpoint of the thread, where it has one.
            status: shows what is being done; stands still while a person is asked.
            on_token: is given what a model writes, as it writes it.
        """
        config: Any = {"configurable": {"thread_id": self.request.thread}}
        start: Any = dict(self._values)
        if resume and (saved := self._saved(config)):
            self._values |= saved
            start = None
            steps = len(self._values.get("steps", ()))
            count = f"{steps} step{'' if steps == 1 else 's'}"
            say(f"going on after {count} (thread {self.request.thread})", "notice")
        modes = ["tasks", "updates", "values", *(["messages"] if on_token else [])]
        shown: Mapping[str, Any] | None = {}
        while shown is not None:
            shown = None
            stream = self._graph.stream(
                start, config, context=self.context, stream_mode=modes, **self._durability
            )
            for mode, data in stream:
                if mode == "messages" and on_token:
                    on_token(str(data[0].text))
                elif mode == "tasks":
                    if status and "input" in data:
                        status.update(DOING.get(data["name"], data["name"]))
                elif mode == "values":
                    self._values = data
                elif "__interrupt__" in data:
                    shown = data["__interrupt__"][0].value
                else:
                    for phase, update in data.items():
                        yield phase, update or {}
            if shown is not None:
                if status:
                    status.stop()
                start = Command(resume=self._reviewer(shown))
                if status:
                    status.start()

    def _saved(self, config: Any) -> Mapping[str, Any]:
        """Return the state of the last checkpoint, {} without one. Raises `DataError` where it is damaged."""
        try:
            values: dict[str, Any] = self._graph.get_state(config).values
            if values:
                State.model_validate(values)
        except Exception as error:  # a checkpoint that was changed by others can break anything that reads it
            what = f"the checkpoint of thread {self.request.thread} is damaged ({type(error).__name__})"
            raise DataError(f"{what}; ask the question anew, without --resume") from error
        return values

    @property
    def state(self) -> State:
        """The state that the run ended in."""
        return State.model_validate(self._values).restored()

    @property
    def answer(self) -> Answer:
        """What the run came to."""
        answer = self.state.answer
        assert answer is not None, "a run that ends has an answer"
        return answer

    @property
    def held(self) -> Held | None:
        """What the graph holds around a question without a sure answer; None for others."""
        source = self.context.kg if isinstance(self.context.kg, str) else ""
        return held_around(self.state, self.kg.session(), self._tools.encoder, source)

    def document(self) -> dict[str, Any]:
        """Return answer, labels, query, proof, steps, corrections, usage, and what was asked of what."""
        asked = {name: getattr(self.context, name) for name in ("kg", "db", "model")}
        request = {"preset": self.request.preset, "thread": self.request.thread}
        held = {} if (held := self.held) is None else {"held": held.model_dump()}
        return whole_trace(self.state, self.kg.profile) | held | asked | request


def write_run(path: Path, run: Run) -> None:
    """Write the page of an ended run, and say where it is. Raises `DataError` if it cannot be written."""
    request, context = run.request, run.context
    trace = trace_of(run.state, None if context.db else run.kg)
    answer, status = trace["labels"], trace["status"]
    question = Question(request.thread, request.question, answer=answer, status=status, trace=trace)
    source = {"database": context.db} if context.db else {"graph": context.kg}
    about = source | {"model": context.model, "preset": request.preset}
    about |= {n: getattr(context, n) for n in request.context if n not in ("kg", "db", "model")}
    block = RunBlock("run", about | {"triplewise": version("triplewise")}, [question])
    write_page(path, Page(request.question, runs=[block]))
    say(f"the run as a page: {path}")
