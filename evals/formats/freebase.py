"""Benchmarks over Freebase in their published forms.

WebQSP, ComplexWebQuestions, GrailQA, GraphQuestions, SimpleQuestions, AgentBench's knowledge graph task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import Entry, entries_of_list, lines_of
from triplewise.tools.core.errors import DataError

Record = dict[str, Any]

_MID = re.compile(r"\bns:([mg]\.\w+)")
_SIMPLE = "www.freebase.com/"


def webqsp(path: Path) -> Iterator[Record]:
    """WebQSP.test.json (WebQuestionsSP 1.0): `Questions`, each with `Parses` that have `Answers`.

    Each parse is a right reading of its own: its answers are one of `alt_answer_sets`, the first parse's are
    `answers`. `complete` says whether the official scorer takes the question (a parse of quality Complete for
    a question of quality Good).
    """
    for entry in entries_of_list(path, "Questions"):
        parses = entry.parts("Parses")
        if not parses:
            raise entry.wrong("Parses", "a list with at least one parse")
        sets = [[_argument(a) for a in parse.parts("Answers")] for parse in parses]
        named = [(_argument(a), a.maybe("EntityName")) for parse in parses for a in parse.parts("Answers")]
        yield {
            "id": entry.text("QuestionId"),
            "question": entry.maybe("ProcessedQuestion") or entry.text("RawQuestion"),
            "answers": sets[0],
            "alt_answer_sets": [list(values) for values in dict.fromkeys(map(tuple, sets))],
            "answer_names": [a.maybe("EntityName") or _argument(a) for a in parses[0].parts("Answers")],
            "gold_names": _named(named),
            "entity_linking": dict(pair for parse in parses for pair in _linked(parse)),
            "sparql": parses[0].maybe("Sparql"),
            "complete": any(map(_is_complete, parses)),
        }


def _argument(answer: Entry) -> str:
    return answer.text("AnswerArgument")


def _linked(parse: Entry) -> Iterator[tuple[str, str]]:
    """Name -> mid of the topic entity and of the entities in constraints."""
    if mid := parse.maybe("TopicEntityMid"):
        yield parse.maybe("TopicEntityName") or mid, mid
    for constraint in parse.parts("Constraints") if parse.data.get("Constraints") else []:
        if constraint.maybe("ArgumentType") == "Entity":
            mid = constraint.text("Argument")
            yield constraint.maybe("EntityName") or mid, mid


def _is_complete(parse: Entry) -> bool:
    comment = parse.part("AnnotatorComment") if parse.data.get("AnnotatorComment") else None
    if comment is None:
        return True
    return comment.maybe("QuestionQuality") == "Good" and comment.maybe("ParseQuality") == "Complete"


def _named(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Value -> names, of those that have one."""
    found: dict[str, list[str]] = {}
    for value, name in pairs:
        if name and name not in found.setdefault(value, []):
            found[value].append(name)
    return {value: names for value, names in found.items() if names}


def cwq(path: Path) -> Iterator[Record]:
    """ComplexWebQuestions_test.json (version 1.1): `answers` are objects with answer, answer_id and aliases.

    The gold answers are the ids, or texts where there is no id; `answer_tog` is the first one's text, with
    which published figures are often made. Copies with one `answer` and a `topic_entity` are read too;
    without the latter, the entities of the gold query are the linking, unnamed.
    """
    for entry in entries_of_list(path):
        texts, gold = _cwq_answers(entry)
        sparql = entry.maybe("sparql")
        topic = entry.part("topic_entity").data if entry.data.get("topic_entity") else None
        yield {
            "id": entry.text("ID"),
            "question": entry.text("question"),
            "machine_question": entry.maybe("machine_question"),
            "compositionality_type": entry.maybe("compositionality_type"),
            "answers": list(dict.fromkeys(value for value, _ in gold)),
            "gold_names": _named((value, name) for value, names in gold for name in names if value != name),
            "answer_tog": texts[0] if texts else "",
            "topic_entity": dict(topic) if topic is not None else {mid: mid for mid in _MID.findall(sparql)},
            "sparql": sparql,
            "webqsp_id": entry.maybe("webqsp_ID"),
            "webqsp_question": entry.maybe("webqsp_question"),
        }


