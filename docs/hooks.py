"""What mkdocs does with a page: links to files beside docs/ become links into the repository."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Rewrite `](../nodes/act.py)`, which is right on a checkout, as a link into the repository."""
    return re.sub(r"\]\((?:\.\./)+", f"]({config.repo_url}/blob/main/", markdown)
