"""`triplewise guidelines`: lists by source."""

from __future__ import annotations

from tests.graphs.conftest import Cli


def test_list_is_grouped_by_source_and_filtered(cli: Cli) -> None:
    everything, some = cli("guidelines", "list").out, cli("guidelines", "list", "--source", "kb+memory").out
    assert everything.index("interpreter+memory: ") > everything.index("kb: ")
    assert "fact_empty_reversed" in some
    assert "no_action" in everything
    assert "no_action" not in some
    done = cli("guidelines", "list", "--source", "kbb")
    assert (done.code, "unknown source 'kbb'" in done.err, "kb+memory" in done.err) == (2, True, True)
