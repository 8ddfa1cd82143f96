"""How a model sees the steps so far: concatenated as the papers do it, or without what it no longer needs.

`full` is QueryAgent's own encoding (appendix B.1): thought, action and observation of every step, verbatim.
`short` says the same with fewer words, and is never longer:

- A failed attempt followed by a step that worked keeps thought and action, and the reason in one sentence;
  attempts in a row that failed for the same reason are shown once, with their number.
- The relations of an entity or variable are listed in full until a fact uses them. From then on the list
  holds what was chosen and the first ones of the ranking, with their number. A list that was given before is
  referred to.
- Values of a variable that did not change are not listed again; values that a later step replaced are
  clipped with their number.

The newest observation is verbatim, and so are thought and action of every step that worked. Servers cache the
beginning that two prompts share, so a step is rewritten only when something happened to it, and of a
repetition the first mention stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, zip_longest
from typing import Literal, TypedDict

from triplewise.guidelines import what_is_wrong
from triplewise.nodes.state import Step
from triplewise.tools.actions.terms import told_apart

KEPT_RELATIONS, KEPT_VALUES = 12, 2
"""Relations that a used list still shows, and values that a replaced preview does."""
LONG = 160  # Characters above which a reason or a value is clipped
_SOLUTIONS = re.compile(r" Solutions \(\?.*")
"""The values that belong together, at the end of a preview: of use until the next step only."""
_VALUES = re.compile(r"The value of variable \?(\w+) is \[(.*?)\]\.(?= |$)", re.DOTALL)
"""The words in which a preview gives the values of a variable (QueryAgent, figure 4)."""


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
    previews: dict[str, str] = {}  # Variables -> the sentence given last of their values.
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
            observation = _shortened(steps[i], successes, numbers, previews)
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


def _shortened(
    step: Step, later: Sequence[Step], numbers: Mapping[str, int], previews: dict[str, str]
) -> str:
    """Return the observation of a step that worked and is no longer the newest; `later` ones worked too."""
    text, own = step.observation, step.feedback.observation
    if later and own and text.startswith(f"{own}\n"):
        text = own  # Notes of the inspector stand behind; a step that worked has heeded them.
    if step.feedback.values and not step.feedback.relations:
        return _value_preview(step, text, later, previews)
    if text in numbers:
        return f"As in Observation {numbers[text]}."
    return _used_relations(step, text, later) if step.feedback.relations else text


def _used_relations(step: Step, text: str, later: Sequence[Step]) -> str:
    """Return a list of relations, once facts use it: those and the best of the others, without values."""
    listing, more, left = text.partition("} ... and ")  # behind a list that was cut: how to see the rest
    try:
        listed = ast.literal_eval(f"{listing}}}" if more else listing)
    except (ValueError, SyntaxError, MemoryError, RecursionError, SystemError):  # of compile, in threads
        return text
    if not isinstance(listed, dict) or not all(isinstance(names, list) for names in listed.values()):
        return text
    offered = step.feedback.relations
    ranks = [
        [(side, name, short) for name, short in zip_longest(names, offered.get(side, ())[: len(names)])]
        for side, names in listed.items()
    ]
    best_first = [place for rank in zip_longest(*ranks) for place in rank if place is not None]
    # The words of later calls that name the node, but for those that only look its relations up.
    subject, named = "".join(step.feedback.arguments[:1]), set[str]()
    for feedback in (s.feedback for s in later if s.feedback.action != "get_relation"):
        words = {word.strip(" '\"`()") for argument in feedback.arguments for word in argument.split(",")}
        named |= words if subject in words else set()
    used = named & set(chain(*offered.values()))
    if not used:
        return text
    chosen = [place for place in best_first if place[2] in used]
    first = list(dict.fromkeys([*chosen, *best_first]))[: max(KEPT_RELATIONS, len(chosen))]
    shown = {
        side: [_without_value(*p[1:]) for p in rank if p in first]
        for side, rank in zip(listed, ranks, strict=True)
    }
    rest = f" ... and {left}" if more else ""
    if len(first) < len(best_first):
        rest = f" ... ({len(best_first)} {f'shown, and {left}' if more else 'in all'})"
    return f"{shown}{rest}"


def _without_value(name: str, id: str | None) -> str:
    """Return a relation of a list without its value and how many have one: `P36 (capital)`."""
    match = re.match(rf"{re.escape(id or '')}(?: \(.*?\))?(?=$|: |, \d)", name, re.DOTALL)
    return match[0] if id and match else name


def _value_preview(step: Step, text: str, later: Sequence[Step], previews: dict[str, str]) -> str:
    """Return a preview: variables that did not change are left out, values that changed later are clipped."""

    def shorter(match: re.Match[str]) -> str:
        sentence, variable = match[0], match[1]
        names = step.feedback.values.get(variable, [])
        if previews.get(variable) == sentence:
            return ""
        previews[variable] = sentence
        if all(s.feedback.values.get(variable, names) == names for s in later):
            return sentence
        first = told_apart(names, step.feedback.ids.get(variable, ()))[:KEPT_VALUES]
        shown = [repr(v if len(v) <= LONG else f"{v[:LONG]}... ({len(v)} characters in all)") for v in first]
        cut = re.search(r"\.\.\.(?: \(([^()]*)\))?$", match[2])  # the end of a list that was cut
        if cut or len(names) > KEPT_VALUES:
            count = f"{'more than ' if cut else ''}{len(names)} in all"
            shown.append(f"... ({(cut and cut[1]) or count})")
        return min(sentence, f"The value of variable ?{variable} is [{', '.join(shown)}].", key=len)

    text = _VALUES.sub(shorter, _SOLUTIONS.sub("", text) if later else text)
    return text.replace("  ", " ").strip() or "Values as before."
