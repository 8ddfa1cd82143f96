"""What the stand-in for a language model replies: rules as YAML, each reply a template over what was asked.

```yaml
pick:                          # how values are read from the prompt: the last match counts, group 1
  question: 'Question: (.+)'
  entity: 'Entities: .*?: (\\S+?)(?:;|$)'
rules:                         # the first whose pattern is found in the prompt replies
  - when: 'add_fact\\('
    steps:                     # by number of the step, the last one for all further
      - "Thought: ...\\nAction: get_relation({{ entity }})"
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from triplewise.tools.core.errors import DataError

DEFAULT = "stub.yaml"

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a prompt says: its text, the values picked from it, and the number of the step (from 1)."""

    text: str
    values: Mapping[str, str]
    step: int

    @property
    def begins(self) -> bool:
        """Whether it says itself that this is a question's first step."""
        return self.values.get("step") == "1"


@dataclass(frozen=True, slots=True)
class _Rule:
    """Replies for the prompts that a pattern is found in."""

    when: re.Pattern[str]
    steps: tuple[Any, ...]


class Replies:
    """The script of a stand-in model: stateless, so that any number of questions may be asked at once."""

    def __init__(self, rules: Sequence[_Rule], pick: Mapping[str, re.Pattern[str]]) -> None:
        self._rules, self._pick = rules, pick

    def read(self, messages: Messages) -> Asked:
        """What the messages ask."""
        text = "\n".join(str(message.get("content") or "") for message in messages)
        values = {name: _last(pattern, text) for name, pattern in self._pick.items()}
        said = sum(message.get("role") == "assistant" for message in messages)
        step = values.get("step", "")
        return Asked(text, values, int(step) if step.isdigit() else said + 1)

    def reply(self, asked: Asked) -> str:
        """The text to answer with; "" where no rule fits."""
        rule = next((rule for rule in self._rules if rule.when.search(asked.text)), None)
        if rule is None:
            return ""
        template = rule.steps[min(asked.step, len(rule.steps)) - 1]
        return str(template.render({**asked.values, "step": asked.step})).strip()


def load_replies(path: Path | None = None) -> Replies:
    """The rules of a YAML file, or the shipped ones.

    Raises:
        DataError: it cannot be read, or is none; names the file and the rule.
    """
    name = str(path or DEFAULT)
    source = path or resources.files("triplewise.evals") / DEFAULT
    try:
        data = yaml.safe_load(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"cannot read the replies: {error}", name) from error
    if not isinstance(data, dict) or not isinstance(data.get("rules"), list):
        raise DataError("needs a key 'rules' with a list of {when: pattern, steps: [reply, ...]}", name)
    pick = {key: _pattern(text, f"pick.{key}", name) for key, text in (data.get("pick") or {}).items()}
    return Replies([_rule(rule, i, name) for i, rule in enumerate(data["rules"], 1)], pick)


def _rule(rule: Any, number: int, name: str) -> _Rule:
    """One rule. Raises `DataError` where it is none."""
    steps = rule.get("steps") if isinstance(rule, dict) else None
    if not steps or not isinstance(steps, list):
        raise DataError(f"rule {number} needs {{when: pattern, steps: [reply, ...]}}, got {rule!r}", name)
    environment = ImmutableSandboxedEnvironment(undefined=Undefined)
    try:
        templates = tuple(environment.from_string(str(step)) for step in steps)
    except TemplateError as error:
        raise DataError(f"rule {number}: a reply is no Jinja template: {error}", name) from error
    return _Rule(_pattern(rule.get("when", ""), f"rule {number}", name), templates)


def _pattern(text: Any, where: str, name: str) -> re.Pattern[str]:
    """A regular expression. Raises `DataError` where it is none."""
    try:
        return re.compile(str(text), re.MULTILINE)
    except re.error as error:
        raise DataError(f"{where}: no regular expression ({error}): {text!r}", name) from error


def _last(pattern: re.Pattern[str], text: str) -> str:
    """Group 1 of the last match, "" for none."""
    found = ""
    for match in pattern.finditer(text):
        found = match[1] or ""
    return found.strip()
