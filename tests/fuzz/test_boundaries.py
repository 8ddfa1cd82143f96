"""What comes from outside is a value or an error of ours, whatever bytes it is: never another exception."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.openai_server import OpenAIServer
from tests.support.opened import close_all
from triplewise.graphs import Context, build_graph
from triplewise.graphs.cli.batch import read_questions
from triplewise.graphs.cli.options import read_config
from triplewise.guidelines import load_guidelines
from triplewise.nodes.act import LONGEST, carry_out, read_reply
from triplewise.nodes.environment import Environment
from triplewise.nodes.models import CHARACTERS, MAX_TOKENS
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import State
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.core.errors import ActionError, TriplewiseError
from triplewise.tools.core.files import read_text
from triplewise.tools.core.taught import names_of, ratings_of, right_answers
from triplewise.tools.core.terms import IRI, RDFS, XSD
from triplewise.tools.kg.engine import read_query
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.protocol import LONGEST_LABEL, KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.sparql_results import Reply, judge
from triplewise.tools.learning.trajectory import read_trajectories
from triplewise.tools.parsing.confidence import read_calibration
from triplewise.tools.planning.seeds import read_seeds

FUZZ = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))

PIECES = (
    *(b"", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe9", b"\n", b"\r", b"\t", b"\x1b]52;c;x\x07"),
    *(b"\xed\xa0\x80", b"{", b"}", b"[" * 30_000, b"{" * 3_000, b'"', b"'", b"\\", b"|", b": ", b"- "),
    *(
        b"\\ud800",
        b"y" * 140_000,
        b"&a *a",
        b"!!python/name:os",
        b"#",
        b"null",
        b"NaN",
        b"1e999",
        b"9" * 5_000,
        b"2020-13-45",
        b"59" + b":59" * 3_000,
    ),
    *(b"<x y>", b"_:b", b"<http://e/>", b'"x"@en-', b"@prefix"),
)
"""Bytes that break what reads a file."""


def read_savable(path: Path) -> None:
    """Read questions, all of which can be written again."""
    json.dumps(read_questions(str(path)), ensure_ascii=False).encode()


def read_config_there(path: Path) -> object:
    """Read the configuration of a file that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIPLEWISE_CONFIG", str(path))
        return read_config()


