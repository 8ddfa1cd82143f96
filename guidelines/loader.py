"""Guidelines from YAML files, checked in full when they are read (the shipped ones, by the tests).

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

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import yaml
from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError

from triplewise.guidelines.language import NAMES, environment
from triplewise.guidelines.match import (
    Compiled,
    Example,
    Guideline,
    Guidelines,
    Severity,
    Source,
    ToolsetName,
)
from triplewise.tools.actions.toolset import ReasoningMemory
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.yaml_lines import YamlDocument, parse_yaml

SHIPPED: Final = (
    "sql.yaml",
    "agentbench.yaml",
    "interpreter.yaml",
    "interpreter_memory.yaml",
    "memory.yaml",
    "kb_memory.yaml",
    "kb.yaml",
    "fallback.yaml",
)
"""The package's own files, in order of precedence."""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "feedback": tuple(f.name for f in fields(Feedback)),
    "memory": tuple(f.name for f in fields(ReasoningMemory)),
}
_JINJA: Final = "https://jinja.palletsprojects.com/templates/"
_Text = Annotated[str, Field(min_length=1)]
_AS_LIST = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


def _known_fields(name: str) -> BeforeValidator:
    """Refuses fields that feedback or memory has not; a number of `answers` stands for that many of them."""

    def check(written: Any) -> Any:
        if not isinstance(written, dict):
            return written
        for field in written:
            if field not in _FIELDS[name]:
                raise ValueError(f"no field {field!r}{_did_you_mean(str(field), _FIELDS[name])}")
        if type(count := written.get("answers")) is int:
            return {**written, "answers": [f"answer {i}" for i in range(1, count + 1)]}
        return written

    return BeforeValidator(check)


class _WrittenExample(BaseModel):
    """The example of a guideline as a file has it."""

    model_config = ConfigDict(extra="forbid")

    feedback: Annotated[Feedback, _known_fields("feedback")]
    memory: Annotated[ReasoningMemory, _known_fields("memory")] = ReasoningMemory()
    expect: Annotated[list[_Text], Field(min_length=1), _AS_LIST]
    question: str = ""
    budget_left: StrictInt | None = None
    actions: list[str] = []
    step: StrictInt | None = None


class _WrittenGuideline(BaseModel):
    """A guideline as a file has it."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    source: Source
    when: _Text
    guideline: _Text
    example: _WrittenExample
    severity: Severity = "error"
    paper: str = ""
    toolset: Annotated[list[ToolsetName], Field(min_length=1), _AS_LIST] = []


class Readable(Protocol):
    """A file on disk or inside the package."""

    def read_text(self, encoding: str) -> str:
        """The whole text."""
        ...


def load_guidelines(paths: Sequence[Path | str] = (), *, instead: bool = False) -> Guidelines:
    """Read guidelines. The order is that of the files, then that inside each file.

    Args:
        paths: the user's files, which come before the shipped ones.
        instead: leave the shipped ones out.

    Raises:
        DataError: names file, line, key and how to fix it.
    """
    env = _shared_environment()
    guidelines = [guideline for path in paths for guideline in _read(env, Path(path), str(path))]
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
def _shared_environment() -> Environment:
    text = resources.files("triplewise.guidelines").joinpath("snippets.yaml").read_text(encoding="utf-8")
    return environment(yaml.safe_load(text))


@cache
def _shipped(name: str) -> tuple[Guideline, ...]:
    file = resources.files("triplewise.guidelines").joinpath(name)
    return tuple(_read(_shared_environment(), file, f"guidelines/{name}", checked=True))


def _read(env: Environment, file: Readable, path: str, checked: bool = False) -> list[Guideline]:
    """The guidelines of a file; `checked`: its templates are known to be good, so none is compiled yet."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text at byte {error.start}; save it as UTF-8", path) from error
    document = parse_yaml(text, path)
    if document.value is not None and not isinstance(document.value, list):
        raise document.error("must be a list of guidelines: begin each with '- id: ...'")
    found = []
    for index, entry in enumerate(document.value or ()):
        if not isinstance(entry, dict):
            raise document.error("a guideline must be a mapping with the key 'id'", index)
        try:
            written = _WrittenGuideline.model_validate(entry)
        except ValidationError as error:
            raise _refusal(document, index, error) from error
        # An assignment, so that the value can be read from the context and not from rendered text.
        trigger = Compiled(env, "{% set result = (" + written.when + ") %}")
        guideline = Compiled(env, written.guideline)
        if not checked:
            _check_template(env, document, (index, "when"), trigger)
            _check_template(env, document, (index, "guideline"), guideline)
        given = written.example.model_dump(include={"question", "budget_left", "actions", "step"})
        if written.toolset:
            given["toolset"] = written.toolset[0]
        found.append(
            Guideline(
                id=written.id,
                source=written.source,
                when=written.when,
                guideline=written.guideline,
                example=Example(
                    written.example.feedback, written.example.memory, tuple(written.example.expect), given
                ),
                severity=written.severity,
                paper=written.paper,
                path=path,
                line=document.line(index) or 0,
                trigger=trigger,
                text=guideline,
                plain=Compiled(env, '{% include "plain" %}'),
                toolsets=tuple(written.toolset),
            )
        )
    return found


