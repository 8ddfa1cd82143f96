"""Names in a question: spans that are entities or literals of the graph, however they are spelt.

Each way to find names is a method of its own, and a feature of what it finds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from triplewise.tools.core.terms import Literal
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.language.text import key, singular, split_name
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.derivation import Category, Derivation, Features
from triplewise.tools.parsing.query import Image, Nodes
from triplewise.tools.parsing.question import Question, Span, covers
from triplewise.tools.pyql.text import read_term

LONGEST_NAME = 8  # tokens
SAME_NAME = 4  # nodes of one name that become anchors of their own
SHORT = 3  # characters of a literal that has to be written as it is in the graph
INITIALS = range(2, 6)  # letters
COMMON_WORD = 3000  # nodes with a word in their name, from which on it is no sign of any
MOST_PARTS = 3  # nodes that a part of a name may mean, if none of them is far better known
BETTER_KNOWN = 5.0  # times the facts of the next one


def ground_names(question: Question) -> None:
    """Entities and literals that the question names; what is quoted or given first."""
    names = _Names(question)
    if question.linked is not None:
        names.given(question.linked)
        names.in_full(only="literal")
    else:
        names.in_full()
        names.abbreviated()
        names.in_any_order()
        names.misspelt()
    names.unknown()


class _Names:
    """The names in one question. `hit`: spans that are names; `complete`: those that are names in full."""

    def __init__(self, question: Question) -> None:
        self._question, self._index = question, question.index
        self._stop = lexicon().stop
        self._hit, self._complete = set[Span](), set[Span]()

    def given(self, linked: Sequence[LinkedEntity]) -> None:
        """Entities that the caller names: where they are mentioned, at a pronoun, or at the first word."""
        question = self._question
        folded = question.text.casefold()
        pronouns = [i for i, word in enumerate(question.words) if word in lexicon().pronouns]
        for entity in linked:
            term = read_term(entity.id, self._index.profile)
            node = None if term is None else self._index.numbers_of.get(term)
            if node is None or not question.n:
                continue
            start = entity.start if entity.start >= 0 else folded.find(entity.mention.casefold())
            span = question.span_of(start, start + len(entity.mention)) if start >= 0 else None
            first = pronouns[0] if pronouns else 0
            self._add(span or (first, first + 1), [node], "exact", [("ent_given", 1.0)])

    def in_full(self, only: str | None = None) -> None:
        """Spans that are a name, but for case, accents, signs and a plural or genitive s."""
        question = self._question
        spans = sorted(question.spans_up_to(LONGEST_NAME), key=lambda span: span[0] - span[1])
        marked = set(question.marked)
        for span in [*question.marked, *(span for span in spans if span not in marked)]:
            if not self._may_be_name(span) and span not in marked:
                continue
            if any(_crosses(span, other) for other in marked & self._complete):
                continue
            features = [("ent_marked", 1.0)] if span in marked else []
            for how, nodes in self._called(question.folded[slice(*span)]).items():
                if only in (None, how):
                    self._add(span, nodes, how, features)

    def _may_be_name(self, span: Span) -> bool:
        """Whether a span has content; a function word alone may be a name where it is written as one."""
        start, end = span
        question = self._question
        capital = start > 0 and question.tokens[start].capital
        return bool(question.content(start, end)) or (end - start == 1 and capital)

    def _called(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Nodes of this name: how they are known by it -> nodes."""
        whole, less = key(tuple(words)), key((*words[:-1], singular(words[-1])))
        found, known = dict[str, list[int]](), set[int]()
        for form in dict.fromkeys((whole, less)):
            for node, how in self._index.named.by_key.get(form, ()):
                if node not in known:
                    known.add(node)
                    found.setdefault(how if form == whole or how == "literal" else "norm", []).append(node)
            if "exact" in found:  # what has the very name is no plural of another
                break
        return found

    def abbreviated(self) -> None:
        """Initials of a name: USA, UK; in lower case behind "the"."""
        question = self._question
        for i, token in enumerate(question.tokens):
            upper = token.text.isupper() and len(token.text) in INITIALS
            after_the = i > 0 and question.words[i - 1] == "the" and token.word in self._stop
            if not (upper or after_the) or any(a <= i < b for a, b in self._complete):
                continue
            if nodes := self._index_of_initials().get(token.word):
                best = sorted(nodes, key=lambda n: -self._index.degree[n])[:MOST_PARTS]
                self._add((i, i + 1), best, "initials")

    def _index_of_initials(self) -> dict[str, list[int]]:
        """Initials of names of two words and more -> entities."""
        index = self._index
        if "initials" not in index.kept:
            kept: dict[str, dict[int, None]] = defaultdict(dict)
            for node, words in index.named.words.items():
                names = {tuple(words), *(tuple(name.lower().split()) for name in index.names.get(node, ()))}
                for name in names if not index.is_literal[node] else ():
                    for some in (name, [word for word in name if word not in self._stop]):
                        if len(some) > 1:
                            kept["".join(word[0] for word in some)][node] = None
            index.kept["initials"] = {initials: list(nodes) for initials, nodes in kept.items()}
        return cast("dict[str, list[int]]", index.kept["initials"])

    def in_any_order(self) -> None:
        """All words of a name within a window ("Kobe Bean Bryant"), or a rare part of one (a surname)."""
        whole, parts = defaultdict[Span, set[int]](set), defaultdict[Span, set[int]](set)
        for node, places, is_part, span in self._names_around(self._question.folded):
            if span is not None:
                whole[span].add(node)
            elif is_part:
                run = _first_run(places)
                if any(self._is_rare(i) for i in run):
                    parts[run[0], run[-1] + 1].add(node)
        words = self._index.named.words
        for span, nodes in whole.items():
            if span not in self._hit:
                longest = max(len(words[node]) for node in nodes)
                self._add(span, nodes, "bag", [("bag_gap", float(span[1] - span[0] - longest))])
        for span, nodes in parts.items():
            if not any(covers(other, span) for other in self._hit) and (known := self._best_known(nodes)):
                self._add(span, known, "part")

    def _names_around(self, words: Sequence[str]) -> Iterator[tuple[int, list[int], bool, Span | None]]:
        """Nodes whose names have words of the question.

        Each with the places of these words, whether they are only a part of the name, and the span of a name
        of several words that all stand near each other.
        """
        found = defaultdict[int, dict[str, list[int]]](dict)
        for i, word in enumerate(words):
            for piece in {singular(word), *(singular(part) for part in split_name(word).split())}:
                nodes = self._index.named.by_word.get(piece, ())
                if len(nodes) <= COMMON_WORD:
                    for node in nodes:
                        found[node].setdefault(piece, []).append(i)
        for node, at in found.items():
            need = {singular(word) for word in self._index.named.words[node]}
            places = sorted({place for some in at.values() for place in some})
            near = need <= set(at) and len(need) > 1 and places[-1] - places[0] < len(need) + 3
            yield node, places, len(need) > len(at), (places[0], places[-1] + 1) if near else None

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
        corrected = list(question.folded)
        for i in range(question.n):
            if i in question.strange and (near := question.nearest_word(i)):
                corrected[i] = near
        changed = [i for i in range(question.n) if corrected[i] != question.folded[i]]
        for span in sorted(question.spans_up_to(LONGEST_NAME), key=lambda span: span[0] - span[1]):
            inside = any(covers(other, span) for other in self._hit)
            if inside or not any(span[0] <= i < span[1] for i in changed):
                continue
            called = self._called(corrected[slice(*span)])
            is_word = span[1] - span[0] == 1
            if nodes := [n for how, some in called.items() if how != "literal" or not is_word for n in some]:
                self._add(span, nodes, "fuzzy")
        for node, places, _, whole in self._names_around(corrected) if changed else ():
            is_new = whole and not any(covers(other, whole) for other in self._hit)
            if whole and is_new and not set(changed).isdisjoint(places):
                self._add(whole, [node], "fuzzy")

    def unknown(self) -> None:
        """Note the words that stand for something the graph does not have, as far as spelling tells."""
        question, known = self._question, self._question.vocabulary.words | self._stop
        covered = {i for start, end in self._hit for i in range(start, end)}
        for i, token in enumerate(question.tokens):
            one = singular(token.word)
            if i in covered or question.words[i] in known or one in self._index.named.by_word or one in known:
                continue
            if i in question.strange or (i > 0 and token.capital):
                question.unknown.add(i)

    def _add(self, span: Span, found: Iterable[int], how: str, extra: Features | None = None) -> None:
        """Add the nodes that a span names, best known first, and all of one class together."""
        question, index = self._question, self._index
        start, end = span
        nodes, length = list(found), ("ent_len", min(end - start, 5) - 1.0)
        complete = how in ("exact", "alias", "norm", "bag")
        if complete:
            self._complete.add(span)
        self._hit.add(span)
        inside = any(covers(other, span) and other != span for other in self._complete)
        shared: Features = [*(extra or ()), ("ent_inside", float(inside)), length]
        rare = any(self._is_rare(i) and not question.words[i].isdigit() for i in range(start, end))
        common = question.is_common(start, end) or (how in ("bag", "fuzzy") and not rare)
        if common:
            shared.append(("ent_common", 1.0))
        if start and question.tokens[start].capital:
            shared.append(("ent_upper", 1.0))
        for node in sorted(nodes, key=lambda n: (-index.degree[n], n))[:SAME_NAME]:
            features = [("ent_" + how, 1.0), ("ent_ambiguous", math.log(len(nodes)))]
            features += [("ent_degree", math.log1p(index.degree[node]) / 5), *shared]
            term = index.terms[node]
            if isinstance(term, Literal):
                same = term.value == " ".join(question.raw[start:end])
                if not same and len(term.value) <= SHORT:
                    continue
                features.append(("ent_same_case" if same else "ent_other_case", 1.0))
            self._node(span, node, features)
        if how in ("exact", "alias"):
            self._homonyms(span, nodes, [("ent_" + how, 1.0), ("ent_all", 1.0), ("ent_degree", 0.5), *shared])
        if nodes and not common and (complete or how == "literal"):
            question.named.update(range(start, end))

    def _node(self, span: Span, node: int, features: Features) -> None:
        kind = "literal" if self._index.is_literal[node] else "entity"
        anchor = self._set(span, frozenset([node]), features, kind)
        if kind == "entity":
            self._members(anchor, node)

    def _set(self, span: Span, nodes: frozenset[int], features: Features, kind: str = "entity") -> Derivation:
        return self._question.add(Category.SET, span, features, kind=kind, query=Nodes(nodes), mentions=nodes)

    def _homonyms(self, span: Span, nodes: Sequence[int], features: Features) -> None:
        """All nodes of one name and class as one set: every Springfield."""
        for cls in sorted({c for node in nodes for c in self._index.types[node]}) if len(nodes) > 1 else ():
            same = frozenset(node for node in nodes if cls in self._index.types[node])
            if len(same) > 1:
                self._set(span, same, features)

    def _members(self, anchor: Derivation, node: int) -> None:
        """What stands in a relation to an entity, its name used as a noun: the lanthanides, a Honda."""
        index = self._index
        back = {r for c in index.types[node] for r, way in index.steps[c] if way == -1}
        counts = {r: len(index.rels[r].inv.get(node, ())) for r in back}
        several = sorted((r for r, count in counts.items() if count > 1), key=lambda r: (-counts[r], r))
        features = [("members", 1.0), ("members_only", float(len(several) == 1))]
        for r in several[:2]:
            self._question.add(
                Category.SET, (anchor.start, anchor.end), features, kind="members",
                query=Image(((r, -1),), anchor.tree), mentions=anchor.mentions, parts=(anchor,),
            )  # fmt: skip


def _crosses(span: Span, marked: Span) -> bool:
    """Whether a span touches a marked one and is not that one."""
    return span != marked and span[0] < marked[1] and marked[0] < span[1]


def _first_run(places: Sequence[int]) -> list[int]:
    """The first places that follow each other without a gap."""
    run = [places[0]]
    for place in places[1:]:
        if place - run[-1] <= 1:
            run.append(place)
    return run
