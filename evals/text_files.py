"""Text files, plain or .gz: their lines, and JSON or YAML as a whole; errors name the file and the line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

import yaml

from triplewise.tools.core.errors import DataError

Record = dict[str, Any]

UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)
"""What opening or reading a text file may raise."""


def open_text(path: Path) -> TextIO:
    """A text file, plain or .gz, as UTF-8, with or without a byte order mark."""
    opener = gzip.open if path.suffix == ".gz" else open
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig"))


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, without their ends, with 1-based numbers."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UNREADABLE as error:
        raise DataError(f"cannot be read to its end: {error}", path) from error


def json_lines(path: Path) -> Iterator[tuple[int, Record]]:
    """The objects of a JSON-lines file with their 1-based line numbers.

    Raises:
        DataError: naming file and line, if a line is no JSON object.
    """
    for number, line in lines_of(path):
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON: {error}", path, number) from error
        if not isinstance(data, dict):
            raise DataError(f"expected a JSON object, got {line.strip()[:80]!r}", path, number)
        yield number, data


def json_list(path: Path, key: str = "") -> list[Any]:
    """The list that a JSON or YAML file holds, as a whole or under a key.

    Raises:
        DataError: it is broken (named by line), or holds anything else.
    """
    try:
        with open_text(path) as file:
            text = file.read()
    except UNREADABLE as error:
        raise DataError(f"cannot be read to its end: {error}", path) from error
    try:
        yaml_file = path.name.removesuffix(".gz").endswith((".yml", ".yaml"))
        whole = yaml.safe_load(text) if yaml_file else json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}; take the file as it is published", path, error.lineno) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(f"not YAML: {error}", path, mark.line + 1 if mark else None) from error
    entries = whole.get(key) if key and isinstance(whole, dict) else whole
    if not isinstance(entries, list):
        raise DataError(f"has to hold a list of questions{f' under {key!r}' if key else ''}", path)
    return entries
