"""Entity linking: which nodes of the KG a question mentions.

Names are found by the label index: exact spans first, near names for what is quoted or capitalised and
matched none. A span weighs more the rarer its words are, and where capitals agree with the label; words that
say what is asked ("director") and names of classes ("city") weigh little. Capitals, popularity, label and
description decide which node of a name is meant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile, zip_longest
from typing import NamedTuple

import numpy as np

from triplewise.tools.core.errors import QuestionError
from triplewise.tools.core.names import BRACKETS, QUOTES, Span, marked, normalise, span_at, tokens
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.labels import Entry, SpanMatch, similarity
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import singulars
from triplewise.tools.language.lexicon import grammar_of, word_list
from triplewise.tools.linking.search import class_words
from triplewise.tools.pyql.text import read_term, write_node
from triplewise.tools.retrieval.encoder import Encoder

_MARKED, _UNMARKED = 0.79, 0.87  # least score of a near name, where a mention is marked and where it is not
_BETTER_KNOWN, _TEN_TIMES = 3.0, math.log(10)
"""How many times better known (log scale), or by how much, a longer name must be than the exact one."""
_LEAST_LETTERS, _KEPT = 4, 5  # of texts with few near names, and candidates kept of a mention
_CONTEXT, _IN_CONTEXT = 0.3, 6  # weight of the question in the choice of a node; nodes compared with it
_TAKEN, _DOUBTFUL = 0.75, 0.2
"""From the first weight on a span is a mention; from the second on, where there is no other."""
_JOINING = re.compile(r"of|the|and|de|la|von|van|der|du|da|in|for|on|to|[-.&']|['’]s", re.IGNORECASE)
_VALUE = {"function": 0.05, "common": 0.3, "number": 0.6, "other": 1.0}


@dataclass(frozen=True, slots=True)
class EntityCandidate:
    """A node that a mention may mean; `score`: 0 to 1; `kind`: given, exact, alias, or fuzzy."""

    id: str
    label: str
    score: float
    kind: str
    description: str = ""
    popularity: int = 0


@dataclass(frozen=True, slots=True)
class LinkedEntity:
    """A mention as the question writes it, its positions or -1, and the node it is taken to mean."""

    mention: str
    start: int
    end: int
    id: str
    label: str
    score: float
    candidates: tuple[EntityCandidate, ...] = ()  # all that it may mean, best first


class _Mention(NamedTuple):
    """A span taken for a name, its nodes, and its weight."""

    span: Span
    entries: tuple[Entry, ...]
    weight: float


def link(
    question: str,
    kg: KnowledgeGraph,
    given: Mapping[str, str | None] | None = None,
    encoder: Encoder | None = None,
) -> tuple[LinkedEntity, ...]:
    """Link the entities of a question, most certain first; mentions may stand in [brackets] or "quotes".

    Nothing but `given` is linked where that names entities: mention -> id or typed literal, or None to have
    it linked. The encoder chooses among nodes of one name by the context. Raises `QuestionError` for an id or
    mention that the graph does not know, `KGUnavailableError` where one without index does not answer.
    """
    linker = _Linker(kg, question, encoder)
    if given:
        return tuple(linker.given(mention, id_) for mention, id_ in given.items())
    bracketed = [m for span in marked(BRACKETS, question) if (m := linker.named(span)) is not None]
    return tuple(linker.linked(mention) for mention in bracketed or linker.mentions())


def candidate_nodes(question: str, kg: KnowledgeGraph, encoder: Encoder | None = None) -> tuple[IRI, ...]:
    """Return the nodes that the mentions of a question may mean: the best of every mention first."""
    ranked = [[c.id for c in entity.candidates] for entity in link(question, kg, None, encoder)]
    ids = dict.fromkeys(id_ for place in zip_longest(*ranked) for id_ in place if id_ is not None)
    return tuple(iri for id_ in ids if (iri := kg.profile.expand(id_)) is not None)


def without_brackets(question: str) -> str:
    """Return the question without the brackets around its mentions."""
    return BRACKETS.sub(r"\1", question)


def exists(kg: KnowledgeGraph, term: Term) -> bool:
    """Return whether a graph has a node or a literal."""
    by_id = kg.profile.entity_text == "local"  # ids read as names, whether or not they exist
    if not by_id and term in kg.labels([term]):  # what has a label exists; it is needed anyway
        return True
    node = term.n3()
    subject = "" if isinstance(term, Literal) else f"{{ {node} ?p ?o }} UNION "
    return kg.query(f"ASK {{ {subject}{{ ?s ?q {node} }} }}").boolean is True


class _Linker:
    """Links the mentions of one question; `_cased`: it has capitals behind its first word (end: `_first`)."""

    def __init__(self, kg: KnowledgeGraph, question: str, encoder: Encoder | None) -> None:
        self._kg, self._names, self._text, self._classes = kg, kg.names, question, class_words(kg)
        self._encoder, self._quoted = encoder, marked(QUOTES, question)
        self._near = partial(self._names.search, limit=20, near=True)
        first = next((token for token in tokens(question) if token.word), None)
        self._first = first.end if first else 0
        # Inside the first word, capitals tell a name too: `iPhone`, `USA`.
        self._cased = _has_capital(question[first.start + 1 :] if first else "")

    def _kind(self, word: str) -> str:
        """Return what a word of the question is: `function`, `common`, `number`, or `other`."""
        if word in word_list("function") or word in grammar_of(self._text):
            return "function"
        is_letter = len(word) == 1 and word.isascii() and word.isalpha()
        if word in word_list("common") or is_letter or not self._classes.isdisjoint(singulars(word)):
            return "common"
        return "number" if word.isdigit() else "other"

    def mentions(self) -> tuple[_Mention, ...]:
        """Return mentions that do not overlap, heaviest first; where none is heavy enough, the best."""
        matches = map(self._weigh, self._names.spans(self._text, self._requested))
        ranked = sorted(matches, key=lambda m: (-m.weight, m.span.start))
        result = [m for span in self._quoted if (m := self.named(span)) is not None]
        for mention in ranked:
            if mention.weight >= _TAKEN and not any(_overlap(mention.span, m.span) for m in result):
                result.append(mention)
        result = result or [m for m in ranked[:1] if m.weight >= _DOUBTFUL]
        for run in self._unnamed_runs(result):
            is_covered = any(m.span.start <= run.start and run.end <= m.span.end for m in result)
            if not is_covered and (close := self._close(run.text, _UNMARKED)):
                result = [*(m for m in result if not _overlap(m.span, run)), _Mention(run, close, 1.5)]
        sure = [m for m in result if m.weight >= _TAKEN]
        return tuple(sorted(sure or result, key=lambda m: -m.weight))

    def named(self, span: Span) -> _Mention | None:
        """Return a span that is known to be a mention, with the nodes of that name or a near one."""
        entries = self._names.exact(span.text) or self._close(span.text, _MARKED)
        return _Mention(span, entries, 10.0) if entries else None

    def linked(self, mention: _Mention) -> LinkedEntity:
        span, entries = mention.span, [*mention.entries, *self._longer(mention)]
        # Signs around the words count too: "Eaten Alive!" is another film than "Eaten Alive".
        window = self._text[max(span.start - 4, 0) : span.end + 4]
        written = max((entry.text for entry in entries if entry.text in window), key=len, default="")
        most = math.log1p(max(entry.popularity for entry in entries)) or 1.0
        of_node: dict[IRI, tuple[float, str, Entry]] = {}
        for entry in entries:
            norm, kind = normalise(entry.text), "alias" if entry.alias else "exact"
            if norm != span.norm:
                name, kind = 0.7 * similarity(span.norm, norm), "fuzzy"
            else:
                name = 1.0 if entry.text == written else 0.6 if _same_case(span.text, entry.text) else 0.4
            score = 0.6 * name + 0.4 * math.log1p(entry.popularity) / most
            if score > of_node.get(entry.iri, (0.0,))[0]:
                of_node[entry.iri] = (score, kind, entry)
        ranked = sorted(of_node.values(), key=lambda s: (-s[0], s[2].iri.value))
        scores = np.array([score for score, _, _ in ranked])
        if self._encoder is not None and len(ranked) > 1:  # what the question is about decides among the best
            texts = [f"{e.label}, {e.description}" if e.description else e.label for _, _, e in ranked]
            vectors = self._encoder.encode([self._text, *texts[:_IN_CONTEXT]])
            cosines = np.maximum(vectors[1:] @ vectors[0], 0.0)
            scores = (1 - _CONTEXT) * scores + _CONTEXT * np.pad(cosines, (0, len(ranked) - len(cosines)))
        short = self._kg.profile.short
        candidates = [
            EntityCandidate(short(e.iri), e.label, round(min(s, 1.0), 4), kind, e.description, e.popularity)
            for s, (_, kind, e) in zip(scores.tolist(), ranked, strict=True)
        ]
        # The best known of those nearly as good, and none without facts where others have some.
        known = [c for c in candidates if c.popularity] or candidates
        found = tuple(sorted(known, key=lambda c: (-round(c.score, 1), -c.popularity))[:_KEPT])
        best = found[0]
        return LinkedEntity(span.text, span.start, span.end, best.id, best.label, best.score, found)

    def given(self, mention: str, id_: str | None) -> LinkedEntity:
        """Return an entity that the caller names; a mention without an id may be an id itself."""
        start = self._text.casefold().find(mention.casefold())
        end = start + len(mention) if start >= 0 else -1
        profile = self._kg.profile
        if id_ is None:
            if (named := self.named(Span(start, end, mention, normalise(mention)))) is not None:
                return self.linked(named)
            node = profile.expand(mention)
            label = self._kg.labels([node]).get(node) if node is not None else None
            if label and node is not None and exists(self._kg, node):  # the question has its name, if any
                return self.given(label, profile.short(node))
            raise self._unknown(f"nothing in {self._kg.name} is called {mention!r}", mention)
        term = read_term(id_, profile)
        if term is None or not exists(self._kg, term):
            raise self._unknown(f"{self._kg.name} has no entity {id_!r}", mention)
        if isinstance(term, Literal):
            label, short = term.value, write_node(term, profile)
        else:
            label, short = self._kg.labels([term]).get(term, mention), profile.short(term)
        candidate = EntityCandidate(short, label, 1.0, "given")
        return LinkedEntity(mention, start, end, short, label, 1.0, (candidate,))

    def _unknown(self, what: str, mention: str) -> QuestionError:
        short = self._kg.profile.short
        near = ", ".join(f"{c.entry.label} ({short(c.entry.iri)})" for c in self._near(mention)[:5])
        hint = f"near ones: {near}" if near else "check the id's spelling and the profile"
        return QuestionError(f"{what}; {hint}")

    def _longer(self, mention: _Mention) -> list[Entry]:
        """Return far better known nodes whose name goes on where the question has a part: `Goethe`."""
        norm = mention.span.norm
        best = math.log1p(max(entry.popularity for entry in mention.entries))
        lower, kind = self._cased and mention.span.text.islower(), self._kind(norm)
        if lower or kind == "number" or (best and (self._kg.index is None or kind != "other")):
            return []
        longer = [candidate.entry for candidate in self._names.longer(norm)]
        if not best:
            words = set(norm.split())
            longer += [c.entry for c in self._near(norm) if words < set(normalise(c.entry.text).split())]
        least = min(_BETTER_KNOWN * best, best + _TEN_TIMES)
        return [entry for entry in longer if math.log1p(entry.popularity) > least]

    def _close(self, text: str, least: float) -> tuple[Entry, ...]:
        """Return entries with nearly this name, or whose name goes on, without those far behind the best."""
        words = normalise(text).split()
        numbers = {w for w in words if w.isdigit()}
        if len(" ".join(words)) < _LEAST_LETTERS or numbers.issuperset(words):  # "2012": no campaign of 2012
            return ()
        # Near names have all numbers of the text: the model of 1973 is not a misspelling of that of 1975.
        near = (c for c in self._near(text) if numbers <= set(re.findall(r"\d+", c.entry.text)))
        candidates = [*(c for c in near if c.score >= least), *self._names.longer(text)]
        best = max((c.score for c in candidates), default=0.0)
        return tuple(c.entry for c in candidates if c.score >= best - 0.1)

    def _requested(self, span: Span) -> bool:
        """Return whether a span is looked up in the graph: without index, rare words and capitals only."""
        kinds = {self._kind(word) for word in span.norm.split()}
        return self._kg.index is not None or _has_capital(span.text) or bool(kinds & {"other", "number"})

    def _weigh(self, match: SpanMatch) -> _Mention:
        span, entries = match.span, match.entries
        kinds = [self._kind(token.text.lower()) for token in tokens(span.text) if token.word]
        weight = sum(_VALUE[kind] for kind in kinds if kind != "common")
        weight += min(_VALUE["common"] * kinds.count("common"), 0.6)
        if not kinds and span.text not in "?.!,;:-":  # a sign
            weight = 0.5 * any(entry.text == span.text for entry in entries)
        agree = any(_same_case(span.text, entry.text) for entry in entries)
        capital = _has_capital(span.text) and span.end > self._first and len(span.norm) > 1
        if agree and (capital or "number" in kinds):
            weight += 0.7 + 0.3 * len(kinds)
        elif self._cased and not _has_capital(span.text):
            weight *= 0.8 if agree else 0.4
        if not (agree and self._cased):  # "in the Congo" is the Congo, unless it is written like a title
            outer = [*takewhile("function".__eq__, kinds), *takewhile("function".__eq__, reversed(kinds))]
            weight -= (_VALUE["function"] + 0.01) * len(outer) if len(outer) < len(kinds) else 0.0
        if weight >= _DOUBTFUL:
            weight += 0.05 * math.log1p(max(entry.popularity for entry in entries))
        return _Mention(span, entries, weight)

    def _unnamed_runs(self, mentions: Sequence[_Mention]) -> list[Span]:
        """Return what looks like a name but may have matched none in full: capitals, else rare words."""
        places = list[tuple[int, int]]()
        start, end = -1, -1
        is_searched = self._cased or not any(mention.weight >= _TAKEN for mention in mentions)
        for token in tokens(self._text) if is_searched else ():
            word, kind = token.text, self._kind(token.text.lower())
            is_opening = token.end <= self._first and kind in ("function", "common")
            is_name = _has_capital(word) or word.isdigit() if self._cased else kind == "other"
            if token.word and is_name and not is_opening:
                start, end = (token.start if start < 0 else start), token.end
            elif start < 0 or not _JOINING.fullmatch(word):
                places.append((start, end))
                start = -1
        return [span_at(self._text, a, b) for a, b in [*places, (start, end)] if a >= 0]


def _same_case(written: str, label: str) -> bool:
    """Return whether two names agree in every letter, capitals included (accents and signs aside)."""
    one, other = ("".join(filter(str.isalnum, text)) or text.strip() for text in (written, label))
    return one == other


def _overlap(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end


def _has_capital(text: str) -> bool:
    return any(c.isupper() for c in text)
