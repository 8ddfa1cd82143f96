"""An answer as a notebook shows it: HTML with the query and a table of the proof."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triplewise.nodes.state import Answer

_COLOURS = {"answered": "#1a7f37", "unsure": "#9a6700"}
_CELL = 'style="text-align:left;padding:2px 12px 2px 0"'


def answer_html(answer: Answer) -> str:
    """Return an answer as HTML without scripts; all text of graphs and models is escaped."""
    colour = _COLOURS.get(answer.status, "#cf222e")
    sure = "" if answer.confidence is None else f" &middot; {answer.confidence:.0%} sure"
    head = f'<span style="color:{colour}">{answer.status.replace("_", " ")}</span>{sure}'
    parts = [f"<p><b>{escape(answer.text)}</b><br><small>{head}</small></p>"]
    if answer.reason:
        parts.append(f"<p><small>{escape(answer.reason)}</small></p>")
    if query := answer.sparql or answer.sql:
        parts.append(f"<pre>{escape(query)}</pre>")
    if answer.proof:
        facts = [[f"<td {_CELL}>{escape(text)}</td>" for text in fact.labels] for fact in answer.proof]
        titles = [f"<th {_CELL}>{title}</th>" for title in ("subject", "relation", "object")]
        rows = "".join(f"<tr>{''.join(cells)}</tr>" for cells in (titles, *facts))
        parts.append(f"<table>{rows}</table>")
    return "".join(parts)
