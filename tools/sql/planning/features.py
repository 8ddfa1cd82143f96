"""What the model looks at: features of a condition, a set of conditions, an answer column, a function."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from triplewise.tools.sql.base import Aggregation
from triplewise.tools.sql.planning.columns import ColumnLinks, ColumnMention
from triplewise.tools.sql.planning.index import Index
from triplewise.tools.sql.planning.mentions import YEARS, Mention
from triplewise.tools.sql.planning.model import Features
from triplewise.tools.sql.planning.reading import Cue, Question
from triplewise.tools.sql.planning.words import has_digit, is_content, key_of

FUNCTIONS: tuple[Aggregation, ...] = ("", "COUNT", "MAX", "MIN", "SUM", "AVG")
FADE = 0.6
"""What is left of a column's mention for each meaningful word between it and the value."""
NEARBY = 5
"""Words on either side of a value in which a likeness to a column counts."""
_YEAR = re.compile(r"[12]\d{3}")
_PREPOSITIONS = (
    "in",
    "at",
    "on",
    "from",
    "by",
    "with",
    "for",
    "of",
    "is",
    "was",
    "the",
    "to",
    "as",
    "and",
    "are",
)


@dataclass(frozen=True)
class Scene:
    """A question before a database: all that features are made from."""

    question: Question
    index: Index
    links: ColumnLinks
    mentions: tuple[Mention, ...]


def condition_features(scene: Scene, mention: Mention) -> Features:
    """Features of one place taken as a condition on one column."""
    view = scene.index.views[mention.number]
    words = scene.question.words[mention.inner : mention.end]
    size = mention.end - mention.inner
    text = " ".join(w.text for w in words)
    found: Features = {"one": 1.0, f"tier {mention.tier}": 1.0, "words": math.log(size)}
    found |= _column_evidence(scene, mention)
    if view.column in scene.index.tables.keys:
        found["a key"] = 1.0
    if mention.tier == "extreme":
        return {"tier extreme": 1.0, "extreme asked elsewhere": _asked_elsewhere(scene, mention)}
    if mention.tier == "compare":
        return found | _compare_features(scene, mention)
    found |= _shape_features(scene, mention, text)
    others = {m.number for m in scene.mentions if (m.start, m.end) == (mention.start, mention.end)}
    found["rivals"] = math.log(len(others))
    if any(
        m.start <= mention.start
        and mention.end <= m.end
        and m.end - m.start > mention.end - mention.start
        and m.tier in ("exact", "stem")
        for m in scene.mentions
    ):
        found["part of a longer"] = 1.0
    if any(c.start <= mention.start and mention.end <= c.end for c in scene.question.comparisons):
        found["part of a comparison"] = 1.0
    if view.words == key_of(str(mention.conditions[0].value)):
        found["its own header"] = 1.0
    return found


def _shape_features(scene: Scene, mention: Mention, text: str) -> Features:
    """What the value itself looks like, and the word before it."""
    question = scene.question
    view = scene.index.views[mention.number]
    words = question.words[mention.start : mention.end]
    digits = has_digit(text)
    found: Features = {}
    found["digits" if digits else "letters"] = 1.0
    if digits and len(words) == 1:
        found["bare number"] = 1.0
        if _YEAR.fullmatch(text):
            found["year"] = 1.0
            found["year dated"] = view.dated
    if not digits and mention.start > 0 and words[0].raw[0].isupper():
        found["capital"] = 1.0
    if (mention.start, mention.end) in question.quoted:
        found["quoted"] = 1.0
    if not any(is_content(w.text) for w in words):
        found["stop words"] = 1.0
    if len(text) < 3 and not digits:
        found["short"] = 1.0
    naming = scene.links.naming(mention.start, mention.end)
    found["in a name"] = naming
    if naming >= 0.99:
        found["in a full name"] = 1.0
    if question.focus <= mention.start <= question.focus + 1:
        found["at the focus"] = 1.0
    before = question.words[mention.start - 1].text if mention.start else "^"
    after = question.words[mention.end].text if mention.end < len(question.words) else "$"
    if before in _PREPOSITIONS or before == "^":
        found[f"after {before}"] = 1.0
    if after == "$":
        found["last"] = 1.0
    if before == "on" and view.dated > 0.5:
        found["on dated"] = 1.0
    if any(c.start < mention.end and mention.start < c.end for c in question.cues) and len(words) == 1:
        found["a cue"] = 1.0
    return found


def _compare_features(scene: Scene, mention: Mention) -> Features:
    view = scene.index.views[mention.number]
    value = mention.conditions[0].value
    if isinstance(value, str):
        return {"compare numeric": 1.0, "compare in range": 1.0, "compare years": 1.0}
    assert isinstance(value, int | float)
    found: Features = {"compare numeric": view.numeric}
    if view.low <= value <= view.high:
        found["compare in range"] = 1.0
    if value in YEARS and view.low in YEARS and view.high in YEARS:
        found["compare years"] = 1.0
    return found


