"""Questions to queries over tables, without a language model.

What the words may mean (values, columns, comparisons, functions) is found first; sets of conditions, answer
columns and functions are then scored together, and the best are tried on the database.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.sql.base import Aggregation, Condition, Database, SqlQuery
from triplewise.tools.sql.planning.columns import link_columns
from triplewise.tools.sql.planning.features import FUNCTIONS, Scene, answer_features, function_features
from triplewise.tools.sql.planning.index import index_of
from triplewise.tools.sql.planning.mentions import Mention, find_extremes, find_mentions
from triplewise.tools.sql.planning.model import Weights, dot, log_softmax, weights
from triplewise.tools.sql.planning.reading import read_question
from triplewise.tools.sql.planning.search import ConditionSet, condition_sets

SETS, ANSWERS = 8, 5
"""Sets of conditions, and answer columns of each, that are combined."""
TRIED = 10
"""Queries that are tried on the database at most."""
LEAST_SAID = 0.35
"""Likeness of a column and the question from which on a question without conditions speaks of it."""


@dataclass(frozen=True, slots=True)
class ScoredQuery:
    """A query, its probability among all candidates (0 to 1), and what in the question speaks for it."""

    query: SqlQuery
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Conditions, number of the answer column, and function, with the logarithm of their probability."""

    score: float
    chosen: ConditionSet
    number: int
    function: Aggregation


def plan_queries(database: Database, question: str, encoder: Encoder, limit: int = 5) -> list[ScoredQuery]:
    """Queries that may answer a question, likeliest first; each has given at least one row.

    Args:
        database: what is asked; its values are read once, at the first question.
        question: in English. encoder: compares the question's words with names of columns.
        limit: how many queries are given back at most.

    Returns:
        [] where the question names no value, no column and no table of the database, or nothing it may mean
        gives a row.
    """
    scene = read_scene(database, question, encoder)
    found: list[ScoredQuery] = []
    seen: set[SqlQuery] = set()
    for candidate in _sensible(scene, candidates(scene)):
        if len(found) == limit or len(seen) == TRIED:
            break
        query = query_of(scene, candidate, database)
        if query is None or query in seen:
            continue
        seen.add(query)
        if _gives(database, query):
            found.append(ScoredQuery(query, math.exp(candidate.score), _why(scene, candidate)))
    return found


def read_scene(database: Database, question: str, encoder: Encoder) -> Scene:
    """A question before a database: what its words may mean there."""
    index = index_of(database)
    read = read_question(question)
    links = link_columns(read, index, encoder)
    mentions = find_mentions(read, index, database)
    return Scene(read, index, links, (*mentions, *find_extremes(read, index, links)))


def candidates(scene: Scene, of: Mapping[str, Weights] | None = None) -> list[Candidate]:
    """What the question may mean, likeliest first. `of`: weights of each part (default: the package's)."""
    by = of or weights()
    sets = condition_sets(scene, by["conditions"])
    shares = log_softmax([dot(found, by["conditions"]) for _, found in sets])
    best = sorted(zip(shares, sets, strict=True), key=lambda pair: -pair[0])[:SETS]
    found = [
        replace(answer, score=answer.score + share)
        for share, (chosen, _) in best
        for answer in _answers(scene, chosen, by)
    ]
    return sorted(found, key=lambda c: -c.score)


def _answers(scene: Scene, chosen: ConditionSet, by: Mapping[str, Weights]) -> Iterator[Candidate]:
    """The likeliest answer columns for conditions, with each function."""
    columns = [n for n in range(len(scene.index.views)) if _reachable(scene, chosen, n)]
    scores = [dot(answer_features(scene, chosen, n), by["answer"]) for n in columns]
    best = sorted(zip(log_softmax(scores), columns, strict=True), key=lambda pair: -pair[0])[:ANSWERS]
    for share, number in best:
        fits = [dot(function_features(scene, chosen, number, f), by["function"]) for f in FUNCTIONS]
        for function, more in zip(FUNCTIONS, log_softmax(fits), strict=True):
            yield Candidate(share + more, chosen, number, function)


def _reachable(scene: Scene, chosen: ConditionSet, number: int) -> bool:
    views, tables = scene.index.views, scene.index.tables
    table = views[number].column.table
    return all(tables.away(views[m.number].column.table, table) is not None for m in chosen)


def _sensible(scene: Scene, found: Sequence[Candidate]) -> Iterator[Candidate]:
    """Candidates whose answer the question speaks of, if they restrict nothing."""
    for candidate in found:
        if candidate.chosen or _spoken_of(scene, candidate.number):
            yield candidate


def _spoken_of(scene: Scene, number: int) -> bool:
    table = scene.index.views[number].column.table
    likeness = max((m.semantic for m in scene.links.meant[number]), default=0.0)
    return bool(scene.links.said[number]) or table in scene.links.tables or likeness > LEAST_SAID


def query_of(scene: Scene, candidate: Candidate, database: Database) -> SqlQuery | None:
    """The query of a candidate; an extreme value is asked of the database, None if there is none."""
    conditions = tuple(c for m in candidate.chosen for c in m.conditions)
    for mention in candidate.chosen:
        if mention.extreme:
            extreme = _extreme(scene, mention, conditions, database)
            if extreme is None:
                return None
            conditions = (*conditions, extreme)
    return SqlQuery(conditions, scene.index.views[candidate.number].column, candidate.function)


def _extreme(
    scene: Scene, mention: Mention, conditions: tuple[Condition, ...], database: Database
) -> Condition | None:
    """The condition that a column has its greatest or smallest value among the rows of other conditions."""
    column = scene.index.views[mention.number].column
    rows = database.run(SqlQuery(conditions, column, mention.extreme), 1).rows
    value = rows[0][0] if rows and rows[0] else None
    if value is None:
        return None
    return Condition(column, ">=" if mention.extreme == "MAX" else "<=", value)


def _gives(database: Database, query: SqlQuery) -> bool:
    """Whether a query gives a value; a count of nothing is none."""
    result = database.run(query, 1)
    if not result.outcome.ok or not result.rows or result.rows[0][0] is None:
        return False
    return query.aggregation != "COUNT" or result.rows[0][0] != 0


def _why(scene: Scene, candidate: Candidate) -> str:
    """What in the question speaks for a candidate, in a line."""
    said = [
        f"{_words(scene, m)!r} is {m.tier} in {scene.index.views[m.number].column.id}"
        for m in candidate.chosen
    ]
    places = scene.links.said[candidate.number]
    column = scene.index.views[candidate.number].column.id
    best = max(places, key=lambda m: m.lexical, default=None)
    named = f" ({' '.join(w.raw for w in scene.question.words[best.start : best.end])!r})" if best else ""
    asked = f"{candidate.function or 'the values'} of {column}{named}"
    return "; ".join([*said, f"asked for: {asked}"])


def _words(scene: Scene, mention: Mention) -> str:
    return " ".join(w.raw for w in scene.question.words[mention.start : mention.end])
