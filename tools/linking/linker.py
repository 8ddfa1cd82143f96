"""Entity linking: which nodes of the KG a question speaks of.

Names are found by the label index of the KG: exact spans first, near names for what is quoted or capitalised
and matched none. A span weighs more the rarer its words are, and where capitals agree with the label; words
that questions use to say what is asked ("name", "director") weigh little (`words.yaml`). Which node of that
name is meant is decided by capitals, popularity, and, where an encoder is given, by how well label and
description fit the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import takewhile

import numpy as np
import yaml

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.names import Span, normalise, span_at, spans, tokens
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.labels import Candidate, Entry, SpanMatch, similarity
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import singulars
from triplewise.tools.pyql.text import read_term, write_node
from triplewise.tools.retrieval.encoder import Encoder

_SLIP = 90.0
"""How alike two names must be as a whole (0 to 100) to be slips of one another."""
_NEAR, _NEARER = 0.79, 0.87
"""A near name is taken for a mention from this score on; the second where a part of it is a name in full."""
_BETTER_KNOWN = 3.0
"""How many times better known (on a log scale) a longer name must be to be preferred to an exact one."""
_LEAST_LETTERS = 4
"""Shorter texts have too many near names."""
_CONTEXT = 0.3
"""Weight of the similarity between the question and a candidate, label and description."""
_IN_CONTEXT = 6
"""Candidates of one mention that are compared with the question by vectors."""


TAKEN = 0.75
"""From this weight on, a span is taken for a mention."""
DOUBTFUL = 0.2
"""Below it, a span is never a mention; between the two, only if there is no other."""

_MOST_PARTS = 8
"""Parts of a run that are tried for near names."""

_LEAST_GRAMMAR = 2
"""Grammar words that a question has of another language at least, to be in it."""

_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_QUOTES = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|„([^“”]+)[“”]|(?<!\w)'([^']+)'(?!\w)")
_JOINING = frozenset(
    {"of", "the", "and", "de", "la", "von", "van", "der", "du", "da", "in", "for", "on", "to"}
)
_VALUE = {"function": 0.05, "common": 0.3, "number": 0.6, "other": 1.0}


@dataclass(frozen=True, slots=True)
class EntityCandidate:
    """A node that a mention may mean. `score` is 0 to 1; `kind`: given, exact, alias, fuzzy, or trigram."""

    id: str
    label: str
    score: float
    kind: str
    description: str = ""
    popularity: int = 0


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """A mention of the question with the node it is taken to mean.

    Attributes:
        mention: as the question writes it. start, end: its character positions (-1 if it was given and does
            not stand in the question).
        id: short id of the best candidate. label: its label. score: 0 to 1.
        candidates: all candidates, best first.
    """

    mention: str
    start: int
    end: int
    id: str
    label: str
    score: float
    candidates: tuple[EntityCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Mention:
    """A span taken for a name: its nodes, its weight, whether its capitals agree, and its rare words."""

    span: Span
    entries: tuple[Entry, ...]
    weight: float
    agrees: bool = False
    rare: int = 0


@dataclass(frozen=True)
class Question:
    """A question with what its writing tells.

    Attributes:
        text: the question. cased: whether its capitals mean something (it has some behind its first word).
        first: end of its first word. quoted: spans in quotation marks.
        relation_words: words by which the graph's profile reads its relations: questions ask by them.
    """

    text: str
    cased: bool
    first: int
    quoted: tuple[Span, ...]
    relation_words: frozenset[str] = frozenset()

    def kind_of(self, word: str) -> str:
        """Return `function`, `common`, `number`, or `other`."""
        if word in _words("function") or word in grammar_of(self.text):
            return "function"
        if (
            word in _words("common")
            or word in _words("ordinal")
            or not self.relation_words.isdisjoint(singulars(word))
        ):
            return "common"
        if len(word) == 1 and word.isascii() and word.isalpha():
            return "common"
        return "number" if word.isdigit() else "other"


def link(
    question: str,
    kg: KnowledgeGraph,
    given: Mapping[str, str | None] | None = None,
    encoder: Encoder | None = None,
    limit: int = 5,
) -> tuple[LinkedEntity, ...]:
    """Link the entities of a question, most certain first.

    Args:
        question: the question, optionally with its mentions in [brackets] or "quotes".
        kg: the graph. One without a label index is asked for the exact labels of all spans at once, and for
            near names by its own full text, where it has one.
        given: mention -> id or typed literal (`"1.0"^^xsd:float`), taken as it is (None: have the mention
            linked). Nothing else is linked then.
        encoder: chooses among candidates of the same name by the context of the question.
        limit: candidates kept a mention.

    Raises:
        ConfigurationError: a given id that the graph does not know, or a given mention that nothing is called
            like; lists near ones.
        KGUnavailableError: a graph without a label index did not answer, which is not the same as knowing
            no such entity.
    """
    linker = _Linker(kg, read_question(question, kg.profile), encoder, limit)
    if given:
        return tuple(linker.given(mention, id_) for mention, id_ in given.items())
    marked = [m for span in _marked(_BRACKETS, question) if (m := linker.named(span)) is not None]
    return tuple(linker.linked(mention) for mention in marked or linker.mentions())


def without_brackets(question: str) -> str:
    """Return the question without the brackets around its mentions."""
    return re.sub(r"\[([^\[\]]+)\]", r"\1", question)


@dataclass
class _Linker:
    """Links the mentions of one question."""

    kg: KnowledgeGraph
    question: Question
    encoder: Encoder | None
    limit: int

    def __post_init__(self) -> None:
        self.names = self.kg.names

    def mentions(self) -> tuple[Mention, ...]:
        """Return the question's mentions: what is quoted, then names found in full, then near names."""
        matches = self.names.spans(self.question.text, self._asked)
        quoted = [m for span in self.question.quoted if (m := self.named(span)) is not None]
        return self._with_near_names(choose((weigh(self.question, match) for match in matches), quoted))

    def named(self, span: Span) -> Mention | None:
        """Return a span that is known to be a mention, with the nodes of that name or a near one."""
        entries = self.names.exact(span.text) or self._close(span.text, _NEAR)
        return Mention(span, entries, 10.0) if entries else None

    def linked(self, mention: Mention) -> LinkedEntity:
        """Return a mention with its candidates in order."""
        candidates = self._ranked(mention)
        best = candidates[0]
        span = mention.span
        return LinkedEntity(
            span.text, span.start, span.end, best.id, best.label, best.score, candidates[: self.limit]
        )

    def given(self, mention: str, id_: str | None) -> LinkedEntity:
        """Return an entity that the caller names; a mention without an id may be an id itself."""
        start = self.question.text.casefold().find(mention.casefold())
        end = start + len(mention) if start >= 0 else -1
        if id_ is None:
            named = self.named(Span(start, end, mention, normalise(mention)))
            node = self.kg.profile.expand(mention) if named is None else None
            label = self.kg.labels([node]).get(node, "") if node is not None else ""
            if label and node is not None and self._exists(node):  # the question has its name, if any
                return self.given(label, self.kg.profile.short(node))
            if named is None:
                raise ConfigurationError(
                    f"nothing in {self.kg.name} is called {mention!r}{self._hint(mention)}"
                )
            return self.linked(named)
        term = read_term(id_, self.kg.profile)
        if term is None or not self._exists(term):
            raise ConfigurationError(f"{self.kg.name} has no entity {id_!r}{self._hint(mention)}")
        if isinstance(term, Literal):
            label, short = term.value, write_node(term, self.kg.profile)
        else:
            label, short = self.kg.labels([term]).get(term, mention), self.kg.profile.short(term)
        candidate = EntityCandidate(short, label, 1.0, "given")
        return LinkedEntity(mention, start, end, short, label, 1.0, (candidate,))

    def _with_near_names(self, mentions: tuple[Mention, ...]) -> tuple[Mention, ...]:
        """Return mentions, with near names for runs that look like a name and matched none or in part."""
        result = list(mentions)
        for run in unnamed_runs(self.question, mentions):
            inside = [m for m in result if overlap(m.span, run)]
            if any(m.span.start <= run.start and run.end <= m.span.end for m in inside):
                continue
            strong = any(m.weight >= TAKEN for m in inside)
            for part in [run] if strong else parts_of(self.question, run):
                # Nearer where it displaces one in full, or is one plain word.
                plain = not self.question.cased and " " not in part.norm
                least = _NEARER if strong or plain else _NEAR
                close = self._close(part.text, least, part == run or not self.question.cased)
                if close:
                    result = [m for m in result if not overlap(m.span, part)]
                    result.append(Mention(part, close, 1.5))
                    break
        sure = [m for m in result if m.weight >= TAKEN]
        return tuple(sorted(sure or result, key=lambda m: -m.weight))

    def _ranked(self, mention: Mention) -> tuple[EntityCandidate, ...]:
        """Return the candidates of a mention, best first."""
        entries = [*mention.entries, *self._longer(mention)]
        # Signs around the words count too: "Eaten Alive!" is another film than "Eaten Alive".
        window = self.question.text[max(mention.span.start - 4, 0) : mention.span.end + 4]
        written = max((entry.text for entry in entries if entry.text in window), key=len, default="")
        most = math.log1p(max(entry.popularity for entry in entries)) or 1.0
        scored: dict[IRI, tuple[float, str, Entry]] = {}
        for entry in entries:
            name, kind = self._agreement(mention.span, entry, written)
            score = 0.6 * name + 0.4 * math.log1p(entry.popularity) / most
            if score > scored.get(entry.iri, (0.0,))[0]:
                scored[entry.iri] = (score, kind, entry)
        ranked = sorted(scored.values(), key=lambda s: (-s[0], s[2].iri.value))
        scores = [score for score, _, _ in ranked]
        if self.encoder is not None and len(ranked) > 1:  # what the question is about decides among the best
            texts = [f"{e.label}, {e.description}" if e.description else e.label for _, _, e in ranked]
            vectors = self.encoder.encode([self.question.text, *texts[:_IN_CONTEXT]])
            cosines = np.maximum(vectors[1:] @ vectors[0], 0.0).tolist()
            for i, score in enumerate(scores):
                scores[i] = (1 - _CONTEXT) * score + _CONTEXT * (cosines[i] if i < len(cosines) else 0.0)
        candidates = []
        for score, (_, kind, entry) in zip(scores, ranked, strict=True):
            short, score = self.kg.profile.short(entry.iri), round(min(score, 1.0), 4)
            details = (entry.description, entry.popularity)
            candidates.append(EntityCandidate(short, entry.label, score, kind, *details))
        return tuple(sorted(candidates, key=lambda c: -c.score))

    def _longer(self, mention: Mention) -> list[Entry]:
        """Return nodes whose name goes on where the question has a part of it: `Goethe`, `the United States`.

        Only those far better known to the graph than any node that has the name in full.
        """
        norm = mention.span.norm
        best = math.log1p(max(entry.popularity for entry in mention.entries))
        written = any(entry.popularity and entry.text == mention.span.text for entry in mention.entries)
        lower = self.question.cased and mention.span.text.islower()
        if written or lower or (best and self.question.kind_of(norm) != "other"):
            return []
        longer = [candidate.entry for candidate in self.names.longer(norm)]
        if not best:
            words = set(norm.split())
            longer += [c.entry for c in self._near(norm) if words < set(normalise(c.entry.text).split())]
        return [entry for entry in longer if math.log1p(entry.popularity) > _BETTER_KNOWN * best]

    def _agreement(self, span: Span, entry: Entry, written: str) -> tuple[float, str]:
        """Return how well a name agrees with what is written, 0 to 1, and the kind of agreement."""
        other = normalise(entry.text)
        if span.norm != other:
            return 0.7 * similarity(span.norm, other), "fuzzy"
        kind = "alias" if entry.alias else "exact"
        if entry.text == written:
            return 1.0, kind
        if same_case(span.text, entry.text):
            return 0.6, kind
        return (0.4 if self.question.cased else 0.45), kind

    def _close(self, text: str, least: float, longer: bool = True) -> tuple[Entry, ...]:
        """Return entries with nearly this name, or whose name goes on, without those far behind the best."""
        if len(normalise(text)) < _LEAST_LETTERS:
            return ()
        near = [c for c in self._near(text) if c.score >= least and _same_words(text, c.entry.text)]
        if not longer:
            # A part of a longer name that the graph does not know: "Christopher" of Christopher Nolan.
            words = len(normalise(text).split())
            near = [c for c in near if len(normalise(c.entry.text).split()) == words]
        candidates = [*near, *(self.names.longer(text) if longer else ())]
        best = max((c.score for c in candidates), default=0.0)
        return tuple(c.entry for c in candidates if c.score >= best - 0.1)

    def _near(self, text: str) -> tuple[Candidate, ...]:
        return self.names.search(text, limit=20, near=True)

    def _exists(self, term: Term) -> bool:
        """Return whether the graph has a term."""
        by_id = self.kg.profile.entity_text == "local"  # ids read as names, whether or not they exist
        if not by_id and term in self.kg.labels([term]):  # what has a label exists; it is needed anyway
            return True
        node = term.n3()
        subject = "" if isinstance(term, Literal) else f"{{ {node} ?p ?o }} UNION "
        return self.kg.query(f"ASK {{ {subject}{{ ?s ?q {node} }} }}").boolean is True

    def _hint(self, mention: str) -> str:
        near = ", ".join(f"{c.label} ({self.kg.profile.short(c.entry.iri)})" for c in self._near(mention)[:5])
        return f"; near ones: {near}" if near else "; check the id's spelling and the profile"

    def _asked(self, span: Span) -> bool:
        """Return whether the graph is asked for a span: without index, for rare words and capitals only."""
        kinds = [self.question.kind_of(word) for word in span.norm.split()]
        rare = "other" in kinds or "number" in kinds or _has_capital(span.text)
        return self.kg.index is not None or rare