def _asked_elsewhere(scene: Scene, mention: Mention) -> float:
    """Whether the question asks for something else than the extreme value itself."""
    question = scene.question
    own = scene.links.said[mention.number]
    if not own:  # "the cheapest product": the superlative alone speaks of the column
        return 1.0 if scene.links.tables else max((m.lexical for m in scene.links.names), default=0.0)
    if mention.start <= question.focus:
        return 0.0
    if question.asked in ("who", "where", "when"):
        return 1.0
    before = [m for m in scene.links.names if question.focus <= m.start and m.end <= mention.start]
    named = [at for at in scene.links.tables.values() if question.focus <= at[0] and at[1] <= mention.start]
    others = [m.lexical for m in before if m.number != mention.number]
    return 1.0 if named else max(others, default=0.0)


def _column_evidence(scene: Scene, mention: Mention) -> Features:
    """How the words around a value speak of its column, and of others."""
    own = _around(scene, mention, mention.number)
    rivals = [_around(scene, mention, n) for n in range(len(scene.index.views)) if n != mention.number]
    found: Features = {"before": own[0], "after": own[1], "nearby": own[2]}
    best = (max((r[i] for r in rivals), default=0.0) for i in range(3))
    found["other before"], found["other after"], found["other nearby"] = best
    found["best said"] = float(max(own[:2]) > max(found["other before"], found["other after"]))
    found["best meant"] = float(own[2] > found["other nearby"])
    said = scene.links.said[mention.number]
    if any(not m.overlaps(mention.start, mention.end) for m in said):
        found["said anywhere"] = max(m.lexical for m in said if not m.overlaps(mention.start, mention.end))
    view = scene.index.views[mention.number]
    if max(own[:2]) < 0.3:
        found["unsaid"] = 1.0
        found["unsaid first column"] = float(mention.number == 0)
        found["unsaid numeric"] = view.numeric
        found["unsaid dated"] = view.dated
    return found


def _around(scene: Scene, mention: Mention, number: int) -> tuple[float, float, float]:
    """Strongest mention of a column before the value, after it, and strongest likeness near it."""
    before = after = near = 0.0
    question = scene.question
    for m in scene.links.said[number]:
        if m.end <= mention.start:
            before = max(before, m.lexical * FADE ** question.gap(m.end, mention.start))
        elif m.end <= mention.inner:
            before = max(before, m.lexical)
        elif m.start >= mention.end:
            after = max(after, m.lexical * FADE ** question.gap(mention.end, m.start))
        elif m.start < mention.start:
            before = max(before, m.lexical * 0.5)
    for m in scene.links.meant[number]:
        if (
            m.end > mention.start - NEARBY
            and m.start < mention.end + NEARBY
            and not m.overlaps(mention.start, mention.end)
        ):
            near = max(near, m.semantic)
    return before, after, near


def set_features(scene: Scene, chosen: Sequence[Mention]) -> Features:
    """Features of conditions taken together, besides those of each."""
    count = min(len(chosen), 4)
    found: Features = {f"{count} conditions": 1.0}
    columns = [m.number for m in chosen]
    if len(set(columns)) < len(columns):
        found["one column twice"] = 1.0
    tables = sorted({scene.index.views[n].column.table for n in columns})
    if len(tables) > 1:
        found["more tables"] = sum(scene.index.tables.away(tables[0], t) or 0 for t in tables[1:])
    return found


def answer_features(scene: Scene, chosen: Sequence[Mention], number: int) -> Features:
    """Features of an answer column, given the conditions."""
    _view, question = scene.index.views[number], scene.question
    found: Features = {"first column": float(number == 0)}
    for mention in chosen:
        if mention.number == number:
            found["compared" if mention.tier == "compare" else "given"] = 1.0
    said = [m for m in scene.links.said[number] if not _used(m, chosen, question)]
    others = [
        m
        for n, ms in enumerate(scene.links.said)
        if n != number
        for m in ms
        if not _used(m, chosen, question)
    ]
    given = {m.number for m in chosen}
    found["said"] = max((m.lexical for m in said), default=0.0)
    found["said in full"] = float(found["said"] > 0.99)
    found["focus in full"] = _at_focus(question, [m for m in said if m.lexical > 0.99])
    found["focus"] = _at_focus(question, said)
    free = [m for m in others if m.number not in given]
    found["other focus"] = _at_focus(question, free)
    found["best focus"] = float(found["focus"] > found["other focus"])
    found["most words"] = max((m.words for m in said), default=0) / 3
    found["first said"] = float(
        bool(said) and min(m.start for m in said) <= min((m.start for m in free), default=99)
    )
    found["only said"] = float(bool(said) and not free)
    meant = [m for m in scene.links.meant[number] if not _used(m, chosen, question)]
    found["meant"] = max((m.semantic for m in meant), default=0.0)
    found["focus meant"] = _meant_at_focus(question, meant)
    rivals = [
        _meant_at_focus(question, [m for m in ms if not _used(m, chosen, question)])
        for n, ms in enumerate(scene.links.meant)
        if n != number and n not in given
    ]
    found["best meant"] = float(found["focus meant"] > max(rivals, default=0.0))
    found["whole"] = scene.links.whole[number]
    before = [m for m in scene.links.said[number] if _attached(m, chosen, question)]
    found["speaks of a condition"] = max((m.lexical for m in before), default=0.0)
    return found | _kind_features(scene, number) | _table_features(scene, chosen, number)


