"""Trying fixes on the KG: only those that find something are offered, the most likely first.

One query tests many fixes that change the pattern; those that hold are then really carried out, on the
program before the failed step. A time-out, or an engine that cannot be reached, says nothing of a fix: it
stays untried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from triplewise.tools.actions.repair.fixes import FailedStep, Fix, QueryBudget, SpentError, candidates
from triplewise.tools.actions.terms import UNNAMED, relation_names
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Toolset
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.terms import IRI, whole_number
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.parsing.similarity import thresholds_of
from triplewise.tools.pyql.program import Clause, Fact, Filter, PyQL, Typed, fresh
from triplewise.tools.pyql.text import Reader, apply
from triplewise.tools.retrieval.encoder import Encoder

PROBED = 24
"""Fixes that one query tests at once."""
TO_QUESTION, TO_FAILED = 0.6, 0.4
"""What similarity to the question and to the failed relation weigh."""
SURE, GAP = 0.5, 0.35
"""Behind a fix of such a prior that finds something, what is so much less likely is not worth a query."""
FITTING = 5
"""Relations, the most alike to what was meant, that fixes may use besides the one that failed."""
SHOWN = 3
"""Values shown of what a fix finds."""


@dataclass(frozen=True, slots=True)
class VerifiedFix:
    """A fix that was carried out and finds something.

    Attributes:
        fix: what to do.
        finds: a preview of what it finds, with labels.
        score: how likely it is meant, for comparing fixes with each other.
        feedback: what the environment said of its last call.
    """

    fix: Fix
    finds: str
    score: float = 0.0
    feedback: Feedback = field(default_factory=Feedback)

    def text(self) -> str:
        """E.g. `add_fact(?x, P36, Q1) -> ?x: Japan`."""
        return f"{self.fix.text()} -> {self.finds}"

    @property
    def unnamed(self) -> list[str]:
        """Variables that hold only nodes without a name."""
        return [v for v, names in self.feedback.values.items() if names and set(names) == {UNNAMED}]


def find_fixes(
    context: ActionContext,
    toolset: Toolset,
    feedback: Feedback,
    *,
    budget: int,
    most: int,
    encoder: Encoder | None = None,
) -> tuple[VerifiedFix, ...]:
    """Return fixes of a failed step that find something on the KG, best first.

    Args:
        context: what actions had before the step: program and memory without it.
        toolset: the actions there are.
        feedback: what the environment said of the step.
        budget: KG queries that all of this may take.
        most: fixes to return.
        encoder: compares relations with the question; None compares letters.
    """
    kg = QueryBudget(context.kg, budget)
    step = FailedStep(replace(context, kg=kg), kg, feedback, toolset, encoder)
    programs = {fix: _program_after(step, fix.calls) for fix in candidates(step)}
    # A fact that stands there already fixes nothing.
    proposed = [fix for fix, program in programs.items() if program != step.program]
    fixes: list[VerifiedFix] = []
    with suppress(SpentError, QueryFailedError):
        for score, fix in _probe(step, _rank(step, proposed), programs):
            best = fixes[0] if fixes else None
            outdone = best and best.fix.prior >= SURE and score < best.score - GAP and not best.unnamed
            if len(fixes) >= most or outdone:
                break
            result = _carry_out(step, fix)
            if finds(result):
                fixes.append(VerifiedFix(fix, _preview(step, fix, result), score, result))
    # What ends at nodes without a name is at best half the way.
    fixes.sort(key=lambda f: set(f.unnamed) >= set(f.feedback.values) != set())
    return tuple(fixes)


def finds(feedback: Feedback) -> bool:
    """Whether an action could be carried out and found something."""
    return not feedback.error and feedback.outcome in (Outcome.ROWS, Outcome.TRUNCATED)


def _rank(step: FailedStep, fixes: Sequence[Fix]) -> list[tuple[float, Fix]]:
    """Return fixes with their scores, best first: priors, and how like question and failed relation they are.

    Equal fixes keep their order; relations that fit worse than others are left out.
    """
    failed = step.args[1] if step.action == "add_fact" and step.fact else ""
    relations = list(dict.fromkeys(fix.relation for fix in fixes if fix.relation))
    names = {r: r for r in (*relations, failed)}
    with suppress(SpentError, QueryFailedError):
        names |= step.relation_names(r for r in names if r)
    texts = [names[r] for r in relations]
    to_question, to_failed = (step.similarity(t, texts) for t in (step.context.question, names[failed]))
    # That a relation finds something is no reason to offer it: it must be among those that fit best, and have
    # something to do with what was meant, or join two nodes that are known.
    least = 0.0 if step.encoder is None else thresholds_of(step.encoder).unrelated
    alike, best = dict[str, float](), list[str]()
    for relation, q, f in zip(relations, to_question, to_failed, strict=True):
        alike[relation] = TO_QUESTION * q + TO_FAILED * f
        best += [relation] if max(q, f) >= least else []
    best.sort(key=lambda r: -alike[r])
    fitting = {"", failed, *step.memory.planned, *best[:FITTING]}
    scored = [
        (fix.prior + alike.get(fix.relation, 0.0), fix)
        for fix in fixes
        if fix.relation in fitting or not any(map(step.is_new, fix.calls[-1].arguments))
    ]
    return sorted(scored, key=lambda s: -round(s[0], 6))


def _program_after(step: FailedStep, calls: Sequence[Call]) -> PyQL | None:
    """Return the program after some construct actions; None if one is none, or cannot be added."""
    program = step.program
    for call in calls:
        try:
            program = apply(program, call.name, call.arguments, Reader(step.kg.profile))
        except ActionError:
            return None
    return program


def _probe(
    step: FailedStep, scored: list[tuple[float, Fix]], programs: Mapping[Fix, PyQL | None]
) -> list[tuple[float, Fix]]:
    """Return the fixes that are left once those that only add facts, types and plain filters are tested.

    One query tests them all. Those that were not tested stand behind those that were.
    """
    before = len(step.program.clauses)
    patterns = {f: p for _, f in scored if (p := programs[f]) is not None and _is_plain(p.clauses[before:])}
    tested = list(patterns)[:PROBED]
    if len(tested) < 2:
        return scored
    taken = {v.name for f in tested for v in (*patterns[f].variables, *patterns[f].local_variables)}
    mark = f"?{fresh('fix', taken)}"
    alternatives = (
        f"{{ SELECT ({i} AS {mark}) WHERE {{ {patterns[fix].where(step.kg.profile)} }} LIMIT 1 }}"
        for i, fix in enumerate(tested)
    )
    try:
        result = step.kg.query(f"SELECT {mark} WHERE {{ {' UNION '.join(alternatives)} }}")
    except SpentError:
        return scored
    if not result.outcome.ok or result.outcome is Outcome.TRUNCATED:
        return scored
    numbers = (whole_number(value, len(tested)) for (value,) in result.rows)
    holding = {tested[i] for i in numbers if i is not None}
    alive = [s for s in scored if s[1] in holding or s[1] not in patterns]
    waiting = [s for s in scored if s[1] in patterns and s[1] not in tested]
    return [*alive, *waiting]


def _is_plain(added: Sequence[Clause]) -> bool:
    """Whether clauses are facts, types and filters by a node only."""
    plain = (
        isinstance(c, Fact | Typed) or (isinstance(c, Filter) and isinstance(c.right, IRI)) for c in added
    )
    return bool(added) and all(plain)


def _carry_out(step: FailedStep, fix: Fix) -> Feedback:
    """Return what the environment says of the last call of a fix, the earlier ones taken as made.

    A yes/no question whose answer would be no finds nothing, whatever its preview says.
    """
    context, profile = step.context, step.kg.profile
    if len(fix.calls) > 1:
        before = _program_after(step, fix.calls[:-1])
        if before is None:
            return Feedback(error="unfit", message=f"{fix.text()} cannot be added to the program")
        context = replace(context, program=before.text(profile))
    feedback = step.toolset.execute(context, fix.calls[-1])
    if finds(feedback) and not feedback.values and feedback.program:
        with suppress(ActionError):
            program = PyQL.parse(feedback.program, profile)
            if program.boolean and program.clauses and not step.kg.query(program.sparql(profile)).boolean:
                return replace(feedback, outcome=Outcome.EMPTY)
    return feedback


def _preview(step: FailedStep, fix: Fix, feedback: Feedback) -> str:
    """Return what a fix finds, in a few words: values of the variables it names, relations, or yes."""

    def listed(names: Sequence[str], count: int) -> str:
        return ", ".join(names[:SHOWN]) + (", ..." if max(len(names), count) > SHOWN else "")

    if feedback.relations:
        names = [r for side in feedback.relations.values() for r in side]
        return listed(relation_names(step.kg, names[:SHOWN]), len(names))
    named = [a[1:] for a in fix.calls[-1].arguments if a.startswith("?")]
    shown = [v for v in dict.fromkeys((*reversed(named), *feedback.values)) if feedback.values.get(v)]
    if not shown:
        return feedback.observation
    new = [v for v in shown if f"?{v}" not in step.bound and v in named] or shown[:1]
    new = [v for v in new if set(feedback.values[v]) != {UNNAMED}] or new
    return "; ".join(f"?{v}: {listed(feedback.values[v], len(feedback.ids.get(v, ())))}" for v in new)
