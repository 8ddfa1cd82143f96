"""No false alarm: every step that an ideal agent takes towards a gold answer passes the inspector."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.agent import SAID, Trajectory, react
from tests.faults.gold import Gold, UnreadError, metaqa_gold, read_gold, records
from tests.faults.graphs import FILES, open_graph
from triplewise.nodes.context import Context
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.pyql.text import read_iri, read_term

QUESTIONS = int(os.environ.get("TRIPLEWISE_GOLD_QUESTIONS", "45"))
"""Questions taken of each file; more than a file has takes them all."""
LEAST_STEPS = 1_000
ALLOWED_NOTES = {
    "fact_unnamed": "on the way through a mediator: look through it is what the agent does next",
}
"""Notes that may stand beside a correct step, and why."""
OTHER_ANSWERS = {
    "how many languages do they speak in switzerland": "the gold query lists the languages",
    "how many languages do they speak in spain": "the gold query lists the languages",
    "how many kids were there in the kennedy family": "the gold query lists the children",
    "when was father chris riley born": "the gold query asks for the place of birth",
}
"""Questions whose gold query answers another one: the doubt that a guideline has of its answer is right."""
NO = "Nothing meets this, so the answer would be no."
SETS = {
    "metaqa/dev_1hop.jsonl.gz": ("metaqa", ""),
    "metaqa/dev_2hop.jsonl.gz": ("metaqa", ""),
    "metaqa/dev_3hop.jsonl.gz": ("metaqa", ""),
    "webqsp/test.jsonl.gz": ("freebase", "sparql11"),
    "grailqa/dev1000.jsonl.gz": ("freebase", "sparql11"),
    "qald10/test_en.jsonl.gz": ("wikidata", "sparql"),
    "wikiwebquestions/test.jsonl.gz": ("wikidata", "sparql"),
}


@dataclass
class Tally:
    """What the steps of a set of gold queries met."""

    steps: int = 0
    questions: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def totals() -> Counter[str]:
    """Correct steps by graph, over all tests of this module."""
    return Counter()


@pytest.mark.parametrize("file", SETS)
def test_no_guideline_fires_on_correct_steps(
    file: str,
    data: Path,
    graphs: None,
    totals: Counter[str],
    request: pytest.FixtureRequest,
) -> None:
    name, key = SETS[file]
    tally, kg = Tally(), open_graph(data, name)
    for gold in golds(records(data, file), key, kg, tally):
        if tally.questions >= QUESTIONS:
            break
        follow(gold, name, tally)
    totals[name] += tally.steps
    said = f"{file}: {tally.steps} correct steps of {tally.questions} questions"
    counts = f"notes {dict(tally.notes)}, left out {dict(tally.left_out)}"
    request.config.stash.setdefault(SAID, []).append(f"{said}, {counts}")
    assert not tally.alarms, "\n".join(tally.alarms[:20])
    assert set(tally.notes) <= set(ALLOWED_NOTES)


def test_enough_steps_on_every_graph(totals: Counter[str], data: Path) -> None:
    if len(totals) < len(FILES):
        pytest.skip("needs the tests before it")
    assert sum(totals.values()) >= LEAST_STEPS
    assert min(totals.values()) >= LEAST_STEPS / 5


def golds(rows: list[dict[str, Any]], key: str, kg: KnowledgeGraph, tally: Tally) -> Iterator[Gold]:
    """The gold programs that can be followed on this graph."""
    for row in rows:
        if row["question"] in OTHER_ANSWERS:
            tally.left_out["gold answers another question"] += 1
            continue
        if not key:
            yield metaqa_gold(row)
            continue
        try:
            gold = read_gold(row["question"], row[key], kg.profile)
            list(gold.steps())
        except UnreadError as error:
            tally.left_out[f"form: {str(error)[:30]}"] += 1
            continue
        if reason := unfit(gold, row, kg, row[key]):
            tally.left_out[reason] += 1
            continue
        gold.linked = named(gold, kg)
        yield gold


def unfit(gold: Gold, row: Mapping[str, Any], kg: KnowledgeGraph, sparql: str) -> str:
    """Why a gold query is no correct program on this graph, "" if it is one.

    A count that the extract holds nothing of is 0 there, as the flag of the record allows; and an answer
    without its name is a mediator as far as this extract can tell.
    """
    if gold.counted:
        counted = kg.query(sparql).rows
        zero = not counted or any(getattr(v, "value", "") == "0" for v in counted[0])
        return "count of nothing" if zero else ""
    if not gold.answer:
        # No is the answer of every graph that lacks the nodes in question.
        terms = [t for form in gold.nodes if (t := read_term(form, kg.profile))]
        absent = [t for t in terms if kg.relations(t).outcome is not Outcome.ROWS]
        return "names what the graph lacks" if absent else ""
    found = [answer(value, kg.profile) for value in row["answers"]]
    entities = [value for value in found if value is not None]
    return "answer without a name" if set(kg.labels(entities)) != set(entities) else ""


def answer(value: Any, profile: Profile) -> IRI | None:
    """The entity that a gold answer is, None for literals."""
    form = value["answer_argument"] if isinstance(value, dict) else value
    return read_iri(form, profile) if isinstance(form, str) else None


def named(gold: Gold, kg: KnowledgeGraph) -> dict[str, str]:
    """The entities of a program with their names, as a linker finds them."""
    terms = {form: read_term(form, kg.profile) for form in gold.nodes}
    labels = kg.labels([t for t in terms.values() if t is not None])
    return {form: labels.get(t, form) if t else form for form, t in terms.items()}


def follow(gold: Gold, name: str, tally: Tally) -> None:
    """Take the steps of one program and keep account of what the inspector says."""
    context = Context(kg=name, ranking="none", relation_cut=100_000, max_steps=100)
    trajectory = Trajectory.begin(context, gold.question, gold.linked)
    tally.questions += 1
    for number, call in enumerate(gold.steps(), 1):
        if number > 1 and trajectory.last.observation.startswith(NO) and call != "execute()":
            continue  # the answer is no whatever follows
        verdict = trajectory.step(react(number, call))
        tally.steps += 1
        if verdict.status in ("error", "spent"):
            said = trajectory.last.feedback.message
            tally.alarms.append(f"{gold.question} | {call} | {verdict.guideline} | {said} | {verdict.text}")
            return
        if verdict.guideline:
            tally.notes[verdict.guideline] += 1
    if not trajectory.last.feedback.finished:
        tally.alarms.append(f"{gold.question} | never finished")
