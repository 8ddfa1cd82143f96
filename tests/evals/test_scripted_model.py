"""The scripted model: replies by rule and step, latency, counts."""

from __future__ import annotations

import json
import time
from urllib.request import Request, urlopen

import pytest

from tests.support import counting_model
from triplewise.evals.scripted_model import RuleScript


def prompt(step: int) -> list[dict[str, str]]:
    """A prompt of the form that builds queries."""
    asked = "Question: who made Alien?\nEntities: Alien: Q1; Ridley: Q2\n"
    seen = "Observation 1: {'forward': ['P57 (director)', 'P58'], 'backward': []}\n" if step > 1 else ""
    return [
        {"role": "system", "content": "1. add_fact(head, relation, tail)\nQuestion: of the example?"},
        {"role": "user", "content": f"{asked}{seen}Write Thought {step} and Action {step}."},
    ]


@pytest.mark.parametrize(
    ("step", "action"),
    [
        (1, "get_relation(Q1)"),
        (2, "add_fact(Q1, P57, ?answer)"),
        (3, "set_answer(?answer)"),
        (9, "execute()"),
    ],
)
def test_shipped_replies_take_sensible_steps(step: int, action: str) -> None:
    script = RuleScript()
    assert script(prompt(step)).endswith(f"\nAction: {action}")
    assert script.begun == ({"who made Alien?": 1} if step == 1 else {})


def test_the_server_answers_after_its_latency_and_counts() -> None:
    with counting_model.running(0.1) as url:
        body = json.dumps({"model": "any", "messages": prompt(1)}).encode()
        start = time.perf_counter()
        with urlopen(Request(f"{url}/chat/completions", body), timeout=10) as answer:
            found = json.load(answer)
        assert time.perf_counter() - start >= 0.1
        assert "get_relation(Q1)" in found["choices"][0]["message"]["content"]
        assert found["usage"]["prompt_tokens"] > 0
        assert counting_model.counts(url) == {"calls": 1, "most": 1, "begun": {"who made Alien?": 1}}
