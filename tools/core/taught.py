"""What people teach about a graph: other names of its relations, and which answers were right or wrong.

Each is a line of JSON in a file of the user's data folder, found again by what the graph was opened by.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from os.path import exists
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path
from pydantic_core import from_json

from triplewise.tools.core.addresses import without_login
from triplewise.tools.core.files import check_regular, make_folder, writing
from triplewise.tools.core.names import normalise

Kind = Literal["ratings", "names"]
DEMO = "demo"
LONGEST = 100_000  # Bytes of a record; a line that is longer is damaged
TEXTS = {"names": ("source", "relation", "name"), "ratings": ("source", "question", "program", "rating")}


def graph_key(source: str | Path) -> str:
    """Return what a graph is known by: its address without a login, its full path, or its name."""
    text, path = str(source), Path(source).expanduser()
    if re.match("https?://", text, re.IGNORECASE):
        return without_login(text)
    return str(path.resolve()) if text != DEMO and exists(path) else text


def keep(kind: Kind, source: str | Path | None, **record: Any) -> Path:
    """Keep a record of a graph (None: read by people only); return the file. Raises `DataError`."""
    path = user_data_path("triplewise") / f"{kind}.jsonl"
    about = {"time": datetime.now(UTC).isoformat(timespec="seconds")}
    about |= {} if source is None else {"source": graph_key(source)}
    with writing(path):
        make_folder(path.parent)
        if path.exists():
            check_regular(path)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(about | record) + "\n")
    return path


def names_of(source: str | Path) -> dict[str, tuple[str, ...]]:
    """Return the names that relations of a graph were given, by the id of the relation."""
    names: dict[str, dict[str, None]] = {}
    for record in _records("names", source):
        names.setdefault(record["relation"], {})[record["name"]] = None
    return {relation: tuple(given) for relation, given in names.items()}


def ratings_of(source: str | Path, question: str) -> dict[str, str]:
    """Return `right` or `wrong` by the program that was rated as an answer to a question, the last word."""
    rated = _records("ratings", source)
    return {r["program"]: r["rating"] for r in rated if normalise(r["question"]) == normalise(question)}


def right_answers(source: str | Path) -> tuple[dict[str, Any], ...]:
    """Return the questions whose answers were marked right, with `answer` and `entities`, each once."""
    last = {(normalise(r["question"]), r["program"]): r for r in _records("ratings", source)}
    return tuple(r for r in last.values() if r["rating"] == "right")


def _records(kind: Kind, source: str | Path) -> list[dict[str, Any]]:
    """The whole records of a graph; a line that is damaged is left out."""
    path, key, records = user_data_path("triplewise") / f"{kind}.jsonl", graph_key(source), []
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError):
            # Half characters are an error to it, as is endless depth.
            record = {"answer": [], "entities": {}, **from_json(line[:LONGEST])}
            kinds = dict.fromkeys(TEXTS[kind], str) | {"answer": list, "entities": dict}
            is_whole = all(isinstance(record.get(name), of) for name, of in kinds.items())
            if is_whole and record["source"] == key:
                records.append(record)
    return records
