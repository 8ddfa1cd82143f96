"""Tasks whose questions travel together, and the union of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.endpoint import split, unite
from triplewise.tools.kg.engine import read_query
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.waves import Waves


class Post:
    """Answers questions by their length, and notes what came together."""

    def __init__(self) -> None:
        self.waves: list[list[str]] = []
        self.crew = Waves(self.send)

    def send(self, asked: Sequence[str]) -> list[int]:
        self.waves.append(list(asked))
        if "broken" in asked:
            raise OSError("no answer")
        return [len(question) for question in asked]


def test_what_tasks_ask_travels_together_step_by_step() -> None:
    post = Post()

    def chain(name: str, steps: int) -> list[int]:
        return [post.crew.ask(f"{name}{'+' * i}") for i in range(steps)]

    tasks: list[Callable[[], list[int]]] = [partial(chain, "a", 1), partial(chain, "bb", 3), lambda: [0]]
    assert post.crew.run(tasks) == [[1], [2, 3, 4], [0]]
    assert post.waves == [["a", "bb"], ["bb+"], ["bb++"]]
    assert post.crew.ask("alone") == 5


def test_tasks_of_tasks_join_the_same_waves() -> None:
    post = Post()

    def both(name: str) -> list[int]:
        return post.crew.run([partial(post.crew.ask, name + part) for part in ("1", "2")])

    tasks: list[Callable[[], object]] = [partial(both, "a"), partial(both, "b"), partial(post.crew.ask, "c")]
    assert post.crew.run(tasks) == [
        [2, 2],
        [2, 2],
        1,
    ]
    assert sorted(post.waves[0]) == ["a1", "a2", "b1", "b2", "c"]
    assert len(post.waves) == 1


def test_an_error_reaches_who_asked_and_the_others_go_on() -> None:
    post, done = Post(), list[int]()

    def careful() -> int:
        try:
            return post.crew.ask("broken")
        except OSError:
            return -1

    assert post.crew.run([careful, lambda: 1]) == [-1, 1]

    def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        post.crew.run([fails, lambda: done.append(post.crew.ask("x"))])
    assert done == [1]
    assert post.crew.run([partial(post.crew.ask, "y"), partial(post.crew.ask, "zz")]) == [1, 2]


EX = "http://example.org/"
QUERIES = [
    f"PREFIX e: <{EX}>\nSELECT DISTINCT ?x WHERE {{ ?x e:memberOf e:hub }}",
    f"SELECT ?x (COUNT(?o) AS ?n) WHERE {{ ?x <{EX}author> ?o }} GROUP BY ?x ORDER BY ?x",
    f"ASK {{ <{EX}call> <{EX}author> <{EX}london> }}",
    f"ASK WHERE {{ <{EX}call> <{EX}author> <{EX}bess> }}",
    f"PREFIX e: <{EX}> SELECT ?o ?p WHERE {{ e:nothing ?p ?o }}",
]


def test_a_union_answers_as_each_of_its_queries(kg: KnowledgeGraph) -> None:
    asked = [(read_query(text), 20) for text in QUERIES]
    united = unite(asked)
    assert united is not None
    results = split(kg.query(united.text, limit=200), asked)
    for text, result in zip(QUERIES, results, strict=True):
        alone = kg.query(text, limit=20)
        assert (result.outcome, result.variables, result.boolean) == (
            alone.outcome,
            alone.variables,
            alone.boolean,
        ), text
        assert len(result.rows) == len(alone.rows)
        if alone.outcome is not Outcome.TRUNCATED:
            assert set(result.rows) == set(alone.rows)
    assert results[0].outcome is Outcome.TRUNCATED
    assert IRI(f"{EX}fang") in results[1].column("x")


@pytest.mark.parametrize("text", ["BASE <http://e/> SELECT ?x { ?x <p> ?y }", "SELECT * { ?x ?p ?y }"])
def test_what_cannot_be_united_is_asked_alone(text: str) -> None:
    assert unite([(read_query(text), 1), (read_query(QUERIES[0]), 1)]) is None
