"""How a model sees the steps so far: concatenated as the papers do it, or without what it no longer needs.

`full` is QueryAgent's own encoding (appendix B.1): thought, action and observation of every step, verbatim.
`short` says the same with fewer words:

- A failed attempt followed by a step that worked is one line, without its thought and its guideline;
  attempts in a row that failed for the same reason are one line with their number.
- The relations of an entity or variable are listed in full until a fact uses them. From then on the list
  holds what was chosen, the relations most like it, and the first ones of the ranking, with their number.
  A list that was given before is referred to.
- Values of a variable that did not change are not listed again; values that a later step replaced are
  clipped with their number; so are very long texts.

The newest observation is always verbatim, and so are thought and action of every step that worked, so that
bound variables and chosen relations stay. Nothing is ever longer than in `full`.

Servers cache the beginning that two prompts share, so what an old step looks like should not change from
prompt to prompt. Therefore the first mention stays and the repetition goes, never the other way round, and a
step is rewritten only when something happened to it: it stopped being the newest, its mistake was mended,
or its relations were used. Between such events prompts only grow at their end. We do rewrite then, although
it costs the cache the steps behind that point: these are some hundred tokens, while everything before the
steps (task, actions, example, question) is the longest part and never changes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Literal, TypedDict

from triplewise.nodes.state import Step

KEPT_RELATIONS = 8
"""Relations that a used list still shows."""
KEPT_VALUES = 2
"""Values that a replaced preview still shows."""
LONG = 160
"""Characters above which a single value is clipped."""

_WORD = re.compile(r"[A-Za-z]+|\d+")


class Entry(TypedDict):
    """One step as prompts show it; `number` is the model's own."""

    number: int
    thought: str
    action: str
    observation: str


def encode(steps: Sequence[Step], form: Literal["short", "full"] = "short") -> list[Entry]:
    """The steps for a prompt.

    Args:
        steps: in order, as the state holds them.
        form: `short` or `full`, see the module.
    """
    full = [
        Entry(number=s.number, thought=s.thought, action=s.call, observation=s.observation) for s in steps
    ]
    return full if form == "full" or not steps else _Shortened(steps).entries(full)


def _size(*entries: Entry) -> int:
    """Characters that entries take."""
    return sum(len(e["thought"]) + len(e["action"]) + len(e["observation"]) for e in entries)


@dataclass(frozen=True)
class _Shortened:
    """The short form of some steps, the last of which is the newest."""

    steps: Sequence[Step]

    def entries(self, full: Sequence[Entry]) -> list[Entry]:
        """Entries in order; a run of attempts that failed alike is a single one."""
        shown: list[Entry] = []
        seen = _Seen()
        for _, group in groupby(range(len(self.steps) - 1), self._run_of):
            places = list(group)
            if self.steps[places[0]].rolled_back:
                shown += self._failed([full[i] for i in places], places)
            else:
                for i in places:
                    observation = self._kept(i, seen)
                    shorter = Entry({**full[i], "observation": observation})
                    shown.append(min(full[i], shorter, key=_size))
                    seen.note(full[i], shown[-1])
        return [*shown, full[-1]]

    def _run_of(self, i: int) -> tuple[bool, int]:
        """What puts neighbouring steps into one entry: to have failed for the same reason."""
        failed = self.steps[i].rolled_back
        begin = i
        while failed and begin and self._alike(begin - 1, begin):
            begin -= 1
        return failed, begin if failed else -1

    def _alike(self, i: int, j: int) -> bool:
        """Whether two steps failed for the same reason."""
        a, b = self.steps[i], self.steps[j]
        return a.rolled_back and b.rolled_back and a.guideline == b.guideline

    def _failed(self, full: list[Entry], places: list[int]) -> list[Entry]:
        """Attempts that failed alike: one line once a later step worked, till then with the guideline."""
        last = self.steps[places[-1]]
        if not any(not s.rolled_back for s in self.steps[places[-1] + 1 :]):
            # Still being mended: what the model was told last about this mistake is what it works from.
            goes_on = places[-1] == len(self.steps) - 2 and self._alike(places[-1], len(self.steps) - 1)
            return self._line(full, last) if goes_on else [*self._line(full[:-1], last), full[-1]]
        return self._line(full, last)

    @staticmethod
    def _line(full: list[Entry], last: Step) -> list[Entry]:
        """One entry for attempts that failed alike; the entries themselves where that is no shorter."""
        if not full:
            return []
        why = f" ({last.guideline.replace('_', ' ')})" if last.guideline else ""
        others = list(dict.fromkeys(e["action"] for e in full[:-1] if e["action"] != full[-1]["action"]))
        also = f", like {'; '.join(others)}" if others else ""
        times = f" {len(full)} times" if len(full) > 1 else ""
        line = Entry(
            number=full[-1]["number"],
            thought="",
            action=full[-1]["action"],
            observation=f"Failed{times}{why}{also}.",
        )
        return [line] if _size(line) < _size(*full) else full

    def _kept(self, i: int, seen: _Seen) -> str:
        """The observation of a step that worked and is no longer the newest."""
        step = self.steps[i]
        later = [s for s in self.steps[i + 1 :] if not s.rolled_back]
        # Notes of the inspector stand behind the feedback's own words; a step that worked has heeded them.
        text = step.feedback.observation if later and _noted(step) else step.observation
        if step.feedback.relations:
            return self._relations(step, text, later, seen)
        if step.feedback.values:
            return _values(step, text, later, seen)
        return seen.reference(text) or text

    def _relations(self, step: Step, text: str, later: Sequence[Step], seen: _Seen) -> str:
        """A list of relations: whole until a fact uses it, by reference where the same stands before."""
        listed = _listed(text)
        subject = step.feedback.arguments[0] if step.feedback.arguments else ""
        used = _used(subject, step.feedback.relations, later)
        if listed is None or not used:
            return seen.reference(text) or text
        return seen.reference(text) or _cut_down(listed, step.feedback.relations, used)


