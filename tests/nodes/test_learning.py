"""Exploring and refining by the embedded policy, with attempts whose worth the test decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.nodes.context import Context
from triplewise.nodes.learning.attempts import Attempt, Attempts, best_of
from triplewise.nodes.learning.course import Order
from triplewise.nodes.learning.explore import drawn, explored
from triplewise.nodes.learning.refine import LOOKS, retried, shortened
from triplewise.nodes.state import State
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory, Turn

QUESTION = Question("q", "who?", {}, ("gold",))
ORDER = Order("q.jsonl", attempts=4)
RULES = [Rule("A", (Atom(f"r{n}", True, "x"),)) for n in range(40)]
NAMES = [rule.text() for rule in RULES]


class Scripted:
    """Attempts of which each rule has a reward; the policy's own is the first rule."""

    def __init__(
        self, rewards: Mapping[int, float], own: int = 0, lengths: Mapping[int, int] | None = None
    ) -> None:
        self.rewards = {NAMES[n]: r for n, r in rewards.items()}
        self.lengths = {NAMES[n]: length for n, length in (lengths or {}).items()}
        self.own, self.followed = own, list[str]()
        self.iteration, self.context = 0, Context()

    def run(self, question: Question, *, rule: Rule | None = None, earlier: str | None = None) -> Attempt:
        text = (rule or RULES[self.own]).text()
        self.followed.append(text)
        reward = self.rewards.get(text, 0.0)
        turns = (Turn("", "", ""),) * self.lengths.get(text, 3)
        made = Trajectory(
            "q", "who?", {}, ("gold",), reward=reward, f1=reward, turns=turns,
            rule=text if reward else "", tried=(text,), origin="explored",
        )  # fmt: skip
        return Attempt(made, State(question="who?", rules=tuple(RULES[:8])))

    def rules(self, state: State, count: int) -> list[Rule]:
        return [*state.rules, *RULES[8 : 8 + count]]

    def planned(self, question: Question) -> State:
        return State(question="who?", rules=tuple(RULES[:8]))

    def worth(self, question: Question, rule: Rule) -> float:
        return 2 * self.rewards.get(rule.text(), 0.0)


def scripted(*args: Any, **rest: Any) -> tuple[Scripted, Attempts]:
    made = Scripted(*args, **rest)
    return made, cast(Attempts, made)


@given(st.integers(0, 40), st.integers(0, 50), st.integers())
def test_rules_are_drawn_without_replacement_and_seeded(many: int, count: int, seed: int) -> None:
    found = drawn(RULES[:many], count, random.Random(seed))
    assert len(found) == len(set(found)) == min(many, count)
    assert found == drawn(RULES[:many], count, random.Random(seed))


def test_higher_ranks_are_drawn_more_often() -> None:
    first = Counter(drawn(RULES[:4], 1, random.Random(seed))[0].text() for seed in range(400))
    assert [name for name, _ in first.most_common()] == NAMES[:4]


def test_a_perfect_attempt_is_enough() -> None:
    stub, attempts = scripted({0: 1.0})
    assert explored(attempts, QUESTION, ORDER).tried == (NAMES[0],)
    assert stub.followed == [NAMES[0]]


def test_the_best_attempt_is_kept_with_all_that_was_tried() -> None:
    stub, attempts = scripted({n: n / 100 for n in range(40)})
    found = explored(attempts, QUESTION, ORDER)
    assert len(stub.followed) == 4
    assert found.reward == max(stub.rewards[name] for name in stub.followed)
    assert found.tried == tuple(stub.followed)
    assert stub.followed.count(NAMES[0]) == 1, "the policy's own rule is not drawn again"


def test_another_seed_explores_otherwise() -> None:
    runs = []
    for seed in (0, 0, 1, 2):
        stub, attempts = scripted({})
        explored(attempts, QUESTION, Order("q.jsonl", attempts=4, seed=seed))
        runs.append(stub.followed)
    assert runs[0] == runs[1]
    assert len({tuple(run) for run in runs}) > 1


def earlier(**values: Any) -> Trajectory:
    given = {"turns": (Turn("", "", ""),) * 5, "tried": tuple(NAMES[:2]), **values}
    return Trajectory("q", "who?", {}, ("gold",), **given)


def test_a_second_try_leaves_out_what_was_tried_and_follows_the_best() -> None:
    stub, attempts = scripted({0: 0.9, 5: 0.4, 9: 0.7})
    found = retried(attempts, QUESTION, earlier(), ORDER)
    assert stub.followed == [NAMES[9]]
    assert found.reward == 0.7
    assert found.tried == tuple(NAMES[: LOOKS + 2])


@pytest.mark.parametrize("reward", [0.0, 0.5])
def test_without_anything_better_the_earlier_attempt_stands(reward: float) -> None:
    stub, attempts = scripted({5: reward})
    found = retried(attempts, QUESTION, earlier(reward=reward, f1=reward), ORDER)
    assert stub.followed == []
    assert (found.reward, found.origin, len(found.turns)) == (reward, "refined", 5)


def test_failed_steps_are_left_out_of_what_found_everything() -> None:
    """The second rule found all: followed at once, it takes fewer steps."""
    stub, attempts = scripted({1: 1.0})
    found = shortened(attempts, QUESTION, earlier(reward=1.0, f1=1.0, rule=NAMES[1]))
    assert stub.followed == [NAMES[1]]
    assert len(found.turns) == 3


def test_what_failed_nowhere_is_not_done_again() -> None:
    stub, attempts = scripted({0: 1.0})
    found = shortened(attempts, QUESTION, earlier(reward=1.0, f1=1.0, rule=NAMES[0]))
    assert stub.followed == []
    assert found.origin == "refined"


def test_of_attempts_the_reward_decides_then_f1_then_length() -> None:
    made = [
        earlier(reward=0.5, f1=1.0, turns=()),
        earlier(reward=1.0, f1=0.1, turns=()),
        earlier(reward=1.0, f1=0.6),
        earlier(reward=1.0, f1=0.6, turns=(Turn("", "", ""),)),
    ]
    assert best_of(made) is made[3]
