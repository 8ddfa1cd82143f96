"""Each rule of composition, by questions that need it."""

from __future__ import annotations

import pytest

from triplewise.tools.parsing import grammar
from triplewise.tools.parsing.chart import Parser, answer_of
from triplewise.tools.parsing.grammar import EITHER_ORDER, IN_ORDER, Rule, evident
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import And, Compared, Image, Nodes, Number, Set

MARA, TOM, IDA, JON, LENA = "Mara Olsen", "Tom Wick", "Ida Brandt", "Jon Keita", "Lena Fox"

QUESTIONS: tuple[tuple[Rule, str, list[str]], ...] = (
    (grammar.intersection, "employees who work on Falcon", [MARA, TOM]),
    (grammar.bridge, "offices of Norway", ["Oslo office"]),
    (grammar.yes_or_no, "is the Oslo office in Norway", ["true"]),
    (grammar.yes_or_no, "is the Oslo office in Germany", ["false"]),
    (grammar.filter_unnamed, "is there an office larger than 1000", ["true"]),
    (grammar.filter_unnamed, "is there an office larger than 2000", ["false"]),
    (grammar.difference, "employees who work on Falcon but not Kestrel", [MARA]),
    (grammar.join, "what is the salary of Tom Wick", ["60"]),
    (grammar.join, "the mentor of the mentor of Jon Keita", [TOM]),
    (grammar.superlative_of_relation, "who has the highest salary", [MARA]),
    (grammar.superlative_of_relation, "what is the highest salary", ["90"]),
    (grammar.superlative_of_set, "which employee in research has the highest salary", [IDA]),
    (grammar.superlative_of_linked, "the highest salary in research", ["70"]),
    (grammar.superlative_of_aggregate, "which department has the highest average salary", ["sales"]),
    (grammar.superlative_of_groups, "which department has the lowest average salary", ["research"]),
    (grammar.superlative_unnamed, "the largest office", ["Berlin office"]),
    (grammar.ranked_superlative, "which project has the second largest budget", ["Falcon"]),
    (grammar.ranked_superlative, "the two largest offices", ["Berlin office", "Oslo office"]),
    (grammar.count, "how many employees work in research", ["3"]),
    (grammar.most, "which employee works on the most projects", [TOM]),
    (grammar.set_with_links, "which department has the most employees", ["research"]),
    (grammar.set_with_links, "which employee works on the fewest projects", [JON]),
    (grammar.counted, "employees with two projects", [TOM]),
    (grammar.relation_of_count, "employees who work on more than one project", [TOM]),
    (grammar.set_with_links, "employees who work on fewer than two projects", [MARA, IDA, JON, LENA]),
    (grammar.aggregate, "what is the average salary", ["63"]),
    (grammar.aggregate, "total salary", ["315"]),
    (grammar.aggregate, "average salary of employees in research", ["55"]),
    (grammar.aggregate_of_linked, "average salary in Norway", ["55"]),
    (grammar.group, "average salary per department", ["sales", "75", "research", "55"]),
    (grammar.number_per_group, "number of employees per department", ["sales", "2", "research", "3"]),
    (grammar.comparison_of_relation, "employees with a higher salary than Ida Brandt", [MARA]),
    (grammar.comparison_with, "employees with a salary of 60 or more", [MARA, TOM, IDA]),
    (grammar.comparison_with, "employees who started before Ida Brandt", [MARA, TOM]),
    (grammar.comparison_with, "employees with a salary above the average salary", [MARA, IDA]),
    (grammar.counted_like, "employees who work on more projects than Ida Brandt", [TOM]),
    (grammar.interval, "projects with a budget between 100 and 600", ["Falcon", "Osprey"]),
    (grammar.filter_named, "employees with a salary above 60", [MARA, IDA]),
    (grammar.filter_named, "employees whose start date is after 2012", [JON, LENA]),
    (grammar.filter_unnamed, "offices larger than 700", ["Berlin office", "Oslo office"]),
    (grammar.negation, "employees without a mentor", [MARA, LENA]),
    (grammar.difference, "who works on Falcon but not on Kestrel", [MARA]),
    (grammar.negated_argument, "employees who work on no project", [JON]),
    (grammar.union, "who works on Falcon or Osprey", [MARA, TOM, LENA]),
    (grammar.union, "who works on Falcon and Kestrel", [TOM]),
    (grammar.shares, "employees in the same department as Jon Keita", [IDA, LENA]),
    (grammar.relation_of_sharing, "who works in the same department as Jon Keita", [IDA, LENA]),
)


