"""Prompts as data: YAML files of Jinja templates, checked when loaded, rendered in a sandbox.

A prompt file looks like this; a change of wording is never a change of code:

```yaml
description: what this prompt is for
extends: [queryagent]          # optional: shipped prompts whose parts it starts from
variables: {tone: how to talk} # optional: names it uses beyond those of `_variables.yaml`
parts:
  system: |
    Answer {{ question }}. {% include "example" %}
  example: |
    ...
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NoReturn

import yaml
from jinja2 import DictLoader, Environment, StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.nodes import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from triplewise.tools.core.errors import ConfigurationError, DataError

_KEYS = ("description", "extends", "variables", "parts")
_VARIABLES_FILE = "_variables.yaml"


@dataclass(frozen=True)
class Prompt:
    """The templates of one agent.

    Attributes:
        name: `agent`, or the path of a user's file.
        parts: part name -> template source.
        variables: name -> what it holds; templates may use no others.
        description: what the prompt is for.
    """

    name: str
    parts: Mapping[str, str]
    variables: Mapping[str, str]
    description: str = ""
    _environment: Environment = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_environment", _environment(self.parts))

    def __contains__(self, part: object) -> bool:
        return part in self.parts

    def render(self, part: str, **values: Any) -> str:
        """One part, filled in. Values a template does not use are ignored; values are never templates.

        Raises:
            ConfigurationError: the prompt has no such part.
            DataError: the template needs a value that was not given, or fails.
        """
        if part not in self.parts:
            raise ConfigurationError.unknown(f"part of prompt {self.name!r}", part, self.parts)
        try:
            return self._environment.get_template(part).render(values).strip()
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise DataError(f"part {part!r} cannot be rendered: {error}", self.name) from error


def prompt_names() -> tuple[str, ...]:
    """Names of the shipped prompts."""
    names = (f.name for f in _folder().iterdir())
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml") and n[0] != "_"))


def load_prompt(name: str | Path) -> Prompt:
    """A prompt by name, or from a YAML file of one's own (read again whenever the file changed).

    Raises:
        ConfigurationError: neither a shipped prompt nor a file.
        DataError: the file cannot be used; the message names file, line and key.
    """
    if str(name) in prompt_names():
        return _shipped(str(name))
    path = Path(name)
    if not path.is_file():
        shipped = ", ".join(prompt_names())
        raise ConfigurationError(
            f"unknown prompt {str(name)!r}; choose one of: {shipped}, or give the path of a YAML file"
        )
    stat = path.stat()
    return _own(path, (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=16)
def _shipped(name: str) -> Prompt:
    """A prompt of the package."""
    return _Source(name, (_folder() / f"{name}.yaml").read_text(encoding="utf-8")).prompt()


@lru_cache(maxsize=16)
def _own(path: Path, _version: tuple[int, int]) -> Prompt:
    """A prompt of the user."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the prompt: {error}", path) from error
    return _Source(str(path), text).prompt()


@lru_cache(maxsize=1)
def _shared_variables() -> Mapping[str, str]:
    """What the agent gives to every prompt."""
    data = yaml.safe_load((_folder() / _VARIABLES_FILE).read_text(encoding="utf-8"))
    return {str(k): str(v) for k, v in data.items()}


def _folder() -> Traversable:
    """Where the shipped prompts lie."""
    return files("triplewise.nodes") / "prompts"