def read_taught(path: Path) -> object:
    """Read what people taught about the demo graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(path.parent.parent))
        return names_of("demo"), right_answers("demo"), ratings_of("demo", "Who?")


FILES: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "graph.ttl": (b'@prefix e: <http://e/> .\ne:a e:p e:b ; e:q "5"^^e:int .\n', open_kg),
    "graph.nt": (b'<http://e/a> <http://e/p> "x"@en .\n<http://e/a> <http://e/p> _:b .\n', open_kg),
    "graph.rdf": (
        b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        b'<r:Description r:about="http://e/a"><e:p r:resource="http://e/b"/></r:Description></r:RDF>',
        open_kg,
    ),
    "graph.txt": (b"Up|made_by|Pete Docter\nUp|year|2009\n", open_kg),
    "graph.nt.gz": (b"\x1f\x8b\x08", open_kg),
    "profile.yaml": (
        b"label_predicates: [http://e/name]\nlanguage: en\nprefixes: {e: http://e/}\n",
        load_profile,
    ),
    "config.yaml": (b"preset: agent\nmax_steps: 5\nkg: demo\n", read_config),
    "rules.yaml": (
        b"- id: x\n  source: kb\n  when: feedback.error\n  guideline: Try {{ call }}.\n"
        b"  example:\n    feedback: {error: no_action}\n    expect: Try\n",
        lambda path: load_guidelines([path]),
    ),
    "seeds.jsonl": (
        b'{"question": "who made Up", "topic_entity": {"e:Up": "Up"}, "answers": ["e:Pete"]}\n',
        lambda path: list(read_seeds(path)),
    ),
    "graph.jsonld": (
        b'{"@context": {"@vocab": "http://e/"}, "@id": "http://e/a", "p": {"@id": "http://e/b"}, "q": [5]}',
        open_kg,
    ),
    "prompt.yaml": (
        b"system: You answer {{ question }} from a graph.\nuser: '{{ question }}'\n",
        load_prompt,
    ),
    "calibration.json": (
        b'{"names": ["size"], "trees": [[0, 1.5, 2]], "base": 0.1}\n',
        lambda path: read_calibration(read_text(path), path),
    ),
    "triplewise.toml": (b'[settings]\nkg = "demo"\nmax_steps = 5\n', read_config_there),
    "taught/triplewise/names.jsonl": (
        b'{"source": "demo", "relation": "P50", "name": "penned by"}\n',
        read_taught,
    ),
    "taught/triplewise/ratings.jsonl": (
        b'{"source": "demo", "question": "Who?", "program": "x", "rating": "right", "answer": []}\n',
        read_taught,
    ),
    "turns.jsonl": (b'{"question": "q", "turns": []}\n', read_trajectories),
    "questions.csv": (b'id,question,note\n1,"Who, then?",x\n2,Where?,"a\nb"\n', read_savable),
    "questions.jsonl": (b'{"id": 1, "question": "Who?", "note": [1, null]}\n', read_savable),
}
"""Name of a file -> what it may look like, and what reads it."""


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    content, read = FILES[name]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)

    @settings(FUZZ, max_examples=8)
    @given(st.integers(0, len(content)), st.integers(0, 9) | st.just(0), st.binary(max_size=8))
    def check(place: int, dropped: int, piece: bytes) -> None:
        for inserted in (*PIECES, piece):
            path.write_bytes(content[:place] + inserted + content[place + dropped :])
            with suppress(TriplewiseError):
                read(path)

    check()
    close_all()


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("taught")])
def test_a_pipe_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(TriplewiseError, match=r"a pipe or a device|no such|unknown prompt"):
        FILES[name][1](tmp_path / name)


CELLS: Sequence[Any] = (
    *({"type": "uri", "value": v} for v in ("http://e/a", "http://e/b c<>", "", "_:b", XSD + "integer")),
    *({"type": "uri", "value": "http://e/" + "x" * 300}, {"type": "bnode", "value": "b0"}),
    *({"type": "literal", "value": v} for v in ("Up", "", " ", "N" * 500, "\x1b[2J", "?x", '"\n')),
    *(
        {"type": "literal", "value": v, "datatype": XSD + t}
        for v, t in (("9" * 400, "integer"), ("1e9999", "decimal"), ("NaN", "double"), ("2020-13-45", "date"))
    ),
    *({"type": "literal", "value": "5", "datatype": XSD + "integer"}, {"type": "uri", "value": None}),
    *({}, {"type": "uri"}, None, {"type": "literal", "value": 5}),
)
"""Cells of results, right and wrong."""
QUESTIONS = (
    *("Who made Up?", "Which film of Up has the highest year?"),
    *("How many films has Up?", "Is Up older than Up?"),
)


class OddEngine(KnowledgeGraph):
    """An engine whose every answer is drawn at random from `CELLS`, or of another form than was asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(load_profile("generic"), "odd")
        self.timeout, self.limit = 5.0, 50
        self.random = random.Random(seed)
        self.cells = self.random.sample(CELLS, 5)

    def _run(self, query: Any, timeout: float, limit: int, foreign: bool) -> Result:
        names, draw = query.variables or ("x",), self.random
        if draw.random() < 0.1:
            return Result(draw.choice((Outcome.TIMEOUT, Outcome.UNAVAILABLE, Outcome.SYNTAX)), message="odd")
        if query.form == "ASK":
            body: dict[str, Any] = {"head": {}, "boolean": draw.random() < 0.9}
        else:
            rows = [
                {n: draw.choice(self.cells) for n in names if draw.random() < 0.8}
                for _ in range(draw.randrange(8))
            ]
            body = {"head": {"vars": names}, "results": {"bindings": rows}}
        return judge(Reply(200, json.dumps(body).encode()), query, limit).result


@settings(FUZZ, max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from(QUESTIONS))
def test_answers_of_an_engine_end_no_run(seed: int, question: str) -> None:
    context = Context(kg=OddEngine(seed), max_seconds=20.0)
    with suppress(TriplewiseError):
        build_graph().invoke({"question": question, "entities": {"Up": "<http://e/a>"}}, context=context)


RESULTS = (
    b'{"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "uri", "value": "http://e/a"}}]}}'
)
XML = b'<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="x"/></head></sparql>'


@settings(FUZZ, max_examples=60)
@given(
    st.sampled_from((RESULTS, XML)),
    st.sampled_from((200, 400, 500, 503)),
    st.binary(max_size=40) | st.sampled_from(PIECES),
    st.integers(0, 90),
)
def test_any_reply_of_an_endpoint_is_an_outcome(body: bytes, status: int, piece: bytes, place: int) -> None:
    reply = Reply(status, body[:place] + piece + body[place:])
    assert judge(reply, read_query("SELECT ?x { ?x ?p ?o }"), 9).result.outcome in Outcome


COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "stop",
        "message": {
            "role": "assistant", "content": "Action 1: search(Dracula)", "refusal": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    }],
    "usage": {
        "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 1},
    },
}  # fmt: skip
ODD: Sequence[Any] = (
    *(None, True, 0, -1, 10**30, 1.5, "", "x", "\ud800", "\x00\x1b[2J", "9" * 5_000, "<think>" * 50),
    *([], {}, [[]], [None], {"a": 1}, [{"type": "text", "text": "finish()"}], [{"type": "text", "text": 5}]),
    *('Thought 1: \nAction 1: add_fact(?x, , "', "Action 1: finish(", "answer(1, [)", "execute()\nask()"),
)
"""Values that a server may put in the place of any other."""


def replaced(value: Any, place: int, by: Any) -> tuple[Any, int]:
    """Replace the part of a JSON value at a place in depth-first order; also return how many parts it has."""
    if place == 0:
        return by, 1
    count, items = 1, list(value.items()) if isinstance(value, dict) else []
    items = list(enumerate(value)) if isinstance(value, list) else items
    out: Any = dict(items) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
    for key, part in items:
        out[key], size = replaced(part, place - count, by)
        count += size
    return out, count


@given(st.integers(1, 9), st.sampled_from(ODD))
def test_a_reply_with_another_value_in_any_place_is_never_taken_for_an_empty_one(place: int, by: Any) -> None:
    body, _ = replaced(json.loads(RESULTS), place, by)
    result = judge(Reply(200, json.dumps(body).encode()), read_query("SELECT ?x { ?x ?p ?o }"), 9).result
    assert result.outcome is not Outcome.EMPTY or body["results"]["bindings"] == []


@settings(FUZZ, max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from(ODD)), min_size=1, max_size=2),
    st.sampled_from(PIECES) | st.none(),
)
def test_any_reply_of_a_model_server_ends_in_an_answer_or_an_error_of_ours(
    changes: Sequence[tuple[int, Any]], piece: bytes | None
) -> None:
    reply: Any = COMPLETION
    for place, by in changes:
        reply, _ = replaced(reply, place, by)
    body = json.dumps(reply).encode()
    body = body if piece is None else body[:90] + piece + body[90:]
    with OpenAIServer(lambda _: {"body": body}) as server:
        context = Context(
            kg="demo", model="openai:scripted", base_url=server.url, max_steps=3, model_retries=0
        )
        with suppress(TriplewiseError):
            build_graph().invoke({"question": "Who wrote Dracula?"}, context=context)


@settings(FUZZ, max_examples=60)
@given(
    st.sampled_from(("", "Thought 1: ", "Action 1: search(", "Action 1: add_fact(?x, ", "Action 1: query(")),
    st.sampled_from(
        ("x", "(", '"', ",", "a,", "½\u0345", " ", " \n", "<think>", "*", "```", "Final Answer: x ")
    ),
    st.sampled_from(("", "x", ")", "\nAction 2: search(x)")),
    st.sampled_from(sorted(TOOLSETS)),
)
def test_a_monstrous_reply_is_read_at_once_and_not_kept(head: str, piece: str, end: str, name: str) -> None:
    env, length = Environment(Context(kg="demo")), CHARACTERS * MAX_TOKENS
    begun = time.monotonic()
    thought, calls = read_reply((head + piece * length)[: length - len(end)] + end, TOOLSETS[name], 8)
    call = calls if isinstance(calls, ActionError) else calls[0]
    step = carry_out(State(question="?"), env, thought, call)["steps"][0]
    assert time.monotonic() - begun < 3
    assert len(str(step)) < 8 * LONGEST


LABEL = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    (" ", "", "x" * 200, "a b " * 90, "y" * 300_000, "(", "?", "the", "is")
)


@settings(FUZZ, max_examples=6)
@given(st.tuples(LABEL, LABEL, LABEL, LABEL))
def test_labels_of_any_text_end_no_run(labels: Sequence[str]) -> None:
    store, label_of = ox.Store(), ox.NamedNode(RDFS + "label")
    a, b, p, q = (ox.NamedNode(f"http://e/{n}") for n in "abpq")
    store.extend(ox.Quad(n, label_of, ox.Literal(text)) for n, text in zip((a, b, p, q), labels, strict=True))
    store.extend([ox.Quad(a, p, b), ox.Quad(b, q, ox.Literal(labels[0])), ox.Quad(b, q, ox.Literal(7))])
    kg = LocalKG(store, load_profile("generic"), "labels")
    assert all(len(label) <= LONGEST_LABEL for label in kg.labels([IRI("http://e/a")]).values())
    for question in (f"Who {labels[2]} {labels[0]}?", labels[1]):
        with suppress(TriplewiseError):
            inputs = {"question": question, "entities": {"it": "<http://e/a>"}}
            state = build_graph().invoke(inputs, context=Context(kg=kg))
            assert len(str(state)) < 100 * LONGEST_LABEL, "it is kept in every checkpoint"
