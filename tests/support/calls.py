"""Calls as tests write them."""

from __future__ import annotations

from collections.abc import Collection

from triplewise.tools.actions import Call, Toolset, parse_reply


def parse_call(text: str, legal: Toolset | Collection[str] = ()) -> Call:
    """The one call in a text."""
    names = legal.by_name if isinstance(legal, Toolset) else legal
    return parse_reply(f"Action: {text}", names)[1][0]
