"""Trying fixes on the KG: only those that find something are offered, the most likely first.

One query tests many fixes that change the pattern; those that hold are then really carried out, on the
program before the failed step. A time-out, or an engine that cannot be reached, says nothing of a fix: it
stays untried.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from triplewise.tools.actions.repair.budget import QueryBudget, SpentError
from triplewise.tools.actions.repair.failed_step import FailedStep, Fix, TextSimilarity, candidates
from triplewise.tools.actions.repair.fixes import beyond
from triplewise.tools.actions.terms import UNNAMED, relation_names
from triplewise.tools.actions.toolset import ActionContext, Toolset
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError, KGUnavailableError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.program import Fact, Filter, Typed, fresh
from triplewise.tools.pyql.text import BUILDERS, apply
from triplewise.tools.retrieval.encoder import Encoder

PROBED = 24
"""Mends that one query tests at once."""
TO_QUESTION, TO_FAILED = 0.6, 0.4
"""What similarity to the question and to the failed relation weigh."""
SURE, GAP = 0.5, 0.35
"""Behind a fix of such a prior that finds something, what is so much less likely is not worth a query."""
SHOWN = 3
"""Values shown of what a fix finds."""
ONWARD = 3
"""Relations tried to look through nodes without a name, and the queries that must be left for it."""
ONWARD_QUERIES = 4


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
    score: float
    feedback: Feedback

    def text(self) -> str:
        """E.g. `add_fact(?x, P36, Q1) -> ?x: Japan`."""
        return f"{self.fix.text()} -> {self.finds}"


@dataclass(frozen=True, slots=True)
class Repair:
    """What came of trying to fix a step.

    Attributes:
        fixes: fixes that find something, best first.
        proposed: how many fixes were thought of.
        empty: how many of them are known to find nothing.
        untried: how many the KG said nothing of, for want of queries, time, or an answer.
        queries: how many it took.
    """

    fixes: tuple[VerifiedFix, ...] = ()
    proposed: int = 0
    empty: int = 0
    untried: int = 0
    queries: int = 0


def find_fixes(
    context: ActionContext,
    toolset: Toolset,
    feedback: Feedback,
    *,
    budget: int,
    most: int,
    encoder: Encoder | None = None,
) -> Repair:
    """Mends of a failed step that find something on the KG.

    Args:
        context: what actions had before the step: program and memory without it.
        toolset: the actions there are.
        feedback: what the environment said of the step.
        budget: KG queries that all of this may take.
        most: fixes to verified_fix.
        encoder: compares relations with the question; None compares letters.
    """
    kg = QueryBudget(context.kg, budget)
    step = FailedStep(
        replace(context, kg=kg), kg, feedback, toolset, TextSimilarity(context.question, encoder)
    )
    proposed = [m for m in candidates(step) if _changes(step, m)]
    if not proposed:
        return Repair(queries=kg.used)
    found = verified(step, ranked(step, proposed), most)
    return replace(found, proposed=len(proposed), queries=kg.used)


def ranked(step: FailedStep, fixes: Sequence[Fix]) -> list[tuple[float, Fix]]:
    """Mends with their scores, best first; equal ones keep their order."""
    relations = list(dict.fromkeys(m.relation for m in fixes if m.relation))
    like = _relation_scores(step, relations)
    scored = [(m.prior + like.get(m.relation, 0.0), m) for m in fixes]
    return sorted(scored, key=lambda s: -round(s[0], 6))


def _relation_scores(step: FailedStep, relations: Sequence[str]) -> dict[str, float]:
    """How like each relation is to the question and to the relation that failed."""
    failed = step.args[1] if step.action == "add_fact" and len(step.args) == 3 else ""
    texts = {r: r for r in (*relations, failed)}
    with suppress(SpentError):
        texts |= step.texts(r for r in texts if r)
    wanted = [texts[r] for r in relations]
    asked = step.similarity.to_question(wanted)
    meant = step.similarity.between(texts[failed], wanted)
    return {r: TO_QUESTION * q + TO_FAILED * f for r, q, f in zip(relations, asked, meant, strict=True)}


def verified(step: FailedStep, candidates: Sequence[tuple[float, Fix]], most: int) -> Repair:
    """Try fixes on the KG, in order, until enough of them find something."""
    left, empty = _probed(step, list(candidates))
    fixes: list[VerifiedFix] = []
    with suppress(SpentError, KGUnavailableError):
        for score, fix in left:
            if len(fixes) >= most or (fixes and _outdone(fixes[0], score)):
                break
            feedback = carried_out(step, fix)
            if finds(feedback):
                fixes.append(_onward(step, VerifiedFix(fix, preview(step, fix, feedback), score, feedback)))
            else:
                empty += feedback.outcome == Outcome.EMPTY
    # What ends at nodes without a name is at best half the way.
    fixes.sort(key=lambda f: set(_unnamed(f.feedback)) >= set(f.feedback.values) != set())
    return Repair(tuple(fixes), len(candidates), empty, max(len(candidates) - empty - len(fixes), 0))


def _changes(step: FailedStep, fix: Fix) -> bool:
    """Whether a fix adds anything to the program: a fact that stands there already fixes nothing."""
    after = _pattern_after(step, fix, whatever=True)
    return after is None or after != step.program


def _outdone(best: VerifiedFix, score: float) -> bool:
    """Whether the best verified_fix leaves nothing to look for below it."""
    return best.fix.prior >= SURE and score < best.score - GAP and not _unnamed(best.feedback)


def _probed(step: FailedStep, fixes: list[tuple[float, Fix]]) -> tuple[list[tuple[float, Fix]], int]:
    """The fixes that are left once one query has tested those that change the pattern, and how many fell."""
    programs = {i: p for i, (_, fix) in enumerate(fixes) if (p := _pattern_after(step, fix)) is not None}
    tested = list(programs)[:PROBED]
    if len(tested) < 2:
        return fixes, 0
    try:
        holding = _holding(step, {i: programs[i] for i in tested})
    except SpentError:
        return fixes, 0
    if holding is None:
        return fixes, 0
    # What was not tested waits behind what was.
    alive = [m for i, m in enumerate(fixes) if i in holding or i not in programs]
    waiting = [fixes[i] for i in programs if i not in tested]
    return [*alive, *waiting], len(tested) - len(holding)


def _holding(step: FailedStep, programs: dict[int, PyQL]) -> set[int] | None:
    """Which of several programs have a solution, with one query; None if the engine could not say."""
    taken = {v.name for p in programs.values() for v in (*p.variables, *p.local_variables)}
    mark = f"?{fresh('fix', taken)}"
    alternatives = (
        f"{{ SELECT ({i} AS {mark}) WHERE {{ {program.where(step.kg.profile)} }} LIMIT 1 }}"
        for i, program in programs.items()
    )
    result = step.kg.query(f"SELECT {mark} WHERE {{ {' UNION '.join(alternatives)} }}")
    if not result.outcome.ok or result.outcome is Outcome.TRUNCATED:
        return None
    return {int(value.value) for (value,) in result.rows if isinstance(value, Literal)}


def _pattern_after(step: FailedStep, fix: Fix, whatever: bool = False) -> PyQL | None:
    """The program after a fix where it only adds facts, types, plain filters, or `whatever`; else None."""
    try:
        after = _applied(step, fix.calls)
    except ActionError:
        return None
    if whatever:
        return after
    added = after.clauses[len(step.program.clauses) :]
    plain = all(
        isinstance(c, Fact | Typed) or (isinstance(c, Filter) and isinstance(c.right, IRI)) for c in added
    )
    return after if added and plain else None


def _applied(step: FailedStep, calls: Sequence[Call]) -> PyQL:
    """The program after some construct actions. Raises `ActionError` for what cannot be added."""
    program = step.program
    for call in calls:
        if call.name not in BUILDERS:
            raise ActionError("unknown_action", f"{call.name} does not extend a program")
        program = apply(program, call.name, call.arguments, step.kg.profile)
    return program


def carried_out(step: FailedStep, fix: Fix) -> Feedback:
    """What the environment says of the last call of a fix, the earlier ones taken as made.

    Raises:
        SpentError: the budget does not allow it.
    """
    context = step.context
    if len(fix.calls) > 1:
        try:
            before = _applied(step, fix.calls[:-1])
        except ActionError as error:
            return Feedback(error=error.code, message=error.message)
        context = replace(context, program=before.text(step.kg.profile))
    feedback = step.toolset.execute(context, fix.calls[-1])
    return _answered(step, feedback)


def _answered(step: FailedStep, feedback: Feedback) -> Feedback:
    """A yes/no question whose answer would be no finds nothing, whatever its preview says."""
    if feedback.error or feedback.values or feedback.outcome != Outcome.ROWS or not feedback.program:
        return feedback
    try:
        program = PyQL.parse(feedback.program, step.kg.profile)
    except ActionError:
        return feedback
    if not program.boolean or not program.clauses:
        return feedback
    result = step.kg.query(program.sparql(step.kg.profile))
    return feedback if result.boolean else replace(feedback, outcome=Outcome.EMPTY)


def finds(feedback: Feedback) -> bool:
    """Whether an action could be carried out and found something."""
    return not feedback.error and feedback.outcome in (Outcome.ROWS, Outcome.TRUNCATED)


def preview(step: FailedStep, fix: Fix, feedback: Feedback) -> str:
    """What a fix finds, in a few words: values of the variables it names, relations, or yes."""
    if feedback.relations:
        names = [r for side in feedback.relations.values() for r in side]
        return _listed(relation_names(step.kg, names[:SHOWN]), len(names))
    named = [a[1:] for a in fix.calls[-1].arguments if a.startswith("?")]
    shown = [v for v in dict.fromkeys((*reversed(named), *feedback.values)) if feedback.values.get(v)]
    if not shown:
        return feedback.observation
    new = [v for v in shown if f"?{v}" not in step.bound and v in named] or shown[:1]
    new = [v for v in new if v not in _unnamed(feedback)] or new
    return "; ".join(f"?{v}: {_listed(feedback.values[v], len(feedback.ids.get(v, ())))}" for v in new)


def _listed(names: Sequence[str], count: int) -> str:
    """The first few names, with dots where there are more."""
    more = max(len(names), count) > SHOWN
    return ", ".join(names[:SHOWN]) + (", ..." if more else "")


def _onward(step: FailedStep, verified_fix: VerifiedFix) -> VerifiedFix:
    """A fix that finds only nodes without a name, with the fact that leads on from them."""
    new = [v for v in _unnamed(verified_fix.feedback) if f"?{v}" not in step.bound]
    if not new or verified_fix.fix.calls[-1].name != "add_fact" or step.kg.left < ONWARD_QUERIES:
        return verified_fix
    with suppress(SpentError, ActionError):
        variable = f"?{new[0]}"
        onward = [Fix("", (c,), r) for c, r in beyond(step, variable, verified_fix.feedback.program)]
        for _, fix in ranked(step, onward)[:ONWARD]:
            calls = (*verified_fix.fix.calls, *fix.calls)
            longer = replace(verified_fix.fix, calls=calls)
            feedback = carried_out(step, longer)
            if finds(feedback) and _named(feedback, verified_fix) and _leads_on(step, longer, feedback):
                return VerifiedFix(longer, preview(step, longer, feedback), verified_fix.score, feedback)
    return verified_fix


def _unnamed(feedback: Feedback) -> list[str]:
    """Variables that hold only nodes without a name."""
    return [v for v, names in feedback.values.items() if names and set(names) == {UNNAMED}]


def _named(feedback: Feedback, verified_fix: VerifiedFix) -> bool:
    """Whether some variable that an verified_fix did not bind has values with names."""
    new = [v for v in feedback.values if v not in verified_fix.feedback.values]
    return any(name != UNNAMED for v in new for name in feedback.values[v])


def _leads_on(step: FailedStep, fix: Fix, feedback: Feedback) -> bool:
    """Whether several calls in a row reach anything but the nodes that they and the program start from."""
    if len(fix.calls) < 2:
        return True
    start = {
        step.kg.profile.short(e)
        for f in step.program.facts()
        for e in (f.subject, f.object)
        if isinstance(e, IRI)
    }
    start |= {a for call in fix.calls for a in call.arguments}
    ids = {i for a in fix.calls[-1].arguments for i in feedback.ids.get(a[1:], ())}
    return not ids or bool(ids - start)
