"""The files that the benchmarks' authors publish: how each is laid out, and the records it becomes.

`FORMATS` is the table. An entry that is not what the benchmark's description says ends in a `DataError` that
names file, line or entry, and field.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import Record, json_lines, json_list, lines_of

WIKIDATA = "http://www.wikidata.org/entity/"
"""Namespace of Wikidata's entities, which published answers carry in full."""
FREEBASE = "www.freebase.com/"
"""What SimpleQuestions writes before ids and relations."""
AGGREGATIONS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
OPERATORS = ("=", ">", "<", "OP")
"""What the numbers in a query of WikiSQL stand for (`Query.agg_ops` and `Query.cond_ops` of its code)."""

Entry = Mapping[str, Any]

_MID = re.compile(r"\bns:([mg]\.\w+)")
_HOPS = re.compile(r"([123])[-_]?hop")
_SPLIT = re.compile(r"qa_(train|dev|test)")
_TOPIC = re.compile(r"\[([^\[\]]+)\]")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+")


def text(entry: Entry, field: str) -> str:
    """Return a text that is not empty, or a number as text. Raises ValueError for anything else."""
    value = entry[field]
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"field {field!r} has to be a text, got {value!r}")
    return str(value).strip()


def names_by_id(pairs: Iterable[tuple[str, str | None]]) -> dict[str, list[str]]:
    """Return value -> names, of those that have one."""
    names: dict[str, list[str]] = {}
    for value, name in dict.fromkeys(pairs):
        if name:
            names.setdefault(value, []).append(name)
    return names


# -- over Freebase


def webqsp(entry: Entry) -> Record:
    """WebQSP.test.json (WebQuestionsSP 1.0): `Questions`, each with `Parses` that have `Answers`.

    Each parse is a right reading of its own: its answers are one of `alt_answer_sets`, the first parse's are
    `answers`. Linked are the topic entities and the entities in constraints.
    """
    parses = entry["Parses"]
    sets = [tuple(text(answer, "AnswerArgument") for answer in parse["Answers"]) for parse in parses]
    linked: dict[str, str] = {}
    for parse in parses:
        if mid := parse["TopicEntityMid"]:
            linked[parse.get("TopicEntityName") or mid] = mid
        for constraint in parse.get("Constraints") or ():
            if constraint["ArgumentType"] == "Entity":
                linked[constraint.get("EntityName") or constraint["Argument"]] = constraint["Argument"]
    names = [(text(a, "AnswerArgument"), a.get("EntityName")) for parse in parses for a in parse["Answers"]]
    return {
        "id": text(entry, "QuestionId"),
        "question": entry.get("ProcessedQuestion") or text(entry, "RawQuestion"),
        "answers": list(sets[0]),
        "alt_answer_sets": [list(values) for values in dict.fromkeys(sets)],
        "gold_names": names_by_id(names),
        "entity_linking": linked,
    }


def cwq(entry: Entry) -> Record:
    """ComplexWebQuestions_test.json (version 1.1): `answers` are objects with answer, answer_id and aliases.

    The gold answers are the ids, or texts where there is no id; `answer_tog` is the first one's text, with
    which published figures are often made. Copies with one `answer` and a `topic_entity` are read too;
    without the latter, the entities of the gold query are the linking, unnamed.
    """
    answers = entry["answers"] if "answers" in entry else [{"answer": text(entry, "answer")}]
    values = [a.get("answer_id") or text(a, "answer") for a in answers]
    named = [(v, name) for v, a in zip(values, answers, strict=True) for name in _names(a) if name != v]
    return {
        "id": text(entry, "ID"),
        "question": text(entry, "question"),
        "compositionality_type": entry.get("compositionality_type") or "",
        "answers": list(dict.fromkeys(values)),
        "gold_names": names_by_id(named),
        "answer_tog": answers[0]["answer"] or values[0] if answers else "",
        "topic_entity": entry.get("topic_entity") or {mid: mid for mid in _MID.findall(entry["sparql"])},
    }


def _names(answer: Entry) -> list[str]:
    return [answer["answer"], *(answer.get("aliases") or ())]


def grailqa(entry: Entry) -> Record:
    """grailqa_v1.0_dev.json (the public test file has no answers); the graph query's entities are linked."""
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "answers": _freebase_answers(entry),
        "topic_entity": _linked_nodes(entry),
        "function": entry.get("function") or "none",
        "level": entry.get("level") or "",
        "num_edge": entry.get("num_edge"),
    }


