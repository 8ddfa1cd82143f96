"""Operators: words and phrases that compose ("how many", "longest", "more than"), found by the lexicon."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from triplewise.tools.language.lexicon import lexicon, section, word_list
from triplewise.tools.parsing.derivation import Category, Derivation, Operator, Similarity, f
from triplewise.tools.parsing.query import Comparison
from triplewise.tools.parsing.question import Question, Span

NOT_FIRST = frozenset({"or", "and", "same"})  # They join what is before and behind them
DATE_FIT = 0.5  # how well any date goes with "newest", at least
THAN = 4  # Words that may stand between "more" and "than"


def ground_operators(question: Question) -> None:
    """Add the operators of a question; one inside a longer one does not count."""
    for start, end in sorted(question.spans, key=lambda span: span[0] - span[1]):
        longer = (a for a in question.anchors if a.end - a.start > end - start)
        if any(a.start <= start and end <= a.end for a in longer):
            continue
        found = [*_listed(question, (start, end)), *_gradable(question, (start, end))]
        if end - start == 1:
            found += [*_apart(question, start), *_ordinal(question, start)]
        for operator, behind in found:
            features, name = f(**{"op_" + operator.name: 1}), operator.name
            question.add(Derivation(Category.OPERATOR, start, behind, features, meaning=operator, kind=name))
            if not (
                question.words[start] in word_list("places")
                and behind == start + 1
                and _is_word(question, behind)
            ):
                question.operators.update(range(start, behind))


def _is_word(question: Question, i: int) -> bool:
    """Whether a token is there and no number, nor the article of one ("over an hour")."""
    words = question.words[i : i + 1]
    return bool(words) and not (words[0][0].isdigit() or words[0] in {*section("numbers"), "a", "an"})


def _listed(question: Question, span: Span) -> Iterator[tuple[Operator, int]]:
    """Phrases that the lexicon lists."""
    start, end = span
    listed = lexicon().operators.get(tuple(question.words[start:end]))
    if listed is None or (not start and listed in NOT_FIRST):
        return
    dates = [listed in ("before", "after") and r.kind == "date" for r in question.index.rels]
    for one in ("count", "sum") if listed == "total" else (listed,):
        name, sign, comparison = section("operator_senses").get(one, (one, 1, None))
        yield Operator(name, sign, comparison, np.array(dates, np.float32) if comparison else None), end


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
        known = words.adjectives.get(superlative)
        fits, turned, others = quantities_of(question, superlative, start if end - start == 1 else None)
        sign = turn * (known.sign if known else 1)
        yield Operator("superlative", sign, None, fits, turned, others), end
    if comparative is not None and comparative in words.adjectives:
        sign = turn * words.adjectives[comparative].sign
        behind = end + (question.words[end : end + 1] == ["than"])
        comparison: Comparison = "gt" if sign > 0 else "lt"
        yield Operator("comparison", sign, comparison, *quantities_of(question, comparative)), behind


def _apart(question: Question, i: int) -> Iterator[tuple[Operator, int]]:
    """More ... than, fewer ... than; "more" of two ("who earns more, X or Y") is most."""
    degree, *between = [*question.words[i : i + 1 + THAN], ""]
    sign = 1 if degree == "more" else -1
    if degree not in ("more", "less", "fewer"):
        return
    if "than" in between[1:]:
        yield Operator("comparison", sign, "gt" if sign > 0 else "lt", _nothing(question)), i + 1
    elif "or" in question.words:
        yield Operator("most", sign), i + 1


def _ordinal(question: Question, i: int) -> Iterator[tuple[Operator, int]]:
    """The second, the 3rd: a rank, in front of a superlative or of what is ranked."""
    word = question.words[i]
    digits = word[:-2] if word[-2:] in ("st", "nd", "rd", "th") else ""
    rank = int(digits) if digits.isdigit() else section("ordinals").get(word)
    if rank is not None and rank > 1:
        yield Operator("ordinal", rank), i + 1


def quantities_of(
    question: Question, word: str, i: int | None = None
) -> tuple[Similarity, frozenset[int], frozenset[int]]:
    """How well each relation goes with an adjective or noun of quantity, or with the word itself; relations
    of which an adjective means the opposite; those that are certainly another quantity."""
    words, vocabulary = lexicon(), question.vocabulary
    adjective = words.adjectives.get(word)
    quantities = adjective.quantities if adjective else words.quantities.get(word, ())
    if not any(quantities):
        nothing = _nothing(question) if i is None else question.relation_similarity[i, i + 1]
        return nothing, frozenset(), frozenset()
    like, opposites = vocabulary.relations_like(quantities), adjective.opposites if adjective else ()
    # Relations that have the very name of another quantity.
    own = frozenset[int]().union(*(vocabulary.quantities[name] for name in quantities + opposites))
    others = frozenset[int]().union(*vocabulary.quantities.values()) - own
    turned, relations = frozenset[int](), question.index.rels
    if opposites:
        unlike = vocabulary.relations_like(opposites)
        turned = frozenset(np.flatnonzero(unlike > like).tolist())
        turned |= {r.i for r in relations if {*r.names[0].split()} & {*opposites}}
        like = np.maximum(like, unlike)
    if "date" in quantities:  # any date is one, whatever it is called ("first lit"), and none is the opposite
        dates = [r.i for r in relations if r.is_dated and r.dtype != "time"]
        turned, like = turned.difference(dates), like.copy()
        like[dates] = np.maximum(like[dates], DATE_FIT)
        # Nor is a number one that can be no year: who is in year 9 is not so old.
        like[[r.i for r in relations if r.kind == "number" and not r.is_dated and r.i not in turned]] = 0
    return like, turned, others


def _nothing(question: Question) -> Similarity:
    return np.zeros(len(question.index.rels), np.float32)
