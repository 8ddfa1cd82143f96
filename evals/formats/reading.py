"""Reading published files entry by entry, with errors that name file, entry, field and the mend."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import yaml

from triplewise.tools.core.errors import DataError

WIKIDATA = "http://www.wikidata.org/entity/"
"""Namespace of Wikidata's entities, which published answers carry in full."""

_UNREADABLE = (OSError, EOFError, zlib.error, UnicodeDecodeError)


def open_text(path: Path) -> TextIO:
    """A text file, plain or .gz, as UTF-8, with or without a byte order mark."""
    opener = gzip.open if path.suffix == ".gz" else open
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig"))


@dataclass(frozen=True, slots=True)
class Entry:
    """A JSON object of a published file.

    Attributes:
        data: the object. path: the file. place: which entry or field of the file it is, in words.
        line: 1-based line number, in files of lines.
    """

    data: Mapping[str, Any]
    path: Path
    place: str
    line: int | None = None

    def wrong(self, field: str, needed: str) -> DataError:
        """The error for a field that is missing or not what it has to be."""
        found = repr(self.data[field])[:80] if field in self.data else "nothing"
        where = f"{self.place}: " if self.place else ""
        return DataError(
            f"{where}field {field!r} has to be {needed}, found {found}; take the file as it is published, or "
            "mend this entry",
            self.path,
            self.line,
        )

    def text(self, field: str) -> str:
        """A text that is not empty, or a number as text."""
        value = self.data.get(field)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(field, "a text")
        return value.strip()

    def maybe(self, field: str) -> str:
        """A text, or "" for one that is missing or null."""
        return "" if self.data.get(field) in (None, "") else self.text(field)

    def texts(self, field: str) -> list[str]:
        """A list of texts, numbers as texts; none where the field is missing or null."""
        value = self.data.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or any(isinstance(v, dict | list) or v is None for v in value):
            raise self.wrong(field, "a list of texts")
        return [str(v) for v in value]

    def part(self, field: str) -> Entry:
        """The object in a field."""
        value = self.data.get(field)
        if not isinstance(value, dict):
            raise self.wrong(field, "a JSON object")
        return Entry(value, self.path, self._inside(field), self.line)

    def parts(self, field: str) -> list[Entry]:
        """The objects of a list."""
        value = self.data.get(field)
        if not isinstance(value, list) or any(not isinstance(v, dict) for v in value):
            raise self.wrong(field, "a list of JSON objects")
        inside = self._inside(field)
        return [Entry(v, self.path, f"{inside}[{n}]", self.line) for n, v in enumerate(value)]

    def _inside(self, field: str) -> str:
        return f"{self.place}, {field}" if self.place else field


def entries_of_lines(path: Path) -> Iterator[Entry]:
    """The objects of a JSON-lines file.

    Raises:
        DataError: naming file and line, if a line is no JSON object.
    """
    for number, line in lines_of(path):
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON: {error}; take the file as it is published", path, number) from error
        if not isinstance(data, dict):
            raise DataError(f"expected a JSON object, got {line.strip()[:80]!r}", path, number)
        yield Entry(data, path, "", number)


def entries_of_list(path: Path, key: str = "") -> Iterator[Entry]:
    """The objects of a JSON file that holds a list of them, or an object with that list under `key`.

    Raises:
        DataError: naming file and entry, if it holds anything else.
    """
    whole = read_whole(path)
    found = whole.get(key) if key and isinstance(whole, dict) else whole
    if not isinstance(found, list):
        raise DataError(f"has to hold a list of questions{f' under {key!r}' if key else ''}", path)
    for number, data in enumerate(found):
        if not isinstance(data, dict):
            raise DataError(f"entry {number}: has to be a JSON object, found {repr(data)[:80]}", path)
        yield Entry(data, path, f"entry {number}")


def read_whole(path: Path) -> Any:
    """A JSON or YAML file. Raises `DataError` naming the line of what is wrong."""
    try:
        with open_text(path) as file:
            text = file.read()
    except _UNREADABLE as error:
        raise DataError(f"cannot be read to its end: {error}", path) from error
    try:
        if path.name.removesuffix(".gz").endswith((".yml", ".yaml")):
            return yaml.safe_load(text)
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}; take the file as it is published", path, error.lineno) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(f"not YAML: {error}", path, mark.line + 1 if mark else None) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not empty, without their ends, with 1-based numbers."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except _UNREADABLE as error:
        raise DataError(f"cannot be read to its end: {error}", path) from error


def wikidata_value(value: Entry) -> str:
    """A term of SPARQL JSON results as an answer: a QID, or the text of a literal."""
    return value.text("value").removeprefix(WIKIDATA)
