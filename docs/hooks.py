"""What mkdocs does with a page."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

from triplewise import Context


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Make links to files outside docs/ links into the repository, and `{settings}` the table of settings.

    `notest` is for tests/test_readme.py: Markdown would not take ` ```sh notest` for a block of code.
    """
    rows = ["| setting | default | |", "|---|---|---|"]
    for setting in fields(Context):
        default = "" if setting.default is MISSING else f"`{setting.default!r}`"
        rows.append(f"| `{setting.name}` | {default} | {setting.metadata.get('description', '')} |")
    markdown = markdown.replace("{settings}", "\n".join(rows))
    markdown = re.sub(r"^( *```\w+) notest$", r"\1", markdown, flags=re.MULTILINE)
    return re.sub(r"\]\((?:\.\./)+", f"]({config.extra['repository']}/blob/main/", markdown)
