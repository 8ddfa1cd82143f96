"""YAML read so that an error can name the line and key it is about."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from triplewise.tools.core.errors import DataError

T = TypeVar("T")
Place = Sequence[Hashable]
"""Keys and positions that lead to a value: `("rows", 2, "system")`."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file.

    Attributes:
        path: where it lies, for messages. data: its plain values. root: its nodes, which know their lines.
    """

    path: Path
    data: Any
    root: yaml.Node | None

    def line(self, place: Place) -> int:
        """The 1-based line of a value, or of the last of the values around it that is there."""
        node, line = self.root, 1
        for key in place:
            if node is None:
                break
            key_node, node = _step(node, key)
            line = key_node.start_mark.line + 1 if key_node is not None else line
        return line

    def error(self, message: str, place: Place = ()) -> DataError:
        """An error about a place of the file."""
        key = ".".join(str(part) for part in place)
        return DataError(f"{key}: {message}" if key else message, self.path, self.line(place))

    def read(self, kind: type[T], value: Any = None, place: Place = ()) -> T:
        """The data, or a part of it, as a validated value.

        Raises:
            DataError: with file, line and key of what is wrong first; beside an unknown key the legal ones.
        """
        try:
            return TypeAdapter(kind).validate_python(self.data if value is None else value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            found = (*place, *first["loc"])
            raise self.error(_words(first, kind), found) from error


def read_yaml(path: Path) -> Document:
    """A YAML file with its lines.

    Raises:
        DataError: missing, not YAML, or a key that is there twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = Document(path, yaml.safe_load(text), root)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise DataError(f"not YAML: {error.problem}", path, mark.line + 1 if mark else None) from error
    _refuse_repeated(root, path)
    return document


def _step(node: yaml.Node, key: Hashable) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The node of a key or position (itself, and what it holds)."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return name, value
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    return None, None


def _refuse_repeated(node: yaml.Node | None, path: Path) -> None:
    """Raise `DataError` where a mapping has a key twice, of which YAML would keep the last in silence."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for name, value in node.value:
            if name.value in seen:
                raise DataError(f"the key {name.value!r} is there twice", path, name.start_mark.line + 1)
            seen.add(name.value)
            _refuse_repeated(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_repeated(value, path)


def _words(error: Mapping[str, Any], kind: type[Any]) -> str:
    """What is wrong, in words; an unknown key is answered with the legal ones."""
    if error["type"] not in ("extra_forbidden", "unexpected_keyword_argument"):
        given = "" if error["type"] == "missing" else f", got {error['input']!r}"
        return f"{error['msg'][:1].lower()}{error['msg'][1:]}{given}"
    legal = _legal_keys(kind, error["loc"][:-1])
    return "unknown key" + (f"; choose one of: {', '.join(legal)}" if legal else "")


def _legal_keys(kind: Any, place: Place) -> list[str]:
    """The keys of the model that a place is in, read from its JSON schema."""
    schema = TypeAdapter(kind).json_schema()
    at = _resolved(schema, schema)
    for key in place:
        inner = at.get("items") if isinstance(key, int) else at.get("properties", {}).get(key)
        if inner is None:
            inner = at.get("additionalProperties") or {}
        at = _resolved(inner, schema)
    return sorted(at.get("properties", {}))


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its reference followed, the one that is no null where there are several."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _resolved(choice, whole)
    if "$ref" in schema:
        found: Mapping[str, Any] = whole["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema
