"""Which guideline fits a step: detection and distinction of errors (QueryAgent 3.3, Algorithm 1 line 11).

Guidelines are read from YAML files, and checked in full when they are (the shipped ones, by the tests).

A file is a list of mappings:

```yaml
- id: count_of_unknown
  source: interpreter+memory          # the environments whose feedback it needs
  when: feedback.error == "unknown_variable" and feedback.action == "add_count"
  guideline: There is no {{ args[0] }}. Count one of {{ program_variables|names }}. {% include "closing" %}
  example:                            # a step that must trigger it, and what the text must say
    feedback: {action: add_count, arguments: ["?x", "?n"], error: unknown_variable}
    memory: {bound: ["?film"]}
    expect: Count one of ?film
  severity: error                     # or `note`: the step stands and the text is appended
  paper: table 13                     # where it comes from, optional
  toolset: pyql                       # or a list: the actions it is for, optional; left out, it is for all
```
In an example, a number for `answers` stands for that many of them, and `question`, `budget_left`, `actions`
and `step` may be given beside `feedback` and `memory`. It is a step of the first `toolset` named.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Final, get_args
from typing import Literal as OneOf

from jinja2 import Environment, Template, TemplateError
from jinja2.runtime import Context
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, StrictInt

from triplewise.guidelines.language import NAMES, check_template, environment, situation, text_of
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory
from triplewise.tools.core.errors import DataError, did_you_mean
from triplewise.tools.core.files import YamlDocument, parse_yaml, read_yaml

Source = OneOf["kb", "interpreter", "memory", "kb+memory", "interpreter+memory"]
Severity = OneOf["error", "note"]
SOURCES: Final[tuple[Source, ...]] = get_args(Source)
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
TOOLSETS: Final = ("pyql", "explore", "symbolic", "agentbench", "sql", "select", "sparql")
"""The package's own toolsets; the first is the one taken where none is named."""

SHIPPED: Final = (
    *("sql.yaml", "sparql.yaml", "agentbench.yaml", "interpreter.yaml", "interpreter_memory.yaml"),
    *("memory.yaml", "kb_memory.yaml", "kb.yaml", "fallback.yaml"),
)
"""The package's own files, in order of precedence."""

_log = logging.getLogger(__name__)
_TRIGGER = "{%% set result = (%s) %%}"
_SPACES, _SENTENCE = re.compile(r"[ \t]{2,}"), re.compile(r"(?s).+?[.:!?](?=\s|$)|.+")
# What an expression can do on input its author did not think of. Anything else is a fault of ours.
_ODD_INPUT = (
    *(TemplateError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
)
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "feedback": tuple(f.name for f in fields(Feedback)),
    "memory": tuple(f.name for f in fields(ReasoningMemory)),
}
_Text = Annotated[str, Field(min_length=1)]


def _toolset(name: str) -> str:
    """A toolset of the package or one's own; what is nearly the name of the former is refused as a slip."""
    if name not in TOOLSETS and get_close_matches(name, TOOLSETS):
        raise ValueError(f"unknown toolset {name!r}{did_you_mean(name, TOOLSETS)}")
    return name


_AS_LIST = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


def _with_fields_of(name: str) -> BeforeValidator:
    """Refuse fields that feedback or memory has not; a number of `answers` stands for that many of them."""

    def check(written: Any) -> Any:
        if not isinstance(written, dict):
            return written
        for field in written:
            if field not in _FIELDS[name]:
                raise ValueError(f"no field {field!r}{did_you_mean(str(field), _FIELDS[name])}")
        if type(count := written.get("answers")) is int:
            return {**written, "answers": [f"answer {i}" for i in range(1, count + 1)]}
        return written

    return BeforeValidator(check)


class Example(BaseModel):
    """A step that must trigger its guideline, and what the text must then say."""

    model_config = ConfigDict(extra="forbid")

    feedback: Annotated[Feedback, _with_fields_of("feedback")]
    memory: Annotated[ReasoningMemory, _with_fields_of("memory")] = ReasoningMemory()
    expect: Annotated[list[_Text], Field(min_length=1), _AS_LIST]
    question: str = ""
    budget_left: StrictInt | None = None
    actions: list[str] = []
    step: StrictInt | None = None