def _same_words(text: str, name: str) -> bool:
    """Return whether every word of a text stands in a name, but for slips: "Chris Nolan" is no Chris Lee.

    Words that run together or apart ("blade runner", "bladerunner") agree as a whole. A word may be an
    initial of another, or a slip of it: one letter in four may differ.
    """
    from rapidfuzz import fuzz
    from rapidfuzz.distance import OSA

    def is_word(word: str, other: str) -> bool:
        if min(len(word), len(other)) == 1:
            return word[0] == other[0]
        return OSA.distance(word, other) <= max(len(word), len(other)) // 4

    words, names = normalise(text).split(), normalise(name).split()
    # A number is no slip of another: the model of 1973 is not that of 1975.
    if not {w for w in words if w.isdigit()} <= set(re.findall(r"\d+", name)):
        return False
    if fuzz.ratio("".join(words), "".join(names)) >= _SLIP:
        return True
    return all(any(is_word(word, other) for other in names) for word in words)


def read_question(text: str, profile: Profile) -> Question:
    """Return how a question is written."""
    words = [token for token in tokens(text) if token.word]
    first = words[0].end if words else 0
    # A first word written as a name counts too: `iPhone`, `USA`.
    cased = any(map(_has_capital, [*(w.text[1:] for w in words[:1]), *(w.text for w in words[1:])]))
    return Question(text, cased, first, _marked(_QUOTES, text), _relation_words(profile))