def _refusal(document: YamlDocument, index: int, error: ValidationError) -> DataError:
    """The first thing that is wrong with an entry."""
    first = next((e for e in error.errors() if e["type"] == "extra_forbidden"), error.errors()[0])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        model = _WrittenExample if first["loc"][0] == "example" else _WrittenGuideline
        message = f"unknown key{_did_you_mean(str(first['loc'][-1]), model.model_fields)}"
    return document.error(f"{'.'.join(map(str, first['loc']))}: {message}", index, *first["loc"])


def _check_template(
    env: Environment, document: YamlDocument, place: tuple[int, str], compiled: Compiled
) -> None:
    """Raise a `DataError` for a template that is no Jinja, or names what there is not."""
    try:
        for problem in _misused(env, env.parse(compiled.source)):
            raise document.error(f"{place[1]}: {problem}", *place)
        assert compiled.template
    except TemplateSyntaxError as error:
        line = (document.first_line(*place) or 0) + error.lineno - 1
        message = f"{place[1]}: is not valid Jinja: {error.message}; see {_JINJA}"
        raise DataError(message, document.path, line) from error


def _misused(env: Environment, tree: nodes.Template) -> Iterator[str]:
    """What Jinja would only find at run time: unknown names, fields, filters, tests and snippets."""
    for node in tree.find_all(nodes.Node):
        match node:
            case nodes.Getattr(node=nodes.Name(name=owner), attr=attribute):
                if owner in _FIELDS and attribute not in _FIELDS[owner]:
                    yield f"{owner} has no field {attribute!r}{_did_you_mean(attribute, _FIELDS[owner])}"
            case nodes.Filter(name=name) if name not in env.filters:
                yield f"unknown filter {name!r}{_did_you_mean(name, env.filters)}"
            case nodes.Test(name=name) if name not in env.tests:
                yield f"unknown test {name!r}{_did_you_mean(name, env.tests)}"
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                snippets = env.loader.list_templates() if env.loader else []
                included = getattr(getattr(node, "template", None), "value", None)
                if not isinstance(node, nodes.Include) or included not in snippets:
                    yield f"may only include, by name, one of the snippets: {', '.join(snippets)}"
    for name in sorted(meta.find_undeclared_variables(tree) - set(NAMES)):
        yield f"unknown name {name!r}{_did_you_mean(name, NAMES)}"


def _did_you_mean(given: str, legal: Iterable[str]) -> str:
    names = sorted(legal)
    close = difflib.get_close_matches(given, names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from: {', '.join(names)}"
