"""Names in a question: spans that are entities or literals of the graph, however they are spelt."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from triplewise.tools.core.terms import Literal
from triplewise.tools.language.lexicon import word_list
from triplewise.tools.language.text import key, singular, split_name
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.derivation import Category, Derivation, f
from triplewise.tools.parsing.query import Image, Nodes
from triplewise.tools.parsing.question import Question, Span, covers
from triplewise.tools.pyql.text import read_term

LONGEST_NAME = 16  # tokens
SAME_NAME = 4  # nodes of one name that become anchors of their own
SHORT = 3  # characters of a literal that has to be written as it is in the graph
COMMON_WORD = 3000  # nodes with a word in their name, from which on it does not tell one
MOST_PARTS = 3  # nodes that a part of a name may mean, if none of them is far better known
IN_FULL = ("exact", "alias", "norm", "bag")  # how a span names something with all words of its name
BETTER_KNOWN = 5.0  # times the facts of the next one


def ground_names(question: Question, linked: Sequence[LinkedEntity] | None) -> None:
    """Entities and literals that the question names; what is quoted or given first."""
    names = _Names(question)
    if linked is not None:
        names.given(linked)
        names.in_full(only="literal")
    else:
        names.in_full()
        names.by_words(question.folded)
        names.misspelt()
    names.unknown()


class _Names:
    """The names in one question. `hit`: spans that are names; `complete`: those that are names in full."""

    def __init__(self, question: Question) -> None:
        self._question, self._index = question, question.index
        self._stop = word_list("stop")
        self._spans = sorted(question.spans_up_to(LONGEST_NAME), key=lambda span: span[0] - span[1])
        self._hit, self._complete = set[Span](), set[Span]()

    def given(self, linked: Sequence[LinkedEntity]) -> None:
        """Entities that the caller names: where they are mentioned, at a pronoun, or at the first word."""
        question = self._question
        folded = question.text.casefold()
        first = next((i for i, word in enumerate(question.words) if word in word_list("pronouns")), 0)
        for entity in linked:
            term = read_term(entity.id, self._index.profile)
            node = None if term is None else self._index.numbers_of.get(term)
            if node is None or not question.n:
                continue
            start = entity.start if entity.start >= 0 else folded.find(entity.mention.casefold())
            span = question.span_of(start, start + len(entity.mention)) if start >= 0 else None
            self._add(span or (first, first + 1), [node], "exact", ent_given=1)

    def in_full(self, only: str | None = None) -> None:
        """Spans that are a name, but for case, accents, signs and a plural or genitive s."""
        question = self._question
        marked = set(question.marked)
        for span in dict.fromkeys((*question.marked, *self._spans)):
            start, end = span
            # A function word alone may be a name where it is written as one.
            capital = start > 0 and end - start == 1 and question.tokens[start].capital
            is_crossed = any(span != a and start < a[1] and a[0] < end for a in marked & self._complete)
            if is_crossed or not (question.content(start, end) or capital or span in marked):
                continue
            for how, nodes in self._called(question.folded[start:end]).items():
                if only in (None, how):
                    self._add(span, nodes, how, ent_marked=span in marked)

    def _called(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Nodes of this name: how they are known by it -> nodes."""
        whole, less = key(tuple(words)), key((*words[:-1], singular(words[-1])))
        found, known = dict[str, list[int]](), set[int]()
        for form in dict.fromkeys((whole, less)):
            for node, how in self._index.named.by_key.get(form, ()):
                if node not in known:
                    known.add(node)
                    found.setdefault(how if form == whole or how == "literal" else "norm", []).append(node)
            if "exact" in found:  # a plural of another name only where nothing has this very name
                break
        return found

    def by_words(self, words: Sequence[str], changed: frozenset[int] | None = None) -> None:
        """All words of a name within a window ("Kobe Bean Bryant"), with a corrected one where some were
        `changed`, else also a rare part of a name (a surname)."""
        found = defaultdict[tuple[Span, str], set[int]](set)
        for node, placed in self._placed(words).items():
            need = {singular(word) for word in self._index.named.words[node]}
            places = sorted({place for some in placed.values() for place in some})
            if placed.keys() >= need and len(need) > 1 and places[-1] - places[0] < len(need) + 3:
                if changed is None or not changed.isdisjoint(places):
                    found[(places[0], places[-1] + 1), "bag" if changed is None else "fuzzy"].add(node)
            elif len(need) > len(placed) and changed is None:
                gaps = (i for i, (a, b) in enumerate(pairwise(places), 1) if b - a > 1)
                run = places[: next(gaps, len(places))]
                if any(self._is_rare(i) for i in run):
                    found[(run[0], run[-1] + 1), "part"].add(node)
        for (span, how), named in sorted(found.items(), key=lambda item: item[0][1] == "part"):
            if not any(covers(other, span) for other in self._hit):
                self._add(span, self._best_known(named) if how == "part" else named, how)

    def _placed(self, words: Sequence[str]) -> dict[int, dict[str, list[int]]]:
        """Nodes that words may name: which words of their names stand where."""
        places_of = defaultdict[str, list[int]](list)  # words and their parts -> where they stand
        for i, word in enumerate(words):
            for piece in {singular(word), *(singular(part) for part in split_name(word).split())}:
                places_of[piece].append(i)
        by_word = self._index.named.by_word
        nodes_of = {p: nodes for p in places_of if len(nodes := by_word.get(p, ())) <= COMMON_WORD}
        rare = (nodes for p, nodes in nodes_of.items() if any(map(self._is_rare, places_of[p])))
        several = Counter(chain.from_iterable(nodes_of.values()))
        named = {node for node, n in several.items() if n > 1}.union(*rare)  # one common word names nothing
        placed = {node: dict[str, list[int]]() for node in named}
        for piece, nodes in nodes_of.items():
            for node in named.intersection(nodes):
                placed[node][piece] = places_of[piece]
        return placed

    def _best_known(self, nodes: Iterable[int]) -> list[int]:
        """What a part of a name may mean: one of few nodes, or one far better known than all others."""
        ranked = sorted(nodes, key=lambda n: (-self._index.degree[n], n))
        if len(ranked) <= MOST_PARTS:
            return ranked
        first, second = (self._index.degree[n] for n in ranked[:2])
        return ranked[:1] if first >= BETTER_KNOWN * second else []

    def _is_rare(self, i: int) -> bool:
        """Whether a word may be part of a name: no function word, and in no name of a relation or class."""
        word = self._question.words[i]
        common = word in self._stop or singular(word) in self._question.vocabulary.words
        return len(word) > 2 and not common

    def misspelt(self) -> None:
        """Words that neither the graph nor English has, read as the nearest word of the graph's names."""
        question = self._question
        nearest = {i: near for i in question.strange if (near := question.nearest_word(i))}
        corrected = [nearest.get(i, word) for i, word in enumerate(question.folded)]
        changed = frozenset(i for i in nearest if corrected[i] != question.folded[i])
        for span in self._spans if changed else ():
            if changed.isdisjoint(range(*span)) or any(covers(other, span) for other in self._hit):
                continue
            called, is_word = self._called(corrected[slice(*span)]), span[1] - span[0] == 1
            if nodes := [n for how, some in called.items() if how != "literal" or not is_word for n in some]:
                self._add(span, nodes, "fuzzy")
        if changed:
            self.by_words(corrected, changed)

    def unknown(self) -> None:
        """Note the words that name something the graph does not have, as far as spelling tells."""
        question, known = self._question, self._question.vocabulary.words | self._stop
        covered = {i for start, end in self._hit for i in range(start, end)}
        for i, token in enumerate(question.tokens):
            forms = {question.words[i], singular(token.word)}
            in_graph = not forms.isdisjoint(known) or singular(token.word) in self._index.named.by_word
            if i not in covered and not in_graph and (i in question.strange or (i > 0 and token.capital)):
                question.unknown.add(i)

    def _add(self, span: Span, found: Iterable[int], how: str, **extra: float) -> None:
        """Add the nodes that a span names, best known first."""
        question, index, nodes = self._question, self._index, list(found)
        start, end = span
        complete = how in IN_FULL
        self._hit.add(span)
        if complete:
            self._complete.add(span)
        rare = any(self._is_rare(i) and not question.words[i].isdigit() for i in range(start, end))
        common = question.is_common(start, end) or (how in ("bag", "fuzzy") and not rare)
        shared = f(
            **{"ent_" + how: 1}, **extra, ent_upper=start > 0 and question.tokens[start].capital,
            ent_inside=any(covers(other, span) and other != span for other in self._complete),
            ent_ambiguous=math.log(max(len(nodes), 1)), ent_common=common, ent_len=min(end - start, 5) - 1,
            ent_digits=how == "part" and all(question.words[i].isdigit() for i in range(start, end)),
        )  # fmt: skip
        for node in sorted(nodes, key=lambda n: (-index.degree[n], n))[:SAME_NAME]:
            term, features = index.terms[node], shared + f(ent_degree=math.log1p(index.degree[node]) / 5)
            if isinstance(term, Literal):
                is_same = self._is_written(term, span)
                if len(term.value) <= SHORT and not is_same:
                    continue
                features += f(ent_same_case=is_same, ent_other_case=not is_same)
            kind, mentions = "literal" if index.is_literal[node] else "entity", frozenset([node])
            anchor = Derivation(Category.SET, *span, features, Nodes(mentions), kind=kind, mentions=mentions)
            question.add(anchor)
            if kind == "entity" or term.value.islower():
                self._add_members(anchor, node)
        if not common and (complete or how == "literal"):
            question.named.update(range(start, end))
        elif how == "part":
            question.in_names.update(range(start, end))

    def _is_written(self, literal: Literal, span: Span) -> bool:
        """Whether a span is a literal with the same capitals, but for a plural s."""
        first, last = (self._question.tokens[i] for i in (span[0], span[1] - 1))
        written = self._question.text[first.start : last.end]
        singulars = {written[: last.start - first.start] + singular(last.text)} if last.text.islower() else ()
        return literal.value in {written, *singulars}

    def _add_members(self, named: Derivation, node: int) -> None:
        """Add what stands in a relation to a node, its name used as a noun: a Honda, the strikers."""
        index, features = self._index, f(members_value=named.kind == "literal", members=1)
        back = {r for c in index.types[node] for r, way in index.steps(c) if way == -1}
        counts = {r: len(index.rels[r].inv.get(node, ())) for r in back}
        several = sorted((r for r, n in counts.items() if n > 1), key=lambda r: (-counts[r], r))
        for query in (Image(((r, -1),), named.tree) for r in several[:2]):
            members = replace(named, features=features, query=query, kind="members", parts=(named,))
            self._question.add(members)
