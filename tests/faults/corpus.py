"""The corpus of faulty steps: what was done before, the fault as a model writes it, and its guideline.

A file holds `scenes` (question, linked entities, correct steps) and `faults`. A fault adds `steps` to those
of its scene. A step is a call; as a mapping `{call, fails}` it is itself a fault that was caught before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from triplewise.tools.core.rules import Atom, Rule

FOLDER = Path(__file__).parent
KGS = ("freebase", "wikidata", "metaqa")
_SCENE = {"question", "linked", "steps"}
_FAULT = _SCENE | {"id", "scene", "reply", "expect", "says", "settings", "endpoint", "rules"}


@dataclass(frozen=True)
class Fault:
    """One faulty step.

    Attributes:
        id: unique in the corpus. kg: the graph it is played on.
        question, linked, rules: what is known before the first step.
        steps: calls before the fault, with the guideline that catches them ("" for correct ones).
        reply: as the model wrote it.
        expect: id of the guideline that must win. says: what its text must name.
        settings: fields of the context. endpoint: what the graph's endpoint does at the fault, None where
            the graph is in the process.
    """

    id: str
    kg: str
    question: str
    linked: Mapping[str, str]
    steps: tuple[tuple[str, str], ...]
    reply: str
    expect: str
    says: tuple[str, ...]
    settings: Mapping[str, Any]
    endpoint: str | None
    rules: tuple[Rule, ...]


@cache
def corpus() -> tuple[Fault, ...]:
    """All faults of the three graphs."""
    return tuple(fault for kg in KGS for fault in _read(kg))


def _read(kg: str) -> list[Fault]:
    text = yaml.safe_load((FOLDER / f"{kg}.yaml").read_text(encoding="utf-8"))
    scenes: dict[str, dict[str, Any]] = text["scenes"]
    for scene in scenes.values():
        assert set(scene) <= _SCENE, f"{kg}: {set(scene) - _SCENE}"
    return [_fault(kg, entry, scenes[entry["scene"]]) for entry in text["faults"]]


def _fault(kg: str, entry: Mapping[str, Any], scene: Mapping[str, Any]) -> Fault:
    assert set(entry) <= _FAULT, f"{entry['id']}: {set(entry) - _FAULT}"
    steps = [*scene.get("steps", ()), *entry.get("steps", ())]
    says = entry.get("says", ())
    return Fault(
        f"{kg}-{entry['id']}",
        kg,
        entry.get("question", scene["question"]),
        entry.get("linked", scene["linked"]),
        tuple((s, "") if isinstance(s, str) else (s["call"], s["fails"]) for s in steps),
        entry["reply"],
        entry["expect"],
        (says,) if isinstance(says, str) else tuple(says),
        entry.get("settings", {}),
        entry.get("endpoint"),
        tuple(map(_rule, entry.get("rules", ()))),
    )


def _rule(given: Mapping[str, Any]) -> Rule:
    """A rule of the plan: an anchor and the relations that lead away from it."""
    body = (Atom(relation, True, f"v{i}") for i, relation in enumerate(given["path"]))
    return Rule(given["anchor"], tuple(body))