def _cwq_answers(entry: Entry) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The gold answers as texts, and as values with their names."""
    if "answers" not in entry.data:
        if "answer" not in entry.data:
            raise entry.wrong("answers", "a list of answers (some copies of the test set have none)")
        text = entry.text("answer")
        return [text], [(text, [text])]
    answers = entry.parts("answers")
    texts = [a.maybe("answer") or a.text("answer_id") for a in answers]
    values = [a.maybe("answer_id") or a.text("answer") for a in answers]
    names = [[text, *a.texts("aliases")] for a, text in zip(answers, texts, strict=True)]
    return texts, list(zip(values, names, strict=True))


def grailqa(path: Path) -> Iterator[Record]:
    """grailqa_v1.0_dev.json: `answer` is a list of objects with answer_type, answer_argument, entity_name.

    The linking is that of the `graph_query`: its nodes of type entity. The public test file has no answers
    and is refused.
    """
    for entry in entries_of_list(path):
        if "answer" not in entry.data:
            raise entry.wrong(
                "answer", "a list of answers (the public test file has none: take the dev file)"
            )
        yield {
            "id": entry.text("qid"),
            "question": entry.text("question"),
            "answers": [_freebase_answer(answer) for answer in entry.parts("answer")],
            "topic_entity": dict(_nodes(entry)),
            "s_expression": entry.maybe("s_expression"),
            "sparql": entry.maybe("sparql_query"),
            "function": entry.maybe("function") or "none",
            "level": entry.maybe("level"),
            "num_node": entry.data.get("num_node"),
            "num_edge": entry.data.get("num_edge"),
            "domains": entry.texts("domains"),
        }


def _freebase_answer(answer: Entry) -> dict[str, str]:
    """An answer of GrailQA or AgentBench, checked."""
    kind = answer.text("answer_type")
    if kind not in ("Entity", "Value"):
        raise answer.wrong("answer_type", '"Entity" or "Value"')
    name = {"entity_name": answer.maybe("entity_name")} if answer.maybe("entity_name") else {}
    return {"answer_type": kind, "answer_argument": answer.text("answer_argument"), **name}


def _nodes(entry: Entry) -> Iterator[tuple[str, str]]:
    """Mid -> name of the entities in the graph query."""
    if entry.data.get("graph_query") is None:
        return
    for node in entry.part("graph_query").parts("nodes"):
        if node.maybe("node_type") == "entity":
            mid = node.text("id")
            yield mid, node.maybe("friendly_name") or mid


def graphq(path: Path) -> Iterator[Record]:
    """graphquestions.testing.json (1.0): `answer` is a list of names and literals (its specification.md)."""
    for entry in entries_of_list(path):
        if not isinstance(entry.data.get("answer"), list):
            raise entry.wrong("answer", "a list of names")
        answers = entry.texts("answer")
        nodes, edges = entry.data.get("num_node"), entry.data.get("num_edge")
        yield {
            "id": entry.text("qid"),
            "question": entry.text("question"),
            "answer_names": answers,
            "entity_linking": {mid: {"mention": name, "friendly_name": name} for mid, name in _nodes(entry)},
            "structure": f"{nodes},{edges}" if nodes is not None and edges is not None else "",
            "function": entry.maybe("function") or "none",
            "answer_cardinality": len(answers),
            "commonness": entry.data.get("commonness"),
            "sparql": entry.maybe("sparql_query"),
            "s_expression": None,
            "answers_mid": None,
        }


def simplequestions(path: Path) -> Iterator[Record]:
    """annotated_fb_data_test.txt (SimpleQuestions_v2): subject, relation, object, question, tabs between.

    Ids are written `www.freebase.com/m/04whkz5`, relations `www.freebase.com/book/written_work/subjects`. The
    gold answer is the object's mid; neither it nor the subject has a name in the file.
    """
    for number, line in lines_of(path):
        fields = line.split("\t")
        ids = [f.removeprefix(_SIMPLE).replace("/", ".") for f in fields[:3]]
        if len(fields) != 4 or not all(f.startswith(_SIMPLE) for f in fields[:3]) or not fields[3].strip():
            raise DataError(
                "a line has to be subject, relation, object (www.freebase.com/...) and question, with tabs "
                f"between them, found {line[:80]!r}; take the file as it is published",
                path,
                number,
            )
        yield {
            "id": f"simplequestions-{number - 1:05}",
            "question": fields[3].strip(),
            "topic_entity": {ids[0]: ids[0]},
            "relation": ids[1].rpartition(".")[2],
            "relation_id": ids[1],
            "answer": ids[2],
        }


def agentbench_kg(path: Path) -> Iterator[Record]:
    """std.json, dev.json or kg_rl_all.json of AgentBench (data/knowledgegraph)."""
    for entry in entries_of_list(path):
        yield {
            "id": entry.text("qid"),
            "qid": entry.text("qid"),
            "question": entry.text("question"),
            "source": entry.maybe("source"),
            "entities": dict(entry.part("entities").data),
            "s_expression": entry.maybe("s_expression"),
            "actions": entry.texts("actions"),
            "answer": [_freebase_answer(answer) for answer in entry.parts("answer")],
        }
