"""Constraints beyond chains: comparisons, superlatives, counts, types, meeting entities, yes or no.

Each takes a chain that reaches candidates and adds what the cues of the question ask for, checked
against the KG: a quantity is only compared where the candidates have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Variable
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.planning.bodies import answers, make_atom, node_form, rule_program, texts_of
from triplewise.tools.planning.lexical.question import Comparison, QuestionView, lexicon
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

NUMERIC = frozenset(
    XSD + t for t in ("integer", "decimal", "double", "float", "int", "long", "short", "nonNegativeInteger")
)
TEMPORAL = frozenset(XSD + t for t in ("date", "dateTime", "gYear", "gYearMonth"))
_YEAR = re.compile(r"-?\d{4}(-\d\d){0,2}")


def is_number(term: Term) -> bool:
    """Whether a value is a number (by datatype, or by its text where the KG keeps plain text)."""
    return isinstance(term, Literal) and (
        term.datatype in NUMERIC or term.value.replace(".", "", 1).isdigit()
    )


def is_date(term: Term, label: str = "") -> bool:
    """Whether a value is a date or a year, as a literal or by its label."""
    if isinstance(term, Literal):
        return term.datatype in TEMPORAL or bool(_YEAR.fullmatch(term.value))
    return bool(_YEAR.fullmatch(label))


class Operations:
    """Adds constraints to the rules of one question."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, view: QuestionView) -> None:
        self._kg, self._encoder, self._view = kg, encoder, view

    def apply(self, rule: Rule) -> list[Rule]:
        """The rule with what the cues ask for; [] where the KG has nothing to do it with."""
        view = self._view
        rules = [rule]
        for comparison in view.comparisons:
            rules = [r for base in rules for r in self.compare(base, comparison)]
        if view.superlative is not None:
            rules = [r for base in rules for r in self.superlative(base)]
        if view.most:
            rules = [r for base in rules for r in self.most(base)]
        if view.counting and not self._ends_in_number(rule):
            rules = [self.count(r) for r in rules]
        return rules

    def _ends_in_number(self, rule: Rule) -> bool:
        """Whether a rule leads to numbers, which then answer "how many" themselves."""
        ends = answers(self._kg, rule, limit=3)
        return bool(ends) and all(is_number(t) for t in ends)

    def count(self, rule: Rule) -> Rule:
        """How many answers the rule has."""
        return replace(
            rule, constraints=(*rule.constraints, Constraint("count", "count", value=f"?{rule.answer}"))
        )

    def superlative(self, rule: Rule) -> list[Rule]:
        """Keep the answers with the greatest or smallest quantity."""
        wanted = self._view.superlative
        assert wanted is not None
        words = tuple(w for w, _ in self._view.words if w != self._view.expected)
        found = self.quantities(rule, (*wanted.quantities, *words), lambda v: is_date(v) or is_number(v))
        kind: ConstraintKind = "max" if wanted.direction == "max" else "min"
        return [
            replace(
                rule,
                constraints=(*rule.constraints, Constraint(kind, rule.answer, (atom,))),
                score=rule.score + likeness,
            )
            for atom, likeness in found[:2]
        ]

    def compare(self, rule: Rule, comparison: Comparison) -> list[Rule]:
        """Keep the answers whose quantity compares as asked; a chain that ends in it is compared itself."""
        value = comparison_value(comparison)
        test = is_date if comparison.is_date else is_number
        ends = answers(self._kg, rule, limit=3)
        if ends and all(test(e) for e in ends):
            return [self._filtered(rule, (), comparison.operator, value, 0.3)]
        known = self._compared_already(rule, comparison)
        if known is not None:
            return [self._filtered(rule, known, comparison.operator, value, 0.0)]
        words = tuple(w for w, _ in self._view.words) or (self._view.expected or "number",)
        defaults = lexicon()["default_dates" if comparison.is_date else "default_numbers"]
        found = self.quantities(rule, (*words, *defaults), test)
        return [
            self._filtered(rule, (atom,), comparison.operator, value, likeness)
            for atom, likeness in found[:2]
        ]

    def _compared_already(self, rule: Rule, comparison: Comparison) -> tuple[Atom, ...] | None:
        """The quantity of an earlier comparison of the same sort ("more than 5 but less than 9")."""
        filters = [c for c in rule.constraints if c.kind == "filter" and c.atoms]
        dated = [c for c in filters if c.value.count("-") == 2]
        same = dated if comparison.is_date else [c for c in filters if c not in dated]
        return same[0].atoms if same else None

    def _filtered(self, rule: Rule, atoms: tuple[Atom, ...], operator: str, value: str, gain: float) -> Rule:
        """The rule with a comparison."""
        constraint = Constraint("filter", rule.answer, atoms, operator, value)
        return replace(rule, constraints=(*rule.constraints, constraint), score=rule.score + gain)

    def most(self, rule: Rule) -> list[Rule]:
        """Keep the answers with the most (fewest) of what is counted, over the relation most like it."""
        kind: ConstraintKind = "least" if self._view.least else "most"
        steps = self._around(rule)
        ranked = self._by_likeness(steps, (self._view.most, *(w for w, _ in self._view.words)), ordered=False)
        classes = find_classes(self._kg, self._view.most)
        if classes:
            # "the most moons": what is counted must be moons, whichever relation leads to them.
            ranked = [(a, s) for a, s in ranked[:8] if self._leads_to(rule, a, classes[0])] or ranked
        return [
            replace(
                rule,
                constraints=(*rule.constraints, Constraint(kind, rule.answer, (a,))),
                score=rule.score + s,
            )
            for a, s in ranked[:2]
        ]

    def _leads_to(self, rule: Rule, atom: Atom, node: IRI) -> bool:
        """Whether a relation of the answers leads to members of a class."""
        form = node_form(self._kg, self._kg.profile.short(node))
        step = Constraint("type", atom.variable, (), value=form)
        longer = replace(rule, body=(*rule.body, atom), constraints=(*rule.constraints, step))
        return bool(answers(self._kg, longer, limit=1))

    def _around(self, rule: Rule, forward_only: bool = False) -> list[Atom]:
        """Relations around a rule's answers."""
        try:
            where = rule_program(self._kg, rule).where(self._kg.profile)
        except ActionError:
            return []
        around = self._kg.relations(Variable(rule.answer), where)
        taken = [a.variable for a in rule.body] + [a.variable for c in rule.constraints for a in c.atoms]
        short = self._kg.profile.short
        steps = [(short(r), True) for r in around.forward]
        steps += [] if forward_only else [(short(r), False) for r in around.backward]
        return [make_atom(self._kg, r, forward, taken) for r, forward in steps]

    def quantities(
        self, rule: Rule, names: Sequence[str], test: Callable[[Term], bool]
    ) -> list[tuple[Atom, float]]:
        """Relations of the answers to literals that pass `test`, most like `names` first; one query.

        Earlier names count a little more.
        """
        taken = [a.variable for a in rule.body] + [a.variable for c in rule.constraints for a in c.atoms]
        short = self._kg.profile.short
        found = [r for r, sample in self._measured(rule) if test(sample)]
        atoms = [make_atom(self._kg, short(r), True, taken) for r in found]
        return self._by_likeness(atoms, names, ordered=True)

    def _measured(self, rule: Rule) -> list[tuple[IRI, Literal]]:
        """Relations from the answers to literals, each with one value."""
        try:
            where = rule_program(self._kg, rule).where(self._kg.profile) if rule.body else ""
        except ActionError:
            return []
        anchor = self._kg.profile.expand(rule.anchor)
        node = f"?{rule.answer}" if rule.body else anchor.n3() if anchor else ""
        if not node:
            return []
        result = self._kg.query(
            f"SELECT ?r_ (SAMPLE(?v_) AS ?s_) WHERE {{ {where} {node} ?r_ ?v_ . FILTER(isLiteral(?v_)) }} "
            "GROUP BY ?r_"
        )
        pairs = [(row[0], row[1]) for row in result.rows]
        return [
            (r, v)
            for r, v in pairs
            if isinstance(r, IRI) and isinstance(v, Literal) and not self._kg.profile.excludes(r)
        ]

    def own_quantities(self, topic: str, names: Sequence[str]) -> list[tuple[Atom, float]]:
        """A topic's own relations to numbers or dates, most like `names` first."""
        return self.quantities(Rule(topic, ()), names, lambda v: is_date(v) or is_number(v))

    def _by_likeness(
        self, atoms: Sequence[Atom], names: Sequence[str], ordered: bool
    ) -> list[tuple[Atom, float]]:
        """Atoms by their best cosine with a name; with `ordered`, earlier names count a little more."""
        if not atoms:
            return []
        docs = relation_texts(self._kg, [a.relation for a in atoms])
        spoken = [texts_of(docs[a.relation], a.forward) for a in atoms]
        wanted, store = self._encoder.encode(list(names)), vectors_of(self._kg, self._encoder)
        scored = []
        for atom, texts in zip(atoms, spoken, strict=True):
            cosines = (store.vectors(texts) @ wanted.T).max(axis=0)
            value = max(float(c) - 0.05 * i * ordered for i, c in enumerate(cosines))
            scored.append((atom, value))
        return sorted(scored, key=lambda x: (-x[1], x[0].relation))

    def typed(self, rule: Rule, types: Sequence[IRI]) -> Rule:
        """The rule with a type constraint."""
        form = node_form(self._kg, self._kg.profile.short(types[0]))
        return replace(rule, constraints=(*rule.constraints, Constraint("type", rule.answer, value=form)))


def comparison_value(comparison: Comparison) -> str:
    """The literal compared with: a year becomes the first or last day that the operator means."""
    if not comparison.is_date or not re.fullmatch(r"\d{4}", comparison.value):
        return comparison.value
    last = comparison.operator in (">", "<=")
    return f"{comparison.value}-12-31" if last else f"{comparison.value}-01-01"
