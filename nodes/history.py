"""How a model sees the steps so far.

`full` is QueryAgent's own encoding (appendix B.1): thought, action and observation of every step, verbatim.
`short` says the same with fewer words, and is never longer:

- A failed attempt followed by a step that worked keeps thought and action, and the reason in one sentence;
  attempts in a row that failed for the same reason are shown once, with their number.
- A list of relations is given in full until a fact uses it, then cut; a repeated one is referred to.

The newest observation is verbatim. Servers cache the beginning that two prompts share, so a step is rewritten
only when something happened to it, and of a repetition the first mention stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Literal, TypedDict

from triplewise.guidelines import what_is_wrong
from triplewise.nodes.state import Step

KEPT_RELATIONS = 6  # Relations a direction that a used list still shows
LONG = 160  # Characters above which a reason or a value is clipped


class Entry(TypedDict):
    """One step as prompts show it; `number` is the model's own."""

    number: int
    thought: str
    action: str
    observation: str


def encode(steps: Sequence[Step], form: Literal["short", "full"] = "short") -> list[Entry]:
    """Return the steps, in the order of the state, for a prompt; see the module for the forms."""
    full = [
        Entry(number=s.number, thought=s.thought, action=s.call, observation=s.observation) for s in steps
    ]
    if form == "full" or not steps:
        return full
    entries: list[Entry] = []
    numbers: dict[str, int] = {}  # Observations that stand in full -> their step.
    reasons = [(s.rolled_back, s.guideline if s.rolled_back else "") for s in steps]
    for (is_failed, guideline), group in groupby(range(len(steps) - 1), reasons.__getitem__):
        places = list(group)
        if is_failed:
            attempts, later = [full[i] for i in places], reasons[places[-1] + 1 :]
            # While the mistake is being corrected, its guideline is what the model works from.
            is_open = all(failed for failed, _ in later) and later != [(True, guideline)]
            newest = [attempts.pop()] if is_open else []
            entries += [*_failures(attempts), *newest]
            continue
        for i in places:
            successes = [s for s in steps[i + 1 :] if not s.rolled_back]
            observation = _shortened(steps[i], successes, numbers)
            entries.append(min(full[i], Entry({**full[i], "observation": observation}), key=_size))
            if entries[-1]["observation"] == full[i]["observation"]:
                numbers.setdefault(full[i]["observation"], full[i]["number"])
    return [*entries, full[-1]]


def _size(*entries: Entry) -> int:
    return sum(len(e["thought"]) + len(e["action"]) + len(e["observation"]) for e in entries)


def _failures(attempts: list[Entry]) -> list[Entry]:
    """Return one entry for attempts that failed alike; the entries themselves where that is not shorter."""
    if not attempts:
        return []
    newest = attempts[-1]
    others = dict.fromkeys(e["action"] for e in attempts[:-1] if e["action"] != newest["action"])
    times = f" {len(attempts)} times" if len(attempts) > 1 else ""
    also = f" So did {'; '.join(others)}." if others else ""
    reason = what_is_wrong(newest["observation"].removeprefix("ERROR_INFO: "))
    reason = reason if len(reason) <= LONG else f"{reason[: LONG - 3]}..."
    line = Entry({**newest, "observation": f"Failed{times}: {reason}{also}"})
    return [line] if _size(line) < _size(*attempts) else attempts


def _shortened(step: Step, later: Sequence[Step], numbers: Mapping[str, int]) -> str:
    """Return the observation of a step that worked and is no longer the newest; `later` ones worked too."""
    text, own = step.observation, step.feedback.observation
    if later and own and text.startswith(f"{own}\n"):
        text = own  # Notes of the inspector stand behind; a step that worked has heeded them.
    if text in numbers:
        return f"As in Observation {numbers[text]}."
    return _used_relations(step, text, later) if step.feedback.relations else text


def _used_relations(step: Step, text: str, later: Sequence[Step]) -> str:
    """Return a list of relations, once facts use it: those and the best of the others, without values."""
    listing, more, left = text.partition("} ... and ")  # behind a list that was cut: how to see the rest
    try:
        listed = dict[str, list[str]](ast.literal_eval(f"{listing}}}" if more else listing))
        total = sum(map(len, listed.values()))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, SystemError):  # it is no list
        return text
    # The words of later calls that name the node, but for those that only look its relations up.
    subject, named, offered = "".join(step.feedback.arguments[:1]), set[str](), step.feedback.relations
    for feedback in (s.feedback for s in later if s.feedback.action != "get_relation"):
        words = {word.strip(" '\"`()") for argument in feedback.arguments for word in argument.split(",")}
        named |= words if subject in words else set()
    if named.isdisjoint(chain(*offered.values())):
        return text
    shown = dict[str, list[str]]()
    for side, names in listed.items():
        pairs = zip(names, [*offered.get(side, ()), *names][: len(names)], strict=True)
        first = (pair for place, pair in enumerate(pairs) if place < KEPT_RELATIONS or pair[1] in named)
        shown[side] = [_without_value(name, id) for name, id in first]
    rest = f" ... and {left}" if more else ""
    if sum(map(len, shown.values())) < total:
        rest = f" ... ({total} {f'shown, and {left}' if more else 'in all'})"
    return f"{shown}{rest}"


def _without_value(name: str, id: str) -> str:
    """Return a relation of a list without its value and how many have one: `P36 (capital)`."""
    match = re.match(rf"{re.escape(id)}(?: \(.*?\))?(?=$|: |, \d)", name, re.DOTALL)
    return match[0] if match else name