@lru_cache(maxsize=32)
def _relation_words(profile: Profile) -> frozenset[str]:
    """Return the words by which a profile reads its relations."""
    docs = profile.relations.values()
    texts = (t for d in docs for t in (d.label, d.inverse, d.description, d.subject_type, *d.aliases))
    return frozenset(word for text in texts for word in _word_forms(text))


def weigh(question: Question, match: SpanMatch) -> Mention:
    """Return a span that is a name, with its weight."""
    span, entries = match.span, match.entries
    kinds = [question.kind_of(word) for word in _word_forms(span.text)]
    weight = sum(_VALUE[kind] for kind in kinds if kind != "common")
    weight += min(_VALUE["common"] * kinds.count("common"), 0.6)
    if not kinds:
        weight = (
            0.5 if any(entry.text == span.text for entry in entries) and span.text not in "?.!,;:-" else 0
        )
    agree = any(same_case(span.text, entry.text) for entry in entries)
    capital = _has_capital(span.text) and span.end > question.first and len(span.norm) > 1
    if agree and (capital or "number" in kinds):
        weight += 0.7 + 0.3 * len(kinds)
    elif question.cased and not _has_capital(span.text):
        weight *= 0.8 if agree else 0.4
    if not (agree and question.cased):  # "in the Congo" is the Congo, unless it is written like a title
        outer = [*takewhile("function".__eq__, kinds), *takewhile("function".__eq__, reversed(kinds))]
        weight -= (_VALUE["function"] + 0.01) * len(outer) if len(outer) < len(kinds) else 0.0
    if span.text in _words("ordinal") and (rest := _word_forms(question.text[span.end :])):
        # "the second largest", "her second husband"
        weight *= question.kind_of(rest[0]) == "function"
    if weight >= DOUBTFUL:
        weight += 0.05 * math.log1p(max(entry.popularity for entry in entries))
    return Mention(span, entries, weight, agree, kinds.count("other"))


