"""Usage adds up, and prices say what they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.nodes.models import load_prices
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


def test_snapshots_are_priced_as_their_model_unless_listed(tmp_path: Path) -> None:
    prices, million = load_prices(), 1_000_000
    assert prices.cost("gpt-3.5-turbo", million, million) == 3.5
    assert prices.cost("gpt-3.5-turbo-0613", million, 0) == 1.5
    assert prices.cost("gpt-3.5-turbo-0125", million, 0) == 0.5
    assert prices.cost("gpt-4o-2024-08-06", million, 0) == 2.5
    assert prices.cost("llama-3.1-8b", million, million) is None
    path = tmp_path / "prices.yaml"
    path.write_text("models:\n  local: {input: 0, output: 0}\n  gpt-4o: {input: 1, output: 1}\n")
    own = load_prices(str(path))
    assert (own.cost("local", 5, 5), own.cost("gpt-4o", million, 0), own.cost("gpt-4", million, 0)) == (
        0,
        1,
        30,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: {a: {input: 1", r"p\.yaml:\d: not YAML"),
        ("a: {input: 1, output: 1}", "models: Field required"),
        ("models: {a: 3}", r"p\.yaml:1: models\.a: "),
        ("models:\n  a: {input: 1}", r"p\.yaml:2: models\.a\.output: Field required"),
        ("models: {a: {input: -1, output: 1}}", r"models\.a\.input: "),
        ("models: {a: {input: .nan, output: 1}}", r"models\.a\.input: "),
    ],
)
def test_bad_price_table(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        load_prices(str(path))
