"""The beam, whole readings and their answers."""

from __future__ import annotations

from tests.support.parsing import answer_of, parse
from triplewise.tools.parsing.chart import LONGEST, WIDTH, Parser, prune
from triplewise.tools.parsing.denotation import denotation
from triplewise.tools.parsing.derivation import Category, Derivation
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import Exists, Grouped, Members, Nodes, Query
from triplewise.tools.parsing.question import Question


def derivation(score: float, node: int = 0, kind: str = "entity") -> Derivation:
    found = frozenset([node])
    made = Derivation(Category.SET, 0, 1, [], Nodes(found), found, kind=kind)
    made.score = score
    return made


def test_beam_keeps_the_best_of_what_denotes_the_same() -> None:
    worse, better = derivation(1.0), derivation(2.0)
    assert prune([worse, better]) == [better]


def test_beam_is_as_wide_as_its_category() -> None:
    kept = prune([derivation(float(-n) / 100, n) for n in range(50)])
    assert [d.score for d in kept] == [-n / 100 for n in range(WIDTH[Category.SET])]
    assert prune([derivation(0.0), derivation(-100.0, 1)]) == [derivation(0.0)] or len(kept) > 1


def test_far_behind_the_best_is_dropped() -> None:
    best = derivation(0.0)
    assert prune([best, derivation(-100.0, 1)]) == [best]


def test_readings_are_ranked_and_distinct(company: GraphIndex, parser: Parser) -> None:
    found = parse(parser, "how many employees work in research", company)[1]
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert len({c.query for c in found}) == len(found)
    assert answer_of(company, found[0].answer) == (["3"], ["3"])


def test_nothing_is_composed_of_a_question_without_end(company: GraphIndex, parser: Parser) -> None:
    question, found = parse(parser, "employees who work in research " * (LONGEST // 4), company)
    assert {id(candidate.derivation) for candidate in found} <= set(map(id, question.anchors))


def test_score_is_that_of_the_features(company: GraphIndex, parser: Parser) -> None:
    for candidate in parse(parser, "which employee in research has the highest salary", company)[1][:20]:
        total = sum(parser.weights.get(name, 0.0) * value for name, value in candidate.features.items())
        assert abs(total - candidate.score) < 1e-6


def test_answer_is_what_the_query_denotes(company: GraphIndex, parser: Parser) -> None:
    for candidate in parse(parser, "employees other than Tom Wick who work on Falcon", company)[1]:
        assert candidate.answer == denotation(candidate.query, company)


def test_named_things_may_be_left_out(company: GraphIndex, parser: Parser) -> None:
    found = parse(parser, "which other employees work in the department of Jon Keita", company)[1]
    assert sorted(answer_of(company, found[0].answer)[1]) == ["Ida Brandt", "Lena Fox"]


def test_question_for_yes_or_no_is_answered_so(company: GraphIndex, parser: Parser) -> None:
    best = parse(parser, "does Tom Wick work in research", company)[1][0]
    assert isinstance(best.query, Exists)
    assert best.answer is False
    assert best.features.get("no_evidence", 0.0) == 0.0


def test_rows_are_given_cell_by_cell(company: GraphIndex, parser: Parser) -> None:
    best = parse(parser, "number of employees per department", company)[1][0]
    assert isinstance(best.query, Grouped)
    assert sorted(answer_of(company, best.answer)[1]) == ["2", "3", "research", "sales"]


def test_more_anchors_are_parsed_like_others(company: GraphIndex, parser: Parser) -> None:
    cls = next(c for c, of in enumerate(company.classes) if "project" in of.names)
    query: Query = Members(cls)

    def chains(question: Question) -> list[Derivation]:
        assert all(isinstance(anchor.score, float) for anchor in question.anchors)
        features = [("chain", 30.0)]
        return [
            Derivation(Category.SET, 0, question.n, features, query, denotation(query, company), kind="chain")
        ]

    weighted = Parser({**parser.weights, "chain": 1.0})
    assert parse(weighted, "what is being built here", company, chains)[1][0].query == query


def test_nonsense_has_no_reading_of_its_words(company: GraphIndex, parser: Parser) -> None:
    assert parse(parser, "", company)[1] == []