def _table_features(scene: Scene, chosen: Sequence[Mention], number: int) -> Features:
    """How the table of an answer column stands to the question and to the conditions' tables."""
    column, tables = scene.index.views[number].column, scene.index.tables
    found: Features = {}
    others = {scene.index.views[m.number].column.table for m in chosen}
    hops = [tables.away(other, column.table) or 0 for other in others]
    if any(hops):
        found["tables away"] = float(max(hops))
    if column in tables.keys:
        found["a key"] = 1.0
    place = scene.links.tables.get(column.table)
    if place is not None:
        found["in a named table"] = 1.0
        near = 0.75 ** scene.question.gap(scene.question.focus, place[0])
        if tables.labels.get(column.table) == number and place[1] > scene.question.focus:
            found["label of the named table"] = near
    return found


def _kind_features(scene: Scene, number: int) -> Features:
    """How a column's values suit the question word and the functions."""
    view, asked = scene.index.views[number], scene.question.asked
    found: Features = {}
    if asked:
        word = asked.split()[0]
        found[f"{word} kind"] = scene.links.kinds[number]
        found[f"{word} best"] = float(scene.links.kinds[number] >= max(scene.links.kinds))
        found[f"{word} numeric"] = view.numeric
        found[f"{word} dated"] = view.dated
        found[f"{word} digits"] = view.digits
    functions = {c.function for c in scene.question.cues}
    if functions & {"MAX", "MIN", "SUM", "AVG"}:
        found["function numeric"] = view.numeric
        found["function ordinal"] = view.numeric * view.ordinal
    if any(c.counting for c in scene.question.cues):
        found["counting numeric"] = view.numeric
    found["long values"] = min(view.length, 10.0) / 10
    return found


def _used(mention: ColumnMention, chosen: Sequence[Mention], question: Question) -> bool:
    """Whether a condition needs these words: for its value, or, right beside it, for its column."""
    return any(
        mention.overlaps(m.start, m.end)
        or (m.number == mention.number and mention.end <= m.start and question.gap(mention.end, m.start) == 0)
        for m in chosen
    )


def _attached(mention: ColumnMention, chosen: Sequence[Mention], question: Question) -> bool:
    """Whether a mention of a column stands right beside a value of another."""
    return any(
        m.number != mention.number and mention.end <= m.start and question.gap(mention.end, m.start) == 0
        for m in chosen
    )


def _at_focus(question: Question, said: Sequence[ColumnMention]) -> float:
    """The strongest mention, faded by its distance from what is asked for."""
    return max((m.lexical * 0.75 ** _distance(question, m) for m in said), default=0.0)


def _meant_at_focus(question: Question, meant: Sequence[ColumnMention]) -> float:
    return max((m.semantic * 0.75 ** _distance(question, m) for m in meant), default=0.0)


def _distance(question: Question, mention: ColumnMention) -> int:
    if mention.start >= question.focus:
        return min(8, question.gap(question.focus, mention.start))
    return min(8, 2 + question.gap(mention.end, question.focus))


def function_features(
    scene: Scene, chosen: Sequence[Mention], number: int, function: Aggregation
) -> Features:
    """Features of a function over the rows, given the conditions and the answer column."""
    view, question = scene.index.views[number], scene.question
    name = function or "none"
    found: Features = {f"{name}": 1.0, f"{name} numeric": float(view.numeric > 0.6)}
    said = scene.links.said[number]
    for cue in _free(question.cues, chosen):
        inside = any(m.start <= cue.start and cue.end <= m.end and m.lexical > 0.6 for m in scene.links.names)
        own = any(0 <= question.gap(cue.end, m.start) <= 1 and m.start >= cue.start for m in said)
        kind = f"{cue.function}{' counting' if cue.counting else ''}"
        label = f"{name} of {kind}{' in a name' if inside else ''}"
        found[label] = 1.0
        if own and not inside:
            found[f"{label} of it"] = 1.0
        if cue.counting and not inside:
            measure = (
                "measure"
                if view.numeric > 0.6 and not view.ordinal
                else "ordinal"
                if view.numeric > 0.6
                else "words"
            )
            found[f"{label} {measure}"] = 1.0
    place = scene.links.tables.get(view.column.table)
    if place and any(
        c.counting and 0 <= question.gap(c.end, place[0]) <= 1 and c.end <= place[0] for c in question.cues
    ):
        found[f"{name} of COUNT counting table"] = 1.0
    if question.comparisons:
        found[f"{name} compared"] = 1.0
    if function and function != "COUNT" and view.numeric < 0.5:
        found["function of words"] = 1.0
    if view.ordinal:
        found[f"{name} ordinal"] = 1.0
    return found


def _free(cues: Sequence[Cue], chosen: Sequence[Mention]) -> list[Cue]:
    """Cues that are not part of a value or of a comparison."""
    return [c for c in cues if not any(m.start < c.end and c.start < m.end for m in chosen)]
