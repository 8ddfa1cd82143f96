"""Training questions with answers: legal seeds of a test, and what self-learning starts from.

Where there are gold queries but no answers, the answers are what a query finds on the graph.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

from triplewise.evals.data import Benchmark, DataFile, LoadedKG, checksum, locate, read_records
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record, write_text
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.exploration import Question

ROWS = 1_000
FORMAT = 1  # raised when the same training questions would give other seeds
_MID = re.compile(r"<http://rdf\.freebase\.com/ns/([mg]\.\w+)>")
_ENTITY = re.compile(r"(?:\bwd:|<http://www\.wikidata\.org/entity/)(Q[0-9]+)")
_CLASS = re.compile(r"\b(?:wdt:P31|wdt:P279|ps:P31)[^\s]*\s+wd:Q[0-9]+")
_STOP = frozenset(("the", "of", "and", "in", "a", "is", "what", "who"))
_WORD = re.compile(r"[^\W_]+")


class Seeds(NamedTuple):
    """Seed questions: the context's `seeds` (None: its default), the files they are from, and how many."""

    setting: str | None = None
    files: Sequence[DataFile] = ()
    note: str = "none"


def seeds_of(of: Benchmark, kg: LoadedKG, asked: bool | str) -> Seeds:
    """The seeds of a task: its training questions, answered on a graph, or files of the user's own.

    Raises `ConfigurationError` where there are none for this graph, `DataError` on a missing file.
    """
    if isinstance(asked, str):
        return Seeds(asked, note=asked)
    files = list(of.seeds.values())
    if not asked:  # files with answers may be kept for the graph, and are not to be read then
        return Seeds("none" if of.seeds_answered else None)
    if of.seeds_answered:
        return Seeds(",".join(str(locate(file)) for file in files), files, "the dev questions of all hops")
    if not of.seeds:
        raise ConfigurationError(f"{of.name} has no training questions here; pass seeds=FILE with your own")
    if not kg.checksum:
        raise ConfigurationError(
            f"the answers of {of.name}'s training questions are computed on its own graph; for another one "
            "pass seeds=FILE with questions and answers"
        )
    paths = [locate(file) for file in files]
    made_from = "\0".join([str(FORMAT), kg.checksum, *map(checksum, paths)])
    digest = hashlib.sha256(made_from.encode()).hexdigest()[:16]
    path = user_cache_path("triplewise") / "evals" / f"{of.name}-seeds-{digest}.jsonl"
    if not path.is_file():
        graph = kg.open()
        questions = [question for source in paths for question in training_questions(source, graph)]
        write_text(path, "".join(json.dumps(asdict(q), ensure_ascii=False) + "\n" for q in questions))
    count, total = len(read_records(path)), sum(len(read_records(source)) for source in paths)
    note = f"{count:,} of {total:,} training questions, those whose query finds answers"
    return Seeds(str(path), files, note)


def training_questions(path: Path, kg: KnowledgeGraph) -> list[Question]:
    """Return the questions of a file whose answers a graph holds, with the entities that they name."""
    questions: dict[str, Question] = {}
    for record in read_records(path, "id", "question"):
        sparql = str(record.get("sparql11") or record.get("sparql") or "")
        answers = [str(a) for a in record.get("answers") or [] if a is not None] if sparql else []
        if sparql and not answers:
            result = kg.query(sparql, limit=ROWS)
            for term in result.column(result.variables[0]) if result.outcome.ok and result.rows else ():
                answers.append(kg.profile.short(term) if isinstance(term, IRI) else term.value)
            answers = list(dict.fromkeys(answers))
        entities = dict(_topic_entities(record, sparql, kg)) if answers else {}
        if entities:
            question = Question(record["id"], record["question"], entities, tuple(answers))
            questions.setdefault(question.id, question)
    return list(questions.values())


def _topic_entities(record: Record, sparql: str, kg: KnowledgeGraph) -> Iterator[tuple[str, str]]:
    """Mention and id of the topic entities: those of the query that the graph has and the question names."""
    for short in entities_of(sparql) or dict.fromkeys(_MID.findall(sparql)):
        if (iri := kg.profile.expand(short)) is not None:
            around = kg.relations(iri)
            mention = _mention_of(record["question"], kg.labels([iri]).get(iri, ""))
            if mention and (around.forward or around.backward):
                yield mention, short


def entities_of(sparql: str) -> tuple[str, ...]:
    """The entities that a gold query names, without the classes it asks for unless it names nothing else."""
    return tuple(dict.fromkeys(_ENTITY.findall(_CLASS.sub(" ", sparql)) or _ENTITY.findall(sparql)))


def _mention_of(question: str, name: str) -> str:
    """The words of a question that name something: its name, or the longest run of words like its own."""
    at = question.casefold().find(name.casefold()) if name else -1
    if at >= 0:
        return question[at : at + len(name)]
    own = [w.casefold() for w in _WORD.findall(name)]
    best, run = (0, 0), (0, 0)
    for match in _WORD.finditer(question):
        word = match.group().casefold()
        # The same but for an ending: "jamaican", "Jamaica".
        is_own = any(word == o or (min(len(word), len(o)) > 3 and word[:4] == o[:4]) for o in own)
        if is_own and (run[1] > run[0] or word not in _STOP):
            run = (run[0] if run[1] > run[0] else match.start(), match.end())
            best = max(best, run, key=lambda r: r[1] - r[0])
        else:
            run = (0, 0)
    return question[best[0] : best[1]]
