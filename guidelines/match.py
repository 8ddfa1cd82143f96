"""Which guideline fits a step: detection and distinction of errors (QueryAgent 3.3, Algorithm 1 line 11)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from typing import Literal as OneOf

from jinja2 import Environment, Template, TemplateError
from jinja2.runtime import Context

from triplewise.guidelines.language import situation
from triplewise.tools.actions.toolset import ReasoningMemory
from triplewise.tools.core.call import Feedback

Source = OneOf["kb", "interpreter", "memory", "kb+memory", "interpreter+memory"]
Severity = OneOf["error", "note"]
ToolsetName = OneOf["pyql", "explore", "symbolic", "agentbench", "sql"]

SOURCES: Final[tuple[Source, ...]] = ("kb", "interpreter", "memory", "kb+memory", "interpreter+memory")
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "note")
TOOLSETS: Final[tuple[ToolsetName, ...]] = ("pyql", "explore", "symbolic", "agentbench", "sql")
"""Toolsets that a guideline may be for; the first is the one taken where none is named."""

_log = logging.getLogger(__name__)
_SPACES = re.compile(r"[ \t]{2,}")
# What an expression can do on input its author did not think of. Anything else is a fault of ours.
_ODD_INPUT = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Example:
    """A step that must trigger its guideline, and what the text must then say."""

    feedback: Feedback
    memory: ReasoningMemory
    expect: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """The guideline that fits a step.

    Attributes:
        id, source: which guideline, and the environments whose feedback it needs (table 8).
        severity: `error`: the step is rolled back and the text is its observation; `note`: the step
            stands and the text is appended to its observation.
        text: what the agent is told; for a note, the texts of all notes that fit, one a line.
    """

    id: str
    source: Source
    severity: Severity
    text: str


class Compiled:
    """A Jinja template, compiled when it is first used: most texts of a run never are.

    Args:
        env: the sandbox. source: the template's text.
    """

    __slots__ = ("_env", "_template", "source")

    def __init__(self, env: Environment, source: str) -> None:
        self._env, self.source = env, source
        self._template: Template | None = None

    @property
    def template(self) -> Template:
        """The template. Raises TemplateSyntaxError if the text is none."""
        if self._template is None:
            self._template = self._env.from_string(self.source)
        return self._template


@dataclass(frozen=True, slots=True)
class Guideline:
    """One situation that ERASER recognises, and what to do about it. Made by `load_guidelines`.

    Attributes:
        when: Jinja expression: true where the situation is present.
        guideline: Jinja template of the text.
        paper: table or figure of QueryAgent it comes from, "" if it is ours.
        path, line: where it is written.
        toolsets: the toolsets whose steps it judges; empty for all.
        trigger, text, plain: `when` and `guideline` as templates, and the text used when `guideline` fails.
    """

    id: str
    source: Source
    when: str
    guideline: str
    example: Example
    severity: Severity
    paper: str
    path: str
    line: int
    trigger: Compiled = field(repr=False, compare=False)
    text: Compiled = field(repr=False, compare=False)
    plain: Compiled = field(repr=False, compare=False)
    toolsets: tuple[str, ...] = ()

    def serves(self, toolset: str) -> bool:
        """Whether it judges the steps of a toolset."""
        return not self.toolsets or toolset in self.toolsets


class Guidelines:
    """Guidelines in order. Errors come before notes; among equals the first that matches wins.

    A `when` that fails on odd input counts as no match, and a text that fails is replaced by a plain
    one; both are logged once per guideline (logger `triplewise.guidelines.match`). Nothing raises out
    of a run.
    """

    def __init__(self, guidelines: Sequence[Guideline]) -> None:
        self._all = tuple(guidelines)
        self._ranked = tuple(sorted(self._all, key=lambda g: SEVERITIES.index(g.severity)))
        self._reported: set[str] = set()

    def __iter__(self) -> Iterator[Guideline]:
        """In the order of the files."""
        return iter(self._all)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def __getitem__(self, id: str) -> Guideline:
        """The guideline with this id; KeyError if there is none."""
        for guideline in self._all:
            if guideline.id == id:
                return guideline
        raise KeyError(id)

    def match(
        self,
        feedback: Feedback,
        memory: ReasoningMemory,
        *,
        question: str = "",
        budget_left: int | None = None,
        actions: Sequence[str] = (),
        step: int | None = None,
        toolset: str = TOOLSETS[0],
        mentions: Sequence[tuple[int, int]] = (),
    ) -> Match | None:
        """The first guideline whose situation is present, with its text; None if nothing is wrong.

        Args:
            feedback: what the environment said about the step just made.
            memory: the reasoning memory before that step.
            budget_left: steps that remain after it.
            actions: signatures of the legal actions.
            step: number of the next step (both numbers are taken from the memory if left out).
            toolset: the actions in use: guidelines of another toolset are passed over.
            mentions: where the question names entities (start, end).
        """
        values = situation(
            feedback,
            memory,
            question=question,
            budget_left=budget_left,
            actions=actions,
            step=step,
            mentions=mentions,
        )
        triggered = self._triggered(values, toolset)
        found = next(triggered, None)
        if found is None:
            return None
        text = self._render(found, values)
        if found.severity == "note":
            # Errors come first, so that all others are notes too; a step that stands may deserve several.
            text = "\n".join([text, *(self._render(note, values) for note in triggered)])
        return Match(found.id, found.source, found.severity, text)

    def triggered(
        self, feedback: Feedback, memory: ReasoningMemory, *, toolset: str = TOOLSETS[0], **given: Any
    ) -> tuple[str, ...]:
        """Ids of all guidelines whose situation is present, the winner first. Arguments as in `match`."""
        return tuple(g.id for g in self._triggered(situation(feedback, memory, **given), toolset))

    def check(self) -> tuple[str, ...]:
        """Run every example: one sentence for each that its own guideline does not win or word as said."""
        return tuple(problem for guideline in self._all for problem in self._check(guideline))

    def _check(self, guideline: Guideline) -> Iterator[str]:
        example, where = guideline.example, f"{guideline.path}:{guideline.line}: {guideline.id}"
        ids = self.triggered(example.feedback, example.memory, **example.given)
        if guideline.id not in ids:
            yield f"{where}: its example does not trigger it: fix `when` or the example"
            return
        if ids[0] != guideline.id:
            yield f"{where}: its example is caught by {ids[0]} first: narrow one of the two, or move it up"
            return
        match = self.match(example.feedback, example.memory, **example.given)
        text = match.text if match else ""
        missing = [part for part in example.expect if part not in text]
        if missing:
            yield f"{where}: the text lacks {', '.join(map(repr, missing))}; it reads: {text}"

    def _triggered(self, values: dict[str, Any], toolset: str) -> Iterator[Guideline]:
        context: Context | None = None
        for guideline in self._ranked:
            if not guideline.serves(toolset):
                continue
            # One context for all: making one costs more than most expressions do.
            context = context or guideline.trigger.template.new_context(values, shared=True)
            if self._holds(guideline, context):
                yield guideline

    def _holds(self, guideline: Guideline, context: Context) -> bool:
        try:
            for _ in guideline.trigger.template.root_render_func(context):
                pass
            return bool(context.vars["result"])
        except _ODD_INPUT as error:
            self._report(guideline, "when", error)
            return False

    def _render(self, guideline: Guideline, values: dict[str, Any]) -> str:
        try:
            text = guideline.text.template.render(values)
        except _ODD_INPUT as error:
            self._report(guideline, "guideline", error)
            text = guideline.plain.template.render(values)
        return _SPACES.sub(" ", text).strip()

    def _report(self, guideline: Guideline, key: str, error: Exception) -> None:
        where = f"{guideline.path}:{guideline.line}: {guideline.id}: {key}"
        if where not in self._reported:
            self._reported.add(where)
            _log.warning("%s failed on odd input and was passed over: %s", where, error)
