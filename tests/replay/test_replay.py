"""Real replies of a language model, given again: a change of parser or action that breaks them is seen here.

`agent.jsonl.gz` holds a run of the preset `agent` over the demo graph, an object a line: the question, what
the model replied each time it was asked (by hand, from the request alone), and what came out: `labels`,
`status`, `calls`. The requests are kept beside them, to be read where a replay fails.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, State, build_graph

FILE = Path(__file__).parent / "agent.jsonl.gz"
RUNS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: str(run["id"]))
def test_real_replies_still_lead_to_their_answer(
    run: dict[str, Any], openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(run["replies"])
    own: dict[str, Any] = {"api_key_env": "", "seeds": "none", "model_confidence": False}
    context = Context(model="openai:scripted", base_url=server.url, **own)
    state = State.model_validate(build_graph("agent").invoke({"question": run["question"]}, context=context))
    assert state.answer is not None
    assert (state.answer.status, sorted(state.answer.labels)) == (run["status"], sorted(run["labels"]))
    assert state.answer.usage.calls == run["calls"]
