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
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Protocol

import yaml
from jinja2 import Environment, TemplateSyntaxError, meta, nodes

from triplewise.guidelines.language import NAMES, environment
from triplewise.guidelines.match import (
    SEVERITIES,
    SOURCES,
    TOOLSETS,
    Compiled,
    Example,
    Guideline,
    Guidelines,
)
from triplewise.tools.actions.action import ReasoningMemory
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import DataError

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

_REQUIRED: Final = ("id", "source", "when", "guideline", "example")
_KEYS: Final = (*_REQUIRED, "severity", "paper", "toolset")
_GIVEN: Final = ("question", "budget_left", "actions", "step")
_EXAMPLE_KEYS: Final = ("feedback", "memory", "expect", *_GIVEN)
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "feedback": tuple(f.name for f in fields(Feedback)),
    "memory": tuple(f.name for f in fields(ReasoningMemory)),
}
_JINJA: Final = "https://jinja.palletsprojects.com/templates/"
_ID = re.compile(r"[a-z][a-z0-9_]*")


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
        DataError: names file, line, key and the mend.
    """
    env = _shared_environment()
    guidelines = [guideline for path in paths for guideline in _read(env, Path(path), str(path))]
    if not instead:
        guidelines += [guideline for name in SHIPPED for guideline in _shipped(name)]
    _refuse_duplicates(guidelines)
    return Guidelines(guidelines)


@cache
def _shared_environment() -> Environment:
    text = resources.files("triplewise.guidelines").joinpath("snippets.yaml").read_text(encoding="utf-8")
    return environment(yaml.safe_load(text))


@cache
def _shipped(name: str) -> tuple[Guideline, ...]:
    file = resources.files("triplewise.guidelines").joinpath(name)
    return tuple(_read(_shared_environment(), file, f"guidelines/{name}", checked=True))


def _refuse_duplicates(guidelines: Iterable[Guideline]) -> None:
    first: dict[str, Guideline] = {}
    for guideline in guidelines:
        other = first.setdefault(guideline.id, guideline)
        if other is not guideline:
            # Between files the earlier one is the user's, and theirs to mend.
            late, early = (guideline, other) if guideline.path == other.path else (other, guideline)
            raise DataError(
                f"id: {late.id!r} is also the id of {early.path}:{early.line}; "
                "give one of them another name (the first that matches wins, whatever its id)",
                late.path,
                late.line,
            )


def _read(env: Environment, file: Readable, path: str, checked: bool = False) -> list[Guideline]:
    """The guidelines of a file; `checked`: its templates are known to be good, so none is compiled yet."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text at byte {error.start}; save it as UTF-8", path) from error
    entries = _Yaml(path).entries(text)
    return [_Entry(env, path, line, keys, checked).guideline() for line, keys in entries]


class _Value:
    """A YAML value and where it stands."""

    __slots__ = ("block", "line", "value")

    def __init__(self, value: Any, line: int, block: bool) -> None:
        self.value, self.line, self.block = value, line, block


