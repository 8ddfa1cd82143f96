"""What each word of a question became in a rule: the accounting that confidence is made of.

A content word is said by a relation of the rule, by the class of its values, by a value compared with, or by
an operation that the rule carries out; else it became nothing. Operators are grammar (`english.yaml`): one
that the rule has no clause for is named. The KG is asked little that the planner has not asked it already.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.search import relations_of
from triplewise.tools.planning.bodies import texts_of, types_of
from triplewise.tools.planning.lexical.planner import Search
from triplewise.tools.planning.lexical.question import lexicon, stem
from triplewise.tools.planning.lexical.score import SAMPLE, is_number, similarities, thresholds_of

Role: TypeAlias = Literal["relation", "class", "value", "unit", "operator", ""]
_RELATION: Role = "relation"
_CLASS: Role = "class"
LOST = 0.2
"""A word that is accounted for by less than this share became nothing."""
FAR = 0.25
"""How much better a relation elsewhere has to say a word to be looked for at other things of the kind."""

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d[\d,.]*(?:st|nd|rd|th)?")


@dataclass(frozen=True, slots=True)
class WordUse:
    """A content word or an operator of a question, and what it became in a rule.

    Attributes:
        text: as the question has it, in lower case. role: what it became; "" for nothing.
        share: how surely, 0 to 1. elsewhere: how much better a relation elsewhere in the graph says it.
        relation: short id of that relation.
        operator: whether it asks for an operation.
    """

    text: str
    role: Role
    share: float
    elsewhere: float = 0.0
    relation: str = ""
    operator: bool = False

    @property
    def lost(self) -> bool:
        """Whether it became nothing."""
        return self.share < LOST


@cache
def _operators() -> tuple[tuple[re.Pattern[str], frozenset[str]], ...]:
    """Return the operators in order: what they look like, and what carries them out."""
    graded = {word for words in lexicon()["superlatives"].values() for word in words}
    lists = {"SUPERLATIVE": graded, "COMPARATIVE": lexicon()["comparatives"]}
    operators = []
    for words, needs in lexicon()["operators"].values():
        for name, members in lists.items():
            words = words.replace(name, "|".join(sorted(members, key=len, reverse=True)))
        operators.append((re.compile(rf"(?<!\S)(?:{words})(?!\S)"), frozenset(needs)))
    return tuple(operators)


class Accounting:
    """Accounts for the words of one question.

    Args:
        search: the search that planned for it, with the scorers of its topics.
    """

    def __init__(self, search: Search) -> None:
        self.search, self.view, self.kg = search, search.view, search.kg
        self.thresholds = thresholds_of(search.encoder)
        self._low = [t.lower for t in self.view.tokens]
        self._best: dict[tuple[str, ...], list[tuple[float, str]]] = {}

    def relations(self, rule: Rule) -> list[Atom]:
        """Return the relations of a rule, each once, without those that only say a class."""
        types = {self.kg.profile.short(IRI(p)) for p in self.kg.profile.type_predicates}
        atoms = [*rule.body, *(a for c in rule.constraints for a in c.atoms)]
        first = {(a.relation, a.forward): a for a in reversed(atoms) if a.relation not in types}
        return list(reversed(first.values()))

    def asked(self, rule: Rule) -> list[tuple[Atom, float]]:
        """Return the relations of a rule, each with the similarity of what best asks for it.

        A quantity is also asked for by the operator that compares it, the relation to the topic by a
        preposition where the noun says what is at its end ("which river in France").
        """
        view, scorer, relations = self.view, self.search.scorer(rule.anchor), self.relations(rule)
        if not relations:
            return []
        table = scorer.table(tuple(relations)) if scorer.words else np.zeros((len(relations), 1))
        if len(relations) > 1:  # "in what year": it only says of what kind the answer is
            dates = [w.removesuffix("s") in lexicon()["dates"] for w, _ in scorer.words]
            table = np.where([dates], 0.0, table) if scorer.words else table
        best = dict(zip(relations, table.max(axis=1).tolist(), strict=True))
        for constraint in rule.constraints:
            names: Sequence[str] = ()
            if constraint.kind in ("max", "min") and view.superlative is not None:
                names = view.superlative.quantities
            elif constraint.kind == "filter" and constraint.operator in ("<", ">", "<=", ">="):
                dated = any(c.is_date for c in view.comparisons)
                defaults = lexicon()["default_dates" if dated else "default_numbers"]
                names = view.comparative[1:] or defaults
            atoms = [a for a in constraint.atoms or rule.body[-1:] if a in best]
            texts = relation_texts(self.kg, [a.relation for a in atoms])
            groups = [texts_of(texts[a.relation], a.forward) for a in atoms]
            if names and atoms:
                similar = similarities(self.kg, self.search.encoder, groups, names).max(axis=1).tolist()
                best |= {a: max(best[a], s) for a, s in zip(atoms, similar, strict=True)}
        if scorer.by_class and rule.body and rule.body[0] in best:
            best[rule.body[0]] = max(best[rule.body[0]], self.thresholds.weak)
        # What seed questions show counts as said.
        return [(a, s + rule.evidence * (1 - s)) for a, s in best.items()]

    def things(self, rule: Rule, values: Sequence[Term]) -> Sequence[Term]:
        """Return the answers of a rule; of one that counts, what it counts."""
        kinds = ("count", "filter", "max", "min", "most", "least")
        if not any(c.kind == "count" for c in rule.constraints):
            return values
        chain = replace(rule, constraints=tuple(c for c in rule.constraints if c.kind not in kinds))
        return self.search.values.get(chain.key, ())

    def words(self, rule: Rule, values: Sequence[Term], fit: float) -> list[WordUse]:
        """Return what the content words and operators became, in the order of the question.

        Args:
            values: some answers of the rule. fit: how well they are what is asked for (`ValueFit.of`).
        """
        view, relations, numbers = (
            self.view,
            self.relations(rule),
            bool(values) and all(map(is_number, values)),
        )
        texts = relation_texts(self.kg, [a.relation for a in relations])
        said = {
            stem(word)
            for a in relations
            for text in texts_of(texts[a.relation], a.forward)
            for word in _WORD.findall(text.lower())
        }
        clauses: set[str] = {c.kind for c in rule.constraints}
        clauses |= {name for name, holds in (("number", numbers), ("relation", relations)) if holds}
        if view.existential and view.comparative and not self.search.topics:
            clauses |= {"max", "min"}  # "higher than the highest": what is compared with
        uses, taken = self._operations(clauses, said)
        compared = [c.value for c in rule.constraints if c.kind == "filter"]
        topic = self.kg.profile.expand(rule.anchor)
        names = self.kg.labels([topic]).values() if topic is not None else ()
        named_numbers = {number for name in names for number in _NUMBER.findall(name)}
        classes = self._classes(rule, self.things(rule, values))
        similar, elsewhere = self._similar(rule, relations)
        superlative = view.superlative.word if view.superlative else ""
        for i, word in enumerate(self._low):
            if i in taken or view.tokens[i].mention >= 0:
                continue
            before = self._low[i - 1] if i else ""
            is_measure = word in lexicon()["measures"] or word in lexicon()["units"]
            number, texts_ = lexicon()["numbers"].get(word, word), [v.strip('"').lower() for v in compared]
            if word in [text.partition('"')[0] for text in texts_]:
                uses[i] = WordUse(word, "value", 1.0)
            elif _NUMBER.fullmatch(number) and (number == word or number in texts_):
                held = any(text.startswith(number.replace(",", "").lstrip("0")) for text in texts_)
                held = held or word in named_numbers
                uses[i] = WordUse(word, "value" if held else "", float(held))
            elif is_measure and (before == "in" or before in lexicon()["measures"] or before[:1].isdigit()):
                uses[i] = WordUse(word, "unit", float(numbers or bool(compared)))
            elif word not in lexicon()["stopwords"] and word != superlative:
                share, role = similar.get(i, 0.0), _RELATION
                share += rule.evidence * (1 - share)
                named = 1.0 if stem(word) in classes else max(fit, 0.0) if word == view.expected else 0.0
                if named > share:
                    share, role = named, _CLASS
                gain, relation = elsewhere.get(i, (0.0, "")) if named < 1.0 else (0.0, "")
                gain *= 1 - rule.evidence
                uses[i] = WordUse(word, role if share >= LOST else "", share, gain, relation)
        return [uses[i] for i in sorted(uses)]

    def _operations(
        self, clauses: Collection[str], said: Collection[str]
    ) -> tuple[dict[int, WordUse], set[int]]:
        """Return the operators by the place of their first word, and the places of all their words."""
        text, uses, taken = " ".join(self._low), dict[int, WordUse](), set[int]()
        starts = np.cumsum([0, *(len(word) + 1 for word in self._low)])
        for pattern, needs in _operators():
            for match in pattern.finditer(text):
                places = [i for i, at in enumerate(starts[:-1]) if match.start() <= at < match.end()]
                words = [i for i in places if self.view.tokens[i].mention < 0]
                own = {i for i in words if not _NUMBER.fullmatch(self._low[i])}
                done = bool(needs & set(clauses))
                # "density", "named after": the relation itself is called so.
                own = own if done else {i for i in own if stem(self._low[i]) not in said}
                if taken & own or not own:
                    continue
                taken |= own
                name = " ".join(self._low[i] for i in words)
                uses[min(own)] = WordUse(name, "operator" if done else "", float(done), operator=True)
        return uses, taken

    def _classes(self, rule: Rule, values: Sequence[Term]) -> set[str]:
        """Return the stems of the names of classes: of the answers, those the rule names, the topics' own."""
        nodes = [v for v in values if isinstance(v, IRI)][:SAMPLE]
        names = list(types_of(self.kg, nodes).values()) if nodes else []
        is_class = not rule.body and not self.relations(rule)
        forms = [c.value for c in rule.constraints if c.kind == "type" or (c.kind == "holds" and is_class)]
        if rule.anchor not in self.search.topics:
            forms.append(rule.anchor)
        iris = [iri for form in forms if (iri := self.kg.profile.expand(form.strip("<>"))) is not None]
        names += self.kg.labels(iris).values()
        kept = {i for _, i in self.search.scorer(rule.anchor).words}
        beside = {i - 1 for i, t in enumerate(self.view.tokens) if t.mention >= 0}
        names += [w for w, i in self.view.words if i in beside - kept]
        return {stem(word) for name in names for word in _WORD.findall(name.lower())}

    def missing(self, word: WordUse, anchor: str) -> str:
        """Return in words what the graph lacks: the relation that says a word, which others of a kind have.

        "" where the topic has it, or nothing of its kind does. One query.
        """
        profile, far = self.kg.profile, word.elsewhere > FAR
        topic, relation = profile.expand(anchor), profile.expand(word.relation, relation=True)
        if not far or topic is None or relation is None or not profile.type_predicates:
            return ""
        a, node, has = IRI(profile.type_predicates[0]).n3(), topic.n3(), relation.n3()
        others = f"{node} {a} ?c . ?s {a} ?c . ?s {has} ?o FILTER NOT EXISTS {{ {node} {has} ?own }}"
        found = self.kg.query(f"SELECT ?c WHERE {{ {others} }}", limit=1)
        if not found.rows:
            return ""
        kind, names = found.rows[0][0], self.kg.labels([topic, *found.column("c")])
        name = relation_texts(self.kg, [word.relation])[word.relation].label
        return (
            f'{names.get(topic, anchor)} has no "{name}" here, although others of its kind '
            f"({names.get(kind, '') if kind else ''}) do: the fact is missing in the graph"
        )

    def _similar(
        self, rule: Rule, relations: Sequence[Atom]
    ) -> tuple[dict[int, float], dict[int, tuple[float, str]]]:
        """Return by place how well the rule says a word, and what relation elsewhere does so better."""
        scorer, weights = self.search.scorer(rule.anchor), self.thresholds
        words, places = [w for w, _ in scorer.words], [i for _, i in scorer.words]
        if not words:
            return {}, {}
        if -1 in places:  # "how tall": the adjective stands for its quantity
            places[places.index(-1)] = self._low.index("how") + 1
        own = scorer.table(tuple(relations)).max(axis=0) if relations else np.zeros(len(words))
        share = np.clip((own - weights.unrelated) / (weights.same - weights.unrelated), 0.0, 1.0)
        elsewhere: dict[int, tuple[float, str]] = {}
        if (self.kg.index is not None or self.kg.is_remote) and (own < weights.same - 1e-6).any():
            for place, similarity, (best, relation) in zip(places, own, self._anywhere(words), strict=True):
                if similarity < weights.same - 1e-6 and best > weights.spoken:
                    gain = float(np.clip(best - max(similarity, weights.unrelated), 0.0, 1.0))
                    elsewhere[place] = gain, relation
        return dict(zip(places, share.tolist(), strict=True)), elsewhere

    def _anywhere(self, words: Sequence[str]) -> list[tuple[float, str]]:
        """Return how well any relation of the graph says each word, and which."""
        if (key := tuple(words)) not in self._best:
            entries = relations_of(self.kg)
            if not entries:
                return [(0.0, "")] * len(words)
            table = similarities(self.kg, self.search.encoder, [entry.names for entry in entries], words)
            rows = table.argmax(axis=0).tolist()
            self._best[key] = [(float(table[i, j]), entries[i].id) for j, i in enumerate(rows)]
        return self._best[key]