def _environment(parts: Mapping[str, str]) -> Environment:
    """The sandbox; parts include each other by name."""
    return ImmutableSandboxedEnvironment(
        # Every part ends with one newline, so that an included part stands like lines of its own.
        loader=DictLoader({name: text.rstrip("\n") + "\n" for name, text in parts.items()}),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


class _Source:
    """A prompt file while it is read: its data, and on which line everything stands."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        try:
            self.root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or error
            raise DataError(f"not YAML: {problem}", name, mark.line + 1 if mark else None) from error
        if not isinstance(self.data, dict):
            raise DataError(f"a prompt file maps {', '.join(_KEYS)} to values", name, 1)

    def prompt(self) -> Prompt:
        """The checked prompt."""
        for key in self.data:
            if key not in _KEYS:
                self.fail(f"unknown key {key!r}; legal keys: {', '.join(_KEYS)}", key)
        own = self._texts("parts")
        bases = [_shipped(n) for n in self._extends()]
        parts = {k: v for source in (*(b.parts for b in bases), own) for k, v in source.items()}
        if not parts:
            self.fail("needs a key 'parts' that maps names to templates")
        inherited = {k: v for b in bases for k, v in b.variables.items()}
        variables = {**_shared_variables(), **inherited, **self._texts("variables")}
        self._check(parts, own, variables)
        return Prompt(self.name, parts, variables, str(self.data.get("description") or ""))

    def _texts(self, key: str) -> dict[str, str]:
        """A mapping of names to texts."""
        found = self.data.get(key) or {}
        if not isinstance(found, dict):
            self.fail(f"{key!r} must map names to texts", key)
        for name, text in found.items():
            if not isinstance(name, str) or not isinstance(text, str):
                self.fail(f"{key}.{name} must be a text, got {text!r}", key, name)
        return found

    def _extends(self) -> list[str]:
        """The shipped prompts to start from."""
        wanted = self.data.get("extends") or []
        names = [wanted] if isinstance(wanted, str) else wanted
        legal = set(prompt_names()) - {self.name}
        if not isinstance(names, list) or not all(isinstance(n, str) and n in legal for n in names):
            self.fail(
                f"extends {wanted!r}: choose among the shipped prompts {', '.join(sorted(legal))}", "extends"
            )
        return list(names)

    def _check(self, parts: Mapping[str, str], own: Mapping[str, str], variables: Mapping[str, str]) -> None:
        """Every template parses, uses documented names only, and includes parts that exist."""
        environment = _environment(parts)
        trees = {part: self._parsed(environment, part, text) for part, text in parts.items()}
        for part in own:
            unknown = meta.find_undeclared_variables(trees[part]) - set(variables)
            if unknown:
                known = ", ".join(sorted(variables))
                which = ", ".join(sorted(unknown))
                self.fail(
                    f"parts.{part} uses unknown variable {which}; known: {known}; "
                    "further ones are named under 'variables'",
                    "parts",
                    part,
                )
            self._check_includes(part, trees)

    def _parsed(self, environment: Environment, part: str, text: str) -> Template:
        """The syntax tree of a part."""
        try:
            return environment.parse(text)
        except TemplateSyntaxError as error:
            self.fail(
                f"parts.{part} is no Jinja template: {error.message}", "parts", part, within=error.lineno
            )

    def _check_includes(self, part: str, trees: Mapping[str, Template]) -> None:
        """The parts that a part includes exist and do not lead back to it."""
        seen, todo = set[str](), [part]
        while todo:
            for name in meta.find_referenced_templates(trees[todo.pop()]):
                if name is None or name not in trees:
                    legal = ", ".join(sorted(trees))
                    self.fail(f"parts.{part} includes unknown part {name!r}; parts: {legal}", "parts", part)
                if name == part:
                    self.fail(f"parts.{part} includes itself", "parts", part)
                if name not in seen:
                    seen.add(name)
                    todo.append(name)

    def fail(self, message: str, *keys: str, within: int = 0) -> NoReturn:
        """Raise a `DataError` at the line of a key; `within` counts lines inside its text."""
        raise DataError(message, self.name, self._line(keys, within))

    def _line(self, keys: tuple[str, ...], within: int) -> int | None:
        """1-based line of the key at a path of keys."""
        node, line = self.root, None
        for key in keys:
            for name, value in self._entries(node):
                if name.value == str(key):
                    node = value
                    block = value.style in ("|", ">") if isinstance(value, yaml.ScalarNode) else False
                    line = value.start_mark.line + block + within if within else name.start_mark.line + 1
                    break
        return line

    @staticmethod
    def _entries(node: yaml.Node | None) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Keys and values of a mapping."""
        return iter(node.value) if isinstance(node, yaml.MappingNode) else iter(())
