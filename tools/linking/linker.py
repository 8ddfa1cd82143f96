"""Entity linking: which nodes of the KG a question speaks of.

Names are found by the KG's label index: exact spans first, near names for what is quoted or capitalised and
matched none. Which spans are mentions is decided in `linking.mentions`; which node of that name is
meant, here: by capitals, popularity, and, where an encoder is given, by how well label and description fit
the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.core.names import Span, normalise, spans
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.labels import Candidate, Entry, SpanMatch, similarity
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.linking.mentions import (
    TAKEN,
    Mention,
    Question,
    bracketed,
    choose,
    overlap,
    parts_of,
    read_question,
    same_case,
    unnamed_runs,
    weigh,
)
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
_ASKED_SPANS = 120
"""Spans that a graph without label index is asked for, longest first."""


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
        kg: the graph. One without a label index is asked for the exact labels of all spans at once.
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
    marked = [m for span in bracketed(question) if (m := linker.named(span)) is not None]
    return tuple(linker.linked(mention) for mention in marked or linker.mentions())


def without_brackets(question: str) -> str:
    """The question without the brackets around its mentions."""
    return re.sub(r"\[([^\[\]]+)\]", r"\1", question)


@dataclass
class _Linker:
    """Links the mentions of one question."""

    kg: KnowledgeGraph
    question: Question
    encoder: Encoder | None
    limit: int

    def mentions(self) -> tuple[Mention, ...]:
        """The question's mentions: what is quoted, then names found in full, then near names."""
        matches = self._matches(self.question.text)
        quoted = [m for span in self.question.quoted if (m := self.named(span)) is not None]
        weighed = (weigh(self.question, match) for match in matches)
        kept = choose(weighed, quoted)
        return self._with_near_names(kept)

    def named(self, span: Span) -> Mention | None:
        """A span that is known to be a mention, with the nodes of that name or a near one."""
        entries = self._exact(span)
        if not entries:
            entries = self._close(span.text, _NEAR)
        return Mention(span, entries, 10.0) if entries else None

    def linked(self, mention: Mention) -> LinkedEntity:
        """A mention with its candidates in order."""
        candidates = self._ranked(mention)
        best = candidates[0]
        span = mention.span
        return LinkedEntity(
            span.text, span.start, span.end, best.id, best.label, best.score, candidates[: self.limit]
        )

    def given(self, mention: str, id_: str | None) -> LinkedEntity:
        """An entity that the caller names."""
        start = self.question.text.casefold().find(mention.casefold())
        end = start + len(mention) if start >= 0 else -1
        if id_ is None:
            found = self.named(Span(start, end, mention, normalise(mention)))
            if found is None:
                raise ConfigurationError(
                    f"nothing in {self.kg.name} is called {mention!r}{self._hint(mention)}"
                )
            return self.linked(found)
        term = read_term(id_, self.kg.profile)
        if term is None or not self._exists(term):
            raise ConfigurationError(f"{self.kg.name} has no entity {id_!r}{self._hint(mention)}")
        if isinstance(term, Literal):
            label, short = term.value, write_node(term, self.kg.profile)
        else:
            label, short = self.kg.labels([term]).get(term, mention), self.kg.profile.short(term)
        candidate = EntityCandidate(short, label, 1.0, "given")
        return LinkedEntity(mention, start, end, short, label, 1.0, (candidate,))

    def _with_near_names(self, kept: tuple[Mention, ...]) -> tuple[Mention, ...]:
        """Also try near names for runs that look like a name and matched none, or only in part."""
        result = list(kept)
        for run in unnamed_runs(self.question, kept):
            inside = [m for m in result if overlap(m.span, run)]
            if any(m.span.start <= run.start and run.end <= m.span.end for m in inside):
                continue
            strong = any(m.weight >= TAKEN for m in inside)
            for part in [run] if strong else parts_of(self.question, run):
                close = self._close(
                    part.text, self._least(part, strong), part == run or not self.question.cased
                )
                if close:
                    result = [m for m in result if not overlap(m.span, part)]
                    result.append(Mention(part, close, 1.5))
                    break
        sure = [m for m in result if m.weight >= TAKEN]
        return tuple(sorted(sure or result, key=lambda m: -m.weight))

    def _least(self, part: Span, strong: bool) -> float:
        """How near a name must be: nearer where it displaces one in full, or is one plain word."""
        plain = not self.question.cased and " " not in part.norm
        return _NEARER if strong or plain else _NEAR

    def _ranked(self, mention: Mention) -> tuple[EntityCandidate, ...]:
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
        return self._in_context(ranked)

    def _longer(self, mention: Mention) -> list[Entry]:
        """Nodes whose name goes on where the question has a part of it: `Goethe`, `the United States`.

        Only those far better known to the graph than any node that has the name in full.
        """
        index, norm = self.kg.index, mention.span.norm
        known = math.log1p(max(entry.popularity for entry in mention.entries))
        written = any(entry.popularity and entry.text == mention.span.text for entry in mention.entries)
        lower = self.question.cased and mention.span.text.islower()
        if index is None or written or lower or (known and self.question.kind_of(norm) != "other"):
            return []
        found = [candidate.entry for candidate in index.longer(norm)]
        if not known:
            words = set(norm.split())
            found += [c.entry for c in self._near(norm) if words < set(normalise(c.entry.text).split())]
        return [entry for entry in found if math.log1p(entry.popularity) > _BETTER_KNOWN * known]

    def _agreement(self, span: Span, entry: Entry, written: str) -> tuple[float, str]:
        """How well a name agrees with what is written, 0 to 1, and the kind of agreement."""
        other = normalise(entry.text)
        if span.norm != other:
            return 0.7 * similarity(span.norm, other), "fuzzy"
        kind = "alias" if entry.alias else "exact"
        if entry.text == written:
            return 1.0, kind
        if same_case(span.text, entry.text):
            return 0.6, kind
        return (0.4 if self.question.cased else 0.45), kind

    def _in_context(self, ranked: Sequence[tuple[float, str, Entry]]) -> tuple[EntityCandidate, ...]:
        """Candidates, the best of them ordered anew by what the question is about."""
        scores = [score for score, _, _ in ranked]
        if self.encoder is not None and len(ranked) > 1:
            texts = [f"{e.label}, {e.description}" if e.description else e.label for _, _, e in ranked]
            vectors = self.encoder.encode([self.question.text, *texts[:_IN_CONTEXT]])
            for i, cosine in enumerate(vectors[1:] @ vectors[0]):
                scores[i] = (1 - _CONTEXT) * scores[i] + _CONTEXT * max(float(cosine), 0.0)
            for i in range(len(vectors) - 1, len(ranked)):
                scores[i] *= 1 - _CONTEXT
        made = [
            EntityCandidate(self._short(e), e.label, round(min(s, 1.0), 4), kind, e.description, e.popularity)
            for s, (_, kind, e) in zip(scores, ranked, strict=True)
        ]
        return tuple(sorted(made, key=lambda c: -c.score))

    def _short(self, entry: Entry) -> str:
        return self.kg.profile.short(entry.iri)

    def _matches(self, text: str) -> Sequence[SpanMatch]:
        index = self.kg.index
        return index.spans(text) if index is not None else _asked(self.kg, self.question, list(spans(text)))

    def _exact(self, span: Span) -> tuple[Entry, ...]:
        index = self.kg.index
        if index is not None:
            return index.exact(span.text)
        return next((match.entries for match in _asked(self.kg, self.question, [span])), ())

    def _close(self, text: str, least: float, longer: bool = True) -> tuple[Entry, ...]:
        """Entries with nearly this name, or whose name goes on; those far behind the best are left out."""
        index = self.kg.index
        if index is None or len(normalise(text)) < _LEAST_LETTERS:
            return ()
        near = [c for c in self._near(text) if c.score >= least and _same_words(text, c.entry.text)]
        if not longer:
            # A part of a longer name that the graph does not know: "Christopher" of Christopher Nolan.
            words = len(normalise(text).split())
            near = [c for c in near if len(normalise(c.entry.text).split()) == words]
        found = [*near, *(index.longer(text) if longer else ())]
        best = max((c.score for c in found), default=0.0)
        return tuple(c.entry for c in found if c.score >= best - 0.1)

    def _near(self, text: str) -> tuple[Candidate, ...]:
        index = self.kg.index
        return () if index is None else index.search(text, limit=20, near=True)

    def _exists(self, term: Term) -> bool:
        node = term.n3()
        # What has a label exists, and the label is needed anyway.
        if term in self.kg.labels([term]):
            return True
        if isinstance(term, Literal):
            return self.kg.query(f"ASK {{ ?s ?q {node} }}").boolean is not False
        answer = self.kg.query(f"ASK {{ {{ {node} ?p ?o }} UNION {{ ?s ?q {node} }} }}")
        # An engine that cannot say keeps the caller's word.
        return answer.boolean is not False

    def _hint(self, mention: str) -> str:
        near = ", ".join(f"{c.label} ({self._short(c.entry)})" for c in self._near(mention)[:5])
        return f"; near ones: {near}" if near else "; check the id's spelling and the profile"