class Guideline(BaseModel):
    """One situation that ERASER recognises, and what to do about it, as a file has it.

    Attributes:
        when: Jinja expression: true where the situation is present.
        guideline: Jinja template of the text.
        paper: table or figure of QueryAgent it comes from, "" if it is ours.
        toolset: names of the toolsets whose steps it judges, one's own too; empty for all.
    """

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    source: Source
    when: _Text
    guideline: _Text
    example: Example
    severity: Severity = "error"
    paper: str = ""
    toolset: Annotated[list[Annotated[_Text, AfterValidator(_toolset)]], Field(min_length=1), _AS_LIST] = []
    _path: str = PrivateAttr("")
    _line: int = PrivateAttr(0)
    _own: bool = PrivateAttr(True)
    _env: Environment = PrivateAttr()

    @property
    def path(self) -> str:
        """The file it is written in."""
        return self._path

    @property
    def line(self) -> int:
        """The line at which it begins."""
        return self._line

    @property
    def own(self) -> bool:
        """Whether it comes from a file of the user's."""
        return self._own

    @property
    def place(self) -> str:
        """Where it is written, for messages."""
        return f"{self._path}:{self._line}: {self.id}"

    @property
    def given(self) -> dict[str, Any]:
        """What `Guidelines.match` is given with the step of its example."""
        given = self.example.model_dump(include={"question", "budget_left", "actions", "step"})
        return {**given, "toolset": self.toolset[0]} if self.toolset else given

    # Templates are compiled when they are first used: most texts of a run never are.

    @cached_property
    def trigger(self) -> Template:
        """`when`, as an assignment: the value is read from the context and not from rendered text."""
        return self._env.from_string(_TRIGGER % self.when)

    @cached_property
    def text(self) -> Template:
        """The text as a template."""
        return self._env.from_string(self.guideline)


