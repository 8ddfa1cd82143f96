"""How sure a reading of a question is: its evidence as features, and a calibrated probability of being right.

A reading is a rule and what each word of the question became in it: a content word is said by a relation of
the rule, by the class of its values, by a value compared with, or by an operation that the rule carries out;
else it became nothing. Operators are grammar (`english.yaml`): one that the rule has no clause for is named.
The probability is a logistic regression on the features below, trained on questions of several graphs
(`evals/calibration.py`) and shipped as `calibration.yaml`; `triplewise calibrate` trains it on one's own.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import read_text
from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.open import is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.search import relations_of
from triplewise.tools.planning.bodies import answers_in, node_form, relation_form, run, texts_of, types_of
from triplewise.tools.planning.lexical.planner import GUESS, SAMPLE, Plan, Search, has_gap
from triplewise.tools.planning.lexical.question import lexicon, stem
from triplewise.tools.planning.lexical.score import PLAIN, is_number, similarities, thresholds_of
from triplewise.tools.planning.lexical.score import SAMPLE as TYPED
from triplewise.tools.pyql.raw_sparql import parts_of

FILE = "calibration.yaml"  # Name of the data file, in this package and beside the profile of a loaded graph
COMPARED = 4  # Rules that are run for their values where the planner has not done so already
LOST = 0.2  # A word that is accounted for by less than this share became nothing
FAR = 0.25
"""How much better a relation elsewhere has to say a word to be looked for at other things of the kind."""
TIE = 0.02  # A lead over a rival below this is none
VAGUE = (0.2, 0.6)
"""Shares of a word that is only a little like what it became.

Of the training answers that pass for sure otherwise, 19 of 39 with such a word are right, 501 of 530 without.
"""
HOMONYM = 0.85  # Linking scores of two nodes as near as this to one another may mean either
UNSAID = 0.5  # A relation that is said less than this is not sure where another word became nothing
LESS, EITHER, MORE = -1, 0, 1
FEATURES: Mapping[str, tuple[int, str]] = {
    "accounted": (MORE, "mean share of the content words and operators that became something"),
    "weakest": (MORE, "the smallest of these shares"),
    "lost": (LESS, "words that became nothing, at most 4"),
    "numbers": (LESS, "numbers that became nothing, at most 2"),
    "operators": (LESS, "operators that the rule has no clause for, at most 2"),
    "mentions": (LESS, "linked mentions that the rule leaves out, at most 2"),
    "names": (LESS, "whether words written like names are linked to nothing"),
    "elsewhere": (LESS, "how much better a relation elsewhere in the graph says a word, at most"),
    "missing": (LESS, "whether things of the topic's kind have that relation, and the topic does not"),
    "support": (MORE, "similarity of the least supported relation with a word that asks for it"),
    "unasked": (LESS, "relations that no word asks for, at most 3"),
    "score": (MORE, "the rule's score over the number of its relations and words"),
    "margin": (MORE, "its lead over the next rule that has other answers and leaves no more out, -1 to 1"),
    "alone": (MORE, "whether there is no such rule"),
    "agreement": (MORE, "share of the rules with known answers that have the same"),
    "homonyms": (LESS, "score of its best runner-up over its own"),
    "fit": (MORE, "how well the kind of the answers is what is asked for, -1 to 1"),
    "many": (LESS, "logarithm of the number of answers"),
    "plural": (LESS, "whether several answers stand against a singular, or one against a plural"),
    "constraints": (EITHER, "further relations: other topics, compared quantities"),
    "seed": (MORE, "how far seed questions speak for the rule"),
    "from_seed": (EITHER, "whether the rule is from seed questions"),
    "guess": (LESS, "whether no word speaks for the rule, or the graph has a gap in it"),
    "fallback": (LESS, "rules that failed before this one, at most 3"),
    "members": (LESS, "whether the rule is all members of a class"),
    "boolean": (EITHER, "whether the answer is yes or no"),
    "denied": (EITHER, "whether the answer is no"),
    "open": (LESS, "whether it is no though the graph links the subject to nothing by that relation"),
    "words": (EITHER, "logarithm of the number of content words and operators"),
}
"""The features, one by one: whether more of it makes an answer surer, and what it is."""
_SHARED = (
    *("accounted", "lost", "numbers", "operators", "mentions"),
    *("unasked", "agreement", "fit", "many", "plural", "boolean"),
)
MODEL_FEATURES: Mapping[str, tuple[int, str]] = {
    **{name: FEATURES[name] for name in _SHARED},
    "plan": (MORE, "confidence of the best rule without a model, less than 0 where its answers are others"),
    "repairs": (LESS, "steps that failed, found nothing or were taken back, at most 4"),
}
"""The features of a query that a language model built."""
CLAUSES: Mapping[ConstraintKind, str] = {
    "ask": "AskQuery",
    "count": "Aggregate_Count",
    "max": "Aggregate_Max OrderBy",
    "min": "Aggregate_Min",
    "filter": "< > <= >=",
    "distinct": "!=",
    "either": "Union values",
    "not": "Minus Builtin_NOTEXISTS",
    "computed": "Aggregate_Sum Aggregate_Avg AdditiveExpression MultiplicativeExpression Slice",
}
"""Constraint of a rule -> the operations of SPARQL's algebra that carry it out."""


