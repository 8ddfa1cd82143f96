"""What a result carries so that it can be reproduced: commit, versions, settings, prices, code."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from triplewise.evals.baselines import find_system
from triplewise.graphs.presets import Preset
from triplewise.nodes.context import Context

PACKAGES = (
    "langgraph", "langchain-core", "langchain-openai", "inspect-ai", "pyoxigraph", "sentence-transformers",
    "transformers", "torch", "numpy",
)  # fmt: skip
"""Packages whose version can change a figure."""
ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("tools", "guidelines", "nodes", "graphs", "evals")
CODE_SUFFIXES = (".py", ".yaml", ".jinja", ".gz")
PRESENTATION = (
    "evals/report/", "evals/command.py", "evals/logs.py", "evals/statistics.py", "evals/grids/",
    "evals/bench.py", "graphs/page/", "graphs/cli/", "__pycache__",
)  # fmt: skip
"""Paths that no figure depends on."""


def of_system(preset: str, context: Context, phases: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was tested (a preset or baseline), and with what: part of every result.

    A preset lays its own settings over those that still have the default.
    """
    system = find_system(preset)
    own_phases, own_settings = (system.phases, system.settings) if isinstance(system, Preset) else ({}, {})
    used = {**own_phases, **phases}
    return {
        **software(),
        **own_code(preset, context.toolset, *used.values()),
        "preset": preset,
        "model": context.model,
        "settings": asdict(context),
        "preset_settings": dict(own_settings),
        "phases": {name: getattr(part, "__name__", part) for name, part in used.items()},
    }


def own_code(*parts: Any) -> dict[str, dict[str, str]]:
    """Return `own_code`, module -> sha256 of its file, of the parts named as `module:name`, if any."""
    modules = {part.partition(":")[0] for part in parts if isinstance(part, str) and ":" in part}
    paths = {name: getattr(import_module(name), "__file__", None) for name in sorted(modules)}
    sums = {n: hashlib.sha256(Path(path).read_bytes()).hexdigest() for n, path in paths.items() if path}
    return {"own_code": sums} if sums else {}


@cache
def software() -> dict[str, Any]:
    """Return the product's version and commit ("" outside a checkout), and what it runs on."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(ROOT), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    commit = git("rev-parse", "HEAD") if (ROOT / ".git").exists() else None
    changes = git("status", "--porcelain", "--untracked-files=no") if commit else None
    return {
        "triplewise": version("triplewise"),
        "commit": commit or "",
        "commit_clean": changes == "",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


@cache
def code_checksum() -> str:
    """Return a checksum of the code and data of the packages, without what no figure depends on."""
    total = hashlib.sha256()
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in CODE_SUFFIXES and not any(part in name for part in PRESENTATION):
                total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return total.hexdigest()
