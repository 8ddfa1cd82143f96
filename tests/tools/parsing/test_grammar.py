"""Each rule of composition, by questions that need it."""

from __future__ import annotations

import pytest

from tests.support.parsing import answer_of, parse
from triplewise.tools.parsing.chart import Parser
from triplewise.tools.parsing.grammar import RULES, evident
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import And, Compared, Image, Nodes, Number, Set

MARA, TOM, IDA, JON, LENA = "Mara Olsen", "Tom Wick", "Ida Brandt", "Jon Keita", "Lena Fox"

QUESTIONS: tuple[tuple[str, list[str]], ...] = (
    ("employees who work on Falcon", [MARA, TOM]),
    ("offices of Norway", ["Oslo office"]),
    ("is the Oslo office in Norway", ["true"]),
    ("is the Oslo office in Germany", ["false"]),
    ("is there an office larger than 1000", ["true"]),
    ("is there an office larger than 2000", ["false"]),
    ("employees who work on Falcon but not Kestrel", [MARA]),
    ("what is the salary of Tom Wick", ["60"]),
    ("the mentor of the mentor of Jon Keita", [TOM]),
    ("who has the highest salary", [MARA]),
    ("what is the highest salary", ["90"]),
    ("which employee in research has the highest salary", [IDA]),
    ("the highest salary in research", ["70"]),
    ("which department has the highest average salary", ["sales"]),
    ("which department has the lowest average salary", ["research"]),
    ("the largest office", ["Berlin office"]),
    ("which project has the second largest budget", ["Falcon"]),
    ("the two largest offices", ["Berlin office", "Oslo office"]),
    ("top 2 offices by area", ["Berlin office", "Oslo office"]),
    ("the newest employee", [LENA]),
    ("how many employees work in research", ["3"]),
    ("which employee works on the most projects", [TOM]),
    ("which department has the most employees", ["research"]),
    ("which employee works on the fewest projects", [JON]),
    ("employees with two projects", [TOM]),
    ("employees who work on more than one project", [TOM]),
    ("employees who work on fewer than two projects", [MARA, IDA, JON, LENA]),
    ("what is the average salary", ["63"]),
    ("total salary", ["315"]),
    ("average salary of employees in research", ["55"]),
    ("average salary in research", ["55"]),
    ("average salary per department", ["sales", "75", "research", "55"]),
    ("number of employees per department", ["sales", "2", "research", "3"]),
    ("employees with a higher salary than Ida Brandt", [MARA]),
    ("employees with a salary of 60 or more", [MARA, TOM, IDA]),
    ("employees who started before Ida Brandt", [MARA, TOM]),
    ("employees with a salary above the average salary", [MARA, IDA]),
    ("projects with a budget between 100 and 600", ["Falcon", "Osprey"]),
    ("employees with a salary above 60", [MARA, IDA]),
    ("employees whose start date is after 2012", [JON, LENA]),
    ("offices larger than 700", ["Berlin office", "Oslo office"]),
    ("employees without a mentor", [MARA, LENA]),
    ("who works on Falcon but not on Kestrel", [MARA]),
    ("employees who work on no project", [JON]),
    ("who works on Falcon or Osprey", [MARA, TOM, LENA]),
    ("who works on Falcon and Kestrel", [TOM]),
    ("employees in the same department as Jon Keita", [IDA, LENA]),
    ("who works in the same department as Jon Keita", [IDA, LENA]),
    ("the oldest employee", [MARA]),
    ("employees younger than 35", [JON, LENA]),
    ("the largest office by floor area", ["Berlin office"]),
    ("is Tom Wick a department", ["false"]),
    ("employees who do not report to Mara Olsen", [JON, LENA]),  # nor does she herself
    ("employees nobody mentors", [MARA, LENA]),
    ("offices neither in Germany nor in Norway", ["Turin office"]),
    ("number of employees per role", ["clerk", "2"]),
    ("total number of offices", ["3"]),
    ("the most common trainer", [MARA]),
    ("the most common mentor among employees in sales", [MARA]),
    ("who has only one mentor", [TOM, IDA, JON]),
    ("clerks who work on Osprey", [LENA]),
)


def answers(index: GraphIndex, parser: Parser, question: str) -> list[list[str]]:
    """The answers of all readings, best first."""
    return [sorted(answer_of(index, found.answer)[1]) for found in parse(parser, question, index)[1]]


@pytest.mark.parametrize(("question", "expected"), QUESTIONS)
def test_question_has_reading(
    company: GraphIndex, parser: Parser, question: str, expected: list[str]
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
        ("who works on the most projects", [TOM]),
        ("who is the boss of Jon Keita", [IDA]),
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


def test_every_rule_shows_what_it_reads() -> None:
    assert all(" | " in (rule.__doc__ or "") for rules in RULES.values() for rule, _ in rules)
