"""Usage adds up, and prices say what they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.nodes.pricing import estimate_tokens, load_prices
from triplewise.nodes.state import Usage
from triplewise.tools.core.errors import DataError

COUNTS = st.integers(0, 10**9)
# Quarters add up exactly, so that the order of a sum cannot matter.
COSTS = st.none() | COUNTS.map(lambda n: n / 4)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COSTS, st.booleans(), COUNTS, COUNTS.map(lambda n: n / 4))


@given(USAGES, USAGES, USAGES)
def test_usages_add_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Usage() == a
    assert ((a + b).cost is None) == (a.cost is None or b.cost is None)


def test_snapshots_are_priced_as_their_model_unless_listed() -> None:
    prices = load_prices()
    million = 1_000_000
    assert prices.cost("gpt-3.5-turbo", million, million) == 3.5
    assert prices.cost("gpt-3.5-turbo-0613", million, 0) == 1.5
    assert prices.cost("gpt-3.5-turbo-0125", million, 0) == 0.5
    assert prices.cost("gpt-4o-2024-08-06", million, 0) == 2.5
    assert prices.cost("gpt-4o-2024-05-13", million, 0) == 5.0
    assert prices.cost("llama-3.1-8b", million, million) is None


def test_own_prices_lie_over_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("models:\n  local: {input: 0, output: 0}\n  gpt-4o: {input: 1, output: 1}\n")
    prices = load_prices(path)
    assert prices.cost("local", 5, 5) == 0
    assert prices.cost("gpt-4o", 1_000_000, 0) == 1
    assert prices.cost("gpt-4", 1_000_000, 0) == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: {a: {input: 1", r"p\.yaml:\d: not YAML"),
        ("a: {input: 1, output: 1}", "needs a key 'models'"),
        ("models: {a: 3}", "model 'a' needs"),
        ("models: {a: {input: 1}}", "model 'a': output must be"),
        ("models: {a: {input: -1, output: 1}}", "model 'a': input must be"),
        ("models: {a: {input: .nan, output: 1}}", "model 'a': input must be"),
    ],
)
def test_bad_price_table(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_prices(path)


@given(st.lists(st.text(max_size=50), max_size=5))
def test_estimates_grow_with_the_text(texts: list[str]) -> None:
    assert estimate_tokens([*texts, "more"]) > estimate_tokens(texts)
