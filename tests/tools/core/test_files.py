"""Files of settings are read, or refused by file and line."""

from __future__ import annotations

import time

import pytest

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import parse_yaml


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
