"""The state is plain JSON when dumped, and what is read back is the same value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import ValidationError

from triplewise.nodes.state import Answer, Correction, ProofTriple, ScoredTriple, State, Step, Usage, Verdict
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple
from triplewise.tools.linking.linker import EntityCandidate, LinkedEntity
from triplewise.tools.parsing.reading import Reading

VALUES = (
    *(Answer, Correction, ProofTriple, ScoredTriple, Step, Verdict, Usage, Feedback),
    *(IRI, Literal, Triple, EntityCandidate, LinkedEntity, Atom, Rule, Reading),
)
words = st.text(max_size=12)
iris = st.from_regex(r"http://e\.org/[A-Za-z0-9]{1,5}", fullmatch=True).map(IRI)
terms: st.SearchStrategy[Term] = st.one_of(
    iris,
    st.builds(Literal, words, st.just(XSD + "string"), st.just("")),
    st.builds(
        Literal, words, st.just("http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"), st.just("en")
    ),
)
triples = st.builds(Triple, iris, iris, terms)
feedback = st.builds(
    Feedback,
    action=words,
    arguments=st.tuples(words),
    detail=st.dictionaries(
        words, st.one_of(words, st.integers(-9, 9), st.lists(words, max_size=2)), max_size=2
    ),
    outcome=st.sampled_from(["", "rows", "empty"]),
    relations=st.dictionaries(words, st.lists(words, max_size=2), max_size=2),
    values=st.dictionaries(words, st.lists(words, max_size=2), max_size=2),
    triples=st.tuples(triples),
    answers=st.tuples(words),
    finished=st.booleans(),
)
steps = st.builds(
    Step, number=st.integers(1, 9), thought=words, call=words, feedback=feedback, observation=words
)
rules = st.builds(Rule, words, st.tuples(st.builds(Atom, words, st.booleans(), words)))
numbers = st.floats(-9, 9)
readings = st.builds(
    Reading,
    words,
    words,
    numbers,
    st.floats(0, 1),
    values=st.tuples(words),
    uncovered=st.tuples(words),
    features=st.dictionaries(words, numbers, max_size=2),
)
entities = st.builds(
    LinkedEntity,
    words,
    st.integers(-1, 9),
    st.integers(-1, 9),
    words,
    words,
    st.just(0.5),
    st.tuples(st.builds(EntityCandidate, words, words, st.just(1.0), st.just("exact"))),
)
states = st.builds(
    State,
    question=words,
    linked=st.tuples(entities),
    readings=st.tuples(readings),
    rules=st.tuples(rules),
    observation=st.tuples(st.builds(ScoredTriple, triples, st.just(0.25))),
    steps=st.tuples(steps),
    verdict=st.one_of(st.none(), st.builds(Verdict, st.sampled_from(["ok", "error"]), words)),
    corrections=st.tuples(st.builds(Correction, st.integers(1, 9), words, words, words, words)),
    memory=st.tuples(st.tuples(triples, triples)),
    answer=st.one_of(
        st.none(),
        st.builds(
            Answer,
            st.just("answered"),
            proof=st.tuples(st.builds(ProofTriple, triples, st.tuples(words, words, words))),
        ),
    ),
)


@settings(max_examples=50)
@given(states)
def test_json_and_back(state: State) -> None:
    assert State.model_validate(json.loads(state.model_dump_json())) == state


SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=[(t.__module__, t.__qualname__) for t in VALUES])


@settings(max_examples=30)
@given(states)
def test_checkpoints_read_back_what_they_wrote(state: State) -> None:
    stored = {k: SERIALIZER.dumps_typed(getattr(state, k)) for k in State.model_fields}
    # Tuples inside values come back as lists; a run that goes on from a checkpoint reads them anew.
    read = State.model_validate({k: SERIALIZER.loads_typed(v) for k, v in stored.items()})
    assert read.restored().model_dump() == state.model_dump()


def test_an_iri_and_a_literal_stay_apart() -> None:
    plain = {"subject": {"value": "http://e/s"}, "relation": {"value": "http://e/p"}}
    literal = {"value": "5", "datatype": XSD + "integer", "language": ""}
    path = [{**plain, "object": {"value": "http://e/o"}}, {**plain, "object": literal}]
    memory = State.model_validate({"question": "?", "memory": [path]}).memory[0]
    assert [type(t.object) for t in memory] == [IRI, Literal]


def test_states_are_frozen_and_know_their_keys() -> None:
    state = State(question="?")
    with pytest.raises(ValidationError):
        state.question = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="memroy"):
        State.model_validate({"question": "?", "memroy": []})
    with pytest.raises(IndexError):
        _ = state.last