_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d[\d,.]*(?:st|nd|rd|th)?")


@dataclass(frozen=True, slots=True)
class Reading:
    """A rule's reading of a question.

    Attributes:
        rule: in one line. values: some of its answers, as ids and literals.
        unaccounted: words of the question that became nothing. unasked: relations that no word asks for.
        missing: in words, a fact that is asked for, that others of the topic's kind have; "" for none.
        features: the evidence, by the names of `FEATURES`.
    """

    rule: str
    values: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    missing: str = ""
    features: dict[str, float] = field(default_factory=dict)


def read_plan(plan: Plan) -> tuple[Reading, ...]:
    """Return the readings of a plan's rules, in their order. Rules whose values are not known yet are run.

    Without any rule, there is one of no rule where a fact is missing.
    """
    assert plan.search is not None, "made by `make_plan`"
    reader = _Reader(plan.search, plan.rules)
    if plan.rules:
        return reader.readings()
    every = ((t, w) for t in plan.search.topics for w in reader.words(Rule(t, ()), (), (), 0.0))
    missing = filter(None, (reader.missing(word, topic) for topic, word in every))
    return tuple(Reading("", missing=text) for text in itertools.islice(missing, 1))


def read_query(sparql: str, plan: Plan, repairs: int = 0) -> Reading:
    """Return the reading of a query that a language model built, with `MODEL_FEATURES`.

    Args:
        plan: what the embedded policy would do, which the query is compared with; how sure that is goes by
            the shipped calibration, so that one of its own changes nothing here.
        repairs: steps that went wrong before.
    """
    assert plan.search is not None, "made by `make_plan`"
    search, rule = plan.search, _query_rule(sparql, plan.search)
    search.values[rule.key] = _values_in(search.kg.query(sparql, limit=SAMPLE))
    reading = _Reader(search, (rule, *plan.rules)).readings()[0]
    best = next(iter(read_plan(plan)), Reading(""))
    sure = shipped().probability(best.features) if best.values else 0.0
    same = frozenset(best.values) == frozenset(reading.values)
    features = {name: reading.features[name] for name in _SHARED}
    features |= {"plan": round(sure if same else -sure, 4), "repairs": min(repairs, 4)}
    return replace(reading, rule=sparql, features=features)


def _query_rule(sparql: str, search: Search) -> Rule:
    """Return a rule that says what a query does, for the accounting; it is not one to run.

    Its body has all relations; what else the query names stands as a type or, for literals, a comparison.
    """
    kg, parts = search.kg, parts_of(sparql)
    short = kg.profile.short
    body = []
    for i, t in enumerate(parts.patterns):
        backward = isinstance(t.object, IRI) and not isinstance(t.subject, IRI)
        body.append(Atom(relation_form(kg, short(t.relation)), not backward, f"x{i}"))
    relations = {t.relation for t in parts.patterns}
    nodes = [node_form(kg, short(t)) for t in parts.terms if isinstance(t, IRI) and t not in relations]
    constraints = [Constraint("type", value=node) for node in nodes]
    constraints += [Constraint("filter", value=t.value) for t in parts.terms if isinstance(t, Literal)]
    constraints += [Constraint(k) for k, names in CLAUSES.items() if parts.operations & {*names.split()}]
    if len(nodes) > 1:
        constraints.append(Constraint("meets"))
    anchor = next((topic for topic in search.topics if topic in nodes), "")
    return Rule(anchor, tuple(body), tuple(constraints))


