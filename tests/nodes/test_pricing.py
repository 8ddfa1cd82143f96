"""Usage adds up, and prices say what they do not know."""

from __future__ import annotations

from hypothesis import given, strategies as st

from triplewise.nodes.models import cost
from triplewise.nodes.state import Usage

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
    million = 1_000_000
    # QueryAgent, appendix C.2: 0.0015 and 0.0020 USD per thousand tokens.
    assert cost("gpt-3.5-turbo", million, million) == 3.5
    assert cost("gpt-3.5-turbo-0613", million, 0) == 1.5
    assert cost("gpt-3.5-turbo-0125", million, 0) == 0.5
    assert cost("gpt-4o-2024-08-06", million, 0) == 2.5
    assert cost("llama-3.1-8b", million, million) is None
