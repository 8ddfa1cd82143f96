"""Entries of benchmarks that are published as JSON: each function makes a record of one entry.

A record has the fields that the benchmark's task reads. An entry that is not what the benchmark's description
says raises `FieldError`, which names the field; `read_list` and `read_lines` add file and place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from triplewise.evals.text_files import json_lines, json_list
from triplewise.tools.core.errors import DataError

Record = dict[str, Any]
Entry = Mapping[str, Any]

WIKIDATA = "http://www.wikidata.org/entity/"
"""Namespace of Wikidata's entities, which published answers carry in full."""
SEPARATOR = "[SEP]"
"""What stands between subject and relation in the input of a KILT slot."""
NO_ANSWERS = "(the public test file has none: take the dev file)"

_MID = re.compile(r"\bns:([mg]\.\w+)")


class FieldError(ValueError):
    """A field of an entry is missing or not what it has to be."""

    def __init__(self, entry: Entry, field: str, needed: str) -> None:
        found = repr(entry[field])[:80] if field in entry else "nothing"
        super().__init__(f"field {field!r} has to be {needed}, found {found}")


def read_list(path: Path, record: Callable[[Entry], Record], key: str = "") -> Iterator[Record]:
    """The records of a JSON or YAML file that holds a list of entries, or an object with it under `key`.

    Raises:
        DataError: naming file, entry, field and what it has to be.
    """
    for number, entry in enumerate(json_list(path, key)):
        yield _record(record, entry, path, f"entry {number}: ", None)


def read_lines(path: Path, record: Callable[[Entry], Record]) -> Iterator[Record]:
    """The records of a JSON-lines file. Raises as `read_list` does."""
    for line, entry in json_lines(path):
        yield _record(record, entry, path, "", line)


def _record(
    record: Callable[[Entry], Record], entry: Any, path: Path, place: str, line: int | None
) -> Record:
    try:
        return record(entry if isinstance(entry, dict) else part({"entry": entry}, "entry"))
    except FieldError as error:
        advice = "take the file as it is published, or fix this entry"
        raise DataError(f"{place}{error}; {advice}", path, line) from error


