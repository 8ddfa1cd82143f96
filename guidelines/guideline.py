"""Which guideline fits a step: detection and distinction of errors (QueryAgent 3.3, Algorithm 1 line 11).

Guidelines are read from YAML files, and checked in full when they are (the shipped ones, by the tests).
A file is a list of mappings:

```yaml
- id: count_of_unknown
  source: interpreter+memory          # the environments whose feedback it needs
  when: feedback.error == "unknown_variable" and feedback.action == "add_count"
  guideline: There is no {{ args[0] }}. Count one of {{ program_variables|names }}. {% include "closing" %}
  example:                            # a step that must trigger it (of the first `toolset`), what it must say
    feedback: {action: add_count, arguments: ["?x", "?n"], error: unknown_variable}
    memory: {bound: ["?film"]}
    expect: Count one of ?film        # besides them: question, budget_left, actions, step; optional
  severity: error                     # or `note`: the step stands and the text is appended
  paper: table 13                     # where it comes from, optional
  toolset: pyql                       # or a list: the actions it is for, optional; left out, it is for all
```
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal as OneOf, get_args

from jinja2 import Template, TemplateError
from jinja2.environment import TemplateExpression
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt

from triplewise.guidelines.language import FIELDS, check_guideline, environment, situation
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory
from triplewise.tools.core.errors import DataError, did_you_mean
from triplewise.tools.core.files import YamlDocument, parse_yaml, read_yaml

Source = OneOf["kb", "interpreter", "memory", "kb+memory", "interpreter+memory"]
Severity = OneOf["error", "note"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
SHIPPED: Final = (
    *("sql.yaml", "sparql.yaml", "agentbench.yaml", "interpreter.yaml", "interpreter_memory.yaml"),
    *("memory.yaml", "kb_memory.yaml", "kb.yaml", "fallback.yaml"),
)
"""The package's own files, in order of precedence."""

_log = logging.getLogger(__name__)
_SPACES, _SENTENCE = re.compile(r"[ \t]{2,}"), re.compile(r"(?s).+?[.:!?](?=\s|$)|.+")
# What an expression can do on input its author did not think of. Anything else is a fault of ours.
_ODD_INPUT = TemplateError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError
_Text = Annotated[str, Field(min_length=1)]
_AS_LIST = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


def _toolset(name: str) -> str:
    """A toolset of the package or one's own; what is nearly the name of the former is refused as a slip."""
    if name not in TOOLSETS and get_close_matches(name, TOOLSETS):
        raise ValueError(f"unknown toolset {name!r}{did_you_mean(name, TOOLSETS)}")
    return name


def _fields_of(owner: str) -> BeforeValidator:
    """Refuse fields that feedback or memory has not; a number of `answers` stands for that many of them."""

    def check(written: Any) -> Any:
        if not isinstance(written, dict):
            return written
        if unknown := next((name for name in written if name not in FIELDS[owner]), None):
            raise ValueError(f"no field {unknown!r}{did_you_mean(str(unknown), FIELDS[owner])}")
        count = written.get("answers")
        answers = {"answers": [f"answer {i}" for i in range(1, count + 1)]} if type(count) is int else {}
        return {**written, **answers}

    return BeforeValidator(check)


class Example(BaseModel):
    """A step that must trigger its guideline, and what the text must then say."""

    model_config = ConfigDict(extra="forbid")

    feedback: Annotated[Feedback, _fields_of("feedback")]
    memory: Annotated[ReasoningMemory, _fields_of("memory")] = ReasoningMemory()
    expect: Annotated[list[_Text], Field(min_length=1), _AS_LIST]
    question: str = ""
    budget_left: StrictInt | None = None
    actions: list[str] = []
    step: StrictInt | None = None


class _Entry(BaseModel):
    """A guideline as a file has it."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    source: Source
    when: _Text
    guideline: _Text
    example: Example
    severity: Severity = "error"
    paper: str = ""
    toolset: Annotated[list[Annotated[_Text, AfterValidator(_toolset)]], Field(min_length=1), _AS_LIST] = []


class Guideline(_Entry):
    """One situation that ERASER recognises, and what to do about it; `own` if it is the user's."""

    path: str
    line: int
    own: bool

    @property
    def given(self) -> dict[str, Any]:
        """What `Guidelines.match` is given with the step of its example."""
        given = self.example.model_dump(include={"question", "budget_left", "actions", "step"})
        return {**given, "toolset": self.toolset[0]} if self.toolset else given

    @cached_property
    def trigger(self) -> TemplateExpression:
        """`when`, compiled."""
        return environment().compile_expression(self.when, undefined_to_none=False)

    @cached_property
    def text(self) -> Template:
        """`guideline`, compiled when first used: most texts of a run never are."""
        return environment().from_string(self.guideline)


@dataclass(frozen=True, slots=True)
class Match:
    """The guideline that fits a step: its text for the agent, and the reason for a person.

    Of an `error` the step is rolled back and the text is its observation; the texts of all notes that fit are
    appended to the observation of a step that stands.
    """

    id: str
    source: Source
    severity: Severity
    text: str
    reason: str = ""
    own: bool = False


def what_is_wrong(text: str) -> str:
    """Return the first sentence of a guideline's text that says more than a heading; the others instruct."""
    sentences, reason = _SENTENCE.findall(" ".join(text.split())), ""
    while sentences and (not reason or reason.endswith(":")):
        reason = f"{reason} {sentences.pop(0).strip()}".strip()
    return reason


