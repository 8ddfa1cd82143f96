"""Reading and writing profiles as YAML, with errors that name file, line and key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.profile import Profile, RelationText

_REGULAR_EXPRESSIONS = {
    "excluded_relations",
    "mediator_patterns",
    "entity_pattern",
    "relation_pattern",
    "unlabelled_pattern",
    "endpoint_hosts",
    "linkable_pattern",
}
_CHOICES = {"relation_text": ("label", "dotted", "local"), "literal_dates": ("typed", "string")}
_HEADER = "# A triplewise profile: how this graph is shaped. Edit it, then pass its path as the profile.\n"


@cache
def packaged() -> dict[str, str]:
    """Name -> YAML text of every packaged profile."""
    folder = resources.files("triplewise.tools.kg.profiles")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return {f.name.removesuffix(".yaml"): f.read_text(encoding="utf-8") for f in files}


def load(name_or_path: str | Path) -> Profile:
    """See `triplewise.tools.kg.profile.load_profile`."""
    if isinstance(name_or_path, str) and name_or_path in packaged():
        return _packaged_profile(name_or_path)
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return parse_profile(_read(path), path)
    raise ConfigurationError.unknown("profile", str(name_or_path), [*packaged(), "the path of a .yaml file"])


@cache
def _packaged_profile(name: str) -> Profile:
    return parse_profile(packaged()[name], f"profiles/{name}.yaml")


def parse_profile(text: str, path: Path | str) -> Profile:
    """A profile from YAML text; `path` only names it in errors.

    `extends: NAME` starts from another profile.
    """
    values, lines = _keys_and_lines(text, path)
    base = values.pop("extends", None)
    known = {f.name: f for f in fields(Profile)}
    settings: dict[str, Any] = {}
    if base is not None:
        parent = load(str(base))
        settings = {key: getattr(parent, key) for key in known}
    for key, value in values.items():
        if key not in known:
            legal = ", ".join(["extends", *known])
            raise DataError(f"unknown key {key!r}; the keys of a profile are: {legal}", path, lines[key])
        try:
            settings[key] = _convert(key, value)
        except ValueError as error:
            raise DataError(f"key {key!r}: {error}", path, lines[key]) from error
    return Profile(**settings)


def dump_profile(profile: Profile, path: Path) -> None:
    """Write a profile as YAML."""
    values = asdict(profile)
    values["relations"] = {k: {a: b for a, b in v.items() if b} for k, v in values["relations"].items()}
    text = yaml.safe_dump(_plain(values), sort_keys=False, allow_unicode=True, width=110)
    try:
        path.write_text(_HEADER + text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"the profile cannot be written: {error.strerror}", path) from error


def _plain(value: Any) -> Any:
    """The value with lists for tuples: YAML has no tuples."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the profile cannot be read: {error}", path) from error


def _keys_and_lines(text: str, path: Path | str) -> tuple[dict[str, Any], dict[str, int]]:
    loader = yaml.SafeLoader(text)
    try:
        tree = loader.get_single_node()
        values = loader.construct_document(tree) if tree is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise DataError(f"not YAML: {problem}", path, mark.line + 1 if mark else None) from error
    if not isinstance(values, dict) or not isinstance(tree, yaml.MappingNode):
        raise DataError("a profile is a mapping of keys to values", path)
    return values, {key.value: key.start_mark.line + 1 for key, _ in tree.value}


def _convert(key: str, value: Any) -> Any:
    """One value of the YAML as the profile holds it. Raises ValueError with what was expected."""
    converted = _converter(key)(value)
    if key in _CHOICES and converted not in _CHOICES[key]:
        raise ValueError(f"{value!r} is not one of {', '.join(_CHOICES[key])}")
    if key in _REGULAR_EXPRESSIONS:
        for pattern in converted if isinstance(converted, tuple) else (converted,):
            _check_pattern(pattern)
    return converted


def _converter(key: str) -> Callable[[Any], Any]:
    if key == "relations":
        return _relations
    example = next(f for f in fields(Profile) if f.name == key)
    if example.default_factory is not MISSING:
        return _mapping
    return {tuple: _strings, bool: _flag, str: _string}[type(example.default)]


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, not {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, not {value!r}")
    return value


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of texts, not {value!r}")
    return tuple(_string(v) for v in value)


def _mapping(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, not {value!r}")
    return {_string(k): _string(v) for k, v in value.items()}


def _relations(value: Any) -> dict[str, RelationText]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping of relations to their texts, not {value!r}")
    return {_string(relation): _relation(relation, text) for relation, text in value.items()}


def _relation(relation: str, value: Any) -> RelationText:
    if isinstance(value, str):
        return RelationText(value)
    legal = [f.name for f in fields(RelationText)]
    if not isinstance(value, Mapping) or not value.get("label"):
        raise ValueError(f"{relation!r} needs a text, or a mapping with a `label`")
    for key in value:
        if key not in legal:
            raise ValueError(f"{relation!r} has unknown key {key!r}; legal: {', '.join(legal)}")
    texts = {k: _strings(v) if k == "aliases" else _string(v) for k, v in value.items()}
    return RelationText(**texts)  # type: ignore[arg-type]