def text(entry: Entry, field: str) -> str:
    """A text that is not empty, or a number as text."""
    value = entry.get(field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise FieldError(entry, field, "a text")
    return value.strip()


def maybe(entry: Entry, field: str) -> str:
    """A text, or "" for one that is missing or null."""
    return "" if entry.get(field) in (None, "") else text(entry, field)


def texts(entry: Entry, field: str) -> list[str]:
    """A list of texts, numbers as texts; none where the field is missing or null."""
    values = entry.get(field) if entry.get(field) is not None else []
    if not isinstance(values, list) or any(isinstance(v, dict | list) or v is None for v in values):
        raise FieldError(entry, field, "a list of texts")
    return [str(value) for value in values]


def part(entry: Entry, field: str) -> Entry:
    """The object in a field."""
    if not isinstance(value := entry.get(field), dict):
        raise FieldError(entry, field, "a JSON object")
    return value


def parts(entry: Entry, field: str, needed: str = "a list of JSON objects") -> list[Entry]:
    """The objects of a list."""
    value = entry.get(field)
    if not isinstance(value, list) or any(not isinstance(v, dict) for v in value):
        raise FieldError(entry, field, needed)
    return value


def names_by_id(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Value -> names, of those that have one."""
    names: dict[str, list[str]] = {}
    for value, name in pairs:
        if name and name not in names.get(value, ()):
            names.setdefault(value, []).append(name)
    return names


# -- over Freebase


def webqsp(entry: Entry) -> Record:
    """WebQSP.test.json (WebQuestionsSP 1.0): `Questions`, each with `Parses` that have `Answers`.

    Each parse is a right reading of its own: its answers are one of `alt_answer_sets`, the first parse's are
    `answers`. Linked are the topic entities and the entities in constraints.
    """
    parses = parts(entry, "Parses")
    if not parses:
        raise FieldError(entry, "Parses", "a list with at least one parse")
    answers = [parts(parse, "Answers") for parse in parses]
    sets = [tuple(text(answer, "AnswerArgument") for answer in own) for own in answers]
    linked: dict[str, str] = {}
    for parse in parses:
        if mid := maybe(parse, "TopicEntityMid"):
            linked[maybe(parse, "TopicEntityName") or mid] = mid
        for constraint in parts(parse, "Constraints") if parse.get("Constraints") else []:
            if maybe(constraint, "ArgumentType") == "Entity":
                mid = text(constraint, "Argument")
                linked[maybe(constraint, "EntityName") or mid] = mid
    return {
        "id": text(entry, "QuestionId"),
        "question": maybe(entry, "ProcessedQuestion") or text(entry, "RawQuestion"),
        "answers": list(sets[0]),
        "alt_answer_sets": [list(values) for values in dict.fromkeys(sets)],
        "gold_names": names_by_id(
            (text(a, "AnswerArgument"), maybe(a, "EntityName")) for own in answers for a in own
        ),
        "entity_linking": linked,
    }


def cwq(entry: Entry) -> Record:
    """ComplexWebQuestions_test.json (version 1.1): `answers` are objects with answer, answer_id and aliases.

    The gold answers are the ids, or texts where there is no id; `answer_tog` is the first one's text, with
    which published figures are often made. Copies with one `answer` and a `topic_entity` are read too;
    without the latter, the entities of the gold query are the linking, unnamed.
    """
    if "answers" in entry or "answer" not in entry:
        answers = parts(entry, "answers", "a list of answers (some copies of the test set have none)")
    else:
        answers = [{"answer": text(entry, "answer")}]
    names = [maybe(a, "answer") or text(a, "answer_id") for a in answers]
    values = [maybe(a, "answer_id") or text(a, "answer") for a in answers]
    named = [[name, *texts(a, "aliases")] for name, a in zip(names, answers, strict=True)]
    pairs = ((v, name) for v, own in zip(values, named, strict=True) for name in own if name != v)
    linked = dict(part(entry, "topic_entity")) if entry.get("topic_entity") else None
    return {
        "id": text(entry, "ID"),
        "question": text(entry, "question"),
        "compositionality_type": maybe(entry, "compositionality_type"),
        "answers": list(dict.fromkeys(values)),
        "gold_names": names_by_id(pairs),
        "answer_tog": names[0] if names else "",
        "topic_entity": linked or {mid: mid for mid in _MID.findall(maybe(entry, "sparql"))},
    }


def grailqa(entry: Entry) -> Record:
    """grailqa_v1.0_dev.json: `answer` is a list of objects with answer_type, answer_argument, entity_name.

    The linking is that of the `graph_query`: its nodes of type entity. The public test file has no answers
    and is refused.
    """
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "answers": _freebase_answers(entry),
        "topic_entity": _linked_nodes(entry),
        "function": maybe(entry, "function") or "none",
        "level": maybe(entry, "level"),
        "num_edge": entry.get("num_edge"),
    }


def _freebase_answers(entry: Entry) -> list[Record]:
    """The answers of GrailQA or AgentBench, checked."""
    answers = parts(entry, "answer", f"a list of answers {NO_ANSWERS}")
    for answer in answers:
        if text(answer, "answer_type") not in ("Entity", "Value"):
            raise FieldError(answer, "answer_type", '"Entity" or "Value"')
    return [
        {"answer_argument": text(a, "answer_argument"), "entity_name": maybe(a, "entity_name")}
        for a in answers
    ]


def _linked_nodes(entry: Entry) -> dict[str, str]:
    """Mid -> name of the entities in the graph query."""
    nodes = parts(part(entry, "graph_query"), "nodes") if entry.get("graph_query") is not None else []
    entities = (node for node in nodes if maybe(node, "node_type") == "entity")
    return {(mid := text(node, "id")): maybe(node, "friendly_name") or mid for node in entities}


def graphq(entry: Entry) -> Record:
    """graphquestions.testing.json (1.0): `answer` is a list of names and literals (its specification.md)."""
    if not isinstance(entry.get("answer"), list):
        raise FieldError(entry, "answer", "a list of names")
    size = (entry.get("num_node"), entry.get("num_edge"))
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "answer_names": texts(entry, "answer"),
        "entity_linking": {mid: {"mention": name} for mid, name in _linked_nodes(entry).items()},
        "structure": "" if None in size else f"{size[0]},{size[1]}",
        "function": maybe(entry, "function") or "none",
    }


def agentbench_kg(entry: Entry) -> Record:
    """std.json, dev.json or kg_rl_all.json of AgentBench (data/knowledgegraph)."""
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "source": maybe(entry, "source"),
        "entities": dict(part(entry, "entities")),
        "actions": texts(entry, "actions"),
        "answer": _freebase_answers(entry),
    }


# -- over Wikidata


def qald10(entry: Entry) -> Record:
    """qald_10.json (QALD JSON): `questions` with `question` texts by language, `query`, and `answers`.

    The answers are SPARQL JSON results, with a `boolean` for a yes/no question.
    """
    english = [t for t in parts(entry, "question") if text(t, "language") == "en" and maybe(t, "string")]
    if not english:
        raise FieldError(entry, "question", 'a list with a text of language "en"')
    results = parts(entry, "answers")
    if len(results) != 1:
        raise FieldError(entry, "answers", "a list with one result")
    record = {"id": f"qald10-{text(entry, 'id')}", "question": text(english[0], "string")}
    if "boolean" in results[0]:
        if not isinstance(answer := results[0]["boolean"], bool):
            raise FieldError(results[0], "boolean", "true or false")
        return {**record, "answer_type": "boolean", "answers": [answer]}
    terms = _first_terms(parts(part(results[0], "results"), "bindings") if results[0].get("results") else [])
    kind = "entity" if all(maybe(term, "type") == "uri" for term in terms) else "literal"
    return {**record, "answer_type": kind, "answers": _values(terms)}


def _first_terms(bindings: list[Entry]) -> list[Entry]:
    """The values of the first variable of SPARQL JSON results."""
    if not all(bindings):
        raise FieldError({}, "result", "a term: a solution is empty")
    return [part(binding, next(iter(binding))) for binding in bindings]


def _values(terms: Iterable[Entry]) -> list[str]:
    """Terms of SPARQL JSON results as answers: QIDs, or the texts of literals."""
    return list(dict.fromkeys(text(term, "value").removeprefix(WIKIDATA) for term in terms))


def wikiwebquestions(entry: Entry) -> Record:
    """WikiWebQuestions/test.json: `utterance`, `sparql`, and `results` as SPARQL JSON bindings."""
    results = entry.get("results")
    return {
        "id": text(entry, "id"),
        "question": text(entry, "utterance"),
        "sparql": text(entry, "sparql"),
        "answers": [results] if isinstance(results, bool) else _values(_first_terms(parts(entry, "results"))),
    }


def creak(entry: Entry) -> Record:
    """dev.json of CREAK (JSON lines): `sentence` and `label`.

    The published file has no Wikidata ids: the linking is left to the agent.
    """
    label = str(entry.get("label")).lower()
    if label not in ("true", "false"):
        raise FieldError(entry, "label", f'"true" or "false" {NO_ANSWERS}')
    return {
        "id": text(entry, "ex_id"),
        "sentence": text(entry, "sentence"),
        "label": label,
        "topic_entity": {},
    }


def kilt(entry: Entry) -> Record:
    """trex-dev-kilt.jsonl and structured_zeroshot-dev-kilt.jsonl of KILT: `input`, and `output` with answers.

    The first answer is `answer`, all are accepted (`alias`). The published files have no Wikidata ids: the
    linking is left to the agent. Files without answers (the public test sets) are refused.
    """
    subject, _, relation = (words.strip() for words in text(entry, "input").partition(SEPARATOR))
    if not subject or not relation:
        raise FieldError(entry, "input", f'"subject {SEPARATOR} relation"')
    outputs = parts(entry, "output") if entry.get("output") else []
    answers = list(dict.fromkeys(text(output, "answer") for output in outputs if output.get("answer")))
    if not answers:
        raise FieldError(entry, "output", f"a list of answers {NO_ANSWERS}")
    return {
        "id": text(entry, "id"),
        "input": f"{subject} {SEPARATOR} {relation}",
        "relation": relation,
        "answer": answers[0],
        "alias": answers,
        "topic_entity": {},
    }


# -- a company's graph


def ck25(entry: Entry) -> Record:
    """questions.yml of CK25 (or the same as JSON): `questions` with `question.en` and `query.sparql`.

    There are no answers in it: the task asks the gold queries.
    """
    return {
        "id": f"ck25-{text(entry, 'id')}",
        "question": text(part(entry, "question"), "en"),
        "features": texts(entry, "features"),
        "sparql": text(part(entry, "query"), "sparql"),
    }
