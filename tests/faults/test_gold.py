"""No false alarm: every step that an ideal agent takes towards a gold answer passes the inspector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest

from tests.faults.gold import Fact, GoldQuestion, gold_questions, question_records
from tests.faults.trajectory import FILES, Trajectory, open_graph
from triplewise.nodes.context import Context
from triplewise.tools.kg import IRI, KnowledgeGraph
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql.text import read_term, write_iri

QUESTIONS, LEAST_STEPS = 100, 200
METAQA = {
    "director": "directed_by", "writer": "written_by", "actor": "starred_actors", "tags": "has_tags",
    "year": "release_year", "genre": "has_genre", "language": "in_language",
    "imdbrating": "has_imdb_rating", "imdbvotes": "has_imdb_votes",
}  # fmt: skip
"""Type of node in MetaQA's question types -> the relation from films to it."""
ALLOWED_NOTES = {"fact_unnamed"}
"""May stand beside a correct step: on the way through a mediator, look through it is what comes next."""


@pytest.mark.parametrize("name", FILES)
def test_no_guideline_fires_on_correct_steps(name: str, data: Path) -> None:
    kg = open_graph(data, name)
    draw = Random(0)
    gold = metaqa(kg.profile, draw) if name == "metaqa" else gold_questions(f"{name}_kg", kg.profile, draw)
    questions = (q for q in gold if all("?" in (s[0], o[0]) for s, _, o in q.facts))  # none of yes or no
    alarms, steps = [], 0
    for question, facts in islice((q for q in questions if holds(kg, q.facts)), QUESTIONS):
        entities = {end for s, _, o in facts for end in (s, o) if not end.startswith("?")}
        context = Context(kg=name, ranking="none", relation_cut=100_000, max_steps=100)
        trajectory = Trajectory(context, question, {entity: entity for entity in entities})
        for call in ideal_steps(facts):
            verdict, steps = trajectory.call(call), steps + 1
            if verdict.guideline and verdict.guideline not in ALLOWED_NOTES:
                alarms.append(f"{question} | {call} | {verdict.guideline} | {verdict.text or verdict.note}")
    assert alarms == []
    assert steps >= LEAST_STEPS


def metaqa(profile: Profile, draw: Random) -> Iterator[GoldQuestion]:
    """MetaQA's dev questions, whose types are paths: `director_to_movie_to_language`."""
    records = [r for hops in (1, 2, 3) for r in question_records(f"metaqa/dev_{hops}hop.jsonl.gz")]
    draw.shuffle(records)
    for record in records:
        node, facts = write_iri(profile.name_iri(record["topic_entity"]), profile), list[Fact]()
        for place, (one, two) in enumerate(pairwise(record["qtype"].split("_to_"))):
            end, relation = f"?{two}{place}", METAQA.get(two if one == "movie" else one)
            if relation:
                facts.append((node, relation, end) if one == "movie" else (end, relation, node))
            node = end
        yield GoldQuestion(re.sub(r"[\[\]]", "", record["question"]), tuple(facts))


def holds(kg: KnowledgeGraph, facts: Sequence[Fact]) -> bool:
    """Whether the graph has all that the gold query asks for, and lookups offer its relations."""

    def written(form: str) -> str:
        node = None if form.startswith("?") else read_term(form, kg.profile)
        return node.n3() if node else form

    relations = [kg.profile.expand(relation, relation=True) for _, relation, _ in facts]
    if not all(isinstance(r, IRI) and not kg.profile.excludes(r) for r in relations):
        return False
    lines = [
        f"{written(s)} {r.n3()} {written(o)} ." for (s, _, o), r in zip(facts, relations, strict=True) if r
    ]
    return bool(kg.query(f"SELECT * WHERE {{ {' '.join(lines)} }} LIMIT 1").rows)


def ideal_steps(facts: Sequence[Fact]) -> Iterator[str]:
    """Look up what is known, add a fact that begins there, and so on."""
    looked_up: set[str] = set()
    bound: set[str] = set()
    for subject, relation, object_ in facts:
        anchor = next(end for end in (subject, object_) if end in bound or not end.startswith("?"))
        if anchor not in looked_up:
            yield f"get_relation({anchor})"
        looked_up.add(anchor)
        bound |= {end for end in (subject, object_) if end.startswith("?")}
        yield f"add_fact({subject}, {relation}, {object_})"
