"""Which benchmark's published form a file has, told by its beginning."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import open_text
from triplewise.tools.core.errors import DataError

_HEAD = 200_000
"""Characters of a file that are looked at."""

_Keys = tuple[tuple[str, set[str], set[str]], ...]

_KEYS: _Keys = (
    ("agentbench_kg", {"qid", "actions", "entities"}, {"id"}),
    ("cwq", {"ID", "question"}, set()),
    ("grailqa", {"qid", "question", "level"}, {"id"}),
    ("grailqa", {"qid", "question", "s_expression"}, {"id"}),
    ("graphq", {"qid", "question", "answer"}, {"id"}),
    ("wikiwebquestions", {"id", "utterance"}, set()),
)
"""Form, the keys that the first object of a list has, and those that it has not."""
_LINE_KEYS: _Keys = (
    ("creak", {"ex_id", "sentence"}, set()),
    ("kilt", {"id", "input"}, {"topic_entity", "answer"}),
    ("wikisql", {"table_id", "question", "sql"}, {"id"}),
)
"""The same for files of JSON lines."""


def sniff(path: Path) -> str:
    """The published form of a file by the name of its task (`kilt` for T-REx and Zero-Shot RE alike).

    "" for any other file, such as one with records in our own form.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with open_text(path) as file:
            head = file.read(_HEAD).lstrip()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path) from error
    if head.startswith("["):
        first = _first_object(head[1:].lstrip())
        # MetaQA's questions may begin with an entity in brackets.
        return _by_keys(first, _KEYS) if first is not None else _of_lines(head)
    if head.startswith("{"):
        line = _first_object(head.partition("\n")[0])
        return _by_keys(line, _LINE_KEYS) or _of_object(head)
    if path.name.removesuffix(".gz").endswith((".yml", ".yaml")):
        return "ck25" if re.search(r"^questions:\s*$", head, re.MULTILINE) else ""
    return _of_lines(head)


def _first_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text begins with."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _by_keys(first: Mapping[str, Any] | None, known: _Keys) -> str:
    """The form whose keys an object has."""
    if first is None:
        return ""
    fits = (form for form, keys, others in known if keys <= first.keys() and not others & first.keys())
    return next(fits, "")


def _of_object(head: str) -> str:
    """The form of a file that is one JSON object."""
    if re.search(r'"Questions"\s*:\s*\[', head):
        return "webqsp"
    found = re.search(r'"questions"\s*:\s*\[\s*', head)
    first = _first_object(head[found.end() :]) if found else None
    if first is None:
        return ""
    if isinstance(first.get("question"), list):
        return "qald10"
    return "ck25" if isinstance(first.get("question"), dict) else ""


def _of_lines(head: str) -> str:
    """The form of a file of lines with tabs."""
    first = head.partition("\n")[0]
    if first.startswith("www.freebase.com/") and first.count("\t") == 3:
        return "simplequestions"
    return "metaqa" if re.match(r"[^\t]*\[[^\]\t]+\][^\t]*\t[^\t]+$", first.rstrip()) else ""
