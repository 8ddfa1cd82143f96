"""Which derivations of a training question are right, and weights for one graph."""

from __future__ import annotations

import pytest

from triplewise.tools.kg import open_kg
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.parser_training import (
    Labelled,
    derivations,
    improved_weights,
    is_right,
    labelled_example,
)
from triplewise.tools.parsing.learn import Vocabulary, shipped_weights
from triplewise.tools.parsing.local import index_for
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

CAPITAL = Labelled("What is the capital of France?", {}, (("Q90",),))


@pytest.fixture(scope="module")
def demo() -> KnowledgeGraph:
    return open_kg("demo")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return open_encoder()


def test_derivations_with_the_gold_answer_are_right(demo: KnowledgeGraph, encoder: Encoder) -> None:
    index, found = derivations(CAPITAL, demo, encoder, shipped_weights())
    example = labelled_example("demo", CAPITAL, found, demo, index, Vocabulary())
    assert example.right.any()
    assert not example.right.all()
    paris = [candidate.answer for candidate, right in zip(found, example.right, strict=True) if right]
    nodes = {node for answer in paris if isinstance(answer, frozenset) for node in answer}
    assert {index.label(node) for node in nodes if isinstance(node, int)} == {"Paris"}


def test_an_answer_is_right_by_id_by_name_and_in_part_where_gold_answers_are_partial(
    demo: KnowledgeGraph, encoder: Encoder
) -> None:
    index, profile = index_for(demo, encoder, "", tuple), demo.profile
    node = {index.label(n): n for n in range(len(index.terms))}
    paris, both = frozenset({node["Paris"]}), frozenset({node["Paris"], node["Berlin"]})
    assert is_right(paris, [["Q90"]], index, profile)
    assert is_right(paris, [["Q64"], ["Paris"]], index, profile)
    assert not is_right(both, [["Q90"]], index, profile)
    assert is_right(both, [["Q90"]], index, profile, least=0.5)
    assert is_right(3.0, [["3"]], index, profile)
    assert is_right(True, [["true"]], index, profile)


def test_where_there_is_no_gold_answer_none_is_right(demo: KnowledgeGraph, encoder: Encoder) -> None:
    index = index_for(demo, encoder, "", tuple)
    assert is_right(frozenset(), [[]], index, demo.profile)
    assert not is_right(frozenset({0}), [[]], index, demo.profile)
    assert not is_right(frozenset(), [["Q90"]], index, demo.profile)


def test_questions_move_the_weights_of_their_graph_towards_their_answers(
    demo: KnowledgeGraph, encoder: Encoder
) -> None:
    before = shipped_weights()
    after, was, now = improved_weights([CAPITAL, CAPITAL], demo, encoder, before)
    assert after.keys() >= before.keys()
    assert after != before
    assert max(abs(after[name] - weight) for name, weight in before.items()) < 1.0
    assert was <= now == 1.0