def _freebase_answers(entry: Entry) -> list[Record]:
    """The answers of GrailQA or AgentBench."""
    return [
        {"answer_argument": text(a, "answer_argument"), "entity_name": a.get("entity_name") or ""}
        for a in entry["answer"]
    ]


def _linked_nodes(entry: Entry) -> dict[str, str]:
    """Mid -> name of the entities in the graph query."""
    entities = (node for node in entry["graph_query"]["nodes"] if node["node_type"] == "entity")
    return {node["id"]: node.get("friendly_name") or node["id"] for node in entities}


def graphq(entry: Entry) -> Record:
    """graphquestions.testing.json (1.0): `answer` is a list of names and literals (its specification.md)."""
    if not isinstance(entry["answer"], list):
        raise ValueError(f"field 'answer' has to be a list of names, got {entry['answer']!r}")
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "answer_names": [str(name) for name in entry["answer"]],
        "entity_linking": {mid: {"mention": name} for mid, name in _linked_nodes(entry).items()},
        "structure": f"{entry['num_node']},{entry['num_edge']}",
        "function": entry.get("function") or "none",
    }


def agentbench_kg(entry: Entry) -> Record:
    """std.json, dev.json or kg_rl_all.json of AgentBench (data/knowledgegraph)."""
    return {
        "id": text(entry, "qid"),
        "question": text(entry, "question"),
        "source": entry.get("source") or "",
        "entities": dict(entry["entities"]),
        "actions": list(entry["actions"]),
        "answer": _freebase_answers(entry),
    }


def read_simplequestions(path: Path) -> Iterator[Record]:
    """annotated_fb_data_test.txt (SimpleQuestions_v2): subject, relation, object, question, tabs between.

    Ids are written `www.freebase.com/m/04whkz5`, relations `www.freebase.com/book/written_work/subjects`. The
    gold answer is the object's mid; neither it nor the subject has a name in the file.
    """
    for number, line in lines_of(path):
        *fact, question = line.split("\t")
        if len(fact) != 3 or not all(f.startswith(FREEBASE) for f in fact) or not question.strip():
            layout = f"subject, relation, object ({FREEBASE}...) and question, with tabs between them"
            raise DataError(f"a line has to be {layout}, got {line[:80]!r}", path, number)
        subject, relation, object_ = (f.removeprefix(FREEBASE).replace("/", ".") for f in fact)
        yield {
            "id": f"simplequestions-{number - 1:05}",
            "question": question.strip(),
            "topic_entity": {subject: subject},
            "relation": relation.rpartition(".")[2],
            "answer": object_,
        }


# -- over Wikidata


def qald10(entry: Entry) -> Record:
    """qald_10.json (QALD JSON): `questions` with `question` texts by language, `query`, and `answers`.

    The answers are SPARQL JSON results, with a `boolean` for a yes/no question.
    """
    english = [t["string"] for t in entry["question"] if t["language"] == "en"]
    if not english:
        raise ValueError("field 'question' has no text of language 'en'")
    (result,) = entry["answers"]
    record = {"id": f"qald10-{text(entry, 'id')}", "question": english[0]}
    if "boolean" in result:
        return {**record, "answer_type": "boolean", "answers": [bool(result["boolean"])]}
    terms = _first_terms(result["results"]["bindings"] if result.get("results") else [])
    kind = "entity" if all(term["type"] == "uri" for term in terms) else "literal"
    return {**record, "answer_type": kind, "answers": _values(terms)}


def _first_terms(bindings: Sequence[Mapping[str, Entry]]) -> list[Entry]:
    """The values of the first variable of SPARQL JSON results."""
    terms = []
    for binding in bindings:
        first, *_ = binding.values()
        terms.append(first)
    return terms


def _values(terms: Iterable[Entry]) -> list[str]:
    """Terms of SPARQL JSON results as answers: QIDs, or the texts of literals."""
    return list(dict.fromkeys(text(term, "value").removeprefix(WIKIDATA) for term in terms))


def wikiwebquestions(entry: Entry) -> Record:
    """WikiWebQuestions/test.json: `utterance`, `sparql`, and `results` as SPARQL JSON bindings."""
    results = entry["results"]
    return {
        "id": text(entry, "id"),
        "question": text(entry, "utterance"),
        "sparql": text(entry, "sparql"),
        "answers": [results] if isinstance(results, bool) else _values(_first_terms(results)),
    }


def creak(entry: Entry) -> Record:
    """dev.json of CREAK (JSON lines). It has no Wikidata ids: the linking is left to the agent."""
    about = {"id": text(entry, "ex_id"), "sentence": text(entry, "sentence")}
    return {**about, "label": str(entry["label"]).lower(), "topic_entity": {}}