def _values_in(result: Result) -> tuple[Term, ...]:
    """Return the values of a result; of a yes or no, the one."""
    if result.boolean is not None:
        return (Literal(str(result.boolean).lower(), XSD + "boolean"),)
    return answers_in(result)


def _nodes(rule: Rule) -> set[str]:
    """Return the nodes that a rule names, as it writes them."""
    return {rule.anchor, *(part for c in rule.constraints for part in (c.variable, c.value, c.operator))}


class _WordUse(NamedTuple):
    """A content word or an operator of a question, and how surely it became something in a rule, 0 to 1.

    `elsewhere`: how much better another `relation` of the graph says it. `operator`: it asks to do something.
    """

    text: str
    share: float
    elsewhere: float = 0.0
    relation: str = ""
    operator: bool = False


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


class _Reader:
    """Reads the rules of one plan: what every word became, and all other evidence for each."""

    def __init__(self, search: Search, rules: Sequence[Rule]) -> None:
        self._search, self._rules, self._kg, self._view = search, rules, search.kg, search.view
        self._thresholds = thresholds_of(search.encoder)
        self._low = [t.lower for t in self._view.tokens]
        self._anywhere: dict[tuple[str, ...], list[tuple[float, str]]] = {}
        values = [search.values.get(rule.key) for rule in rules]
        unknown = [i for i, v in enumerate(values[:COMPARED]) if v is None]
        results = self._kg.together([partial(run, self._kg, rules[i], SAMPLE) for i in unknown])
        for i, result in zip(unknown, results, strict=True):
            values[i] = _values_in(result)
        self._values = [v or () for v in values]

    def readings(self) -> tuple[Reading, ...]:
        """Return one for each rule."""
        parts = self._kg.together([partial(self._account, i) for i in range(len(self._rules))])
        left_out = [sum(w.share < LOST for w in words) + mentions for words, _, mentions in parts]
        return tuple(self._read(i, *part, left_out) for i, part in enumerate(parts))

    def _account(self, index: int) -> tuple[list[_WordUse], float, int]:
        """Return what the words became in a rule, the fit of its answers, and the mentions it leaves out."""
        rule, things, fit = self._rules[index], self._values[index], 0.0
        if any(c.kind == "count" for c in rule.constraints):  # what it counts
            kinds = ("count", "filter", "max", "min", "most", "least")
            chain = replace(rule, constraints=tuple(c for c in rule.constraints if c.kind not in kinds))
            things = self._search.values.get(chain.key, ())
        if things and not any(c.kind == "ask" for c in rule.constraints):
            names = bool(rule.body) and self._search.scorer(rule.anchor).names(rule.body)
            fit = self._search.fit.of(things, names)
            fit += rule.evidence * (1 - fit)
        mentions = sum(topic not in _nodes(rule) for topic in self._search.topics)
        return self.words(rule, self._values[index], things, fit), fit, mentions

    def _read(
        self, index: int, words: list[_WordUse], fit: float, mentions: int, left_out: Sequence[int]
    ) -> Reading:
        """Return the reading of one rule; `left_out`: words and mentions that each rule leaves out."""
        rule, values = self._rules[index], self._values[index]
        scorer, short = self._search.scorer(rule.anchor), self._kg.profile.short
        is_boolean = any(c.kind == "ask" for c in rule.constraints)
        asked = self._asked(rule)
        share = float(np.mean([w.share for w in words])) if words else 1.0
        chain = [scorer.support(rule.body)] if any(a in rule.body for a, _ in asked) else []
        supports = chain + [similarity for atom, similarity in asked if atom not in rule.body]
        unasked = tuple(a.relation for a, s in asked if s < self._thresholds.weak)
        denied = [v.value for v in values] == ["false"]
        entities = [e for e in self._search.linked if node_form(self._kg, e.id) in _nodes(rule)]
        candidates = [e.candidates for e in entities if len(e.candidates) > 1]
        lost, noun = [w for w in words if w.share < LOST], self._view.expected
        plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
        number = 0.0
        if noun and not is_boolean and not self._view.counting:
            number = float(len(values) > 1) if not plural else 0.5 * (len(values) == 1)
        elsewhere = max(words, key=lambda w: w.elsewhere, default=_WordUse("", 1.0))
        missing = self.missing(elsewhere, rule.anchor)
        features = {
            "accounted": share,
            "weakest": min((w.share for w in words), default=1.0),
            "lost": min(len(lost), 4),
            "numbers": min(sum(w.text[0].isdigit() for w in lost), 2),
            "operators": min(sum(w.operator for w in lost), 2),
            "mentions": min(mentions, 2),
            "names": bool(self._view.unlinked),
            "elsewhere": elsewhere.elsewhere,
            "missing": bool(missing),
            "support": max(min(supports) if supports else share, rule.evidence),
            "unasked": min(len(unasked), 3),
            "score": rule.score / (1 + len(asked) + len(words)) if asked else 0.0,
            **self._rivalry(index, left_out),
            "homonyms": max((c[1].score / c[0].score for c in candidates), default=0.0),
            "fit": fit,
            "many": math.log1p(len(values)),
            "plural": number,
            "constraints": sum(bool(c.atoms) and c.kind != "holds" for c in rule.constraints),
            "seed": rule.evidence,
            "from_seed": rule.support > 0,
            "guess": rule.provenance == GUESS or has_gap(rule),
            "fallback": min(index, 3),
            "members": bool(rule.body) and rule.anchor not in self._search.topics,
            "boolean": is_boolean,
            "denied": denied,
            "open": denied and self._is_open(rule),
            "words": math.log1p(len(words)),
        }
        return Reading(
            rule.text(),
            tuple(short(v) if isinstance(v, IRI) else v.value for v in values),
            tuple(w.text for w in lost),
            unasked,
            missing,
            {name: round(float(value), 4) for name, value in features.items()},
        )

    def _is_open(self, rule: Rule) -> bool:
        """Return whether a no says little: no such fact of the subject, only of other kinds, or a chain."""
        stated = next((c for c in rule.constraints if c.kind == "holds"), None)
        if stated is None:
            return False
        (atom,) = stated.atoms
        ends = (stated.variable, stated.value) if atom.forward else (stated.value, stated.variable)
        expand, types = self._kg.profile.expand, self._kg.profile.type_predicates
        object_, relation = expand(ends[1]), expand(atom.relation, relation=True)
        if not self._search.reach(ends[0], (replace(atom, forward=True),)) or relation is None:
            return True
        if object_ is None or not types:
            return False
        subject, above = expand(ends[0]), (relation, *map(IRI, self._kg.profile.subclass_predicates))
        chain = f"({'|'.join(p.n3() for p in above)})+"
        leads = f"ASK {{ {subject.n3()} {chain} {object_.n3()} }}" if subject else ""
        if leads and self._kg.query(leads).boolean:
            return True  # "Is Hyde Park in England?", where it is in London
        a = IRI(types[0]).n3()
        kinds = f"{object_.n3()} {a} ?c"
        taken = f"ASK {{ {kinds} . ?o {a} ?c . ?s {relation.n3()} ?o }}"
        return bool(self._kg.query(f"ASK {{ {kinds} }}").boolean) and not self._kg.query(taken).boolean

    def _rivalry(self, index: int, left_out: Sequence[int]) -> dict[str, float]:
        """Return how far a rule is ahead of the next that leaves no more out, and how many agree with it."""
        own, score = frozenset(self._values[index]), self._rules[index].score
        others = [i for i, values in enumerate(self._values) if i != index and values]
        agree = [i for i in others if frozenset(self._values[i]) == own]
        rivals = [i for i in others if i not in agree and left_out[i] <= left_out[index]]
        margins = [score - self._rules[i].score for i in rivals]
        return {
            "margin": float(np.clip(min(margins, default=0.0), -1.0, 1.0)),
            "alone": float(not margins),
            "agreement": len(agree) / len(others) if others else 0.5,
        }

    def _relations(self, rule: Rule) -> list[Atom]:
        """Return the relations of a rule, each once, without those that only say a class."""
        types = {self._kg.profile.short(IRI(p)) for p in self._kg.profile.type_predicates}
        atoms = [*rule.body, *(a for c in rule.constraints for a in c.atoms)]
        first = {(a.relation, a.forward): a for a in reversed(atoms) if a.relation not in types}
        return list(reversed(first.values()))

    def _asked(self, rule: Rule) -> list[tuple[Atom, float]]:
        """Return the relations of a rule, each with the similarity of what best asks for it."""
        view, scorer, relations = self._view, self._search.scorer(rule.anchor), self._relations(rule)
        if not relations:
            return []
        table = scorer.table(tuple(relations)) if scorer.words else np.zeros((len(relations), 1))
        if len(relations) > 1 and scorer.words:  # "in what year": it only says of what kind the answer is
            dates = [w.removesuffix("s") in lexicon()["dates"] for w, _ in scorer.words]
            table = np.where([dates], 0.0, table)
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
            texts = relation_texts(self._kg, [a.relation for a in atoms])
            groups = [texts_of(texts[a.relation], a.forward) for a in atoms]
            if names and atoms:
                similar = similarities(self._kg, self._search.encoder, groups, names).max(axis=1).tolist()
                best |= {a: max(best[a], s) for a, s in zip(atoms, similar, strict=True)}
        if scorer.by_class and len(rule.body) == 1 and rule.body[0] in best:
            best[rule.body[0]] = max(best[rule.body[0]], self._thresholds.weak)
        # What seed questions show counts as said.
        return [(a, s + rule.evidence * (1 - s)) for a, s in best.items()]

    def words(self, rule: Rule, values: Sequence[Term], things: Sequence[Term], fit: float) -> list[_WordUse]:
        """Return what the content words and operators became, in the order of the question.

        `values`: some answers of the rule. `things`: the same; of a rule that counts, what it counts.
        `fit`: how well they are what is asked for.
        """
        view, relations = self._view, self._relations(rule)
        numbers = bool(values) and all(map(is_number, values))
        texts = relation_texts(self._kg, [a.relation for a in relations])
        spoken = {
            stem(word)
            for a in relations
            for text in texts_of(texts[a.relation], a.forward)
            for word in _WORD.findall(text.lower())
        }
        clauses: set[str] = {c.kind for c in rule.constraints}
        clauses |= {name for name, holds in (("number", numbers), ("relation", relations)) if holds}
        if view.existential and view.comparative and not self._search.topics:
            clauses |= {"max", "min"}  # "higher than the highest": what is compared with
        uses, taken = self._operations(clauses, spoken)
        compared = [c.value.strip('"').lower() for c in rule.constraints if c.kind == "filter"]
        topic = self._kg.profile.expand(rule.anchor)
        names = self._kg.labels([topic]).values() if topic is not None else ()
        named_numbers = {number for name in names for number in _NUMBER.findall(name)}
        classes = self._classes(rule, things)
        similar, elsewhere = self._similar(rule, relations)
        superlative = view.superlative.word if view.superlative else ""
        labels = " ".join(texts[a.relation].label for a in relations).lower()
        units = {
            stem(w) for w in _WORD.findall(labels) if w in lexicon()["measures"] or w in lexicon()["units"]
        }
        for i, word in enumerate(self._low):
            if i in taken or view.tokens[i].mention >= 0:
                continue
            before = self._low[i - 1] if i else ""
            is_measure = word in lexicon()["measures"] or word in lexicon()["units"]
            number = lexicon()["numbers"].get(word, word)
            if word in [text.partition('"')[0] for text in compared]:
                uses[i] = _WordUse(word, 1.0)
            elif _NUMBER.fullmatch(number) and (number == word or number in compared):
                held = any(text.startswith(number.replace(",", "").lstrip("0")) for text in compared)
                uses[i] = _WordUse(word, float(held or word in named_numbers))
            elif is_measure and (before == "in" or before in lexicon()["measures"] or before[:1].isdigit()):
                is_unit = stem(word) in units or not units  # not hours where minutes are stored
                uses[i] = _WordUse(word, float(is_unit and (numbers or bool(compared))))
            elif word not in lexicon()["stopwords"] and word != superlative:
                share = similar.get(i, 0.0)
                share += rule.evidence * (1 - share)
                named = 1.0 if stem(word) in classes else max(fit, 0.0) if word == view.expected else 0.0
                gain, relation = elsewhere.get(i, (0.0, "")) if named < 1.0 else (0.0, "")
                uses[i] = _WordUse(word, max(share, named), gain * (1 - rule.evidence), relation)
        return [uses[i] for i in sorted(uses)]

    def _operations(
        self, clauses: Collection[str], spoken: Collection[str]
    ) -> tuple[dict[int, _WordUse], set[int]]:
        """Return the operators by the place of their first word, and the places of all their words."""
        text, uses, taken = " ".join(self._low), dict[int, _WordUse](), set[int]()
        starts = np.cumsum([0, *(len(word) + 1 for word in self._low)])
        for pattern, needs in _operators():
            for match in pattern.finditer(text):
                places = [i for i, at in enumerate(starts[:-1]) if match.start() <= at < match.end()]
                words = [i for i in places if self._view.tokens[i].mention < 0]
                own = {i for i in words if not _NUMBER.fullmatch(self._low[i])}
                done = bool(needs & set(clauses))
                # "density", "named after": the relation itself is called so.
                own = own if done else {i for i in own if stem(self._low[i]) not in spoken}
                if taken & own or not own:
                    continue
                taken |= own
                uses[min(own)] = _WordUse(" ".join(self._low[i] for i in words), float(done), operator=True)
        return uses, taken

    def _classes(self, rule: Rule, values: Sequence[Term]) -> set[str]:
        """Return the stems of the names of classes: of the answers, those the rule names, the topics' own."""
        names = list(types_of(self._kg, [v for v in values if isinstance(v, IRI)][:TYPED]).values())
        is_class = not rule.body and not self._relations(rule)
        forms = [c.value for c in rule.constraints if c.kind == "type" or (c.kind == "holds" and is_class)]
        if rule.anchor not in self._search.topics:
            forms.append(rule.anchor)
        iris = [iri for form in forms if (iri := self._kg.profile.expand(form.strip("<>"))) is not None]
        names += self._kg.labels(iris).values()
        kept = {i for _, i in self._search.scorer(rule.anchor).words}
        beside = {i - 1 for i, t in enumerate(self._view.tokens) if t.mention >= 0}
        names += [w for w, i in self._view.words if i in beside - kept]
        return {stem(word) for name in names for word in _WORD.findall(name.lower())}

    def missing(self, word: _WordUse, anchor: str) -> str:
        """Return in words what the graph lacks: the relation that says a word, which others of a kind have.

        "" where the topic has it, or nothing of its kind does. One query.
        """
        profile = self._kg.profile
        topic, relation = profile.expand(anchor), profile.expand(word.relation, relation=True)
        if word.elsewhere <= FAR or topic is None or relation is None or not profile.type_predicates:
            return ""
        a, node, has = IRI(profile.type_predicates[0]).n3(), topic.n3(), relation.n3()
        others = f"{node} {a} ?c . ?s {a} ?c . ?s {has} ?o FILTER NOT EXISTS {{ {node} {has} ?own }}"
        kinds = self._kg.query(f"SELECT ?c WHERE {{ {others} }}", limit=1).column("c")
        if not kinds:
            return ""
        names = self._kg.labels([topic, *kinds])
        name = relation_texts(self._kg, [word.relation])[word.relation].label
        return (
            f'{names.get(topic, anchor)} has no "{name}" here, although others of its kind '
            f"({names.get(kinds[0], '')}) do: the fact is missing in the graph"
        )

    def _similar(
        self, rule: Rule, relations: Sequence[Atom]
    ) -> tuple[dict[int, float], dict[int, tuple[float, str]]]:
        """Return by place how well the rule says a word, and what relation elsewhere does so better."""
        scorer, weights = self._search.scorer(rule.anchor), self._thresholds
        words, places = tuple(w for w, _ in scorer.words), [i for _, i in scorer.words]
        if not words:
            return {}, {}
        if -1 in places:  # "how tall": the adjective stands for its quantity
            places[places.index(-1)] = self._low.index("how") + 1 if "how" in self._low else 0
        own = scorer.table(tuple(relations)).max(axis=0) if relations else np.zeros(len(words))
        share = np.clip((own - weights.unrelated) / (weights.same - weights.unrelated), 0.0, 1.0)
        is_unsaid, elsewhere = own < weights.same - 1e-6, dict[int, tuple[float, str]]()
        if (self._kg.index is not None or self._kg.is_remote) and is_unsaid.any():
            if words not in self._anywhere and (entries := relations_of(self._kg)):
                table = similarities(self._kg, self._search.encoder, [e.names for e in entries], words)
                rows = table.argmax(axis=0).tolist()
                self._anywhere[words] = [(float(table[i, j]), entries[i].id) for j, i in enumerate(rows)]
            anywhere = self._anywhere.get(words, [(0.0, "")] * len(words))
            for place, similarity, unsaid, (best, relation) in zip(
                places, own, is_unsaid, anywhere, strict=True
            ):
                if unsaid and best > weights.spoken:
                    gain = float(np.clip(best - max(similarity, weights.unrelated), 0.0, 1.0))
                    elsewhere[place] = gain, relation
        return dict(zip(places, share.tolist(), strict=True)), elsewhere


