"""One run of the state machine, from a request to its answer, as one JSON document, and as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.types import Command

from triplewise.graphs.build import build_graph
from triplewise.graphs.cli.console import say
from triplewise.graphs.cli.runs import RunRequest
from triplewise.graphs.presets import find_preset
from triplewise.graphs.trace import whole_trace
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import Answer, State
from triplewise.tools.actions import Toolset
from triplewise.tools.core.errors import KGUnavailableError
from triplewise.tools.kg import KnowledgeGraph, Outcome

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from triplewise.graphs.cli.runs import RunRequest
    from triplewise.nodes.state import State

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
        request: RunRequest,
        saver: BaseCheckpointSaver[Any] | None = None,
        reviewer: Reviewer = lambda shown: "none",
    ) -> None:
        self.reviewer = reviewer
        self.request, self.context = request, Context(**request.context)
        full = self.context.resolved(find_preset(request.preset).settings)
        self.kg: KnowledgeGraph = environment(full).kg
        _probe(self.kg)
        self.toolset: Toolset = environment(full).toolset
        if not full.embedded:
            _ = environment(full).model
        self._saved = saver is not None
        self._graph: Any = build_graph(request.preset, checkpointer=saver or _waiting_place(full))
        self._values: dict[str, Any] = {"question": request.question, "entities": request.entities}

    def updates(self, resume: bool, tell: Callable[[str], object]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each phase with its update, as it happens. `tell` is told what is being done.

        Args:
            resume: go on from the last checkpoint of the thread, where it has one.
        """
        config: Any = {"configurable": {"thread_id": self.request.thread}}
        begin: Any = dict(self._values)
        if resume and (saved := self._graph.get_state(config)).values:
            self._values |= saved.values
            begin = None
            say(f"going on after {_done(self._values)} (thread {self.request.thread})", "notice")
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


def document(request: RunRequest, state: State) -> str:
    """The document: answer, labels, query, proof, steps, corrections, usage, and what was asked of what."""
    content: dict[str, Any] = {
        **whole_trace(state),
        "preset": request.preset,
        "kg": request.context["kg"],
        "db": shown_url(request.context.get("db")),
        "model": request.context["model"],
        "thread": request.thread,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def shown_url(url: str | None) -> str | None:
    """A database URL without its password."""
    return re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", url) if url else None


_NAMED = ("kg", "db", "model")
_URLS = ("base_url", "documents", *_NAMED)


def place_of(path: Path | None) -> Path | None:
    """The whole path of the page that was asked for, seen to be one that can be written.

    Raises:
        DataError: its folder is missing or cannot be written.
    """
    if path is None:
        return None
    from triplewise.graphs.page.write import check_place

    check_place(path)
    return path.absolute()


def write_run(path: Path, run: Run, state: State) -> None:
    """Write the page of an ended run, and say where it is. Raises `DataError` if it cannot be written."""
    from triplewise.graphs.page import Page, Question, RunBlock, write_page
    from triplewise.graphs.trace import trace_of

    request = run.request
    trace = trace_of(state, None if request.context.get("db") else run.kg)
    question = Question(
        id=request.thread,
        question=request.question,
        answer=trace["labels"],
        status=trace["status"],
        trace=trace,
    )
    block = RunBlock("run", _provenance(request), [question])
    write_page(path, Page(request.question, runs=[block]))
    say(f"the run as a page: {path}")


def _provenance(request: RunRequest) -> dict[str, Any]:
    """What was asked how: graph or database, model, preset, and settings that are not the usual ones."""
    from triplewise.nodes.context import Context

    usual, given = Context(), request.context
    asked = {"database": shown_url(given["db"])} if given.get("db") else {"graph": shown_url(given["kg"])}
    known = {f.name for f in fields(Context)} - set(_NAMED)
    changed = {name: given[name] for name in given if name in known and given[name] != getattr(usual, name)}
    changed = {name: shown_url(value) if name in _URLS else value for name, value in changed.items()}
    told = {**asked, "model": given["model"], "preset": request.preset, **changed}
    return {**told, "triplewise": version("triplewise")}