class Guidelines:
    """Guidelines in order. Errors come before notes; among equals the first that matches wins.

    A `when` that fails on odd input counts as no match, and a text that fails is replaced by a plain
    one; both are logged once per guideline. Nothing raises out of a run.
    """

    def __init__(self, guidelines: Sequence[Guideline]) -> None:
        self._all = tuple(guidelines)
        self._ranked = sorted(self._all, key=lambda g: g.severity == "note")
        self._reported: set[str] = set()

    def __iter__(self) -> Iterator[Guideline]:
        return iter(self._all)

    def match(
        self, feedback: Feedback, memory: ReasoningMemory, *, toolset: str = "pyql", **given: Any
    ) -> Match | None:
        """Return the first guideline whose situation is present, with its text; None if nothing is wrong.

        `memory` is that before the step; guidelines of another `toolset` are passed over.
        """
        values = situation(feedback, memory, **given)
        triggered = self._triggered(values, toolset)
        if (first := next(triggered, None)) is None:
            return None
        # Errors come first, so that all others are notes too; a step that stands may deserve several.
        fitting = [first, *triggered] if first.severity == "note" else [first]
        text = "\n".join(self._render(g, values) for g in fitting)
        plain = [(g.own, self._render(g, values | {"step": None})) for g in fitting]
        reason = "\n".join(reason if own else what_is_wrong(reason) for own, reason in plain)
        return Match(first.id, first.source, first.severity, text, reason, first.own)

    def triggered(
        self, feedback: Feedback, memory: ReasoningMemory, *, toolset: str = "pyql", **given: Any
    ) -> tuple[str, ...]:
        """Return the ids of all guidelines whose situation is present, the winner first; see `match`."""
        return tuple(g.id for g in self._triggered(situation(feedback, memory, **given), toolset))

    def check(self) -> tuple[str, ...]:
        """Run every example: one sentence for each that is not caught and worded as it expects."""
        problems = []
        for g in self._all:
            step = g.example.feedback, g.example.memory
            ids, match = self.triggered(*step, **g.given), self.match(*step, **g.given)
            text, problem = match.text if match else "", ""
            if g.id not in ids:
                problem = "its example does not trigger it: fix `when` or the example"
            elif ids[0] != g.id:
                problem = f"its example is caught by {ids[0]} first: narrow one of the two, or move it up"
            elif lacks := ", ".join(repr(part) for part in g.example.expect if part not in text):
                problem = f"the text lacks {lacks}; it reads: {text}"
            problems += [f"{g.path}:{g.line}: {g.id}: {problem}"] if problem else []
        return tuple(problems)

    def _triggered(self, values: dict[str, Any], toolset: str) -> Iterator[Guideline]:
        for guideline in self._ranked:
            try:
                if (not guideline.toolset or toolset in guideline.toolset) and guideline.trigger(values):
                    yield guideline
            except _ODD_INPUT as error:
                self._report(guideline, "when", error)

    def _render(self, guideline: Guideline, values: dict[str, Any]) -> str:
        try:
            text = guideline.text.render(values)
        except _ODD_INPUT as error:
            self._report(guideline, "guideline", error)
            text = environment().get_template("plain").render(values)
        return _SPACES.sub(" ", text).strip()

    def _report(self, guideline: Guideline, key: str, error: Exception) -> None:
        where = f"{guideline.path}:{guideline.line}: {guideline.id}: {key}"
        if where not in self._reported:
            self._reported.add(where)
            _log.warning("%s failed on odd input and was passed over: %s", where, error)


def load_guidelines(paths: Sequence[Path | str] = (), *, instead: bool = False) -> Guidelines:
    """Read the user's files, then the shipped guidelines, unless theirs are `instead`. Raises `DataError`."""
    guidelines = [guideline for path in paths for guideline in _read(read_yaml(Path(path)))]
    guidelines += [guideline for name in (() if instead else SHIPPED) for guideline in _shipped(name)]
    first: dict[str, Guideline] = {}
    for guideline in guidelines:
        if (other := first.setdefault(guideline.id, guideline)) is not guideline:
            # Between files the earlier one is the user's, and theirs to fix.
            late, early = (guideline, other) if guideline.path == other.path else (other, guideline)
            problem = f"id: {late.id!r} is also the id of {early.path}:{early.line}; give one another name"
            raise DataError(f"{problem} (the first that matches wins)", late.path, late.line)
    return Guidelines(guidelines)


@cache
def _shipped(name: str) -> tuple[Guideline, ...]:
    text = (files("triplewise.guidelines") / name).read_text(encoding="utf-8")
    return tuple(_read(parse_yaml(text, f"guidelines/{name}"), is_shipped=True))


def _read(document: YamlDocument, is_shipped: bool = False) -> list[Guideline]:
    """Return the guidelines of a file; templates of shipped ones need no check."""
    if document.value is not None and not isinstance(document.value, list):
        raise document.error("must be a list of guidelines: begin each with '- id: ...'")
    guidelines, path = [], str(document.path)
    for index, entry in enumerate(document.value or ()):
        if not isinstance(entry, dict):
            raise document.error("a guideline must be a mapping with the key 'id'", index)
        read, line = document.read_as(_Entry, index), document.line(index) or 0
        guidelines.append(Guideline.model_construct(**vars(read), path=path, line=line, own=not is_shipped))
        if not is_shipped:
            check_guideline(document, index, "when", f"{{{{ {read.when} }}}}")
            check_guideline(document, index, "guideline", read.guideline)
    return guidelines
