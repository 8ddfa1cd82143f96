"""Operators: words and phrases that compose ("how many", "longest", "more than"), found by the lexicon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.parsing.derivation import Category, Operator, OperatorName, Similarity
from triplewise.tools.parsing.query import Comparison
from triplewise.tools.parsing.question import Question, Span

_COMPARISONS: dict[str, Comparison] = {"more": "gt", "less": "lt", "at_least": "ge", "at_most": "le"}
_BEHIND: dict[str, Comparison] = {"or_more": "ge", "or_less": "le"}
_DATED: dict[str, Comparison] = {"before": "lt", "after": "gt"}
_MOST = {"most": 1, "least": -1}
_PLAIN: dict[str, OperatorName] = {
    "count": "count", "average": "average", "sum": "sum", "not": "not", "or": "or", "and": "and",
    "same": "same", "between": "between", "each": "each",
}  # fmt: skip
_NOT_FIRST = frozenset({"or", "and", "same"})
"""They join what is before and behind them."""
_THAN = 4
"""Words that may stand between "more" and "than"."""
_FEATURES: dict[str, str] = {
    "average": "op_avg", "superlative": "op_sup", "comparison": "op_cmp", "comparison_after": "op_post",
}  # fmt: skip


def ground_operators(question: Question) -> None:
    """Add the operators of a question; one inside a longer one is none."""
    for start, end in sorted(question.spans, key=lambda span: span[0] - span[1]):
        longer = (a for a in question.anchors if a.end - a.start > end - start)
        if any(a.start <= start and end <= a.end for a in longer):
            continue
        found = [*_listed(question, (start, end)), *_gradable(question, (start, end))]
        if end - start == 1:
            found += [*_apart(question, start), *_ordinal(question, start), *_bound(question, start)]
        for operator, behind in found:
            feature = _FEATURES.get(operator.name, "op_" + operator.name)
            question.add(
                Category.OPERATOR, (start, behind), [(feature, 1.0)], kind=operator.name, meaning=operator
            )
            question.operators.update(range(start, behind))


def _listed(question: Question, span: Span) -> Iterator[tuple[Operator, int]]:
    """Phrases that the lexicon lists."""
    start, end = span
    name = lexicon().operators.get(tuple(question.words[start:end]))
    if name in _COMPARISONS:
        yield _comparison(question, _COMPARISONS[name]), end
    elif name in _BEHIND:
        yield replace(_comparison(question, _BEHIND[name]), name="comparison_after"), end
    elif name in _DATED:
        dates = np.array([relation.kind == "date" for relation in question.index.rels], np.float32)
        yield Operator("comparison", 1, _DATED[name], dates), end
    elif name in _MOST:
        yield Operator("most", _MOST[name]), end
    elif name is not None and (start or name not in _NOT_FIRST):
        yield Operator(_PLAIN[name]), end


def _comparison(question: Question, comparison: Comparison) -> Operator:
    """A comparison that speaks of no quantity."""
    return Operator("comparison", 1, comparison, np.zeros(len(question.index.rels), np.float32))


def _gradable(question: Question, span: Span) -> Iterator[tuple[Operator, int]]:
    """Superlatives and comparatives (than): longest, older, most populous, less expensive."""
    (start, end), words = span, lexicon()
    degree, word = ["", *question.words[start:end]][-2:]
    superlative = comparative = None
    if end - start == 1:
        superlative, comparative = words.adjective_of(word, "est"), words.adjective_of(word, "er")
    elif end - start == 2 and (known := words.adjectives.get(word)) and known.quantities:
        superlative = word if degree in ("most", "least") else None
        comparative = word if degree in ("more", "less") else None
    turn = -1 if degree in ("least", "less") else 1
    if superlative is not None:
        sign = words.adjectives[superlative].sign if superlative in words.adjectives else 1
        fits = similarity_of(question, superlative, start if end - start == 1 else None)
        yield Operator("superlative", turn * sign, None, fits), end
    if comparative is not None and comparative in words.adjectives:
        comparison: Comparison = "gt" if turn * words.adjectives[comparative].sign > 0 else "lt"
        behind = end + 1 if question.words[end : end + 1] == ["than"] else end
        yield Operator("comparison", 1, comparison, similarity_of(question, comparative)), behind


def _apart(question: Question, i: int) -> Iterator[tuple[Operator, int]]:
    """More ... than, fewer ... than, no more ... than; "more" of two ("who earns more, X or Y") is most."""
    negated = question.words[i] in ("no", "not")
    degree, *between = [*question.words[i + negated : i + negated + 1 + _THAN], ""]
    if degree in ("more", "less", "fewer") and "than" in between[1:]:
        much: Comparison = "le" if negated else "gt"
        little: Comparison = "ge" if negated else "lt"
        yield _comparison(question, much if degree == "more" else little), i + 1 + negated
    elif degree in ("more", "less", "fewer") and not negated and "or" in question.words:
        yield Operator("most", 1 if degree == "more" else -1), i + 1


def _bound(question: Question, i: int) -> Iterator[tuple[Operator, int]]:
    """Minimum and maximum in front of a number: "minimum two attendees" is at least two."""
    bound = lexicon().bounds.get(question.words[i])
    if bound is not None and i + 1 < question.n and is_number(question.words[i + 1]):
        yield _comparison(question, _COMPARISONS[bound]), i + 1


def is_number(word: str) -> bool:
    """Whether a word is a number, in digits or in full."""
    return word[0].isdigit() or word in lexicon().numbers


def _ordinal(question: Question, i: int) -> Iterator[tuple[Operator, int]]:
    """The second, the 3rd: a rank, in front of a superlative or of what is ranked."""
    word = question.words[i]
    digits = word[:-2] if word[-2:] in ("st", "nd", "rd", "th") else ""
    rank = int(digits) if digits.isdigit() else lexicon().ordinals.get(word)
    if rank is not None and rank > 1:
        yield Operator("ordinal", rank), i + 1


def similarity_of(question: Question, word: str, i: int | None = None) -> Similarity:
    """How well each relation goes with an adjective or noun of quantity, or with the word itself."""
    words, nothing = lexicon(), np.zeros(len(question.index.rels), np.float32)
    adjective = words.adjectives.get(word)
    quantities = adjective.quantities if adjective else words.quantities.get(word, ())
    if not quantities:
        return nothing if i is None else question.relation_similarity[i, i + 1]
    return question.vocabulary.relations_like(quantities)
