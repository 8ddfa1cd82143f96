"""An answer as a notebook shows it: HTML with the query, a table of the proof, and a drawing of its facts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triplewise.nodes.state import Answer

COLUMN, ROW, MOST = 280, 44, 16
"""Width and height of a node's place in a drawing, in pixels, and the most facts that are drawn."""
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
    facts = [p.labels for p in answer.proof]
    if facts:
        rows = "".join(f"<tr>{''.join(f'<td {_CELL}>{escape(t)}</td>' for t in fact)}</tr>" for fact in facts)
        titles = "".join(f"<th {_CELL}>{title}</th>" for title in ("subject", "relation", "object"))
        parts.append(f"<table><tr>{titles}</tr>{rows}</table>{drawing(facts[:MOST])}")
    return "".join(parts)


def drawing(facts: Sequence[tuple[str, str, str]]) -> str:
    """Return facts as SVG: nodes in columns by their distance from the first, relations as labelled lines."""
    column: dict[str, int] = {}
    rest = list(facts)
    while rest:
        start = rest[0][0]
        column.setdefault(start, 0)
        reached = True
        while reached:  # breadth first, over facts in both directions
            reached = False
            for subject, _, object_ in rest:
                for near, far, step in ((subject, object_, 1), (object_, subject, 1)):
                    if near in column and far not in column:
                        column[far], reached = column[near] + step, True
        rest = [fact for fact in rest if fact[0] not in column]
    places: dict[str, tuple[int, int]] = {}
    for node, x in column.items():
        y = sum(other == x for other, _ in places.values())
        places[node] = (x, y)
    at = {node: (x * COLUMN + 110, y * ROW + 24) for node, (x, y) in places.items()}
    width, height = (max(p[i] for p in at.values()) + (110, 30)[i] for i in (0, 1))
    lines, boxes = [], []
    for subject, relation, object_ in facts:
        (x1, y1), (x2, y2) = at[subject], at[object_]
        lines.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#8c959f"/>')
        middle = f'x="{(x1 + x2) / 2:g}" y="{(y1 + y2) / 2 - 4:g}" font-size="10"'
        boxes.append(f'<text {middle} fill="#57606a">{_cut(relation, 18)}</text>')
    for node, (x, y) in at.items():
        place = f'x="{x - 90}" y="{y - 13}" width="180" height="26" rx="6"'
        boxes.append(f'<rect {place} fill="#ddf4ff" stroke="#54aeff"/>')
        title = f"<title>{escape(node)}</title>{_cut(node, 24)}"
        boxes.append(f'<text x="{x}" y="{y + 4}" font-size="12" fill="#1f2328">{title}</text>')
    size = f'viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%" text-anchor="middle" '
    size += 'font-family="sans-serif"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(lines + boxes)}</svg>'


def _cut(text: str, most: int) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
