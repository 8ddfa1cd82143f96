"""What README and docs say is so: their files exist, their Python runs, their guideline is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triplewise.graphs import PRESETS
from triplewise.guidelines import load_guidelines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "evals" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("code", [code for page in PAGES for code in blocks(page, "python")])
def test_python_runs(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {})


def test_the_guideline_is_valid(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "docs" / "guidelines.md", "yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_guidelines([path]).check() == ()


def test_every_preset_is_explained() -> None:
    assert [name for name in PRESETS if f"| `{name}`" not in README] == []


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 200
