"""Questions over small tables: the query that is thought likeliest, and what is asked of the database."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.sql.planning.memory import MemoryDatabase
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.sql.base import SqlQuery, Value
from triplewise.tools.sql.planning import ScoredQuery, plan_queries

PLAYERS = (
    ("Player", "Team", "Country", "Points", "Debut year"),
    (
        ("Ana Peña", "Red Lions", "Spain", "31", "1998"),
        ("Bo Li", "Red Lions", "China", "12", "2001"),
        ("Cid Ahn", "Blue Foxes", "Korea", "24", "2004"),
        ("Dee O'Hara", "Blue Foxes", "Ireland", "1,007", "2004"),
    ),
)


@pytest.fixture
def players() -> MemoryDatabase:
    return MemoryDatabase({"players": PLAYERS})


@pytest.fixture
def films() -> MemoryDatabase:
    """Directors, films and the studios that made them."""
    return MemoryDatabase(
        {
            "director": (("id", "name", "country"), ((1, "Ines Roy", "Spain"), (2, "Otto Berg", "Norway"))),
            "film": (
                ("id", "title", "year", "director_id", "studio_id"),
                ((10, "Salt", 1990, 1, 100), (11, "Fjord", 2003, 2, 100), (12, "Sand", 2010, 1, 101)),
            ),
            "studio": (("id", "name", "city"), ((100, "Northlight", "Oslo"), (101, "Mar Films", "Madrid"))),
        },
        keys=(("film.director_id", "director.id"), ("film.studio_id", "studio.id")),
    )


def plans(database: MemoryDatabase, question: str, limit: int = 5) -> list[ScoredQuery]:
    return plan_queries(database, question, open_encoder(), limit)


def best(database: MemoryDatabase, question: str) -> SqlQuery:
    found = plans(database, question)
    assert found, f"nothing for {question!r}"
    return found[0].query


def answer(database: MemoryDatabase, question: str) -> list[Value]:
    return [row[0] for row in database.run(best(database, question)).rows]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which team does Bo Li play for?", ["Red Lions"]),
        ("which country is ana pena from", ["Spain"]),
        ("What are the points of Dee O'Hara?", ["1,007"]),
        ("Which player has a country of Korea?", ["Cid Ahn"]),
        ("Who is the player from Ireland with team Blue Foxes?", ["Dee O'Hara"]),
    ],
)
def test_values_are_linked_to_conditions(
    players: MemoryDatabase, question: str, expected: list[Value]
) -> None:
    assert answer(players, question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which player has more than 30 points and team Red Lions?", ["Ana Peña"]),
        ("Which player had a debut year after 2001 and country Korea?", ["Cid Ahn"]),
        ("Which player has points less than 20?", ["Bo Li"]),
        ("Which player has at least 1,007 points?", ["Dee O'Hara"]),
        ("Which player has 1007 points or more?", ["Dee O'Hara"]),
        ("Which player has points between 20 and 30?", ["Cid Ahn"]),
    ],
)
def test_comparisons(players: MemoryDatabase, question: str, expected: list[Value]) -> None:
    assert answer(players, question) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many players are in team Red Lions?", [2]),
        ("What is the highest points for team Red Lions?", [31.0]),
        ("What is the lowest points for team Red Lions?", [12.0]),
        ("What is the total points of team Red Lions?", [43.0]),
        ("What is the average points of team Red Lions?", [21.5]),
    ],
)
def test_functions(players: MemoryDatabase, question: str, expected: list[Value]) -> None:
    assert answer(players, question) == expected


def test_how_many_of_a_column_of_numbers_is_its_value(players: MemoryDatabase) -> None:
    assert answer(players, "How many points does Bo Li have?") == ["12"]


def test_the_row_with_the_highest_value(players: MemoryDatabase) -> None:
    assert answer(players, "Which player has the highest points?") == ["Dee O'Hara"]
    assert answer(players, "Which player of team Red Lions has the most points?") == ["Ana Peña"]


def test_a_superlative_that_says_what_it_compares() -> None:
    rows = (("Lamp", "39.5"), ("Table", "450"), ("Chair", "120"))
    shop = MemoryDatabase({"product": (("product name", "price"), rows)})
    assert answer(shop, "What is the most expensive product?") == ["Table"]
    assert answer(shop, "What is the cheapest product?") == ["Lamp"]


def test_a_year_is_compared_with_dates() -> None:
    orders = MemoryDatabase(
        {"orders": (("customer", "order date"), (("Ann", "2020-03-01"), ("Bo", "2021-12-30")))},
        kinds={"orders.order date": "date"},
    )
    assert answer(orders, "Which customer has an order date after 2020?") == ["Bo"]
    assert answer(orders, "Which customer has an order date before 2021?") == ["Ann"]


def test_conditions_and_answer_in_different_tables(films: MemoryDatabase) -> None:
    assert answer(films, "Which films were directed by Otto Berg?") == ["Fjord"]
    assert answer(films, "What is the city of the studio of the film Sand?") == ["Madrid"]


def test_a_join_over_three_tables(films: MemoryDatabase) -> None:
    query = best(films, "Which directors made a film with studio Mar Films?")
    assert query.answer is not None
    assert query.answer.id == "director.name"
    assert {c.column.id for c in query.conditions} == {"studio.name"}


def test_a_named_table_is_counted(films: MemoryDatabase) -> None:
    assert answer(films, "How many films did Ines Roy direct?") == [2]


def test_tables_that_cannot_be_joined_are_never_mixed() -> None:
    database = MemoryDatabase(
        {"cities": (("city", "river"), (("Bonn", "Rhine"),)), "dogs": (("dog", "owner"), (("Rex", "Bonn"),))}
    )
    for plan in plans(database, "Which dog lives in the city Bonn on the river Rhine?"):
        tables = {c.column.table for c in plan.query.conditions}
        assert plan.query.answer is not None
        assert tables | {plan.query.answer.table} in ({"cities"}, {"dogs"})


def test_unicode_values_and_names() -> None:
    database = MemoryDatabase({"番組": (("番組名", "放送局"), (("たったひとつの恋", "NTV"), ("花", "TBS")))})
    assert answer(database, "放送局 of たったひとつの恋?") == ["NTV"]


def test_sql_keywords_as_names() -> None:
    database = MemoryDatabase(
        {"order": (("select", "group", "from"), (("a1", "x", "Rome"), ("a2", "y", "Bath; DROP TABLE order")))}
    )
    assert answer(database, "What is the group when from is Bath; DROP TABLE order?") == ["y"]
    assert answer(database, "What is the select when group is x?") == ["a1"]


@pytest.mark.parametrize("question", ["", "?", "the of and", "zzz qqq", "Who ate the bicycle?"])
def test_nothing_to_go_by(question: str) -> None:
    database = MemoryDatabase({"t": (("xk1", "xk2"), (("v9", "w9"),))})
    assert plans(database, question) == []


def test_an_empty_table_gives_nothing() -> None:
    assert plans(MemoryDatabase({"players": (PLAYERS[0], ())}), "Which team does Bo Li play for?") == []


def test_a_database_without_tables_gives_nothing() -> None:
    assert plans(MemoryDatabase({}), "Which team does Bo Li play for?") == []


def test_values_beyond_those_kept_are_asked_for(players: MemoryDatabase) -> None:
    players.kept = 2
    assert answer(players, "Which team does Cid Ahn play for?") == ["Blue Foxes"]


def test_few_queries_and_each_plan_gives_rows(players: MemoryDatabase) -> None:
    found = plans(players, "Which player has more than 30 points and team Red Lions?", limit=3)
    assert 1 <= len(found) <= 3
    assert len(players.queries) <= 10
    assert all(players.run(plan.query).rows for plan in found)
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert "Red Lions" in found[0].why


def test_near_spellings_are_linked(players: MemoryDatabase) -> None:
    assert answer(players, "What country is Dee OHaraa from, team Blu Foxes?")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_no_question_breaks_it(question: str) -> None:
    plans(MemoryDatabase({"players": PLAYERS}), question)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), max_size=4), st.text(max_size=12))
def test_no_cell_breaks_it(rows: list[list[str]], name: str) -> None:
    database = MemoryDatabase({"t": ((name, "other"), rows)})
    cell = rows[0][0] if rows else "x"
    plans(database, f"What is the other when {name} is {cell}?")
