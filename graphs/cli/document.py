"""A run as one JSON document (`triplewise ask --json`)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from triplewise.graphs.cli.runs import Order
from triplewise.graphs.trace import whole_trace

if TYPE_CHECKING:
    from triplewise.nodes.state import State


def document(order: Order, state: State) -> str:
    """The document: answer, labels, query, proof, steps, corrections, usage, and what was asked of what."""
    content: dict[str, Any] = {
        **whole_trace(state),
        "preset": order.preset,
        "kg": order.context["kg"],
        "db": shown_url(order.context.get("db")),
        "model": order.context["model"],
        "thread": order.thread,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def shown_url(url: str | None) -> str | None:
    """A database URL without its password."""
    return re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", url) if url else None