def most_probable(features: Mapping[str, float]) -> float:
    """Return the highest probability that an answer can have.

    It is a half where another answer is as good, where the answers are of another kind than is asked for,
    where a name may as well mean another node, where a word became nothing and no other speaks of the
    relation, where a word is only a little like what it became, where the fact asked for is missing, where
    the rule leaves out a mention, a number or an operator, where things are compared by what no word asks
    for, where a name in a yes-or-no question is linked to nothing, and where it is no only because the
    graph says nothing. A model may know better.
    """
    if features.keys() == MODEL_FEATURES.keys():
        return 1.0
    unasked = features["boolean"] and features["constraints"] and features["unasked"]
    is_tie = not features["alone"] and features["margin"] < TIE
    left_out = any(features[name] for name in ("mentions", "numbers", "operators", "missing"))
    is_open = features["open"] or (features["boolean"] and features["names"])
    is_vague = VAGUE[0] <= features["weakest"] < VAGUE[1]
    is_homonym = features["homonyms"] > HOMONYM and not features["members"]
    is_other = (features["fit"] < 0 and features["fit"] != PLAIN) or is_homonym
    is_bare = features["members"] or features["support"] < UNSAID
    is_unsaid = features["lost"] and (features["names"] or (is_bare and not features["boolean"]))
    doubtful = (is_tie, is_other, is_unsaid, is_vague, left_out, is_open, unasked)
    return 0.5 if any(doubtful) else 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic regression on features, as the data file holds it.

    Attributes:
        weights: of each feature, after its mean was taken away and it was divided by its scale.
        min_confidence: from where an answer counts as answered.
        provenance: what it was trained on, and figures.
        models: name of a language model -> the calibration of its answers, by `MODEL_FEATURES`.
    """

    weights: Mapping[str, float]
    means: Mapping[str, float]
    scales: Mapping[str, float]
    bias: float
    min_confidence: float
    provenance: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Calibration] = field(default_factory=dict)

    def probability(self, features: Mapping[str, float]) -> float:
        """Return how probable it is that an answer with such features is exactly right."""
        z = self.bias + sum(
            weight * (features[name] - self.means[name]) / self.scales[name]
            for name, weight in self.weights.items()
        )
        return min(1 / (1 + math.exp(-max(min(z, 30.0), -30.0))), most_probable(features))

    def write(self, path: Path) -> None:
        """Write the data file."""
        header = "# How features of a reading become a probability: `Calibration` in `confidence.py`.\n"
        path.write_text(header + yaml.safe_dump(asdict(self), sort_keys=False), "utf-8")


def read_calibration(text: str, path: Path) -> Calibration:
    """Return the calibration of a data file. Raises `DataError` where it is none, or of other features."""
    try:
        calibration = Calibration(**yaml.safe_load(text))
        models = {name: Calibration(**section) for name, section in calibration.models.items()}  # type: ignore[arg-type]
        calibration = replace(calibration, models=models)
        calibration.probability(dict.fromkeys(FEATURES, 0.0))
        for section in models.values():
            section.probability(dict.fromkeys(MODEL_FEATURES, 0.0))
    except (TypeError, KeyError, ValueError, AttributeError, ZeroDivisionError, yaml.YAMLError) as error:
        raise DataError(
            f"no calibration of this version ({error}); run `triplewise calibrate` again", path
        ) from error
    return calibration


@cache
def shipped() -> Calibration:
    """Return the calibration that comes with the package."""
    path = files(__package__).joinpath(FILE)
    return read_calibration(path.read_text("utf-8"), Path(str(path)))


def own_file(kg: KnowledgeGraph) -> Path | None:
    """Return where a graph's own calibration lies: beside the profile of a loaded folder, else nowhere."""
    return next((folder / FILE for folder in kg.cache_dirs if is_store(folder)), None)


def calibration_for(kg: KnowledgeGraph, file: str | None = None) -> Calibration:
    """Return the calibration of a file, else of the graph where it was calibrated, else the shipped one."""
    path = Path(file) if file is not None else own_file(kg)
    if path is None or (file is None and not path.is_file()):
        return shipped()
    return read_calibration(read_text(path), path)