class _Yaml:
    """Reads one file into mappings whose values know their lines."""

    def __init__(self, path: str) -> None:
        self.path = path

    def entries(self, text: str) -> list[tuple[int, dict[str, _Value]]]:
        try:
            return self._parsed(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise DataError(
                f"is not valid YAML: {error.problem or error.context}; check indentation, and quote text "
                "that holds ': ' or ' #' or begins with a bracket, a quote or one of ? % @ & * | >",
                self.path,
                mark.line + 1 if mark else None,
            ) from error
        except yaml.YAMLError as error:
            raise DataError(f"is not valid YAML: {error}", self.path) from error

    def _parsed(self, text: str) -> list[tuple[int, dict[str, _Value]]]:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            root = loader.get_single_node()
            return [] if root is None else [self._entry(loader, node) for node in self._items(root)]
        finally:
            loader.dispose()

    def _items(self, root: yaml.Node) -> list[yaml.Node]:
        if isinstance(root, yaml.SequenceNode):
            return list(root.value)
        raise DataError("must be a list of guidelines: begin each with '- id: ...'", self.path, _line(root))

    def _entry(self, loader: Any, node: yaml.Node) -> tuple[int, dict[str, _Value]]:
        if not isinstance(node, yaml.MappingNode):
            raise DataError("a guideline must be a mapping with the key 'id'", self.path, _line(node))
        keys: dict[str, _Value] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node, deep=True))
            if key in keys:
                raise DataError(f"{key}: stands twice in one guideline; drop one", self.path, _line(key_node))
            value = loader.construct_object(value_node, deep=True)
            block = getattr(value_node, "style", None) in ("|", ">")
            keys[key] = _Value(value, _line(value_node), block)
        return _line(node), keys


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _Entry:
    """One guideline as written, on its way to a `Guideline`; every method may raise DataError."""

    def __init__(
        self, env: Environment, path: str, line: int, keys: dict[str, _Value], checked: bool
    ) -> None:
        self.env, self.path, self.line, self.keys, self.checked = env, path, line, keys, checked

    def guideline(self) -> Guideline:
        self._check_keys()
        toolsets = self._toolsets()
        return Guideline(
            id=self._id(),
            source=self._one_of("source", SOURCES),
            when=self._text("when"),
            guideline=self._text("guideline"),
            example=self._example(toolsets),
            severity=self._one_of("severity", SEVERITIES) if "severity" in self.keys else "error",
            paper=self._text("paper") if "paper" in self.keys else "",
            path=self.path,
            line=self.line,
            trigger=self._trigger(),
            text=self._compiled("guideline", self._text("guideline")),
            plain=Compiled(self.env, '{% include "plain" %}'),
            toolsets=toolsets,
        )

    def _fault(self, key: str, message: str, line: int | None = None) -> DataError:
        if line is None:
            line = self.keys[key].line if key in self.keys else self.line
        return DataError(f"{key}: {message}", self.path, line)

    def _check_keys(self) -> None:
        for key in self.keys:
            if key not in _KEYS:
                raise self._fault(key, f"unknown key{_did_you_mean(key, _KEYS)}")
        for key in _REQUIRED:
            if key not in self.keys:
                raise self._fault(key, f"is missing; a guideline needs {', '.join(_REQUIRED)}")

    def _text(self, key: str) -> str:
        value = self.keys[key].value
        if not isinstance(value, str) or not value.strip():
            raise self._fault(key, f"must be text, not {value!r}; quote it")
        return value.strip()

    def _id(self) -> str:
        text = self._text("id")
        if not _ID.fullmatch(text):
            raise self._fault("id", f"{text!r} must be lower-case letters, digits and _, a letter first")
        return text

    def _one_of(self, key: str, legal: Sequence[Any]) -> Any:
        text = self._text(key)
        if text not in legal:
            raise self._fault(key, f"unknown {key} {text!r}; choose one of: {', '.join(legal)}")
        return text

    def _toolsets(self) -> tuple[str, ...]:
        """The toolsets named, one or a list; none stands for all."""
        written = self.keys["toolset"].value if "toolset" in self.keys else []
        names = [written] if isinstance(written, str) else written
        if not _is_texts(names) or ("toolset" in self.keys and not names):
            raise self._fault("toolset", f"must be the name of a toolset or a list of names, not {written!r}")
        for name in names:
            if name not in TOOLSETS:
                raise self._fault("toolset", f"unknown toolset {name!r}{_did_you_mean(name, TOOLSETS)}")
        return tuple(names)

    def _trigger(self) -> Compiled:
        # An assignment, so that the value can be read from the context and not from rendered text.
        return self._compiled("when", "{% set result = (" + self._text("when") + ") %}")

    def _compiled(self, key: str, source: str) -> Compiled:
        compiled = Compiled(self.env, source)
        if not self.checked:
            self._check_template(key, source, compiled)
        return compiled

    def _check_template(self, key: str, source: str, compiled: Compiled) -> None:
        try:
            for problem in _misused(self.env, self.env.parse(source)):
                raise self._fault(key, problem)
            assert compiled.template
        except TemplateSyntaxError as error:
            raise self._syntax(key, error) from error

    def _syntax(self, key: str, error: TemplateSyntaxError) -> DataError:
        written = self.keys[key]
        line = written.line + error.lineno - (0 if written.block else 1)
        return self._fault(key, f"is not valid Jinja: {error.message}; see {_JINJA}", line)

    def _example(self, toolsets: tuple[str, ...]) -> Example:
        written = self._mapping("example", self.keys["example"].value, _EXAMPLE_KEYS)
        expect = written.get("expect")
        expected: list[str] = [expect] if isinstance(expect, str) else expect or [""]
        if not _is_texts(expected) or not all(expected):
            raise self._fault("example", "'expect' must hold the text, or a list of texts, that must appear")
        feedback = self._mapping("example", written.get("feedback"), _FIELDS["feedback"], "feedback")
        memory = self._mapping("example", written.get("memory") or {}, _FIELDS["memory"], "memory")
        try:
            values = _converted(Feedback(), feedback), _converted(ReasoningMemory(), memory)
        except (TypeError, ValueError) as error:
            raise self._fault("example", str(error)) from error
        given = self._given(written) | ({"toolset": toolsets[0]} if toolsets else {})
        return Example(Feedback(**values[0]), ReasoningMemory(**values[1]), tuple(expected), given)

    def _given(self, written: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {key: written[key] for key in _GIVEN if key in written}
        for key, value in given.items():
            if key == "actions" and not _is_texts(value):
                raise self._fault("example", f"'actions' must be a list of signatures, not {value!r}")
            if key in ("budget_left", "step") and type(value) is not int:
                raise self._fault("example", f"{key!r} must be a whole number, not {value!r}")
        return given

    def _mapping(self, key: str, value: Any, legal: Sequence[str], inner: str = "") -> dict[str, Any]:
        what = f"'{inner}'" if inner else "it"
        if not isinstance(value, dict):
            raise self._fault(key, f"{what} must be a mapping with keys among {', '.join(legal)}")
        for name in value:
            if name not in legal:
                raise self._fault(key, f"{what} has no key {name!r}{_did_you_mean(str(name), legal)}")
        return value


def _misused(env: Environment, tree: nodes.Template) -> Iterator[str]:
    """What Jinja would only find at run time: unknown names, fields, filters, tests and snippets."""
    found = list(tree.find_all(nodes.Node))
    for node in found:
        if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
            yield from _unknown_field(node.node.name, node.attr)
        elif isinstance(node, nodes.Filter) and node.name not in env.filters:
            yield f"unknown filter {node.name!r}{_did_you_mean(node.name, env.filters)}"
        elif isinstance(node, nodes.Test) and node.name not in env.tests:
            yield f"unknown test {node.name!r}{_did_you_mean(node.name, env.tests)}"
        elif isinstance(node, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            yield from _unknown_snippet(env, node)
    # Finding undeclared names takes as long as compiling; where no name is foreign none can be undeclared.
    if any(isinstance(node, nodes.Name) and node.ctx == "load" and node.name not in NAMES for node in found):
        for name in sorted(meta.find_undeclared_variables(tree) - set(NAMES)):
            yield f"unknown name {name!r}{_did_you_mean(name, NAMES)}"


def _unknown_field(owner: str, name: str) -> Iterator[str]:
    if owner in _FIELDS and name not in _FIELDS[owner]:
        yield f"{owner} has no field {name!r}{_did_you_mean(name, _FIELDS[owner])}"


def _unknown_snippet(env: Environment, node: nodes.Stmt) -> Iterator[str]:
    snippets = env.loader.list_templates() if env.loader else []
    name = getattr(getattr(node, "template", None), "value", None)
    if not isinstance(node, nodes.Include) or name not in snippets:
        yield f"may only include, by name, one of the snippets: {', '.join(snippets)}"


def _did_you_mean(given: str, legal: Iterable[str]) -> str:
    names = sorted(legal)
    close = difflib.get_close_matches(given, names, 1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose from: {', '.join(names)}"


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _converted(defaults: object, written: Mapping[str, Any]) -> dict[str, Any]:
    """YAML values as the types of the fields they are for. Raises TypeError where one does not fit."""
    converted = {}
    for name, value in written.items():
        kind = type(getattr(defaults, name))
        if name == "answers" and type(value) is int:
            value = [f"answer {i}" for i in range(1, value + 1)]
        due = list if kind in (tuple, frozenset) else kind
        if type(value) is not due:
            raise TypeError(f"{name!r} must be a {due.__name__}, not {value!r}")
        if due is list and not _is_texts(value):
            raise TypeError(f"{name!r} must hold text only, not {value!r}; quote numbers and dates")
        converted[name] = kind(value)
    return converted