def _noted(step: Step) -> bool:
    """Whether the inspector added a note."""
    own = step.feedback.observation
    return bool(own) and step.observation.startswith(f"{own}\n")


class _Seen:
    """What the prompt shows so far: observations in full, and what was said last of each variable."""

    def __init__(self) -> None:
        self._whole: dict[str, int] = {}
        self.values: dict[str, str] = {}

    def note(self, full: Entry, shown: Entry) -> None:
        """Remember an observation that stands there in full."""
        if shown["observation"] == full["observation"]:
            self._whole.setdefault(full["observation"], full["number"])

    def reference(self, text: str) -> str:
        """Where the same text stands already; "" if nowhere."""
        return f"As in Observation {self._whole[text]}." if text in self._whole else ""


def _listed(text: str) -> dict[str, list[str]] | None:
    """Relations as they were shown, by direction; None if the text is no such list."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(names, list) for names in found.values()):
        return None
    return {str(side): [str(name) for name in names] for side, names in found.items()}


def _used(subject: str, relations: Mapping[str, Sequence[str]], later: Sequence[Step]) -> list[str]:
    """Relations of a list that later facts about its subject use."""
    offered = {r for names in relations.values() for r in names}
    said = [a for s in later if s.feedback.action != "get_relation" for a in _said(s, subject)]
    return [r for r in dict.fromkeys(said) if r in offered]


def _said(step: Step, subject: str) -> list[str]:
    """Everything that a call names, if it names the subject."""
    words = [w.strip(" '\"`()") for a in step.feedback.arguments for w in a.split(",")]
    return words if subject in words else []


def _cut_down(
    listed: Mapping[str, Sequence[str]], relations: Mapping[str, Sequence[str]], used: Sequence[str]
) -> str:
    """A list without the relations that are far from the ones used, and how many there were."""
    pairs = [
        (side, name, short)
        for side, names in listed.items()
        for name, short in zip_longest(names, relations.get(side, ())[: len(names)], fillvalue="")
    ]
    if len(pairs) <= KEPT_RELATIONS:
        return str(dict(listed))
    chosen = [i for i, (_, _, short) in enumerate(pairs) if short in used]
    words = [set(_WORD.findall(name.lower())) for _, name, _ in pairs]
    wanted = set[str]().union(*(words[i] for i in chosen))
    nearest = sorted(range(len(pairs)), key=lambda i: (-_overlap(words[i], wanted), i))
    first = [i for ranks in zip_longest(*_places(pairs)) for i in ranks if i is not None]
    mixed = [i for both in zip(nearest, first, strict=True) for i in both]
    kept = set(list(dict.fromkeys([*chosen, *mixed]))[: max(KEPT_RELATIONS, len(chosen))])
    short = {s: [n for i, (side, n, _) in enumerate(pairs) if side == s and i in kept] for s in listed}
    return f"{short} ... ({len(pairs)} in all)"


def _overlap(words: set[str], wanted: set[str]) -> float:
    """How much two sets of words share, 0 to 1."""
    return len(words & wanted) / (len(words | wanted) or 1)


def _places(pairs: Sequence[tuple[str, str, str]]) -> list[list[int]]:
    """Places in a list by direction."""
    sides = dict.fromkeys(side for side, _, _ in pairs)
    return [[i for i, pair in enumerate(pairs) if pair[0] == side] for side in sides]


def _sentence(variable: str, values: Sequence[str], end: str = "") -> str:
    """The words in which a preview says the values of a variable (QueryAgent, figure 4)."""
    shown = [*map(repr, values), *([end] if end else [])]
    return f"The value of variable ?{variable} is [{', '.join(shown)}]."


def _values(step: Step, text: str, later: Sequence[Step], seen: _Seen) -> str:
    """A preview: variables that did not change are left out, values that changed later are clipped."""
    for variable, values in step.feedback.values.items():
        said = next((s for end in ("", "...") if (s := _sentence(variable, values, end)) in text), "")
        if not said:
            continue
        if seen.values.get(variable) == said:
            text = text.replace(said, "", 1).replace("  ", " ").strip()
            continue
        seen.values[variable] = said
        if any(variable in s.feedback.values and _changed(step, s, variable) for s in later):
            text = text.replace(said, _clipped(variable, values, said), 1)
    return text or "Values as before."


def _changed(step: Step, other: Step, variable: str) -> bool:
    """Whether a variable has other values after another step."""
    return step.feedback.values[variable] != other.feedback.values[variable]


def _clipped(variable: str, values: Sequence[str], said: str) -> str:
    """The first values, and how many were shown; long ones without their end."""
    kept = [
        v if len(v) <= LONG else f"{v[:LONG]}... ({len(v)} characters in all)" for v in values[:KEPT_VALUES]
    ]
    more = "more than " if said.endswith("...].") else ""
    end = f"... ({more}{len(values)} in all)" if len(values) > KEPT_VALUES or more else ""
    short = _sentence(variable, kept, end)
    return short if len(short) < len(said) else said
