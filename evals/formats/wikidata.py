"""Benchmarks over Wikidata in their published forms.

QALD-10, WikiWebQuestions, CREAK, and of KILT T-REx and Zero-Shot RE.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import Entry, entries_of_lines, entries_of_list, wikidata_value

Record = dict[str, Any]

SEPARATOR = "[SEP]"
"""What stands between subject and relation in the input of a KILT slot."""


def qald10(path: Path) -> Iterator[Record]:
    """qald_10.json (QALD JSON): `questions` with `question` texts by language, `query`, and `answers`.

    The answers are SPARQL JSON results, with a `boolean` for a yes/no question.
    """
    for entry in entries_of_list(path, "questions"):
        texts = {t.text("language"): t.text("string") for t in entry.parts("question") if t.maybe("string")}
        if "en" not in texts:
            raise entry.wrong("question", 'a list with a text of language "en"')
        kind, answers = _results(entry)
        yield {
            "id": f"qald10-{entry.text('id')}",
            "question": texts["en"],
            "question_zh": texts.get("zh-cn") or texts.get("zh") or "",
            "sparql": entry.part("query").maybe("sparql"),
            "answer_type": kind,
            "answers": answers,
        }


def _results(entry: Entry) -> tuple[str, list[Any]]:
    """Kind and values of the answers: entity, literal, or boolean."""
    answers = entry.parts("answers")
    if len(answers) != 1:
        raise entry.wrong("answers", "a list with one result")
    result = answers[0]
    if "boolean" in result.data:
        if not isinstance(result.data["boolean"], bool):
            raise result.wrong("boolean", "true or false")
        return "boolean", [result.data["boolean"]]
    bindings = result.part("results").parts("bindings") if result.data.get("results") else []
    terms = [_only(binding) for binding in bindings]
    kind = "entity" if all(term.maybe("type") == "uri" for term in terms) else "literal"
    return kind, list(dict.fromkeys(map(wikidata_value, terms)))


def _only(binding: Entry) -> Entry:
    """The value of the first variable of a solution."""
    if not binding.data:
        raise binding.wrong("result", "a term: the solution is empty")
    return binding.part(next(iter(binding.data)))


def wikiwebquestions(path: Path) -> Iterator[Record]:
    """WikiWebQuestions/test.json: `utterance`, `sparql`, and `results` as SPARQL JSON bindings."""
    for entry in entries_of_list(path):
        results = entry.data.get("results")
        values: list[Any]
        if isinstance(results, bool):
            values = [results]
        else:
            values = [wikidata_value(_only(binding)) for binding in entry.parts("results")]
        yield {
            "id": entry.text("id"),
            "question": entry.text("utterance"),
            "sparql": entry.text("sparql"),
            "answers": list(dict.fromkeys(values)),
        }


def creak(path: Path) -> Iterator[Record]:
    """dev.json of CREAK (JSON lines): `sentence`, `label` and the Wikipedia title of its `entity`.

    The published file has no Wikidata ids: the linking is left to the agent.
    """
    for entry in entries_of_lines(path):
        label = str(entry.data.get("label")).lower()
        if label not in ("true", "false"):
            raise entry.wrong("label", '"true" or "false" (the public test file has none: take the dev file)')
        yield {
            "id": entry.text("ex_id"),
            "sentence": entry.text("sentence"),
            "label": label,
            "explanation": entry.maybe("explanation"),
            "entity": entry.text("entity"),
            "en_wiki_pageid": entry.maybe("en_wiki_pageid"),
            "topic_entity": {},
        }


def kilt(path: Path) -> Iterator[Record]:
    """trex-dev-kilt.jsonl and structured_zeroshot-dev-kilt.jsonl of KILT: `input`, and `output` with answers.

    The first answer is `answer`, all are accepted (`alias`). The published files have no Wikidata ids: the
    linking is left to the agent. Files without answers (the public test sets) are refused.
    """
    for entry in entries_of_lines(path):
        subject, mark, relation = entry.text("input").partition(SEPARATOR)
        if not mark or not subject.strip() or not relation.strip():
            raise entry.wrong("input", f'"subject {SEPARATOR} relation"')
        if not entry.data.get("output"):
            raise entry.wrong(
                "output", "a list of answers (the public test file has none: take the dev file)"
            )
        outputs = entry.parts("output")
        answers = list(dict.fromkeys(o.text("answer") for o in outputs if o.data.get("answer")))
        if not answers:
            raise entry.wrong("output", "a list with at least one answer")
        meta = entry.part("meta") if entry.data.get("meta") else None
        yield {
            "id": entry.text("id"),
            "input": f"{subject.strip()} {SEPARATOR} {relation.strip()}",
            "relation": relation.strip(),
            "answer": answers[0],
            "alias": answers,
            "topic_entity": {},
            "template_questions": meta.texts("template_questions") if meta else [],
            "wikipedia_title": next(_titles(outputs), ""),
        }


def _titles(outputs: list[Entry]) -> Iterator[str]:
    """The Wikipedia pages that prove the answers."""
    for output in outputs:
        for page in output.parts("provenance") if output.data.get("provenance") else []:
            if title := page.maybe("title"):
                yield title
