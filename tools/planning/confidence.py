"""How sure a reading of a question is: its evidence as features, and a calibrated probability of being right.

A reading is a rule and what each word of the question became in it (`accounting.py`). The probability is a
logistic regression on the features below, trained on questions of several graphs (`evals/calibration.py`) and
shipped as `calibration.yaml`; `triplewise calibrate` trains it on questions of one's own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import read_text
from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.open import is_store
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import node_form, relation_form, run
from triplewise.tools.planning.lexical.accounting import Accounting, WordUse
from triplewise.tools.planning.lexical.planner import (
    GUESS,
    SAMPLE,
    Plan,
    PlanSettings,
    Search,
    has_gap,
    prepare,
)
from triplewise.tools.pyql.raw_sparql import parts_of
from triplewise.tools.retrieval.encoder import Encoder

FILE = "calibration.yaml"
"""Name of the data file, in this package and beside the profile of a loaded graph."""
COMPARED = 4
"""Rules that are run for their values where the planner has not done so already."""

TIE = 0.02
"""A lead over a rival below this is none."""
VAGUE = (0.2, 0.6)
"""Shares of a word that is only a little like what it became.

Of the training answers that pass for sure otherwise, 19 of 39 with such a word are right, 501 of 530 without.
"""
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


@dataclass(frozen=True, slots=True)
class Reading:
    """A rule's reading of a question.

    Attributes:
        rule: the rule in one line.
        values: some of its answers, as ids and literals.
        words: what each content word and operator became.
        unasked: relations of the rule that no word asks for.
        missing: in words, a fact that is asked for, that others of the topic's kind have; "" for none.
        features: the evidence, by the names of `FEATURES`.
    """

    rule: str
    values: tuple[str, ...] = ()
    words: tuple[WordUse, ...] = ()
    unasked: tuple[str, ...] = ()
    missing: str = ""
    features: dict[str, float] = field(default_factory=dict)

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """The words that became nothing."""
        return tuple(w.text for w in self.words if w.lost)


def read_plan(
    plan: Plan, question: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Reading, ...]:
    """Return the readings of a plan's rules, in their order. Rules whose values are not known yet are run.

    Without any rule, there is one of no rule where a fact is missing.
    """
    search = plan.search or prepare(question, linked, kg, encoder, PlanSettings())
    if not plan.rules:
        accounting = Accounting(search)
        every = ((t, w) for t in search.topics for w in accounting.words(Rule(t, ()), (), 0.0))
        missing = filter(None, (accounting.missing(word, topic) for topic, word in every))
        return tuple(Reading("", missing=text) for text in itertools.islice(missing, 1))
    return _Reader(search, plan.rules, linked).readings()


def read_query(
    sparql: str,
    plan: Plan,
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    repairs: int = 0,
) -> Reading:
    """Return the reading of a query that a language model built, with `MODEL_FEATURES`.

    Args:
        plan: what the embedded policy would do, which the query is compared with; how sure that is goes by
            the shipped calibration, so that one of its own changes nothing here.
        repairs: steps that went wrong before.
    """
    search = plan.search or prepare(question, linked, kg, encoder, PlanSettings())
    rule, result = _query_rule(sparql, search), kg.query(sparql, limit=SAMPLE)
    truth = () if result.boolean is None else (Literal(str(result.boolean).lower(), XSD + "boolean"),)
    search.values[rule.key] = result.column(result.variables[0]) if result.rows else truth
    reading = _Reader(search, (rule, *plan.rules), linked).readings()[0]
    best = next(iter(read_plan(plan, question, linked, kg, encoder)), Reading(""))
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


class _Reader:
    """Reads the rules of one plan."""

    def __init__(self, search: Search, rules: Sequence[Rule], linked: Sequence[LinkedEntity]) -> None:
        self._search, self._rules, self._kg, self._view = search, rules, search.kg, search.view
        self._accounting = Accounting(search)
        self._linked = {node_form(self._kg, e.id): e for e in linked}
        self._values: list[tuple[Term, ...] | None] = [search.values.get(rule.key) for rule in rules]
        unknown = [i for i, values in enumerate(self._values[:COMPARED]) if values is None]
        results = self._kg.together([partial(run, self._kg, rules[i], SAMPLE) for i in unknown])
        for i, result in zip(unknown, results, strict=True):
            no_or_yes = (
                (Literal(str(result.boolean).lower(), XSD + "boolean"),) if result.boolean is not None else ()
            )
            self._values[i] = result.column(result.variables[0]) if result.rows else no_or_yes

    def readings(self) -> tuple[Reading, ...]:
        """Return one for each rule."""
        parts = self._kg.together([partial(self._account, i) for i in range(len(self._rules))])
        left_out = [sum(w.lost for w in words) + mentions for words, _, mentions in parts]
        return tuple(self._read(i, *part, left_out) for i, part in enumerate(parts))

    def _account(self, index: int) -> tuple[list[WordUse], float, int]:
        """Return what the words became in a rule, the fit of its answers, and the mentions it leaves out."""
        rule, values = self._rules[index], self._values[index] or ()
        things, fit = self._accounting.things(rule, values), 0.0
        if things and not any(c.kind == "ask" for c in rule.constraints):
            names = bool(rule.body) and self._search.scorer(rule.anchor).names(rule.body)
            fit = self._search.fit.of(things, names)
            fit += rule.evidence * (1 - fit)
        mentions = sum(topic not in _nodes(rule) for topic in self._search.topics)
        return self._accounting.words(rule, values, fit), fit, mentions

    def _read(
        self, index: int, words: list[WordUse], fit: float, mentions: int, left_out: Sequence[int]
    ) -> Reading:
        """Return the reading of one rule; `left_out`: words and mentions that each rule leaves out."""
        rule, values = self._rules[index], self._values[index] or ()
        scorer, short = self._search.scorer(rule.anchor), self._kg.profile.short
        is_boolean = any(c.kind == "ask" for c in rule.constraints)
        asked = self._accounting.asked(rule)
        share = float(np.mean([w.share for w in words])) if words else 1.0
        chain = [scorer.support(rule.body)] if any(a in rule.body for a, _ in asked) else []
        supports = chain + [similarity for atom, similarity in asked if atom not in rule.body]
        unasked = tuple(a.relation for a, s in asked if s < self._accounting.thresholds.weak)
        denied = [v.value for v in values] == ["false"]
        texts = tuple(short(v) if isinstance(v, IRI) else v.value for v in values)
        entities = [e for form, e in self._linked.items() if form in _nodes(rule)]
        candidates = [e.candidates for e in entities if e.candidates]
        lost, noun = [w for w in words if w.lost], self._view.expected
        plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is"))
        number = 0.0
        if noun and not is_boolean and not self._view.counting:
            number = float(len(values) > 1) if not plural else 0.5 * (len(values) == 1)
        elsewhere = max(words, key=lambda w: w.elsewhere, default=WordUse("", "", 1.0))
        missing = self._accounting.missing(elsewhere, rule.anchor)
        from_seed = rule.support > 0
        features = {
            "accounted": share,
            "weakest": min((w.share for w in words), default=1.0),
            "lost": min(len(lost), 4),
            "numbers": min(sum(w.text[0].isdigit() for w in lost), 2),
            "operators": min(sum(w.operator for w in lost), 2),
            "mentions": min(mentions, 2),
            "names": float(bool(self._view.unlinked)),
            "elsewhere": elsewhere.elsewhere,
            "missing": float(bool(missing)),
            "support": max(min(supports) if supports else share, rule.evidence),
            "unasked": min(len(unasked), 3),
            "score": rule.score / (1 + len(asked) + len(words)) if asked else 0.0,
            **self._rivalry(index, left_out),
            "homonyms": max((c[1].score / c[0].score for c in candidates if len(c) > 1), default=0.0),
            "fit": fit,
            "many": math.log1p(len(values)),
            "plural": number,
            "constraints": sum(bool(c.atoms) and c.kind != "holds" for c in rule.constraints),
            "seed": rule.evidence,
            "from_seed": float(from_seed),
            "guess": float(rule.provenance == GUESS or has_gap(rule)),
            "fallback": min(index, 3),
            "members": float(bool(rule.body) and rule.anchor not in self._search.topics),
            "boolean": float(is_boolean),
            "denied": float(denied),
            "open": float(denied and self._is_open(rule)),
            "words": math.log1p(len(words)),
        }
        return Reading(
            rule.text(),
            texts,
            tuple(words),
            unasked,
            missing,
            {name: round(float(value), 4) for name, value in features.items()},
        )

    def _is_open(self, rule: Rule) -> bool:
        """Return whether a rule that does not hold leaves the question open.

        So it does where nothing of the kind is known of the subject, or where the relation is one to other
        kinds of things.
        """
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
        a = IRI(types[0]).n3()
        kinds = f"{object_.n3()} {a} ?c"
        taken = f"ASK {{ {kinds} . ?o {a} ?c . ?s {relation.n3()} ?o }}"
        return bool(self._kg.query(f"ASK {{ {kinds} }}").boolean) and not self._kg.query(taken).boolean

    def _rivalry(self, index: int, left_out: Sequence[int]) -> dict[str, float]:
        """Return how far a rule is ahead of the next with other answers, and how many agree with it.

        A rule that leaves more out is no rival.
        """
        own, score = frozenset(self._values[index] or ()), self._rules[index].score
        others = [i for i, values in enumerate(self._values) if i != index and values]
        agree = [i for i in others if frozenset(self._values[i] or ()) == own]
        rivals = [i for i in others if i not in agree and left_out[i] <= left_out[index]]
        margins = [score - self._rules[i].score for i in rivals]
        margin = float(np.clip(min(margins, default=0.0), -1.0, 1.0))
        return {
            "margin": margin,
            "alone": float(not margins),
            "agreement": len(agree) / len(others) if others else 0.5,
        }


def _nodes(rule: Rule) -> set[str]:
    """Return the nodes that a rule names, as it writes them."""
    return {rule.anchor, *(part for c in rule.constraints for part in (c.variable, c.value, c.operator))}


def most_probable(features: Mapping[str, float]) -> float:
    """Return the highest probability that an answer can have.

    It is a half where another answer is as good, where a word is only a little like what it became, where the
    fact asked for is missing, where the rule leaves out a mention, a number or an operator, where things are
    compared by what no word asks for, where a name in a yes-or-no question is linked to nothing, and where it
    is no only because the graph says nothing. A model may know better.
    """
    if features.keys() == MODEL_FEATURES.keys():
        return 1.0
    unasked = features["boolean"] and features["constraints"] and features["unasked"]
    is_tie = not features["alone"] and features["margin"] < TIE
    left_out = any(features[name] for name in ("mentions", "numbers", "operators", "missing"))
    is_open = features["open"] or (features["boolean"] and features["names"])
    is_vague = VAGUE[0] <= features["weakest"] < VAGUE[1]
    return 0.5 if is_tie or is_vague or left_out or is_open or unasked else 1.0


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


@lru_cache(maxsize=1)
def shipped() -> Calibration:
    """Return the calibration that comes with the package."""
    path = files(__package__).joinpath(FILE)
    return read_calibration(path.read_text("utf-8"), Path(str(path)))


def own_file(kg: KnowledgeGraph) -> Path | None:
    """Return where a graph's own calibration lies: beside the profile of a loaded folder, else nowhere."""
    return next((folder / FILE for folder in kg.cache_dirs if is_store(folder)), None)


def calibration_for(kg: KnowledgeGraph, file: str | None = None) -> Calibration:
    """Return the calibration of a file, else of the graph where it was calibrated, else the shipped one.

    Raises `DataError` where the file cannot be read.
    """
    path = Path(file) if file is not None else own_file(kg)
    if path is None or (file is None and not path.is_file()):
        return shipped()
    return read_calibration(read_text(path), path)
