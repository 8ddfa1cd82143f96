"""What a result carries so that it can be reproduced: commit, versions, and a checksum of the code."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = (
    "langgraph", "langchain-core", "langchain-openai", "inspect-ai", "pyoxigraph", "sentence-transformers",
    "transformers", "torch", "numpy",
)  # fmt: skip
"""Packages whose version can change a figure."""
ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("tools", "guidelines", "nodes", "graphs", "evals")
PRESENTATION = (
    "evals/report/", "evals/command.py", "evals/logs.py", "evals/statistics.py", "evals/grids/",
    "evals/bench.py", "graphs/page/", "graphs/cli/", "__pycache__",
)  # fmt: skip
"""Paths that no figure depends on."""


@cache
def software() -> dict[str, Any]:
    """Return the product's version and commit ("" outside a checkout), and what it runs on."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    commit = changes = ""
    if (ROOT / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            commit = git("rev-parse", "HEAD")
            changes = git("status", "--porcelain", "--untracked-files=no")
    return {
        "triplewise": version("triplewise"),
        "commit": commit,
        "commit_clean": bool(commit) and not changes,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


@cache
def code_checksum() -> str:
    """Return a checksum of the code and data of the packages, without what no figure depends on."""
    total = hashlib.sha256()
    for path in (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.*"))):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".py", ".yaml", ".jinja", ".gz") and not any(p in name for p in PRESENTATION):
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return total.hexdigest()
