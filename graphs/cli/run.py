"""One run of the state machine: followed phase by phase, then as one JSON document or a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from triplewise.graphs.around import ServedGraph
from triplewise.graphs.build import build_graph
from triplewise.graphs.console import say
from triplewise.graphs.page import Page, Question, RunBlock, write_page
from triplewise.graphs.runs import RunRequest
from triplewise.graphs.trace import DOING, trace_of
from triplewise.nodes.state import State
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from rich.status import Status


class Run:
    """A run that can be followed phase by phase. Graph and model are opened at once, to fail early.

    Attributes:
        served: what the run works with. state: where the run ended.

    Args:
        reviewer: gives a person's word, as `Command(resume=...)` takes it, on what a run shows that stops.

    Raises: as `ServedGraph.open`.
    """

    state: State

    def __init__(
        self,
        request: RunRequest,
        saver: BaseCheckpointSaver[Any] | None = None,
        reviewer: Callable[[Mapping[str, Any]], Any] = lambda shown: "none",
    ) -> None:
        self.request, self._reviewer = request, reviewer
        self.served = ServedGraph.open(request.preset, request.context)
        # With "sync" no phase begins before the one before it is on disk: a killed run repeats nothing.
        self._durability = {"durability": "sync"} if saver else {}
        settings = self.served.settings
        if saver is None and (settings.review or settings.interactive):
            saver = InMemorySaver()
        self._graph: Any = build_graph(request.preset, checkpointer=saver)

    def updates(
        self, resume: bool = False, status: Status | None = None
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each phase with its update, as it happens.

        Args:
            resume: go on from the last checkpoint of the thread, where it has one.
            status: shows what is being done; stands still while a person is asked.
        """
        config: Any = {"configurable": {"thread_id": self.request.thread}}
        values: dict[str, Any] = {"question": self.request.question, "entities": self.request.entities}
        start: Any = values
        if resume and (saved := self._saved(config)):
            values, start, steps = saved, None, len(saved.get("steps", ()))
            count = f"{steps} step{'' if steps == 1 else 's'}"
            say(f"going on after {count} (thread {self.request.thread})", "notice")
        options: Any = {"context": self.served.context, **self._durability}
        shown: Mapping[str, Any] | None = {}
        while shown is not None:
            shown = None
            stream = self._graph.stream(start, config, stream_mode=["tasks", "updates", "values"], **options)
            for mode, data in stream:
                if mode == "values":
                    values = data
                elif mode == "tasks":
                    if status and "input" in data:
                        status.update(DOING[data["name"]])
                elif "__interrupt__" in data:
                    shown = data["__interrupt__"][0].value
                else:
                    yield from ((phase, update or {}) for phase, update in data.items())
            if shown is not None:
                if status:
                    status.stop()
                start = Command(resume=self._reviewer(shown))
                if status:
                    status.start()
        self.state = State.model_validate(values).restored()

    def _saved(self, config: Any) -> dict[str, Any]:
        """Return the state of the last checkpoint, {} without one. Raises `DataError` where it is damaged."""
        try:
            values: dict[str, Any] = self._graph.get_state(config).values
            if values:
                State.model_validate(values)
        except Exception as error:  # a checkpoint that was changed by others can break anything that reads it
            what = f"the checkpoint of thread {self.request.thread} is damaged ({type(error).__name__})"
            raise DataError(f"{what}; ask the question anew, without --resume") from error
        return values

    def document(self) -> dict[str, Any]:
        """Return answer, labels, query, proof, steps, corrections, usage, and what was asked of what."""
        asked = {name: getattr(self.served.context, name) for name in ("kg", "db", "model")}
        request = {"preset": self.request.preset, "thread": self.request.thread}
        return self.served.document(self.state) | asked | request


def write_run(path: Path, run: Run) -> None:
    """Write the page of an ended run, and say where it is. Raises `DataError` if it cannot be written."""
    request, context = run.request, run.served.context
    trace = trace_of(run.state, None if context.db else run.served.kg)
    question = Question(
        request.thread, request.question, answer=trace["labels"], status=trace["status"], trace=trace
    )
    source = {"database": context.db} if context.db else {"graph": context.kg}
    about = source | {"model": context.model, "preset": request.preset}
    about |= {n: getattr(context, n) for n in request.context if n not in ("kg", "db", "model")}
    block = RunBlock("run", about | {"triplewise": version("triplewise")}, [question])
    write_page(path, Page(request.question, runs=[block]))
    say(f"the run as a page: {path}")