def kilt(entry: Entry) -> Record:
    """trex-dev-kilt.jsonl and structured_zeroshot-dev-kilt.jsonl of KILT: `input`, and `output` with answers.

    The first answer is `answer`, all are accepted (`alias`). The published files have no Wikidata ids: the
    linking is left to the agent. Files without answers (the public test sets) are refused.
    """
    _, separator, relation = text(entry, "input").partition(" [SEP] ")
    answers = list(dict.fromkeys(output["answer"] for output in entry["output"] if output.get("answer")))
    if not separator or not answers:
        raise ValueError("needs an 'input' of the form 'subject [SEP] relation', and answers in 'output'")
    return {
        "id": text(entry, "id"),
        "input": text(entry, "input"),
        "relation": relation,
        "answer": answers[0],
        "alias": answers,
        "topic_entity": {},
    }


# -- over graphs of their own, and tables


def read_metaqa(path: Path) -> Iterator[Record]:
    """qa_test.txt of a folder `1-hop/vanilla` (or `ntm`): question, tab, answers with | between them.

    The question types are read from `qa_test_qtype.txt` beside the file or a folder above, as published. The
    knowledge base, kb.txt (`subject|relation|object`), is loaded as it is.
    """
    name = f"{path.name.removesuffix('.gz').removesuffix('.txt')}_qtype.txt"
    beside = [folder / name for folder in (path.parent, path.parent.parent) if (folder / name).is_file()]
    lines = list(lines_of(path))
    types = [line.strip() for _, line in lines_of(beside[0])] if beside else [""] * len(lines)
    if len(types) != len(lines):
        raise DataError(
            f"has {len(lines)} questions, but its file of question types {len(types)} lines: both have to be "
            "of the same split and number of hops",
            path,
        )
    split = match[1] if (match := _SPLIT.search(path.name)) else "questions"
    folder_hops = _HOPS.search("/".join(path.parts[-3:]))
    for (number, line), qtype in zip(lines, types, strict=True):
        question, _, rest = line.partition("\t")
        answers = [answer.strip() for answer in rest.split("|") if answer.strip()]
        topic = _TOPIC.search(question)
        if topic is None or not answers:
            layout = "a question with an [entity] in brackets, a tab, and answers with | between them"
            raise DataError(f"a line has to be {layout}, got {line[:80]!r}", path, number)
        hops = qtype.count("_to_") if qtype else int(folder_hops[1]) if folder_hops else 0
        yield {
            "id": f"metaqa-{f'{hops}hop-' if hops else ''}{split}-{number - 1:05}",
            "question": question.strip(),
            "topic_entity": topic[1],
            "answers": list(dict.fromkeys(answers)),
            "qtype": qtype,
            "hops": hops or None,
        }


def ck25(entry: Entry) -> Record:
    """questions.yml of CK25. There are no answers in it: the task asks the gold queries."""
    return {
        "id": f"ck25-{text(entry, 'id')}",
        "question": text(entry["question"], "en"),
        "features": list(entry.get("features") or ()),
        "sparql": text(entry["query"], "sparql"),
    }


def read_tables(path: Path) -> list[Record]:
    """Return WikiSQL's tables: `id`, `header`, `types` ("text" or "real"), `rows` with cells as published."""

    def table(entry: Entry) -> Record:
        header, rows = entry["header"], entry["rows"]
        if any(len(row) != len(header) for row in rows):
            raise ValueError(f"field 'rows' has to be a list of rows of {len(header)} cells")
        types = entry.get("types") or ["text"] * len(header)
        return {"id": text(entry, "id"), "header": header, "types": types, "rows": rows}

    return list(read_entries(path, table, lines=True))


