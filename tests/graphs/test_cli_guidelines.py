"""`triplewise guidelines`: lists by source, and how often each fired in logs of runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli

RUNS = [
    {"steps": [{"guideline": "fact_empty"}, {"guideline": ""}, {"guideline": "budget_low"}]},
    {"steps": [{"guideline": "fact_empty"}], "corrections": []},
    {"steps": [], "corrections": []},
]


def test_list_is_grouped_by_source_and_filtered(cli: Cli) -> None:
    everything, some = cli("guidelines", "list").out, cli("guidelines", "list", "--source", "kb+memory").out
    assert everything.index("interpreter+memory: ") > everything.index("kb: ")
    assert "fact_empty_reversed" in some
    assert "no_action" in everything
    assert "no_action" not in some
    done = cli("guidelines", "list", "--source", "kbb")
    assert (done.code, "unknown source 'kbb'" in done.err, "kb+memory" in done.err) == (2, True, True)


@pytest.mark.parametrize("form", ["documents", "lines", "list"])
def test_stats_counts_by_source_and_by_id(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "runs.json"
    text = {
        "documents": "\n".join(json.dumps(run, indent=2) for run in RUNS),
        "lines": "\n".join(map(json.dumps, RUNS)) + "\n",
        "list": json.dumps(RUNS),
    }[form]
    path.write_text(text, encoding="utf-8")
    done = cli("guidelines", "stats", str(path), str(path))
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()]
    assert "fired 6 times, in 4 of 6 runs (67%)" in done.out
    assert next(r for r in rows if r[:1] == ["kb"])[2:] == ["4"]
    assert next(r for r in rows if r[:1] == ["all"])[2:] == ["6"]
    assert ["fact_empty", "4", "67%", "kb"] in rows
    assert ["budget_low", "2", "33%", "memory"] in rows
    assert "budget_low" not in cli("guidelines", "stats", str(path), "--top", "1").out
    path.write_text('{"steps": [{"guideline": "mine"}]}')
    assert "unknown" in cli("guidelines", "stats", str(path)).out


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no run in it"),
        (b'{"steps": []}\n{"steps": [', ":2: is not JSON"),
        (b'{"a": 1}', "it has no 'steps'"),
        (b"[7]", "it has no 'steps'"),
        (b"\xff\xfe", "not UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_bad_log_is_refused_with_the_remedy(
    cli: Cli, tmp_path: Path, content: bytes | None, part: str
) -> None:
    path = tmp_path / "runs.json"
    if content is not None:
        path.write_bytes(content)
    done = cli("guidelines", "stats", str(path))
    assert done.code == 2
    assert str(path) in done.err
    assert part in done.err
