"""Logs of runs: documents of `triplewise ask --json`, and Inspect's `.eval` files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError

_ZIP = b"PK\x03\x04"
_RECORD = "Run:"
"""What our own record of a run is kept under in the store of an Inspect sample."""
_LEFT_OUT = {"messages", "events", "attachments"}


def runs_of(path: Path) -> Iterator[dict[str, Any]]:
    """The runs of a log, each a mapping with `steps` or `corrections`.

    Raises:
        DataError: the file cannot be read, or holds something else; says what, and where.
        ConfigurationError: it is an `.eval` log and Inspect is not installed.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == _ZIP
        yield from _samples(path) if is_zip else _documents(path, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"is neither JSON nor an .eval log: no UTF-8 at byte {error.start}", path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def _documents(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """JSON documents one after the other, or one list of them."""
    decoder, at = json.JSONDecoder(), 0
    while (at := _skip(text, at)) < len(text):
        try:
            found, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            what = f"is not JSON: {error.msg}; give documents of `triplewise ask --json`, or an .eval log"
            raise DataError(what, path, error.lineno) from error
        line = text.count("\n", 0, at) + 1
        for document in found if isinstance(found, list) else [found]:
            if not isinstance(document, dict) or not {"steps", "corrections"} & set(document):
                what = "is no document of `triplewise ask --json`: it has neither 'steps' nor 'corrections'"
                raise DataError(what, path, line)
            yield document


def _skip(text: str, at: int) -> int:
    """The place of the next character that is no space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    """The record of each sample of an Inspect log."""
    try:
        from inspect_ai.log import read_eval_log_samples
    except ImportError as error:
        raise ConfigurationError(
            f"{path} is an .eval log: install what reads it with pip install 'triplewise[evals]'"
        ) from error
    try:
        samples = read_eval_log_samples(path, False, format="eval", exclude_fields=_LEFT_OUT)
        for sample in samples:
            record = {k[len(_RECORD) :]: v for k, v in sample.store.items() if k.startswith(_RECORD)}
            if "corrections" in record:
                yield record
    except (ValueError, LookupError, EOFError, RuntimeError) as error:
        raise DataError(f"is no .eval log that can be read: {error}", path) from error