def choose(mentions: Iterable[Mention], taken: Sequence[Mention] = ()) -> tuple[Mention, ...]:
    """Return mentions that do not overlap, heaviest first: all that are heavy enough, else the one best."""
    ranked = sorted(mentions, key=lambda m: (-m.weight, m.span.start))
    ranked = [m for m in ranked if m.weight >= DOUBTFUL]

    def is_inside_stronger(mention: Mention) -> bool:
        """Whether a longer span that is heavy enough holds this one: the longest match wins.

        Of equal rare words, capitals come first: in "the Changeling", a node called Changeling,
        not one called The Changeling.
        """
        span = mention.span
        return any(
            other.weight >= TAKEN
            and (
                other.agrees
                or (other.weight >= mention.weight and (not mention.agrees or other.rare > mention.rare))
            )
            and other.span.start <= span.start
            and span.end <= other.span.end
            and other.span.end - other.span.start > span.end - span.start
            for other in ranked
        )

    chosen = list(taken)
    for mention in ranked:
        free = not any(overlap(mention.span, other.span) for other in chosen)
        if free and mention.weight >= TAKEN and not is_inside_stronger(mention):
            chosen.append(mention)
    return tuple(chosen or ranked[:1])


def unnamed_runs(question: Question, mentions: Sequence[Mention]) -> tuple[Span, ...]:
    """Return spans that look like names but matched none in full: what was quoted, and runs of capitals.

    Where the question has no capitals, and nothing was found: runs of rare words.
    """
    named = {(m.span.start, m.span.end) for m in mentions}
    runs = list(question.quoted)
    if question.cased:
        runs += _runs(question, lambda word: _has_capital(word) or word.isdigit())
    elif not any(mention.weight >= TAKEN for mention in mentions):
        runs += _runs(question, lambda word: question.kind_of(word.lower()) == "other")
    return tuple(run for run in runs if (run.start, run.end) not in named)