def read_wikisql(path: Path) -> Iterator[Record]:
    """test.jsonl of WikiSQL, its tables in test.tables.jsonl beside it.

    The gold answers are the results of the gold queries, asked as WikiSQL's own evaluation does it.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    names = (f"{stem}.tables.jsonl", f"{stem}.tables.jsonl.gz")
    beside = [path.parent / name for name in names if (path.parent / name).is_file()]
    if not beside:
        raise DataError(f"its tables are missing: put {names[0]} of the same release beside it", path)
    tables = {table["id"]: table for table in read_tables(beside[0])}

    def question(entry: Entry) -> Record:
        sql, table = entry["sql"], tables[entry["table_id"]]
        conditions = [[column, OPERATORS[operator], value] for column, operator, value in sql["conds"]]
        query = {"sel": sql["sel"], "agg": AGGREGATIONS[sql["agg"]], "conds": conditions}
        about = {"table_id": table["id"], "question": text(entry, "question"), "sql": query}
        return {**about, "answers": query_results(table, query)}

    split = path.name.partition(".")[0]
    for number, record in enumerate(read_entries(path, question, lines=True)):
        yield {"id": f"wikisql-{split}-{number:05}", **record}


def query_results(table: Record, query: Record) -> list[Any]:
    """The results of a query on its table, row by row, without empty ones.

    Texts are compared without case, a column of type real as numbers.
    """

    def lower(value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    types: list[str] = table["types"]
    columns = [f"c{n} {'REAL' if type_ == 'real' else 'TEXT'}" for n, type_ in enumerate(types)]
    where = " AND ".join(f"c{column} {operator} ?" for column, operator, _ in query["conds"])
    values = []
    for column, _, value in query["conds"]:
        # In a column of numbers a text stands for the number in it.
        is_text = types[column] == "real" and isinstance(value, str)
        number = _NUMBER.search(value.replace(",", "")) if is_text else None
        values.append(float(number[0]) if number else lower(value))
    select = f"SELECT {query['agg']}(c{query['sel']}) FROM t" + (f" WHERE {where}" if where else "")
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t ({', '.join(columns)})")
        rows = [[lower(cell) for cell in row] for row in table["rows"]]
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        return [row[0] for row in database.execute(select, values) if row[0] is not None]


# -- the table


def read_entries(
    path: Path, record: Callable[[Entry], Record], under: str = "", lines: bool = False
) -> Iterator[Record]:
    """Yield the records of a file with an object an entry: one on each line, or in a list `under` a key.

    Raises `DataError`, naming file, line or entry, and field.
    """
    entries: Iterable[tuple[int, Any]] = json_lines(path) if lines else enumerate(json_list(path, under))
    for number, entry in entries:
        try:
            yield record(entry)
        except (LookupError, TypeError, ValueError, AttributeError, sqlite3.Error) as error:
            reason = f"no field or value {error}" if isinstance(error, KeyError) else str(error)
            message = f"{reason}; take the file as it is published, a split with answers, or fix this entry"
            place = "" if lines else f"entry {number}: "
            raise DataError(place + message, path, number if lines else None) from error


def _entries(record: Callable[[Entry], Record], **where: Any) -> Callable[[Path], Iterator[Record]]:
    return partial(read_entries, record=record, **where)


FORMATS: Mapping[str, Callable[[Path], Iterator[Record]]] = {
    "agentbench_kg": _entries(agentbench_kg),
    "ck25": _entries(ck25, under="questions"),
    "creak": _entries(creak, lines=True),
    "cwq": _entries(cwq),
    "grailqa": _entries(grailqa),
    "graphq": _entries(graphq),
    "metaqa": read_metaqa,
    "qald10": _entries(qald10, under="questions"),
    "simplequestions": read_simplequestions,
    "trex": _entries(kilt, lines=True),
    "webqsp": _entries(webqsp, under="Questions"),
    "wikisql": read_wikisql,
    "wikiwebquestions": _entries(wikiwebquestions),
    "zeroshot_re": _entries(kilt, lines=True),
}
"""Task -> what reads its published format."""
OWN_KEYS = {
    "creak": "topic_entity",
    "trex": "topic_entity",
    "zeroshot_re": "topic_entity",
    "wikisql": "answers",
}
"""Task -> a key that only records of our own form have; `question` for all others."""


def is_published(task: str, path: Path) -> bool:
    """Return whether a file has the published form of a task, not our own: JSON lines with a certain key."""
    _, line = next(lines_of(path), (1, ""))
    try:
        first = json.loads(line)
    except json.JSONDecodeError:
        return True
    return not isinstance(first, dict) or OWN_KEYS.get(task, "question") not in first


def read_published(task: str, path: Path) -> list[Record]:
    """Return the records of a published file, with the fields that the task reads as far as it has them.

    What only our copies tell (whether the graph can answer a question) is not in them. Where the file has
    names of gold ids, they are in `gold_names`: id -> names.

    Raises:
        ConfigurationError: unknown task.
        DataError: a file of another form, one without questions, a broken entry, an id twice.
    """
    if task not in FORMATS:
        raise ConfigurationError.unknown("task", task, FORMATS)
    records = list(FORMATS[task](path))
    if not records:
        raise DataError("holds no questions", path)
    ids = Counter(record["id"] for record in records)
    if twice := [id_ for id_, times in ids.items() if times > 1]:
        raise DataError(f"the id {twice[0]!r} stands for two questions; fix one of them", path)
    return records
