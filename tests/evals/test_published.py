"""Published figures: the file is well-formed, and its figures obey the arithmetic that the papers print."""

from __future__ import annotations

import pytest

from triplewise.evals.data import read_data
from triplewise.evals.report.tables import PublishedTable, published

GRIDS = (
    *(f"queryagent-table-{n}" for n in (3, 6, 7, 8, 9)),
    *(f"oda-table-{n}" for n in (2, 3, 4)),
    *(f"symagent-table-{n}" for n in (1, 3, 4, 5)),
    *(f"symagent-figure-{n}" for n in (3, 4)),
)


@pytest.mark.parametrize("key", GRIDS)
def test_every_table_says_where_when_and_how_it_was_measured(key: str) -> None:
    table = published()[key]
    assert table.source["date"][:2] == "20"
    assert all([table.source["title"], table.place, table.note, *(row.model for row in table.rows.values())])


def test_every_figure_is_of_a_column_and_a_metric_of_its_table() -> None:
    for table in published().values():
        for row in table.rows.values():
            assert set(row.values) <= set(table.columns), row.row
            assert all(set(figures) <= set(table.metrics) for figures in row.values.values()), row.row
        assert all(set(column["ours"]) == set(table.metrics) for column in table.columns.values()), (
            table.title
        )


def test_no_row_or_column_is_there_twice() -> None:
    for key, table in read_data("report/published.yaml")["tables"].items():
        assert len(table["rows"]) == len(published()[key].rows), key
        assert len(table["columns"]) == len(published()[key].columns), key


def test_no_percentage_is_outside_0_to_100() -> None:
    for table in published().values():
        if table.unit.startswith("percent"):
            values = [
                v for row in table.rows.values() for figures in row.values.values() for v in figures.values()
            ]
            assert all(0 <= v <= 100 for v in values)


@pytest.mark.parametrize("key", ["oda-table-2", "oda-table-3"])
def test_printed_averages_are_the_means_of_their_rows(key: str) -> None:
    table = published()[key]
    for row in table.rows.values():
        *parts, mean = (figures["hits_at_1"] for figures in row.values.values())
        assert len(parts) == 4
        assert sum(parts) / 4 == pytest.approx(mean, abs=0.0051), row.row


def gains(table: PublishedTable, row: str, other: str, *columns: str) -> list[float]:
    """What a row has more than another, figure by figure."""
    one, two = table.rows[row], table.rows[other]
    return [one.values[c][m] - two.values[c][m] for c in columns for m in table.metrics]


def test_differences_that_the_text_names() -> None:
    three, six = published()["queryagent-table-3"], published()["queryagent-table-6"]
    for column, better, moved in (("GrailQA", 16.8, 8.0), ("GraphQ", 15.5, 10.5)):
        assert gains(three, "Ours", "w/o ERASER", column) == pytest.approx([better])
        assert gains(six, "w ERASER", "AgentBench", column) == pytest.approx([moved])


def test_guidelines_are_33_and_the_top_ten_are_86_percent_of_all_that_fired() -> None:
    eight, nine = published()["queryagent-table-8"], published()["queryagent-table-9"]
    assert sum(row.values["GrailQA"]["number"] for row in eight.rows.values()) == 33
    fired = sum(row.values["GrailQA"]["triggers"] for row in eight.rows.values())
    top = sum(row.values["GrailQA"]["triggers"] for row in nine.rows.values())
    assert round(100 * top / fired) == 86
    assert [row.values["GrailQA"]["triggers"] for row in nine.rows.values()] == sorted(
        (row.values["GrailQA"]["triggers"] for row in nine.rows.values()), reverse=True
    )


DROPS = {
    "w/o self-refine": (2.43, 1.26, 0.55, 2.53, 1.44, 2.22),
    "w/o merge": (1.62, 1.78, 1.43, 1.58, 1.36, 2.26),
    "Distilling": (1.22, 2.31, 0.27, 4.43, 4.01, 5.32),
}


@pytest.mark.parametrize("recipe", DROPS)
def test_training_recipes_lose_what_the_paper_prints_beside_them(recipe: str) -> None:
    found = gains(published()["symagent-table-4"], "Self Learning", recipe, "WebQSP", "CWQ")
    assert found == pytest.approx(DROPS[recipe], abs=0.0051)


def test_error_types_are_all_errors() -> None:
    for row in published()["symagent-table-5"].rows.values():
        assert sum(row.values["SymAgent"].values()) == pytest.approx(100, abs=0.011)


def test_tables_that_repeat_each_other_agree() -> None:
    one, three, four = (published()[f"symagent-table-{n}"] for n in (1, 3, 4))
    for column in ("WebQSP", "CWQ"):
        learned = four.rows["Self Learning"].values[column]
        assert one.rows["SymAgent (Qwen2-7B)"].values[column] == learned
        assert three.rows["PM + EM + SL"].values[column]["f1"] == learned["f1"]
    for column in ("GrailQA", "GraphQ"):
        two, three = published()["queryagent-table-2"], published()["queryagent-table-3"]
        assert two.rows["Ours"].values[column] == three.rows["Ours"].values[column]
