"""Prompts as data: YAML files of Jinja templates, checked when loaded, rendered in a sandbox.

```yaml
description: what this prompt is for
extends: [queryagent]          # optional: shipped prompts whose parts it inherits
variables: {tone: how to talk} # optional: names it uses besides those of `_variables.yaml`
parts:
  system: |
    Answer {{ question }}. {% include "example" %}
  example: |
    ...
```
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from jinja2 import DictLoader, StrictUndefined, TemplateError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictStr

from triplewise.guidelines.language import check_template
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import YamlDocument, parse_yaml, read_yaml

_FOLDER = files("triplewise.nodes") / "prompts"


class PromptFile(BaseModel):
    """The contents of a prompt file."""

    model_config = ConfigDict(extra="forbid")

    description: str = ""
    extends: Annotated[list[str], BeforeValidator(lambda v: [v] if isinstance(v, str) else v)] = []
    variables: dict[StrictStr, StrictStr] = {}
    parts: dict[StrictStr, StrictStr] = {}


class _LazyContext(Context):
    """The values of a template; functions among them are called when they are used."""

    def resolve_or_missing(self, key: str) -> Any:
        value = super().resolve_or_missing(key)
        return value() if callable(value) and key not in self.environment.globals else value


class Prompt:
    """The templates of an agent, by name (they may include each other), and the variables they may use."""

    def __init__(self, name: str, parts: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.name, self.parts, self.variables = name, parts, variables
        self.environment = ImmutableSandboxedEnvironment(
            # Every part ends with one newline, so that an included part has lines of its own.
            loader=DictLoader({name: text.rstrip("\n") + "\n" for name, text in parts.items()}),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.environment.context_class = _LazyContext

    def __contains__(self, part: object) -> bool:
        return part in self.parts

    def render(self, part: str, **values: Any) -> str:
        """Return one part, filled in. Raises `DataError` if that fails."""
        if part not in self.parts:
            raise ConfigurationError.unknown(f"part of prompt {self.name!r}", part, self.parts)
        try:
            return self.environment.get_template(part).render(values).strip()
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise DataError(f"part {part!r} cannot be rendered: {error}", self.name) from error


def load_prompt(name: str | Path) -> Prompt:
    """Return a shipped prompt by name, or one of a YAML file as it is. Raises `DataError` with the line."""
    if (_FOLDER / f"{name}.yaml").is_file():
        return _read(str(name))
    path = Path(name)
    if not path.is_file():
        legal = f"choose one of: {', '.join(_shipped())}, or give the path of a YAML file"
        raise ConfigurationError(f"unknown prompt {str(name)!r}; {legal}")
    return _read(str(path), (path.stat().st_mtime_ns, path.stat().st_size))


def _shipped() -> list[str]:
    return sorted(f.name[:-5] for f in _FOLDER.iterdir() if f.name.endswith(".yaml") and f.name[0] != "_")


def _document(name: str) -> YamlDocument:
    return parse_yaml((_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), name)


@lru_cache(maxsize=64)
def _read(name: str, version: tuple[int, int] | None = None) -> Prompt:
    """Return the prompt of a file; `version` is None for a shipped one."""
    document = _document(name) if version is None else read_yaml(Path(name))
    file, legal = document.read_as(PromptFile), [shipped for shipped in _shipped() if shipped != name]
    if unknown := set(file.extends) - set(legal):
        message = f"extends: unknown prompt {unknown.pop()!r}; legal: {', '.join(legal)}"
        raise document.error(message, "extends")
    parts, variables = dict[str, str](), dict[str, str](_document("_variables").value)
    for base in map(_read, file.extends):
        parts.update(base.parts)
        variables.update(base.variables)
    prompt = Prompt(name, parts | file.parts, variables | file.variables)
    if not prompt.parts:
        raise document.error("parts: a prompt needs some, as a mapping of names to templates")
    for part, text in file.parts.items():
        check_template(prompt.environment, document, ("parts", part), text, prompt.variables)
    return prompt
