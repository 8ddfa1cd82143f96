"""YAML files read into pydantic models; an error names file, line and key, and the legal keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.yaml_lines import YamlDocument, read_yaml

Model = TypeVar("Model", bound=BaseModel)
Place = Sequence[object]
"""Keys and positions that lead to a value: `("rows", 2, "system")`."""


def read_model(path: Path, model: type[Model]) -> tuple[Model, YamlDocument]:
    """Read a YAML file.

    Raises:
        DataError: not YAML, a key that is there twice, or the first thing that the model does not take.
    """
    document = read_yaml(path)
    _refuse_repeated(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), path)
    try:
        return model.model_validate(document.value), document
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise located(document, _explain(first, model), first["loc"]) from error


def located(document: YamlDocument, message: str, place: Place = ()) -> DataError:
    """Return an error about a place of the file."""
    key = ".".join(map(str, place))
    return document.error(f"{key}: {message}" if key else message, *place)


def unknown(what: str, given: object, legal: Sequence[object] | Mapping[str, Any]) -> str:
    """Return the words of an error about an unknown name."""
    return f"unknown {what} {given!r}; choose one of: {', '.join(map(str, legal))}"


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


def _explain(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """What is wrong, in words; an unknown key is answered with the legal ones, from the JSON schema."""
    if error["type"] != "extra_forbidden":
        given = "" if error["type"] == "missing" else f", got {error['input']!r}"
        return f"{error['msg'][:1].lower()}{error['msg'][1:]}{given}"
    schema = TypeAdapter(model).json_schema()

    def resolve(part: Mapping[str, Any]) -> Mapping[str, Any]:
        choice = next((c for c in part.get("anyOf", ()) if c.get("type") != "null"), part)
        return schema["$defs"][choice["$ref"].rpartition("/")[2]] if "$ref" in choice else choice

    at = resolve(schema)
    for key in error["loc"][:-1]:
        inner = at.get("items") if isinstance(key, int) else at.get("properties", {}).get(key)
        at = resolve(inner or at.get("additionalProperties") or {})
    legal = sorted(at.get("properties", {}))
    return "unknown key" + (f"; choose one of: {', '.join(legal)}" if legal else "")
