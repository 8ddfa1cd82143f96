"""Corrections of a failed step: what may have been meant, tried on the KG before it is offered.

Three kinds, as measured on gold steps that were broken on purpose: the fact turned around, another relation
of the same node, the id of a node for its name. One query tests many facts; those that hold are carried out
on the program before the failed step. A time-out, or an engine that is not reached, says nothing of a fix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from triplewise.tools.actions.terms import UNNAMED
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Toolset
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import whole_number
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Layer, Meter, Outcome, Result
from triplewise.tools.kg.vocabulary import relation_names, relation_texts
from triplewise.tools.pyql.program import PyQL, fresh
from triplewise.tools.pyql.text import Reader, apply, read_term, read_variable, write_iri
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.similarity import thresholds_of

SURE, GAP = 0.5, 0.35
"""Prior of a turned fact: one that finds something is nearly always right. Behind a fix of such a prior that
finds something, what is `GAP` less likely is not worth a query."""
LEAST, INDEXED = 0.6, 3
"""Names less alike are not taken for slips of one another. Nodes that are offered for one name."""
TO_QUESTION, TO_FAILED, FITTING = 0.6, 0.4, 5
"""Weights of a relation's similarity to the question and to the relation that failed; how many of the most
alike relations fixes may use in addition to that one."""
PROBED, PATIENCE = 24, 5.0  # Facts that one query tests at once, and seconds that it may take
SHOWN = 3  # Values shown of what a fix finds
_NAMED = {Outcome.EMPTY, "bad_subject", "bad_object", "unknown_entity", "bad_type"}
_QUOTES = ('"', "'")


class SpentError(Exception):
    """The budget is spent, or the KG does not answer: what was not tried yet stays untried."""


class QueryBudget(Layer):
    """A KG that asks the one below at most `left` queries: none once it is down, or timed out twice."""

    def __init__(self, origin: KnowledgeGraph, left: int) -> None:
        super().__init__(origin)
        self.left, self._timed_out = left, False
        self.timeout = min(origin.timeout, PATIENCE)
        self._labels = origin._labels

    @property
    def shared(self) -> KnowledgeGraph:  # type: ignore[override]
        """The KG below: what is kept for it (texts of relations) holds for this one too."""
        return self.origin.shared

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one query. Raises `SpentError` where none is left."""
        if self.left < 1:
            raise SpentError
        seconds = self.timeout if timeout is None else min(timeout, self.timeout)
        meter = Meter(self.origin.meter)
        result = self.origin.query(sparql, timeout=seconds, limit=limit, foreign=foreign)
        is_late = result.outcome is Outcome.TIMEOUT
        is_down = result.outcome is Outcome.UNAVAILABLE or (is_late and self._timed_out)
        self.left, self._timed_out = 0 if is_down else self.left - meter.queries, self._timed_out or is_late
        return result


class Fix(NamedTuple):
    """What might have been meant: a call in place of the failed one."""

    call: Call
    relation: str = ""  # short id of the relation that its similarity is judged by
    prior: float = 0.0  # how likely this kind is right if it finds something, on the scale of a cosine


class VerifiedFix(NamedTuple):
    """A call that was carried out and finds something: a preview of the result, and the feedback."""

    call: Call
    finds: str
    feedback: Feedback

    def text(self) -> str:
        """E.g. `add_fact(?x, P36, Q1) -> ?x: Japan`."""
        return f"{self.call.text()} -> {self.finds}"

    @property
    def is_unnamed(self) -> bool:
        """Whether all that it finds are nodes without a name: at best half the way."""
        values = self.feedback.values.values()
        return any(values) and all(set(names) == {UNNAMED} for names in values if names)


def find_fixes(
    context: ActionContext, toolset: Toolset, feedback: Feedback, *, budget: int, most: int
) -> tuple[VerifiedFix, ...]:
    """Return up to `most` fixes of a failed step that find something on the KG, best first.

    Args:
        context: program and memory before the step that got `feedback`. Its encoder compares relations with
            the question; without one, letters are compared.
        budget: KG queries that all of this may take.
    """
    step = _FailedStep(context, QueryBudget(context.kg, budget), feedback, toolset)
    fixes: list[VerifiedFix] = []
    best: tuple[float, Fix] | None = None
    with suppress(SpentError, QueryFailedError):
        for score, fix in step.probe(step.rank(step.candidates(), context.encoder)):
            is_outdone = best and best[1].prior >= SURE and score < best[0] - GAP and not fixes[0].is_unnamed
            if len(fixes) >= most or is_outdone:
                break
            result = step.carry_out(fix)
            if finds(result):
                best = best or (score, fix)
                fixes.append(VerifiedFix(fix.call, step.preview(fix, result), result))
    return tuple(sorted(fixes, key=lambda f: f.is_unnamed))


