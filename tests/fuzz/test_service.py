"""Whatever a client sends to the web service, it gets a reply or an error of ours, never a failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from starlette.testclient import TestClient

from triplewise.graphs.around import LONGEST_NAME, ServedGraph
from triplewise.graphs.serve import Service

PATHS = ("/api/ask", "/api/stream", "/api/query", "/api/rate", "/api/name")
KEYS = ("question", "query", "format", "run", "pick", "conversation", "alone", "rating", "relation", "name")
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "csv", "right", "P36", "Who?", "And of Italy?", "SELECT", "ASK {}", "SELECT ?x {?x a 1}"]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield TestClient(Service(ServedGraph.open("agent", {"kg": "demo"})).app, base_url="http://localhost")


@QUICK
@given(st.sampled_from(PATHS), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_a_body_of_any_values(client: Any, path: str, body: dict[str, Any]) -> None:
    reply = client.post(path, content=json.dumps(body))
    assert reply.status_code in (200, 400, 403, 404, 502, 503)
    if reply.status_code != 200:
        assert reply.json()["error"]


@QUICK
@given(st.sampled_from(PATHS[:3]), st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=4))
def test_parameters_of_any_texts(client: Any, path: str, parameters: dict[str, str]) -> None:
    assert client.get(path, params=parameters).status_code in (200, 400, 403, 404, 502, 503)


@QUICK
@given(st.binary(max_size=200))
def test_a_body_of_any_bytes(client: Any, body: bytes) -> None:
    reply = client.post("/api/name", content=body)
    assert reply.status_code in (400, 403, 404)
    assert len(reply.json()["error"]) < 10 * LONGEST_NAME
