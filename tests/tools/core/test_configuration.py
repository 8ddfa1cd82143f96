"""The configuration file: where it is looked for, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.core.configuration import read_section
from triplewise.tools.core.errors import DataError


def test_a_named_file_comes_before_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TRIPLEWISE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert read_section("server") == {}
    Path("triplewise.toml").write_text('[server.kg]\nfilms = "films.ttl"\n', encoding="utf-8")
    assert read_section("server") == {"kg": {"films": "films.ttl"}}
    Path("other.toml").write_text("[server]\n", encoding="utf-8")
    monkeypatch.setenv("TRIPLEWISE_CONFIG", "other.toml")
    assert read_section("server") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serve]\n", r"unknown section \[serve\]; did you mean 'server'"),
        ("[server\n", r"triplewise.toml: cannot be read as TOML: .*line 1"),
        (None, "no such configuration file; correct TRIPLEWISE_CONFIG"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "triplewise.toml"
    monkeypatch.setenv("TRIPLEWISE_CONFIG", str(path))
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_section("server")