def _asked(kg: KnowledgeGraph, question: Question, runs: Sequence[Span]) -> list[SpanMatch]:
    """Exact labels of spans, from a graph without label index: one query for labels, one for popularity."""
    wanted = [run for run in runs if _worth_asking(question, run)][:_ASKED_SPANS]
    if not wanted:
        return []
    result = kg.query(_label_query(kg.profile, wanted))
    if not result.outcome.ok:
        raise KGUnavailableError(_unasked(kg, result))
    found: dict[str, list[tuple[IRI, str]]] = {}
    for label, node in result.rows:
        if isinstance(node, IRI) and isinstance(label, Literal) and kg.profile.linkable(node.value):
            found.setdefault(normalise(label.value), []).append((node, label.value))
    counts = _degrees(kg, {node for nodes in found.values() for node, _ in nodes})
    matches = []
    for run in wanted:
        entries = {n: Entry(n, text, text, False, counts.get(n, 0)) for n, text in found.get(run.norm, ())}
        if entries:
            matches.append(SpanMatch(run, tuple(sorted(entries.values(), key=lambda e: -e.popularity))))
    return matches


def _unasked(kg: KnowledgeGraph, result: Result) -> str:
    """Why no entity could be looked for, and the mend."""
    if result.outcome is Outcome.UNAVAILABLE:
        return result.message if kg.name in result.message else f"{kg.name} does not answer: {result.message}"
    return (
        f"the knowledge graph {kg.name} could not look for the question's entities ({result.outcome}): "
        f"{result.message}; give them yourself (mention and id), or allow more time (query_timeout)"
    )


