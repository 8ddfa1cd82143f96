"""The entities to cut around: ids or IRIs, one a line, or JSON lines as datasets have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.rdf import numbered_lines, open_file

KEYS = ("entities", "topic_entity", "entity", "id")
"""Where a JSON record may name its entities: the first of these that it has."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Entities to cut around.

    Attributes:
        iris: each once, in the order of the file. unreadable: what is no id of this graph.
    """

    iris: tuple[IRI, ...]
    unreadable: tuple[str, ...]


def read_seed_ids(path: Path, profile: Profile) -> Seeds:
    """The entities that a file names (plain, .gz, .zst or .bz2).

    A line is an id (`Q42`), an IRI (with or without angle brackets), or a JSON object with `entities`,
    `topic_entity`, `entity` or `id`: an id, a list of ids, or a mapping with ids on either side. What follows
    `#` and a space is a comment.

    Args:
        path: the file. profile: says what IRI a short id stands for.

    Raises:
        DataError: no such file; a line that is no JSON, with its number; no entity at all.
    """
    iris: dict[IRI, None] = {}
    unreadable: dict[str, None] = {}
    for forms in _entries(path):
        iri = next(filter(None, (profile.expand(form) for form in forms)), None)
        if iri is None:
            unreadable[forms[-1]] = None
        else:
            iris[iri] = None
    if not iris:
        shown = ", ".join(repr(form) for form in list(unreadable)[:3])
        mend = (
            f"{shown} are no ids in the profile {profile.name!r}; name the graph's by --profile, or give IRIs"
            if unreadable
            else "write one id or IRI a line, or JSON lines with `entities` or `id`"
        )
        raise DataError(f"no seeds found: {mend}", path)
    return Seeds(tuple(iris), tuple(unreadable))


def _entries(path: Path) -> Iterator[tuple[str, ...]]:
    """Each entity of a file, as the forms to try in order."""
    with open_file(path) as stream:
        try:
            for number, raw in numbered_lines(stream):
                line = raw.strip()
                if line.startswith("{"):
                    yield from _record(line, path, number)
                elif line and not line.startswith("#"):
                    yield (line.split(" #")[0].split("\t")[0].strip(),)
        except OSError as error:
            raise DataError(f"cannot be read to its end: {error}", path) from error


def _record(line: str, path: Path, number: int) -> Iterator[tuple[str, ...]]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DataError(f"no JSON ({error})", path, number) from error
    key = next((key for key in KEYS if record.get(key) is not None), None)
    if key is None:
        raise DataError(f"a record without any of: {', '.join(KEYS)}", path, number)
    value = record[key]
    if isinstance(value, dict):
        for left, right in value.items():
            yield (str(right), str(left)) if isinstance(right, str) else (str(left),)
    else:
        for form in value if isinstance(value, list) else [value]:
            yield (str(form),)
