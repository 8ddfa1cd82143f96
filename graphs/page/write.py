"""A page as one HTML file that needs nothing else: no network, no server."""

from __future__ import annotations

from pathlib import Path

from triplewise.graphs.page.model import Page


def render_page(page: Page) -> str:
    """The page as one HTML document."""
    raise NotImplementedError


def write_page(path: Path | str, page: Page) -> Path:
    """Write the page to a file, whole or not at all; where it stands.

    Raises:
        DataError: the folder is missing or cannot be written.
    """
    raise NotImplementedError