def parts_of(question: Question, run: Span) -> tuple[Span, ...]:
    """Return the run and, longest first, the runs of words in it that are not all words of every day."""
    shifted = (
        Span(s.start + run.start, s.end + run.start, s.text, s.norm) for s in spans(run.text) if s.norm
    )
    quoted = {(span.start, span.end) for span in question.quoted}
    parts: list[Span] = []
    for span in dict.fromkeys(shifted):
        words = _word_forms(span.text)
        rare = bool(words) and question.kind_of(words[0]) == "other" == question.kind_of(words[-1])
        # A number behind a name belongs to it.
        rare = rare and not re.match(r"\s+\d", question.text[span.end : run.end])
        if rare or (span.start, span.end) in quoted:
            parts.append(span)
    return tuple(parts[:_MOST_PARTS])


def same_case(written: str, label: str) -> bool:
    """Return whether two names agree in every letter, capitals included (accents and signs aside)."""
    one, other = ("".join(filter(str.isalnum, text)) or text.strip() for text in (written, label))
    return one == other


def overlap(a: Span, b: Span) -> bool:
    """Return whether two spans share characters."""
    return a.start < b.end and b.start < a.end


def _runs(question: Question, chosen: Callable[[str], bool]) -> list[Span]:
    """Return runs of chosen words, with joining words (`of the`) inside them."""
    runs: list[tuple[int, int]] = []
    start, end = -1, -1
    for token in tokens(question.text):
        word = token.text
        opening = token.end <= question.first and question.kind_of(word.lower()) in ("function", "common")
        if token.word and chosen(word) and not opening:
            start, end = (token.start if start < 0 else start), token.end
        elif not (start >= 0 and (word.lower() in _JOINING or word in ("-", ".", "&", "'s", "’s", "'"))):
            runs.append((start, end))
            start = -1
    runs.append((start, end))
    return [span_at(question.text, a, b) for a, b in runs if a >= 0]


def _marked(pattern: re.Pattern[str], text: str) -> tuple[Span, ...]:
    places = (match.span(match.lastindex or 0) for match in pattern.finditer(text))
    return tuple(span_at(text, start, end) for start, end in places if normalise(text[start:end]))


def _word_forms(text: str) -> list[str]:
    return [token.text.lower() for token in tokens(text) if token.word]


def _has_capital(text: str) -> bool:
    return any(c.isupper() for c in text)


@cache
def _words(kind: str) -> frozenset[str]:
    text = resources.files("triplewise.tools.linking").joinpath("words.yaml").read_text(encoding="utf-8")
    return frozenset(yaml.safe_load(text)[kind].split())


@cache
def _languages() -> Mapping[str, Mapping[str, str]]:
    """Return language -> its grammar words -> the English word."""
    file = resources.files("triplewise.tools.linking").joinpath("languages.yaml")
    return {
        language: {word: english for english, words in groups.items() for word in words.split()}
        for language, groups in yaml.safe_load(file.read_text(encoding="utf-8")).items()
    }


@lru_cache(maxsize=1_024)
def grammar_of(question: str) -> Mapping[str, str]:
    """Return the grammar words of the language that a question is in, as English ones; {} for English."""
    words = _word_forms(question)
    counts = {language: sum(w in grammar for w in words) for language, grammar in _languages().items()}
    best = max(counts, key=lambda language: counts[language])
    english = sum(word in _words("function") for word in words)
    return _languages()[best] if counts[best] >= max(_LEAST_GRAMMAR, english + 1) else {}
