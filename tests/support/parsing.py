"""Questions read by the parser over an index, with their answers as texts."""

from __future__ import annotations

from triplewise.tools.parsing.chart import Anchors, Candidate, Parser
from triplewise.tools.parsing.denotation import Denotation
from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.question import Question


def parse(
    parser: Parser, text: str, index: GraphIndex, more: Anchors | None = None
) -> tuple[Question, list[Candidate]]:
    """The question with its anchors, and its whole readings, best first."""
    question = ground(text, index)
    return question, parser.read(question, more)


def answer_of(index: GraphIndex, answer: Denotation) -> tuple[list[str], list[str]]:
    """Values and labels of an answer, as they are given to the user; rows cell by cell."""
    if isinstance(answer, bool):
        return [str(answer).lower()], [str(answer).lower()]
    if isinstance(answer, float):
        text = str(int(answer)) if answer.is_integer() else repr(answer)
        return [text], [text]
    values, labels = list[str](), list[str]()
    for found in sorted(answer):
        node, number = found if isinstance(found, tuple) else (found, None)
        cells = [] if number is None else answer_of(index, number)[0]
        values += [index.terms[node].value, *cells]
        labels += [index.label(node), *cells]
    return values, labels
