"""What the README says is so: its files exist, its Python runs, its guideline is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triplewise.graphs import PRESETS
from triplewise.guidelines import load_guidelines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_every_link_to_a_file_leads_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {})


def test_the_guideline_is_valid(tmp_path: Path) -> None:
    (text,) = blocks("yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_guidelines([path]).check() == ()


def test_every_preset_is_explained() -> None:
    assert [name for name in PRESETS if f"| `{name}`" not in README] == []
