"""One action as the agent wrote it, and what the environment says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import Triple


@dataclass(frozen=True, slots=True)
class Call:
    """One action as the agent wrote it: name and arguments as text."""

    name: str
    arguments: tuple[str, ...] = ()

    def text(self) -> str:
        """The call as it stands in a trajectory, e.g. `add_fact(Q1490, P36, ?capital)`."""
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the environment says about one action: the raw material of ERASER (QueryAgent 3.3).

    Attributes:
        action, arguments: what was attempted ("" when the reply could not be parsed).
        error: interpreter error code, "" if the action could be carried out.
        message: the interpreter's or engine's own words.
        detail: plain JSON facts about the error, for guideline templates.
        outcome: KB outcome of the query run ("" if none was run): rows, empty, truncated, timeout,
            syntax, unavailable.
        observation: what the agent sees when nothing is wrong.
        program: PyQL text after the action (before it, if the action failed).
        relations: short ids offered: {"forward": [...], "backward": [...]}.
        values: preview of each variable: name -> labels (or `UnName_Entity`).
        ids: the same preview as short ids.
        triples: facts that the action brought up, for reflection.
        answers: final values as short ids or literals, when `finished`.
        finished: whether the agent says it is done.
        facts: those of the triples that were read from documents just now, with their provenance.
    """

    action: str = ""
    arguments: tuple[str, ...] = ()
    error: str = ""
    message: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""
    observation: str = ""
    program: str = ""
    relations: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    triples: tuple[Triple, ...] = ()
    answers: tuple[str, ...] = ()
    finished: bool = False
    facts: tuple[ExtractedFact, ...] = ()
