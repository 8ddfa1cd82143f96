"""Files of settings are read, or refused by file and line."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import make_folder, make_private, parse_yaml


def test_an_alias_is_refused_before_it_stands_for_billions_of_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    start = time.monotonic()
    with pytest.raises(DataError, match="alias"):
        parse_yaml("\n".join(lines), "bomb.yaml")
    assert time.monotonic() - start < 1.0


@pytest.mark.parametrize("text", ["".join(f"k{n}: 1\n" for n in range(150_000)), "n: 59" + ":59" * 3_000])
def test_more_than_a_file_of_settings_holds_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"more than 200,000|too long"):
        parse_yaml(text, "large.yaml")


def test_a_very_deep_folder_is_made(tmp_path: Path) -> None:
    """More folders above each other than Python's stack has frames; the limit is the system's own."""
    deep = tmp_path.joinpath(*"a" * 1_500)
    make_private(deep, folder=True)
    try:
        assert deep.is_dir()
        with pytest.raises(OSError, match="too long"):
            make_folder(tmp_path.joinpath(*"a" * 9_000))
    finally:  # deeper than pytest can remove
        subprocess.run(["rm", "-rf", tmp_path / "a"], check=True)
