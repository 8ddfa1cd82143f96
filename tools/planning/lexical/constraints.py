"""Constraints beyond chains: comparisons, superlatives, counts, types.

Each constraint takes a chain that reaches candidates and adds what the cues of the question ask for, checked
against the KG: a quantity is only compared where the candidates have it. The same reading is tried on a seed
question, where its answers show whether it is right, and on the question at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule
from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import find_classes, relation_texts
from triplewise.tools.planning.bodies import (
    answers,
    constrained,
    make_atom,
    node_form,
    rule_program,
    texts_of,
)
from triplewise.tools.planning.lexical.question import Comparison, QuestionView, lexicon
from triplewise.tools.planning.lexical.score import is_date, is_number, similarities, thresholds_of
from triplewise.tools.retrieval.encoder import Encoder

ASKED, CLASS, BOTH = "asked", "class", "class asked"
"""What is added to a chain: what the cues ask for, the class that the expected noun names, or both."""
EARLIER = 0.05  # What a later name of a quantity counts less than the one before it
BRANCHES = 2  # Relations that are tried for one constraint


def comparison_value(comparison: Comparison) -> str:
    """Return the literal compared with: a year becomes the first or last day that the operator means."""
    if not comparison.is_date or not re.fullmatch(r"\d{4}", comparison.value):
        return comparison.value
    return comparison.value + ("-12-31" if comparison.operator in (">", "<=") else "-01-01")


def is_comparable(term: Term) -> bool:
    """Return whether a value is a date or a number."""
    return is_date(term) or is_number(term)


class Constraints:
    """Adds constraints to the rules of one question."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, view: QuestionView) -> None:
        self._kg, self._encoder, self.view = kg, encoder, view

    @cached_property
    def classes(self) -> tuple[IRI, ...]:
        """Nodes that the expected noun names as a class of the KG."""
        return find_classes(self._kg, self.view.phrase) or find_classes(self._kg, self.view.expected)

    @property
    def readings(self) -> tuple[str, ...]:
        """What the words of the question may ask for besides a chain; () for most."""
        classed, restricted = self.view.determined and bool(self.classes), self.view.constrained
        given = {ASKED: restricted, CLASS: classed, BOTH: restricted and classed}
        return tuple(reading for reading, holds in given.items() if holds)

    def read(self, rule: Rule, reading: str) -> list[Rule]:
        """Return the rule with such constraints, the likeliest first; [] where the KG has none."""
        if reading == ASKED:
            return self.apply(rule)
        if not self.classes:
            return []
        typed = self.typed(rule, self.classes)
        return self.apply(typed) if reading == BOTH else [typed]

    def apply(self, rule: Rule) -> list[Rule]:
        """Return the rule with what the cues ask for; [] where the KG has nothing to do it with."""
        view, rules = self.view, [rule]
        for comparison in view.comparisons:
            rules = [r for base in rules for r in self._compare(base, comparison)]
        if view.superlative is not None:
            words = tuple(w for w, _ in view.words if w != view.expected)
            kind: ConstraintKind = "max" if view.superlative.direction == "max" else "min"
            meant = view.superlative.quantities
            ranked = [(r, self.quantities(r, (*meant, *words), is_comparable, len(meant))) for r in rules]
            rules = [longer for r, atoms in ranked for longer in _with_quantity(r, kind, atoms)]
        if view.most:
            rules = [r for base in rules for r in self._most(base)]
        ends = answers(self._kg, rule, limit=3) if view.counting else ()
        if view.counting and not (ends and all(map(is_number, ends))):
            # A rule that leads to numbers answers "how many" itself.
            rules = [constrained(r, Constraint("count", "count", value=f"?{r.answer}")) for r in rules]
        return rules

    def typed(self, rule: Rule, types: Sequence[IRI]) -> Rule:
        """Return the rule with a type constraint."""
        form = node_form(self._kg, self._kg.profile.short(types[0]))
        return constrained(rule, Constraint("type", rule.answer, value=form))

    def quantities(
        self, rule: Rule, names: Sequence[str], test: Callable[[Term], bool], meant: int = 0
    ) -> list[tuple[Atom, float]]:
        """Return relations of the answers to literals that pass `test`, most similar to `names` first.

        Earlier names count a little more; the first `meant` name what is compared, and no other quantity is.
        A rule without a body stands for its topic. One query.
        """
        profile, anchor, where = self._kg.profile, self._kg.profile.expand(rule.anchor), ""
        node = anchor.n3() if anchor is not None else ""
        if rule.body:
            node, where = f"?{rule.answer}", self._where(rule)
        if not node or (rule.body and not where):
            return []
        result = self._kg.query(
            f"SELECT ?r_ (SAMPLE(?v_) AS ?s_) WHERE {{ {where} {node} ?r_ ?v_ . FILTER(isLiteral(?v_)) }} "
            "GROUP BY ?r_"
        )
        steps = [
            (profile.short(relation), True)
            for relation, value in result.rows
            if isinstance(relation, IRI) and not profile.excludes(relation) and value and test(value)
        ]
        return self._ranked(rule, steps, names, EARLIER, meant)

    def _where(self, rule: Rule) -> str:
        """Return what a rule asks as SPARQL, "" where it makes no query."""
        try:
            return rule_program(self._kg, rule).where(self._kg.profile)
        except ActionError:
            return ""

    def _compare(self, rule: Rule, comparison: Comparison) -> list[Rule]:
        """Keep the answers whose quantity compares as asked; a chain that ends in it is compared itself."""
        value, test = comparison_value(comparison), is_date if comparison.is_date else is_number
        ends = answers(self._kg, rule, limit=3)
        if ends and all(map(test, ends)):
            gain = thresholds_of(self._encoder).join
            itself = Constraint("filter", rule.answer, (), comparison.operator, value)
            return [replace(constrained(rule, itself), score=rule.score + gain)]
        # "more than 5 but less than 9" compares one quantity twice.
        dated = comparison.is_date
        earlier = [c for c in rule.constraints if c.kind == "filter" and c.atoms]
        for filter_ in (c for c in earlier if (c.value.count("-") == 2) is dated):
            return [constrained(rule, replace(filter_, operator=comparison.operator, value=value))]
        words = tuple(w for w, _ in self.view.words) or (self.view.expected or "number",)
        defaults = lexicon()["default_dates" if dated else "default_numbers"]
        ranked = self.quantities(rule, (*words, *defaults), test)
        return _with_quantity(rule, "filter", ranked, comparison.operator, value)

    def _most(self, rule: Rule) -> list[Rule]:
        """Keep the answers with the most (fewest) of what is counted, by the relation most similar to it."""
        if not (where := self._where(rule)):
            return []
        classes = find_classes(self._kg, self.view.most)
        numbers = self.quantities(rule, (self.view.most,), is_number, 1) if not classes else []
        if numbers and numbers[0][1] >= thresholds_of(self._encoder).spoken:
            return _with_quantity(rule, "min" if self.view.least else "max", numbers)  # "the most seats"
        around, short = self._kg.relations(Variable(rule.answer), where), self._kg.profile.short
        steps = [(short(r), True) for r in around.forward] + [(short(r), False) for r in around.backward]
        ranked = self._ranked(rule, steps, (self.view.most, *(w for w, _ in self.view.words)))
        if classes:
            # "the most moons": what is counted must be moons, whichever relation leads to them.
            form = node_form(self._kg, short(classes[0]))
            members: list[tuple[Atom, float]] = []
            for atom, similarity in ranked[:8]:
                counted = Constraint("type", atom.variable, (), value=form)
                longer = constrained(replace(rule, body=(*rule.body, atom)), counted)
                members += [(atom, similarity)] if answers(self._kg, longer, limit=1) else []
            ranked = members or ranked
        return _with_quantity(rule, "least" if self.view.least else "most", ranked)

    def _ranked(
        self,
        rule: Rule,
        steps: Sequence[tuple[str, bool]],
        names: Sequence[str],
        earlier: float = 0.0,
        meant: int = 0,
    ) -> list[tuple[Atom, float]]:
        """Return atoms by their best similarity with a name; later names count less by `earlier`."""
        variables = [a.variable for a in (*rule.body, *(a for c in rule.constraints for a in c.atoms))]
        atoms = [make_atom(self._kg, relation, forward, variables) for relation, forward in steps]
        docs = relation_texts(self._kg, [a.relation for a in atoms])
        groups = [texts_of(docs[a.relation], a.forward) for a in atoms]
        table = similarities(self._kg, self._encoder, groups, names)
        scored = [
            (a, max(float(v) - earlier * i for i, v in enumerate(row)))
            for a, row in zip(atoms, table, strict=True)
            if not meant or row[:meant].any()
        ]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].relation))


def _with_quantity(
    rule: Rule,
    kind: ConstraintKind,
    ranked: Sequence[tuple[Atom, float]],
    operator: str = "",
    value: str = "",
) -> list[Rule]:
    """Return the rule with a constraint on each of the best quantities."""
    rules = []
    for atom, similarity in ranked[:BRANCHES]:
        longer = constrained(rule, Constraint(kind, rule.answer, (atom,), operator, value))
        rules.append(replace(longer, score=rule.score + similarity))
    return rules