def _worth_asking(question: Question, run: Span) -> bool:
    kinds = [question.kind_of(word) for word in run.norm.split()]
    return bool(kinds) and ("other" in kinds or "number" in kinds or any(c.isupper() for c in run.text))


def _label_query(profile: Profile, runs: Iterable[Span]) -> str:
    """The nodes whose label is one of the spans, as written or with capitals, tagged or plain."""
    texts = dict.fromkeys(t for run in runs for t in (run.text, run.text.title(), _sentence(run.text)))
    values = " ".join(f"{literal(t).n3()} {literal(t, profile.language).n3()}" for t in texts)
    predicates = "|".join(f"<{p}>" for p in profile.label_predicates)
    return f"SELECT DISTINCT ?label ?node WHERE {{ VALUES ?label {{ {values} }} ?node {predicates} ?label }}"


def _degrees(kg: KnowledgeGraph, nodes: Iterable[IRI]) -> dict[IRI, int]:
    values = " ".join(sorted(node.n3() for node in nodes))
    if not values:
        return {}
    rows = kg.query(
        f"SELECT ?node (COUNT(?o) AS ?n) WHERE {{ VALUES ?node {{ {values} }} ?node ?p ?o }} GROUP BY ?node"
    ).rows
    return {n: int(float(c.value)) for n, c in rows if isinstance(n, IRI) and isinstance(c, Literal)}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _same_words(text: str, name: str) -> bool:
    """Whether every word of a text stands in a name, but for slips: "Chris Nolan" is no Chris Lee.

    Words that run together or apart ("blade runner", "bladerunner") agree as a whole.
    """
    from rapidfuzz import fuzz

    words, names = normalise(text).split(), normalise(name).split()
    if fuzz.ratio("".join(words), "".join(names)) >= _SLIP:
        return True
    return all(any(_is_word(word, other) for other in names) for word in words)


def _is_word(word: str, other: str) -> bool:
    """The same word, an initial of it, or a slip of it: one letter in four may differ."""
    from rapidfuzz.distance import OSA

    if min(len(word), len(other)) == 1:
        return word[0] == other[0]
    return OSA.distance(word, other) <= max(len(word), len(other)) // 4
