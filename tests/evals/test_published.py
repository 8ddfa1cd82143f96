"""Published figures: the file is well-formed, and its figures obey the arithmetic that the papers print."""

from __future__ import annotations

import pytest

from triplewise.evals.report.tables import published
from triplewise.tools.core.files import packaged

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
    assert all([table.source["title"], table.place, table.note, *(row.origin for row in table.rows.values())])


def test_every_figure_is_of_a_column_and_a_metric_of_its_table() -> None:
    for table in published().values():
        for row in table.rows.values():
            assert set(row.values) <= set(table.columns), row.row
            assert all(set(figures) <= set(table.metrics) for figures in row.values.values()), row.row
        assert all(set(column["ours"]) == set(table.metrics) for column in table.columns.values()), (
            table.title
        )


def test_no_row_or_column_is_there_twice() -> None:
    for key, table in packaged("triplewise.evals.report", "published.yaml")["tables"].items():
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
