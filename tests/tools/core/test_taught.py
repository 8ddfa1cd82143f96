"""What people taught about a graph: a line that is damaged is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triplewise.tools.core.taught import keep, names_of


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        json.dumps({"source": "demo", "relation": "P50", "name": "y" * 2_000_000}),
        '{"source": "demo", "relation": "P50", "name": "half \\ud800"}',
        '{"source": "demo", "name": 5}',
        "\0",
    ],
)
def test_a_damaged_line_is_left_out(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = keep("names", "demo", relation="P50", name="penned by")
    with path.open("a") as file:
        file.write(f"{line}\n")
    keep("names", "demo", relation="P50", name="written by")
    assert names_of("demo") == {"P50": ("penned by", "written by")}
