"""Tables on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from triplewise.graphs.console import columns

ID = "http://example.org/resource/Early_Frost"
LONG = "a description that is longer than what is left of the line"


@pytest.mark.parametrize("width", [60, 80])
def test_words_are_broken_nowhere_while_there_is_room(width: int) -> None:
    file = io.StringIO()
    Console(file=file, width=width).print(columns(("id", "what"), [(ID, LONG), ("b", "c")]))
    lines = file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert ID in lines[1]
    assert " ".join(line[len(ID) :].strip() for line in lines[1:-1]) == LONG
