"""A question while it is grounded: its words, how well they go with the graph's names, and its anchors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA

from triplewise.tools.core.names import BRACKETS, QUOTES, marked
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import singulars
from triplewise.tools.language.lexicon import grammar_of, lexicon, opposites, root, section, word_list
from triplewise.tools.language.text import Token, singular, tokenise
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.denotation import denotation
from triplewise.tools.parsing.derivation import Category, Derivation, Features
from triplewise.tools.parsing.follow_up import Turn, read_tree, without_opening
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.vocabulary import Vector, Vocabulary
from triplewise.tools.retrieval.encoder import Encoder, english_words

Span = tuple[int, int]  # A run of tokens, by the first one and the one behind the last

LONGEST = 5  # Tokens of the longest span that is compared with relations and classes
LEAST_LETTERS, SHORT = 5, 3  # letters of a misspelt word at least, and of one that is never strange
QUESTION_WORDS = frozenset({"which", "what", "who", "whom", "where", "when"})
LONG = 8  # letters of an English word in another spelling, at least, for each letter that differs
HARD = frozenset(
    f"skip_{what}"
    for what in ("op", "name", "known", "content", "capital", "unknown", "part", "noun", "unit")
)
_BEGINS = re.compile(r"(^|\w{4,}[.?!]\s+)\W*$")  # what is in front of a sentence: no abbreviation
_OF_PLACE = re.compile(r"(?=.{6}).*(ese|ish|an|ic)$")


def covers(outer: Span, inner: Span) -> bool:
    """Whether a span holds another, or is it."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Question:
    """The words of a question and what they may mean in a graph.

    `relation_similarity`, `inverse_similarity`, `class_similarity`: span -> cosines with the names of all
    relations, with their names read backwards ("child of" for parent), and with all classes.
    """

    def __init__(self, text: str, index: GraphIndex, turns: Sequence[Turn] = ()) -> None:
        self.earlier = [(turn, read_tree(turn.tree, index)) for turn in turns]  # newest first
        text, self.clause = without_opening(text) if turns else (text, 1.0)
        self.text, self.index = text, index
        self.vocabulary = Vocabulary.of(index)
        self.tokens = tokenise(text)
        if turns:  # what is not said
            self.tokens = (*self.tokens, Token(" ", "that", len(text), len(text)))
        grammar = grammar_of(text)
        self.is_english = not grammar
        self.raw = [token.text for token in self.tokens]
        self.folded = [token.word for token in self.tokens]
        # Function words of other languages are the English ones, a misspelt word is the right one.
        self.words = [grammar.get(token.text.lower(), token.word) for token in self.tokens]
        self.n = len(self.tokens)
        self.anchors: list[Derivation] = []  # what spans may mean, each without composition
        self.named = set[int]()  # tokens of entities
        self.in_names = set[int]()  # tokens that are a part of their names
        self.known = set[int]()  # tokens of relations and classes in full
        self.operators = set[int]()
        self.pronouns = set[int]()  # tokens that refer to what was asked before
        self.unknown = set[int]()  # tokens in no name of the graph, strange or capitalised
        beginning = " ".join(self.words[:3]) + " "
        is_verb_first = not word_list("yes_or_no").isdisjoint(self.words[:1])
        self.is_yes_no = is_verb_first and self.words[1:2] != ["you"]
        self.is_terse = not word_list("stop") & {*self.words[:1]}  # "biggest budget"
        counting = tuple(f"{words} " for words in section("counting"))
        self.may_be_empty = self.is_yes_no or beginning.startswith(counting)
        asking = next((word for word in self.words if word in QUESTION_WORDS), "")
        self.asks_number = self.words[:1] == ["how"] and self.words[1:2] in (["many"], ["much"])
        self.wh = asking if asking in lexicon().kinds else None
        self.strange = {i for i in range(self.n) if self._is_strange(self.words[i])}  # not even English
        for i in self.strange:
            self.words[i] = self.nearest_word(i, classes_only=True) or self.words[i]
        self.spans = self.spans_up_to(LONGEST)
        texts, known = [" ".join(self.words[i:j]) for i, j in self.spans], self.vocabulary
        vectors: Vector = index.encode(texts) if texts else np.zeros((0, 384), np.float32)
        self.relation_similarity, self.inverse_similarity, self.class_similarity = (
            dict(zip(self.spans, names.similarity(vectors), strict=True))
            for names in (known.relations, known.inverse, known.classes)
        )

    def spans_up_to(self, longest: int) -> list[Span]:
        """All runs of at most so many tokens."""
        end = self.n - bool(self.earlier)
        return [(i, j) for i in range(end) for j in range(i + 1, min(end, i + longest) + 1)]

    def _is_strange(self, word: str) -> bool:
        """Whether a word is neither in the graph nor in English."""
        words = lexicon()
        degree = any(words.adjective_of(word, ending) in words.adjectives for ending in ("er", "est"))
        if len(word) <= SHORT or not word.isalpha() or degree:
            return False
        known = (self.vocabulary.words, self.index.named.by_word, english_words())
        return not any(form in words for form in (word, singular(word)) for words in known)

    def nearest_word(self, i: int, classes_only: bool = False) -> str | None:
        """The word of the graph's names, or of its classes and relations, that a strange word is meant for.

        It has the same first letter, and at most one letter in five differs.
        """
        forms = dict.fromkeys((singular(self.folded[i]), self.folded[i]))
        for word in (form for form in forms if len(form) >= LEAST_LETTERS):
            known, limit = self.vocabulary.beginning_with(word[0], classes_only), max(len(word) // 5, 1)
            if found := process.extractOne(word, known, scorer=OSA.distance, score_cutoff=limit):
                return str(found[0])
        return None

    def content(self, start: int, end: int) -> list[str]:
        """The content words of a span."""
        return [word for word in self.words[start:end] if word not in word_list("stop")]

    def span_of(self, start: int, end: int) -> Span | None:
        """The tokens between two positions of the text."""
        inside = [i for i, token in enumerate(self.tokens) if token.start >= start and token.end <= end]
        return (inside[0], inside[-1] + 1) if inside else None

    @cached_property
    def other_cue(self) -> str:
        """Which words tell whether named things are among the answers: "other", "same", "share", or none."""
        words, cues = lexicon(), [word for word in self.words if word in word_list("others")]
        if any(words.operators.get((word,)) != "same" for word in cues):
            return "cued"
        return "" if not cues else "same" if "same" in cues else "shared"

    @cached_property
    def late(self) -> int | None:
        """Where the question word is, if the wanted thing stands last: "X starred in which films"."""
        i = next((i for i, word in enumerate(self.words) if word in QUESTION_WORDS), 0)
        if i < 2 or self.is_yes_no:
            return None
        classes = {a.start for a in self.of_kind("class")}
        classes -= {a.start for a in self.of_kind("relation") if ("rel_exact", 1.0) in a.features}
        classes |= {a.start for a in self.of_kind("class") if a.features[0][0] in ("cls_exact", "cls_head")}
        after_preposition = self.words[i - 1] in word_list("prepositions") and i + 1 in self.known
        asked = self.words[i] in ("which", "what") and (i + 1 in classes or after_preposition)
        return i if asked or i == self.n - 1 else None

    @cached_property
    def focus(self) -> Derivation | None:
        """The class that it begins with or has behind "which", unless it asks who, where or when."""
        if self.wh:
            return None
        beginnings = [a for a in self.anchors if a.category is Category.OPERATOR and a.kind != "comparison"]
        operators = {i for a in beginnings for i in range(a.start, a.end)}
        content = (i for i in range(self.n) if self.words[i] not in word_list("stop") and i not in operators)
        first = next(content, None) if self.late is None else self.late + 1
        classes = [a for a in self.of_kind("class") if a.start == first]
        named = [a for a in classes if a.features[0][0] in ("cls_exact", "cls_head")]
        return max(named, key=lambda a: (a.features[0][0] == "cls_exact", a.end), default=None)

    @cached_property
    def marked(self) -> tuple[Span, ...]:
        """Spans in quotes or [brackets]."""
        found = (*marked(BRACKETS, self.text), *marked(QUOTES, self.text))
        return tuple(span for of in found if (span := self.span_of(of.start, of.end)) is not None)

    def is_common(self, start: int, end: int) -> bool:
        """Whether a span is one word that is more likely a class, a relation or grammar than a name."""
        word = self.words[start]
        grammar = word in word_list("stop") or start in self.operators
        as_name = start > 0 and self.is_english and self.tokens[start].capital
        return end - start == 1 and (grammar or (singular(word) in self.vocabulary.words and not as_name))

    def add(self, anchor: Derivation) -> None:
        """Add an anchor."""
        if anchor.query is not None:
            anchor.denotation = denotation(anchor.query, self.index)
        self.anchors.append(anchor)

    def of_kind(self, *kinds: str) -> list[Derivation]:
        """The anchors of some kinds."""
        return [anchor for anchor in self.anchors if anchor.kind in kinds]

    def finish(self) -> None:
        """Settle what leaving out each token costs, once everything is grounded."""
        self.skip = [self._skipped(i) for i in range(self.n)]
        # For each token, how many before it may not be left out freely.
        self.hard = [0, *accumulate(int(name in HARD) for name in self.skip)]

    def _skipped(self, i: int) -> str | None:
        """What leaving out a token costs, as a feature calls it: the first of these that holds."""
        before, word, after = ("", *self.words, "")[i : i + 3]
        is_operator = i in self.operators
        of_all = self.is_yes_no and word in ("all", "every", "only")
        another = word in QUESTION_WORDS and before == "and"  # who directed X and when was it released
        is_empty = word in word_list("stop") or (word in word_list("others") and not is_operator)
        # "which person", "which kind of" say nothing of their own.
        is_kind = word in lexicon().kinds["who"] and (before in ("which", "what") or after in ("who", "that"))
        is_part = word in word_list("partitives") and self.words[i + 1 : i + 2] == ["of"]
        costs = (
            ("skip_op", of_all or another or (is_operator and word in ("not", "no"))),
            ("skip_capital", word.isdigit() and i - 1 in self.named and i not in self.named),  # Avatar 2
            ("skip_pronoun", i in self.pronouns), (None, is_empty), ("skip_op", is_operator),
            ("skip_name", i in self.named), ("skip_known", i in self.known), (None, is_kind or is_part),
            ("skip_unknown", i in self.unknown), ("skip_capital", i > 0 and self.tokens[i].capital),
            ("skip_part", i in self.in_names), ("skip_noun", self._has_owner(i)),
            ("skip_unit", word in lexicon().units),
        )  # fmt: skip
        return next((name for name, holds in costs if holds), "skip_content")

    def _has_owner(self, i: int) -> bool:
        """Whether a token is a noun of something: the mother of X, X's mother."""
        between = self.text[self.tokens[i - 1].end : self.tokens[i].start] if i else ""
        return self.words[i + 1 : i + 2] == ["of"] or between.startswith(("'", "’"))

    @property
    def unreadable(self) -> set[int]:
        """Strange words of an English question: nothing in the graph is called so, and vectors mislead."""
        return self.unknown & self.strange if self.is_english else set()

    def skips(self, start: int, end: int) -> Features:
        """What leaving out the tokens of a span costs: one feature for each that is not free."""
        return [(name, 1.0) for name in self.skip[start:end] if name]

    def uncovered(self, derivation: Derivation) -> list[int]:
        """The tokens that a reading leaves out and that are not free to be left out."""
        covered = {i for leaf in derivation.leaves() for i in range(leaf.start, leaf.end)}
        return [i for i in range(self.n) if i not in covered and self.skip[i] in HARD]

    @cached_property
    def contrary(self) -> frozenset[int]:
        """Relations whose names have the opposite of a word: hired on, for fired.

        Of those that are true or false, the opposite is read (`grounding`): they are left out.
        """
        names, roots, rels = self.vocabulary.relations, set(map(root, self.words)), self.index.rels
        opposed = [names.replaced([w], opposites) for w in self.words if not roots & opposites(w)]
        found = {r for f1 in opposed for r in np.flatnonzero(f1).tolist()}
        return frozenset(r for r in found if rels[r].kind != "boolean")

    def nearest(self, tokens: Iterable[int]) -> tuple[str, ...]:
        """The labels of the relations that are nearest to some tokens, at most three."""
        rows = [row for i in tokens if (row := self.relation_similarity.get((i, i + 1))) is not None]
        order = np.argsort(-np.max(rows, axis=0), kind="stable")[:6].tolist() if rows else ()
        return tuple(dict.fromkeys(self.index.rels[r].names[0] for r in order))[:3]


def unnamed_words(
    text: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder, capitals_only: bool
) -> list[str]:
    """Return words of an English question, outside of its mentions, that nothing in a small graph is called.

    They have a capital or are not English: for another word the graph may have one of the same meaning.
    """
    index = None if kg.is_remote or grammar_of(text) else GraphIndex.whole(kg, encoder)
    if index is None:
        return []
    question, found = Question(text, index), list[str]()
    grammar = word_list("stop"), section("months"), lexicon().units
    known = *grammar, question.vocabulary.words, index.named.by_word, index.named.by_key
    for i, token in enumerate(question.tokens):
        is_capital = token.capital and not _BEGINS.search(text[: token.start])
        is_strange = is_capital or (not capitals_only and i in question.strange)
        is_linked = any(entity.start <= token.start < entity.end for entity in linked)
        is_known = any(form in of for form in singulars(token.word) for of in known)
        if is_strange and not is_linked and not is_known and len(token.text) > 1:
            is_near = question.nearest_word(i) is not None or _is_variant(token.text, question)
            found += [] if is_near else [token.text]
    return list(dict.fromkeys(found))


def _is_variant(word: str, question: Question) -> bool:
    """Whether a word is an English one spelt otherwise, or the adjective of a place in the graph: Spanish."""
    word, is_capital = singular(word.lower()), word[0].isupper()
    if _OF_PLACE.search(word):
        names = question.vocabulary.beginning_with(word[0])
        return any(word.startswith(name[: max(len(name) - 2, SHORT)]) for name in names)
    words = () if is_capital else (known for known in english_words() if known[0] == word[0])
    return process.extractOne(word, words, scorer=OSA.distance, score_cutoff=len(word) // LONG) is not None
