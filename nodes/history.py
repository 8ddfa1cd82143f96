"""How a model sees the steps so far.

`full` is QueryAgent's own encoding (appendix B.1): thought, action and observation of every step, verbatim.
`short` is never longer. Of a failed step that a later step corrected, the reason is kept in one sentence;
consecutive steps that failed for the same reason are shown as one; a repeated observation is referred to.
Otherwise steps stay verbatim, since servers cache the prefix that two prompts share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypedDict

from triplewise.guidelines import what_is_wrong
from triplewise.nodes.state import Step

LONG = 160  # Characters above which a reason or a value is clipped


class Entry(TypedDict):
    """One step as prompts show it; `number` is the model's own."""

    number: int
    thought: str
    action: str
    observation: str


def encode(steps: Sequence[Step], form: Literal["short", "full"] = "short") -> list[Entry]:
    """Return the steps for a prompt, in one of the two forms that the module describes."""
    raw = [Entry(number=s.number, thought=s.thought, action=s.call, observation=s.observation) for s in steps]
    if form == "full" or not steps:
        return raw
    entries: list[Entry] = []
    numbers: dict[str, int] = {}  # Observation -> the step that shows it in full.
    reasons = [(s.rolled_back, s.guideline if s.rolled_back else "") for s in steps]
    for (is_failed, guideline), group in groupby(range(len(steps) - 1), reasons.__getitem__):
        places = list(group)
        if is_failed:
            attempts, later = [raw[i] for i in places], reasons[places[-1] + 1 :]
            # While a mistake is being corrected, the model needs its whole guideline.
            is_open = all(failed for failed, _ in later) and later != [(True, guideline)]
            newest = [attempts.pop()] if is_open else []
            entries += [*_failures(attempts), *newest]
            continue
        for i in places:
            text, own = raw[i]["observation"], steps[i].feedback.observation
            if own and text.startswith(f"{own}\n") and any(not s.rolled_back for s in steps[i + 1 :]):
                text = own  # Drop the notes of `inspect`: a later step has heeded them.
            again = f"As in Observation {numbers[text]}." if text in numbers else text
            entries.append(min(raw[i], Entry({**raw[i], "observation": again}), key=_size))
            numbers.setdefault(entries[-1]["observation"], raw[i]["number"])
    return [*entries, raw[-1]]


def _size(*entries: Entry) -> int:
    return sum(len(e["thought"]) + len(e["action"]) + len(e["observation"]) for e in entries)


def _failures(attempts: list[Entry]) -> list[Entry]:
    """Return one entry for attempts that failed for one reason; all entries if that is not shorter."""
    if not attempts:
        return []
    newest, times = attempts[-1], f" {len(attempts)} times" if len(attempts) > 1 else ""
    others = dict.fromkeys(e["action"] for e in attempts[:-1] if e["action"] != newest["action"])
    also = f" So did {'; '.join(others)}." if others else ""
    reason = what_is_wrong(newest["observation"].removeprefix("ERROR_INFO: "))
    reason = reason if len(reason) <= LONG else f"{reason[: LONG - 3]}..."
    line = Entry({**newest, "observation": f"Failed{times}: {reason}{also}"})
    return [line] if _size(line) < _size(*attempts) else attempts
