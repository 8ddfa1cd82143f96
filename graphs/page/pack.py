"""What a page's script reads: runs and plots as compressed blocks, opened in the browser when needed.

A run is one block with what the list of its questions shows, and blocks of `CHUNK` traces each, so that a
page of thousands of questions opens at once.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from triplewise.graphs.page.model import Page, Question, RunBlock

CHUNK = 100
"""Traces in a block."""


@dataclass(frozen=True, slots=True)
class Block:
    """A named piece of data: gzip in base64, which has no character that means anything in HTML."""

    id: str
    data: str


def blocks_of(page: Page) -> Iterator[Block]:
    """All blocks of a page."""
    for number, run in enumerate(page.runs):
        yield pack(f"run-{number}", _index(run))
        for at in range(0, len(run.questions), CHUNK):
            yield pack(f"run-{number}-{at // CHUNK}", [q.trace for q in run.questions[at : at + CHUNK]])
    if page.charts:
        yield pack("charts", [chart.spec for chart in page.charts])
        yield Block("vega", _squeezed(_vega()))


def pack(name: str, content: Any) -> Block:
    """A block of plain JSON. Anything else in it, as a path or a date, is written as its text."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
    return Block(name, _squeezed(text))


def _squeezed(text: str) -> str:
    """Text as gzip in base64, the same bytes each time. Half a surrogate pair becomes `?`."""
    return base64.b64encode(gzip.compress(text.encode(errors="replace"), 6, mtime=0)).decode()


def _index(run: RunBlock) -> dict[str, Any]:
    """What the list of a run's questions shows."""
    return {
        "name": run.name,
        "metric": run.metric,
        "chunk": CHUNK,
        "about": [[name, _text(value)] for name, value in run.about.items()],
        "questions": [_entry(q) for q in run.questions],
    }


def _entry(question: Question) -> dict[str, Any]:
    """A question without its trace."""
    return {
        "id": question.id,
        "question": question.question,
        "gold": _few(question.gold),
        "answer": _few(question.answer),
        "status": question.status,
        "score": question.score,
        "error": question.error_class,
        "tags": list(question.tags),
    }


def _few(values: Sequence[str], most: int = 200) -> list[str]:
    """A list, its end in words where it is very long."""
    return [*islice(values, most), *([f"… and {len(values) - most:,} more"] if len(values) > most else [])]


def _text(value: Any) -> str:
    """A value of provenance as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script. Raises `ConfigurationError` without vl-convert."""
    from triplewise.tools.core.errors import ConfigurationError

    try:
        from vl_convert import javascript_bundle
    except ImportError as error:
        raise ConfigurationError("plots need vl-convert: pip install 'triplewise[evals]'") from error
    return str(javascript_bundle("window.vegaEmbed = vegaEmbed;"))