@dataclass(frozen=True, slots=True)
class Match:
    """The guideline that fits a step.

    Attributes:
        id, source: which guideline, and the environments whose feedback it needs (table 8).
        severity: `error`: the step is rolled back and the text is its observation; `note`: the step
            stands and the text is appended to its observation.
        text: what the agent is told; for a note, the texts of all notes that fit, one a line.
        reason: the same for a person: what is wrong, without what to do about it.
        own: whether it is one of the user's own.
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
    one; both are logged once per guideline (logger `triplewise.guidelines.guideline`). Nothing raises out
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
        self, feedback: Feedback, memory: ReasoningMemory, *, toolset: str = TOOLSETS[0], **given: Any
    ) -> Match | None:
        """Return the first guideline whose situation is present, with its text; None if nothing is wrong.

        Args:
            feedback: what the environment said about the step just made.
            memory: the reasoning memory before that step.
            toolset: the actions in use: guidelines of another toolset are passed over.
            given: what else `situation` takes.
        """
        values = situation(feedback, memory, **given)
        triggered = self._triggered(values, toolset)
        first = next(triggered, None)
        if first is None:
            return None
        # Errors come first, so that all others are notes too; a step that stands may deserve several.
        fitting = [first, *triggered] if first.severity == "note" else [first]
        text = "\n".join(self._render(guideline, values) for guideline in fitting)
        reasons = [self._render(guideline, values | {"step": None}) for guideline in fitting]
        reason = "\n".join(
            reason if guideline.own else what_is_wrong(reason)
            for guideline, reason in zip(fitting, reasons, strict=True)
        )
        return Match(first.id, first.source, first.severity, text, reason, first.own)

    def triggered(
        self, feedback: Feedback, memory: ReasoningMemory, *, toolset: str = TOOLSETS[0], **given: Any
    ) -> tuple[str, ...]:
        """Return the ids of all guidelines whose situation is present, the winner first; see `match`."""
        return tuple(g.id for g in self._triggered(situation(feedback, memory, **given), toolset))

    def check(self) -> tuple[str, ...]:
        """Run every example: one sentence for each that its own guideline does not win or word as said."""
        problems = []
        for guideline in self._all:
            example, where = guideline.example, guideline.place
            ids = self.triggered(example.feedback, example.memory, **guideline.given)
            match = self.match(example.feedback, example.memory, **guideline.given)
            text = match.text if match else ""
            if guideline.id not in ids:
                problems.append(f"{where}: its example does not trigger it: fix `when` or the example")
            elif ids[0] != guideline.id:
                problems.append(
                    f"{where}: its example is caught by {ids[0]} first: narrow one of the two, or move it up"
                )
            elif missing := [part for part in example.expect if part not in text]:
                lacks = ", ".join(map(repr, missing))
                problems.append(f"{where}: the text lacks {lacks}; it reads: {text}")
        return tuple(problems)

    def _triggered(self, values: dict[str, Any], toolset: str) -> Iterator[Guideline]:
        """Return the guidelines whose situation is present."""
        context: Context | None = None
        for guideline in self._ranked:
            if guideline.toolset and toolset not in guideline.toolset:
                continue
            # One context for all: making one costs more than most expressions do.
            context = context or guideline.trigger.new_context(values, shared=True)
            try:
                for _ in guideline.trigger.root_render_func(context):
                    pass
                holds = bool(context.vars["result"])
            except _ODD_INPUT as error:
                self._report(guideline, "when", error)
                continue
            if holds:
                yield guideline

    def _render(self, guideline: Guideline, values: dict[str, Any]) -> str:
        """Return the text of a guideline."""
        try:
            text = guideline.text.render(values)
        except _ODD_INPUT as error:
            self._report(guideline, "guideline", error)
            text = guideline._env.from_string('{% include "plain" %}').render(values)
        return _SPACES.sub(" ", text).strip()

    def _report(self, guideline: Guideline, key: str, error: Exception) -> None:
        """Log a template that failed, once."""
        where = f"{guideline.place}: {key}"
        if where not in self._reported:
            self._reported.add(where)
            _log.warning("%s failed on odd input and was passed over: %s", where, error)


def load_guidelines(paths: Sequence[Path | str] = (), *, instead: bool = False) -> Guidelines:
    """Read guidelines. The order is that of the files, then that inside each file.

    Args:
        paths: the user's files, which come before the shipped ones.
        instead: leave the shipped ones out.

    Raises:
        DataError: names file, line, key and how to fix it.
    """
    guidelines = [guideline for path in paths for guideline in _read(read_yaml(Path(path)))]
    if not instead:
        guidelines += [guideline for name in SHIPPED for guideline in _shipped(name)]
    first: dict[str, Guideline] = {}
    for guideline in guidelines:
        other = first.setdefault(guideline.id, guideline)
        if other is not guideline:
            # Between files the earlier one is the user's, and theirs to fix.
            late, early = (guideline, other) if guideline.path == other.path else (other, guideline)
            raise DataError(
                f"id: {late.id!r} is also the id of {early.path}:{early.line}; "
                "give one of them another name (the first that matches wins, whatever its id)",
                late.path,
                late.line,
            )
    return Guidelines(guidelines)


@cache
def _shipped(name: str) -> tuple[Guideline, ...]:
    return tuple(_read(parse_yaml(text_of(name), f"guidelines/{name}"), is_shipped=True))


def _read(document: YamlDocument, is_shipped: bool = False) -> list[Guideline]:
    """Return the guidelines of a file; templates of shipped ones need no check."""
    if document.value is not None and not isinstance(document.value, list):
        raise document.error("must be a list of guidelines: begin each with '- id: ...'")
    guidelines, env = [], environment()
    for index, entry in enumerate(document.value or ()):
        if not isinstance(entry, dict):
            raise document.error("a guideline must be a mapping with the key 'id'", index)
        guideline = document.read_as(Guideline, index)
        guideline._path, guideline._line = str(document.path), document.line(index) or 0
        guideline._env, guideline._own = env, not is_shipped
        guidelines.append(guideline)
        if is_shipped:
            continue
        for key, source in (("when", _TRIGGER % guideline.when), ("guideline", guideline.guideline)):
            for owner, attribute in check_template(env, document, (index, key), source, NAMES):
                if owner in _FIELDS and attribute not in _FIELDS[owner]:
                    problem = f"no field {attribute!r}{did_you_mean(attribute, _FIELDS[owner])}"
                    raise document.error(f"{key}: {owner} has {problem}", index, key)
    return guidelines