def answers(index: GraphIndex, parser: Parser, question: str) -> list[list[str]]:
    """The answers of all readings, best first."""
    return [sorted(answer_of(index, found.answer)[1]) for found in parser.parse(question, index)[1]]


@pytest.mark.parametrize(("rule", "question", "expected"), QUESTIONS)
def test_rule_reads_question(
    company: GraphIndex, parser: Parser, rule: Rule, question: str, expected: list[str]
) -> None:
    assert sorted(expected) in answers(company, parser, question)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("who reports to Mara Olsen", [TOM, IDA]),
        ("who does Ida Brandt report to", [MARA]),
        ("to whom does Jon Keita report", [IDA]),
        ("who is the mentor of Ida Brandt", [TOM]),
        ("who mentors Ida Brandt", [TOM]),
        ("whom does Ida Brandt mentor", [JON]),
        ("who is mentored by Ida Brandt", [JON]),
        ("by whom is Ida Brandt mentored", [TOM]),
        ("who is Ida Brandt the mentor of", [JON]),
        ("who was trained by Tom Wick", [IDA]),
        ("who trained Ida Brandt", [TOM]),
        ("whom did Tom Wick train", [IDA]),
    ],
)
def test_direction_follows_voice_and_word_order(
    company: GraphIndex, parser: Parser, question: str, expected: list[str]
) -> None:
    assert answers(company, parser, question)[0] == sorted(expected)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("the mentor of Jon Keita works on which projects", ["Kestrel"]),
        ("the mentor of the employees of Kestrel works in which department", ["sales"]),
        ("the project of Ida Brandt is worked on by who", [TOM]),
        ("which employees share a department with Jon Keita", [IDA, LENA]),
        ("which projects do employees who share a department with Jon Keita work on", ["Kestrel", "Osprey"]),
        ("who is the mentor of the mentor of Jon Keita", [TOM]),
        ("who earns more, Tom Wick or Ida Brandt", [IDA]),
        ("who started first, Tom Wick or Ida Brandt", [TOM]),
        ("which employees have a mentor", [TOM, IDA, JON]),
        ("what is the floor area of the largest office", ["1200"]),
    ],
)
def test_best_reading(company: GraphIndex, parser: Parser, question: str, expected: list[str]) -> None:
    assert answers(company, parser, question)[0] == sorted(expected)


def node(index: GraphIndex, label: str) -> Set:
    return Nodes(frozenset(i for i in range(len(index.terms)) if index.label(i) == label))


def relation(index: GraphIndex, name: str) -> int:
    return next(r.i for r in index.rels if r.names[0] == name)


def test_no_needs_evidence(company: GraphIndex) -> None:
    in_france = Image(((relation(company, "country"), -1),), node(company, "France"))
    assert evident(And(in_france, node(company, "Berlin office")), company)  # it is in one other country
    on_osprey = Image(((relation(company, "works on"), -1),), node(company, "Osprey"))
    assert not evident(And(on_osprey, node(company, JON)), company)  # nothing is known of his projects
    dearer = Compared(node(company, "Falcon"), ((relation(company, "budget"), 1),), "gt", Number(600))
    assert evident(dearer, company)


def test_every_rule_is_in_the_table() -> None:
    listed = {rule for rule, *_ in (*IN_ORDER, *EITHER_ORDER)}
    assert {rule for rule, *_ in QUESTIONS} <= listed
    assert all(rule.__doc__ for rule in listed)
