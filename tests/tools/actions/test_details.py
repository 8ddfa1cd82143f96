"""Every detail of feedback that a guideline reads is one that an action, or the reading of a reply, gives."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

ROOT = Path(str(files("triplewise.tools")))
GUIDELINES = [p.read_text("utf-8") for p in Path(str(files("triplewise.guidelines"))).glob("*.yaml")]


def given() -> set[str]:
    """Names of the arguments of errors, and keys of dictionaries, where actions are carried out."""
    names = set[str]()
    for path in (p for part in ("actions", "pyql", "sql") for p in (ROOT / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("ActionError", "refuse")):
                names |= {keyword.arg for keyword in node.keywords if keyword.arg}
            keys = node.keys if isinstance(node, ast.Dict) else []
            keys = [node.slice] if isinstance(node, ast.Subscript) else keys
            names |= {str(k.value) for k in keys if isinstance(k, ast.Constant)}
    return names


def test_what_guidelines_read_of_details_is_given() -> None:
    read = {name for text in GUIDELINES for name in re.findall(r"feedback\.detail\.(\w+)", text)}
    assert len(read) > 20
    assert read - {"get", "items", "values"} - given() == set()
