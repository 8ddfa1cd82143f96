"""Calls as tests write them."""

from __future__ import annotations

from collections.abc import Collection

from triplewise.tools.actions import Call, parse_reply


def parse_call(text: str, legal: Collection[str] = ()) -> Call:
    """The one call in a text."""
    return parse_reply(f"Action: {text}", legal)[1][0]
