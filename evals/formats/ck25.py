"""CK25 and other question files of the TEXT2SPARQL challenge in their published form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import entries_of_list
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg.protocol import KnowledgeGraph

Record = dict[str, Any]

_ROWS = 100_000


def ck25(path: Path) -> Iterator[Record]:
    """questions.yml of CK25 (or the same as JSON): `questions` with `question.en` and `query.sparql`.

    There are no answers in it: `with_results` asks the gold queries.
    """
    for entry in entries_of_list(path, "questions"):
        question = entry.part("question")
        yield {
            "id": f"ck25-{entry.text('id')}",
            "question": question.text("en"),
            "features": entry.texts("features"),
            "classes": entry.texts("classes"),
            "properties": entry.texts("properties"),
            "sparql": entry.part("query").text("sparql"),
        }


def with_results(records: Iterable[Record], kg: KnowledgeGraph) -> list[Record]:
    """The records with what their gold queries give on a graph: `result_columns` and `result_rows`.

    `result_rows` is true or false for an ASK query (and `result_columns` None), else rows of full IRIs and
    texts.

    Raises:
        DataError: a query fails on the graph, or has more results than are read.
    """
    return [{**record, **_result(record, kg)} for record in records]


def _result(record: Record, kg: KnowledgeGraph) -> Record:
    # xsd:int is no cast that SPARQL 1.1 demands, xsd:integer is.
    result = kg.query(record["sparql"].replace("xsd:int(", "xsd:integer("), limit=_ROWS)
    if result.outcome not in ("rows", "empty"):
        raise DataError(
            f"the gold query of {record['id']} gives no result on {kg.name} "
            f"({result.outcome}: {result.message})"
        )
    if result.boolean is not None:
        return {"result_columns": None, "result_rows": result.boolean}
    rows = [[_text(term) if term is not None else None for term in row] for row in result.rows]
    return {"result_columns": list(result.variables), "result_rows": rows}


def _text(term: IRI | Literal) -> str:
    return term.value
