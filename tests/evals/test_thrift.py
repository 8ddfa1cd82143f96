"""The bench of thrift: scripts of gold programs, and what the loops take on them."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from triplewise.evals.bench.replay import END, serving
from triplewise.evals.bench.thrift import FAITHFUL, LOOPS, OURS, SLIPS, measure, write
from triplewise.evals.data import DATA_VARIABLE

FACTS = (("Q1", "P1", "?a"), ("?b", "P2", "?a"))


def test_a_program_becomes_the_replies_of_an_agent() -> None:
    replies, mistakes = write(FACTS, ending=["add_max(?b)"])
    assert [r.splitlines()[1] for r in replies] == [
        "Action: get_relation(Q1)",
        "Action: add_fact(Q1, P1, ?a)",
        "Action: get_relation(?a)",
        "Action: add_fact(?b, P2, ?a)",
        "Action: add_max(?b)",
        "Action: set_answer(?b)",
        "Action: execute()",
    ]
    assert mistakes == 0
    assert all(r.startswith("Thought: ") for r in replies)


def test_who_is_asked_for_is_not_where_the_path_began() -> None:
    replies, _ = write([("Q1", "P1", "?a"), ("?b", "P1", "?a")])
    assert replies[4].endswith("Action: add_filter(?b, !=, Q1)")


@pytest.mark.parametrize("slip", SLIPS)
def test_a_mistake_stands_before_the_fact_it_spoils(slip: str) -> None:
    replies, mistakes = write(FACTS, slips=[slip])
    assert mistakes == 1
    assert len(replies) == 7
    assert replies[2].endswith("Action: add_fact(Q1, P1, ?a)")
    assert replies[1] != replies[2]


def test_replies_come_with_honest_counts() -> None:
    with serving() as server:
        server.load(["Thought: so\nAction: ask()"])
        replies = [_chat(server.url, "Who wrote Dracula?") for _ in range(2)]
    assert [r["choices"][0]["message"]["content"] for r in replies] == ["Thought: so\nAction: ask()", END]
    # who, wrote, dracula, ?, and the overhead of a message
    assert replies[0]["usage"]["prompt_tokens"] == 4 + 4
    assert replies[0]["usage"]["completion_tokens"] == 8


def _chat(url: str, text: str) -> Any:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    with urllib.request.urlopen(f"{url}/chat/completions", data=body) as reply:
        return json.load(reply)


def test_every_measure_saves_on_the_same_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    found = {s.name: s for s in measure(4, LOOPS[:5]) if s.source == "all"}
    faithful, ours = found[FAITHFUL], found[OURS]
    assert faithful.questions == ours.same == 4
    assert ours.queries < found["ours, a query for each label"].queries
    assert ours.queries <= 0.6 * faithful.queries
    assert ours.tokens < found["ours, history full"].tokens < faithful.tokens
    assert ours.tokens <= 0.75 * faithful.tokens
    assert ours.calls == faithful.calls