def finds(feedback: Feedback) -> bool:
    """Whether an action could be carried out and found something."""
    return not feedback.error and feedback.outcome in (Outcome.ROWS, Outcome.TRUNCATED)


def _similarities(text: str, texts: Sequence[str], encoder: Encoder | None = None) -> list[float]:
    """The similarity of each text to one: a cosine, or without an encoder how alike their letters are."""
    if not text.strip() or not texts:
        return [0.0] * len(texts)
    if encoder is None:
        return [similarity(normalise(text), norm) if (norm := normalise(t)) else 0.0 for t in texts]
    vectors = encoder.encode([text, *texts])
    return [float(x) for x in np.asarray(vectors[1:] @ vectors[0])]


class _FailedStep:
    """A step that failed, with all that is known for fixing it."""

    def __init__(self, context: ActionContext, kg: QueryBudget, feedback: Feedback, tools: Toolset) -> None:
        self.context, self.kg, self.toolset = replace(context, kg=kg), kg, tools
        self.action, self.memory, self.profile = feedback.action, context.memory, kg.profile
        self.cause = feedback.error or str(feedback.outcome)
        self.args = tuple(a.strip() for a in feedback.arguments)
        self.fact = self.args if len(self.args) == 3 and self.action == "add_fact" else ()
        try:
            self.program = PyQL.parse(context.program, kg.profile)
        except ActionError:
            self.program = PyQL()
        self.bound = tuple(v.n3() for v in self.program.variables)  # newest last

    def candidates(self) -> list[Fix]:
        """Return all fixes of any kind, each once, without what failed on this program or changes nothing."""
        failed = {*self.memory.doubted, Call(self.action, self.args).text()}
        fixes: dict[Call, Fix] = {}
        for make in (self._facts, self._nodes):
            # A kind that would need more queries than are left gives way to the ones that need none.
            with suppress(SpentError, QueryFailedError):
                for fix in make():
                    if fix.call.text() not in failed and self._after(fix) != self.program:
                        fixes.setdefault(fix.call, fix)
        return list(fixes.values())

    def _facts(self) -> Iterator[Fix]:
        """The fact turned around; another relation of either end, in the direction in which it is there."""
        if not self.fact:
            return
        subject, failed, object_ = self.fact
        if self.cause in (Outcome.EMPTY, "bad_subject") and not object_.startswith(_QUOTES):
            yield Fix(Call(self.action, (object_, failed, subject)), failed, SURE)
        if self.cause not in (Outcome.EMPTY, "bad_relation"):
            return
        for node, other in ((subject, object_), (object_, subject)):
            if self._is_new(node):
                continue
            for forward, relations in zip((True, False), self._around(node), strict=True):
                for relation in relations:
                    same = relation == failed and forward == (node == subject)
                    if not same and (forward or not other.startswith(_QUOTES)):
                        ends = (node, relation, other) if forward else (other, relation, node)
                        yield Fix(Call(self.action, ends), relation)
            if self._is_new(other):
                return

    def _nodes(self) -> Iterator[Fix]:
        """The id of the linked or indexed node whose name was written, or was written with a slip."""
        if self.cause not in _NAMED or (self.action == "add_filter" and self.cause == Outcome.EMPTY):
            return
        linked, relation = self.memory.linked, self.fact[1] if self.fact else ""
        for place, form in enumerate(self.args):
            if form.startswith("?") or form in linked or (relation and place == 1):
                continue
            name = form.strip("'\"")
            alike = map(max, _similarities(name, [*linked]), _similarities(name, [*linked.values()]))
            nodes = [(n, s) for n, s in zip(linked, alike, strict=True) if s >= LEAST]
            if not nodes:
                indexed = self.kg.names.search(name, INDEXED)
                nodes = [(write_iri(c.iri, self.profile), c.score * 0.8) for c in indexed]
            for node, score in sorted(nodes, key=lambda n: -n[1])[:INDEXED]:
                arguments = (*self.args[:place], node, *self.args[place + 1 :])
                yield Fix(Call(self.action, arguments), relation, 0.3 + 0.5 * score)

    def _is_new(self, form: str) -> bool:
        return form.startswith("?") and form not in self.bound

    def _around(self, node: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return relations that leave and arrive at a node: those offered before, else what the KG has."""
        if offered := self.memory.looked_up.get(node):
            return offered.get("forward", ()), offered.get("backward", ())
        profile = self.profile
        if node in self.bound:
            result = self.kg.relations(read_variable(node), self.program.where(profile))
        elif (term := read_term(node, profile)) is not None:
            result = self.kg.relations(term)
        else:
            return (), ()
        return tuple(map(profile.short, result.forward)), tuple(map(profile.short, result.backward))

    def rank(self, fixes: Sequence[Fix], encoder: Encoder | None) -> list[tuple[float, Fix]]:
        """Return fixes with their scores, best first: priors, likeness to question and failed relation.

        That a relation finds something is not enough to offer it: it must be among those that fit best, and
        have something to do with what was meant, or join two nodes that are known.
        """
        failed = self.fact[1] if self.fact else ""
        relations = list(filter(None, dict.fromkeys(fix.relation for fix in fixes)))
        names = {r: r for r in (*relations, failed)}
        with suppress(SpentError, QueryFailedError):
            names |= {r: text.label for r, text in relation_texts(self.kg, filter(None, names)).items()}
        if self.profile.relation_text == "dotted":  # such ids read by themselves
            ids = {r: self.profile.expand(r, relation=True) for r in names if r}
            names |= {r: self.profile.relation_label(iri).label for r, iri in ids.items() if iri}
        written = [names[r] for r in relations]
        question, wrong = (_similarities(t, written, encoder) for t in (self.context.question, names[failed]))
        least = 0.0 if encoder is None else thresholds_of(encoder).unrelated
        both = dict(zip(relations, zip(question, wrong, strict=True), strict=True))
        alike = {r: TO_QUESTION * q + TO_FAILED * f for r, (q, f) in both.items()}
        fitting = sorted((r for r in relations if max(both[r]) >= least), key=lambda r: -alike[r])
        allowed = {"", failed, *fitting[:FITTING]}
        known = (f for f in fixes if f.relation in allowed or not any(map(self._is_new, f.call.arguments)))
        scored = ((fix.prior + alike.get(fix.relation, 0.0), fix) for fix in known)
        return sorted(scored, key=lambda s: -round(s[0], 6))

    def _after(self, fix: Fix) -> PyQL | None:
        """Return the program after a fix; None if it is not a construct action, or cannot be added."""
        try:
            return apply(self.program, fix.call.name, fix.call.arguments, Reader(self.profile))
        except ActionError:
            return None

    def probe(self, scored: list[tuple[float, Fix]]) -> list[tuple[float, Fix]]:
        """Return the fixes left once those that add a fact are tested, with one query; untested ones last."""
        facts = {f: p for _, f in scored if self.fact and (p := self._after(f)) is not None}
        tested = list(facts)[:PROBED]
        if len(tested) < 2:
            return scored
        taken = {v.name for f in tested for v in (*facts[f].variables, *facts[f].local_variables)}
        mark = f"?{fresh('fix', taken)}"
        patterns = enumerate(facts[fix].where(self.profile) for fix in tested)
        alternatives = (f"{{ SELECT ({i} AS {mark}) WHERE {{ {p} }} LIMIT 1 }}" for i, p in patterns)
        result = self.kg.query(f"SELECT {mark} WHERE {{ {' UNION '.join(alternatives)} }}")
        if not result.outcome.ok or result.outcome is Outcome.TRUNCATED:
            return scored
        numbers = (whole_number(value, len(tested)) for (value,) in result.rows)
        holding = {tested[i] for i in numbers if i is not None}
        waiting = [s for s in scored if s[1] in facts and s[1] not in tested]
        return [*(s for s in scored if s[1] in holding or s[1] not in facts), *waiting]

    def carry_out(self, fix: Fix) -> Feedback:
        """Return what the environment says of a fix; a yes/no question answered by no finds nothing."""
        feedback, profile = self.toolset.execute(self.context, fix.call), self.profile
        if finds(feedback) and not feedback.values and feedback.program:
            with suppress(ActionError):
                program = PyQL.parse(feedback.program, profile)
                if program.boolean and program.clauses and not self.kg.query(program.sparql(profile)).boolean:
                    return replace(feedback, outcome=Outcome.EMPTY)
        return feedback

    def preview(self, fix: Fix, feedback: Feedback) -> str:
        """Return what a fix finds, in a few words: values of the variables it names, relations, or yes."""

        def listed(names: Sequence[str], count: int) -> str:
            return ", ".join(names[:SHOWN]) + (", ..." if max(len(names), count) > SHOWN else "")

        if names := [r for side in feedback.relations.values() for r in side]:
            return listed(relation_names(self.kg, names[:SHOWN]), len(names))
        named = [a[1:] for a in fix.call.arguments if a.startswith("?")]
        shown = [v for v in dict.fromkeys((*reversed(named), *feedback.values)) if feedback.values.get(v)]
        if not shown:
            return feedback.observation
        new = [v for v in shown if self._is_new(f"?{v}") and v in named] or shown[:1]
        return "; ".join(f"?{v}: {listed(feedback.values[v], len(feedback.ids.get(v, ())))}" for v in new)
