"""The shape of the code base: imports point down, nothing prints, every package is shipped."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("tools", "guidelines", "nodes", "graphs", "evals")
"""From the bottom up: a layer may import itself and those before it."""
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
CODE_DATA = (".py", ".pyc")

FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))

NAMES = ROOT / "graphs" / "__init__.py"
"""Has the names of `triplewise` itself, which are listed there alone."""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported anywhere in a file, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def wrong_imports(path: Path, layer: str) -> list[str]:
    """Imports of a file that point up, are relative, or reach a layer by its bare name."""
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    faults = []
    for line, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top in LAYERS:
            faults.append(f"{path}:{line}: import triplewise.{name}, not {name}")
        elif not top:
            faults.append(f"{path}:{line}: relative import; write triplewise.{layer}...")
        elif path == NAMES:
            continue
        elif top == "triplewise" and target not in allowed:
            faults.append(f"{path}:{line}: {layer} may not import {name}: imports point down only")
    return faults


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_down(layer: str) -> None:
    files = [path for path in FILES if path.is_relative_to(ROOT / layer)]
    assert [fault for path in files for fault in wrong_imports(path, layer)] == []


def cycles(root: Path) -> list[tuple[str, str]]:
    """Pairs of packages of `tools` that reach each other by imports, directly or through others."""
    packages = sorted(path.name for path in (root / "tools").iterdir() if (path / "__init__.py").exists())
    reached: dict[str, set[str]] = {package: set() for package in packages}
    for package in packages:
        for path in (root / "tools" / package).rglob("*.py"):
            for _, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
                parts = name.split(".")
                if parts[:2] == ["triplewise", "tools"] and len(parts) > 2 and parts[2] in reached:
                    reached[package].add(parts[2])
    for _ in packages:
        for package in packages:
            reached[package] |= {further for step in reached[package] for further in reached[step]}
    return [(a, b) for a in packages for b in reached[a] if a < b and a in reached[b]]


def test_no_package_of_tools_imports_in_a_circle() -> None:
    assert cycles(ROOT) == []


def test_a_wrong_import_is_found(tmp_path: Path) -> None:
    """The check itself sees imports that hide in functions."""
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from triplewise.graphs import build_graph\n    import tools.kg\n")
    assert len(wrong_imports(path, "nodes")) == 2


def test_only_the_command_line_writes_to_the_terminal() -> None:
    printing = [
        f"{path}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def folders_with_code() -> set[str]:
    """Every folder of the layers that holds a module, as a package name."""
    return {"triplewise." + ".".join(path.parent.relative_to(ROOT).parts) for path in FILES}


def test_every_package_is_listed() -> None:
    """Setuptools ships only what is named: a folder left out works here and fails once installed."""
    assert sorted(SETUPTOOLS["packages"]) == sorted({"triplewise"} | folders_with_code())
    links = {path.name for path in (ROOT / ".ns" / "triplewise").iterdir() if path.is_symlink()}
    assert links == set(LAYERS)


def test_every_package_has_an_init() -> None:
    assert [str(p.parent) for p in FILES if not (p.parent / "__init__.py").exists()] == []


def test_every_data_file_is_shipped() -> None:
    """Data lies in a package and its name matches a pattern of package-data."""
    patterns = SETUPTOOLS["package-data"]["*"]
    data = [
        path
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*")
        if path.is_file() and path.suffix not in CODE_DATA
    ]
    left_out = [path for path in data if not any(fnmatch(path.name, pattern) for pattern in patterns)]
    assert left_out == []
    assert [path for path in data if not (path.parent / "__init__.py").exists()] == []
