"""Whatever stands in `triplewise.toml` is a setting, or an error that names the file and the setting."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from triplewise.graphs.cli.app import run
from triplewise.graphs.cli.options import GraphOptions, read_config
from triplewise.graphs.studio import read_allowed
from triplewise.nodes.context import Context
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError, TriplewiseError

VALUES = (
    *("true", "5", "-1", "1.5", "inf", "nan", "99999999999999999999", "2020-01-01", "12:00:00"),
    *("2020-01-01T12:00:00Z", "[]", "[1]", "[[]]", "[2020-01-01]", "{}", "{ a = 1 }", '""', '"x"'),
    *('"a\\u0000b"', f'"{"x" * 300}"', f'"{"y" * 5_000}"', '"\\u001b[2J"', '["a\\u0000b"]', '{ a = "b" }'),
)
NAMES = ["preset", *(field.name for field in fields(Context) if field.name != "earlier")]


@settings(deadline=None, max_examples=250, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(NAMES), st.sampled_from(VALUES))
@example("profile", "true")
@example("seeds", '"a\\u0000b"')
@example("kg", "12:00:00")
def test_a_setting_of_any_value_is_read_or_named(tmp_path: Path, name: str, value: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for section, read in (("settings", read_config), ("server", read_allowed)):
            where = f"{name} = {value}" if section == "settings" else f"[server.{name}]\nx = {value}"
            Path("triplewise.toml").write_text(f"[{section}]\n{where}\n", encoding="utf-8")
            try:
                read()
            except TriplewiseError as error:
                assert name in str(error)  # noqa: PT017 - what is refused must say which setting it is
                assert "triplewise.toml" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("profile = true", "setting profile: input should be a valid string, got True"),
        ("seeds = 2020-01-01", "setting seeds: .* .is read as a date; write it in quotes"),
        ("preset = 5", "setting preset: should be a name, got 5"),
        ('profile = "a\\u0000b"', r"setting profile: should be a name without \\x00, of at most 255"),
        (
            f'encoder = "{"x" * 256}"',
            r"setting encoder: should be a name without \\x00, of at most 255",
        ),
        ("max_steps = 0.5", "setting max_steps: input should be a valid integer, got 0.5"),
    ],
)
@pytest.mark.parametrize("command", [["ask", "Who wrote Dracula?"], ["query", "ASK { ?s ?p ?o }"]])
def test_every_command_names_the_file_and_the_setting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    line: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("triplewise.toml").write_text(f"[settings]\n{line}\n", encoding="utf-8")
    assert run(command) == 2
    error = capsys.readouterr().err.replace("\n", " ")
    assert "triplewise.toml: " in error
    assert re.search(message, error), error


def test_values_that_fit_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given_: dict[str, Any] = {"kg": ["films.ttl", "shop.sqlite"], "max_seconds": 5, "guidelines": ["a.yaml"]}
    lines = [f"{name} = {value!r}".replace("'", '"') for name, value in given_.items()]
    Path("triplewise.toml").write_text("[settings]\n" + "\n".join(lines), encoding="utf-8")
    assert read_config() == given_
    assert "films.ttl" in GraphOptions(kg=None, profile=None).source


@pytest.mark.parametrize(
    "code",
    ["1 / 0", "raise SystemExit", "import sys; sys.exit(5)", "def f(): f()\nf()", "(((", None],
)
def test_own_code_that_fails_is_an_error_of_ours(
    code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"own_{abs(hash(code))}" if code else ".relative"
    (tmp_path / f"{module}.py").write_text(code or "")
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        find_part("preset", f"{module}:thing", {}, callable)
