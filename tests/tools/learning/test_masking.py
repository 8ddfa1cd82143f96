"""Which tokens are learned: those that the agent wrote, whatever the chat template looks like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tiny_models import CHATML, tiny_tokenizer
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.learning.dialogue import SHORTEST, lesson, shortened
from triplewise.tools.learning.masking import IGNORED, Example, encode, examples_of, with_template
from triplewise.tools.learning.trajectory import Trajectory, Turn

NO_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "[{{ m['role'] }}] {{ m['content'] | trim }}{% if m['role'] == 'assistant' %}<|im_end|>{% endif %}\n"
    "{% endfor %}"
)
TEMPLATES: dict[str, str | None] = {"chatml": CHATML, "no system": NO_SYSTEM, "none": None}

TOKENIZERS = {name: with_template(tiny_tokenizer(template)) for name, template in TEMPLATES.items()}

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=40).filter(
    lambda text: "<|" not in text
)


def made(*turns: Turn) -> Trajectory:
    return Trajectory("q", "who?", {}, ("a",), turns=turns, system="Be brief.", prompt="Question: who?")


def learned(tokenizer: Any, example: Example) -> str:
    return str(tokenizer.decode([i for i in example.labels if i != IGNORED]))


@pytest.mark.parametrize("name", TEMPLATES)
@settings(deadline=None, max_examples=40)
@given(turns=st.lists(st.builds(Turn, words, words.map(lambda w: f"f({w})"), words), min_size=1, max_size=4))
def test_exactly_what_the_agent_wrote_is_learned(name: str, turns: list[Turn]) -> None:
    tokenizer = TOKENIZERS[name]
    example = encode(tokenizer, lesson(made(*turns)))
    wanted = "".join(
        f"Thought {n}: {t.thought}\nAction {n}: {t.call}<|im_end|>" for n, t in enumerate(turns, 1)
    )
    # A tokenizer may make one token of a blank and the word behind it.
    assert "".join(learned(tokenizer, example).split()) == "".join(wanted.split())
    assert all(label in (IGNORED, token) for token, label in zip(*example, strict=True))


def test_an_action_quoted_in_the_question_is_not_learned() -> None:
    """What the agent wrote is found at its own place, also where the same words stand before it."""
    turn = Turn("go", "finish(Q1)", "done")
    quoting = Trajectory(
        "q", "who?", {}, ("a",), turns=(turn,), system="s", prompt="Thought 1: go\nAction 1: finish(Q1)"
    )
    tokenizer = TOKENIZERS["chatml"]
    example = encode(tokenizer, lesson(quoting))
    first = next(i for i, label in enumerate(example.labels) if label != IGNORED)
    assert tokenizer.decode(example.input_ids[:first]).count("finish(Q1)") == 1


def test_a_reply_without_an_action_is_not_learned() -> None:
    turns = (Turn("hm", "", "No action was found."), Turn("so", "finish(Q1)", "done"))
    tokenizer = TOKENIZERS["chatml"]
    text = learned(tokenizer, encode(tokenizer, lesson(made(*turns))))
    assert text == "Thought 2: so\nAction 2: finish(Q1)<|im_end|>"


def test_a_template_that_rewrites_messages_is_refused() -> None:
    tokenizer = with_template(tiny_tokenizer(CHATML.replace("m['content']", "m['content'] | upper")))
    with pytest.raises(ConfigurationError, match="rewrites messages"):
        encode(tokenizer, lesson(made(Turn("go", "finish(Q1)", "done"))))


def test_long_observations_are_cut_before_later_steps() -> None:
    tokenizer = TOKENIZERS["chatml"]
    long = made(Turn("look", "search(Q1)", "Q1, " * 3000), Turn("so", "finish(Q1)", "done"))
    (example,), cut = examples_of(tokenizer, [long], 400)
    assert cut == 1
    assert len(example.input_ids) <= 400
    assert learned(tokenizer, example).endswith("finish(Q1)<|im_end|>")


def test_what_fits_by_no_means_is_cut_at_its_end() -> None:
    tokenizer = TOKENIZERS["chatml"]
    turns = [Turn(f"step {n}", f"search(Q{n})", "none") for n in range(200)]
    (example,), cut = examples_of(tokenizer, [made(*turns)], 300)
    assert (len(example.input_ids), cut) == (300, 1)
    assert examples_of(tokenizer, [made(*turns)], 5) == ([], 1)


@given(st.lists(st.integers(0, 2_000), max_size=5))
def test_shortening_ends(sizes: list[int]) -> None:
    current: Trajectory | None = made(*(Turn("t", "c", "x" * size) for size in sizes))
    while current is not None:
        last, current = current, shortened(current)
    assert all(len(turn.observation) <= SHORTEST for turn in last.turns)
