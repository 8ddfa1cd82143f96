"""Trying mends on the KG: only those that find something are offered, the most likely first.

One query tests many mends that change the pattern; those that hold are then really carried out, on the
program before the failed step. A time-out, or an engine that cannot be reached, says nothing of a mend: it
stays untried.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from triplewise.tools.actions.action import Workbench
from triplewise.tools.actions.repair.budget import Allowance, SpentError
from triplewise.tools.actions.repair.facts import beyond
from triplewise.tools.actions.repair.failed_step import Mend, Trouble, candidates
from triplewise.tools.actions.repair.similarity import Likeness
from triplewise.tools.actions.show import UNNAMED, relation_names
from triplewise.tools.actions.toolset import Toolset
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError, KGUnavailableError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.clauses import Fact, Filter, Typed
from triplewise.tools.pyql.program import fresh
from triplewise.tools.pyql.script import BUILDERS, apply
from triplewise.tools.retrieval.encoder import Encoder

PROBED = 24
"""Mends that one query tests at once."""
TO_QUESTION, TO_FAILED = 0.6, 0.4
"""What likeness to the question and to the failed relation weigh."""
SURE, GAP = 0.5, 0.35
"""Behind a mend of such a prior that finds something, what is so much less likely is not worth a query."""
SHOWN = 3
"""Values shown of what a mend finds."""
ONWARD = 3
"""Relations tried to look through nodes without a name, and the queries that must be left for it."""
ONWARD_QUERIES = 4


@dataclass(frozen=True, slots=True)
class Offer:
    """A mend that was carried out and finds something.

    Attributes:
        mend: what to do.
        finds: a preview of what it finds, with labels.
        score: how likely it is meant, for comparing offers with each other.
        feedback: what the environment said of its last call.
    """

    mend: Mend
    finds: str
    score: float
    feedback: Feedback

    def text(self) -> str:
        """E.g. `add_fact(?x, P36, Q1) -> ?x: Japan`."""
        return f"{self.mend.text()} -> {self.finds}"


@dataclass(frozen=True, slots=True)
class Mended:
    """What came of trying to mend a step.

    Attributes:
        offers: mends that find something, best first.
        proposed: how many mends were thought of.
        empty: how many of them are known to find nothing.
        untried: how many the KG said nothing of, for want of queries, time, or an answer.
        queries: how many it took.
    """

    offers: tuple[Offer, ...] = ()
    proposed: int = 0
    empty: int = 0
    untried: int = 0
    queries: int = 0


def mended(
    bench: Workbench,
    toolset: Toolset,
    feedback: Feedback,
    *,
    budget: int,
    most: int,
    encoder: Encoder | None = None,
) -> Mended:
    """Mends of a failed step that find something on the KG.

    Args:
        bench: the workbench before the step: program and memory without it.
        toolset: the actions there are.
        feedback: what the environment said of the step.
        budget: KG queries that all of this may take.
        most: mends to offer.
        encoder: compares relations with the question; None compares letters.
    """
    kg = Allowance(bench.kg, budget)
    trouble = Trouble(replace(bench, kg=kg), kg, feedback, toolset, Likeness(bench.question, encoder))
    proposed = [m for m in candidates(trouble) if _changes(trouble, m)]
    if not proposed:
        return Mended(queries=kg.used)
    found = verified(trouble, ranked(trouble, proposed), most)
    return replace(found, proposed=len(proposed), queries=kg.used)


def ranked(trouble: Trouble, mends: Sequence[Mend]) -> list[tuple[float, Mend]]:
    """Mends with their scores, best first; equal ones keep their order."""
    relations = list(dict.fromkeys(m.relation for m in mends if m.relation))
    like = _relation_scores(trouble, relations)
    scored = [(m.prior + like.get(m.relation, 0.0), m) for m in mends]
    return sorted(scored, key=lambda s: -round(s[0], 6))


def _relation_scores(trouble: Trouble, relations: Sequence[str]) -> dict[str, float]:
    """How like each relation is to the question and to the relation that failed."""
    failed = trouble.args[1] if trouble.action == "add_fact" and len(trouble.args) == 3 else ""
    texts = {r: r for r in (*relations, failed)}
    with suppress(SpentError):
        texts |= trouble.texts(r for r in texts if r)
    wanted = [texts[r] for r in relations]
    asked = trouble.likeness.to_question(wanted)
    meant = trouble.likeness.between(texts[failed], wanted)
    return {r: TO_QUESTION * q + TO_FAILED * f for r, q, f in zip(relations, asked, meant, strict=True)}


def verified(trouble: Trouble, mends: Sequence[tuple[float, Mend]], most: int) -> Mended:
    """Try mends on the KG, in order, until enough of them find something."""
    left, empty = _probed(trouble, list(mends))
    offers: list[Offer] = []
    tried = 0
    with suppress(SpentError, KGUnavailableError):
        for score, mend in left:
            if len(offers) >= most or (offers and _outdone(offers[0], score)):
                break
            feedback = carried_out(trouble, mend)
            tried += 1
            if finds(feedback):
                offers.append(
                    _onward(trouble, Offer(mend, preview(trouble, mend, feedback), score, feedback))
                )
            else:
                empty += feedback.outcome == Outcome.EMPTY
    # What ends at nodes without a name is at best half the way.
    offers.sort(key=lambda o: set(_unnamed(o.feedback)) >= set(o.feedback.values) != set())
    return Mended(tuple(offers), len(mends), empty, max(len(mends) - empty - len(offers), 0))


def _changes(trouble: Trouble, mend: Mend) -> bool:
    """Whether a mend adds anything to the program: a fact that stands there already mends nothing."""
    after = _pattern_after(trouble, mend, whatever=True)
    return after is None or after != trouble.program


def _outdone(best: Offer, score: float) -> bool:
    """Whether the best offer leaves nothing to look for below it."""
    return best.mend.prior >= SURE and score < best.score - GAP and not _unnamed(best.feedback)


def _probed(trouble: Trouble, mends: list[tuple[float, Mend]]) -> tuple[list[tuple[float, Mend]], int]:
    """The mends that are left once one query has tested those that change the pattern, and how many fell."""
    programs = {i: p for i, (_, mend) in enumerate(mends) if (p := _pattern_after(trouble, mend)) is not None}
    tested = list(programs)[:PROBED]
    if len(tested) < 2:
        return mends, 0
    try:
        holding = _holding(trouble, {i: programs[i] for i in tested})
    except SpentError:
        return mends, 0
    if holding is None:
        return mends, 0
    # What was not tested waits behind what was.
    alive = [m for i, m in enumerate(mends) if i in holding or i not in programs]
    waiting = [mends[i] for i in programs if i not in tested]
    return [*alive, *waiting], len(tested) - len(holding)


def _holding(trouble: Trouble, programs: dict[int, PyQL]) -> set[int] | None:
    """Which of several programs have a solution, with one query; None if the engine could not say."""
    taken = {v.name for p in programs.values() for v in (*p.variables, *p.local_variables)}
    mark = f"?{fresh('mend', taken)}"
    alternatives = (
        f"{{ SELECT ({i} AS {mark}) WHERE {{ {program.where(trouble.kg.profile)} }} LIMIT 1 }}"
        for i, program in programs.items()
    )
    result = trouble.kg.query(f"SELECT {mark} WHERE {{ {' UNION '.join(alternatives)} }}")
    if not result.outcome.ok or result.outcome is Outcome.TRUNCATED:
        return None
    return {int(value.value) for (value,) in result.rows if isinstance(value, Literal)}


def _pattern_after(trouble: Trouble, mend: Mend, whatever: bool = False) -> PyQL | None:
    """The program after a mend where it only adds facts, types, plain filters, or `whatever`; else None."""
    try:
        after = _applied(trouble, mend.calls)
    except ActionError:
        return None
    if whatever:
        return after
    added = after.clauses[len(trouble.program.clauses) :]
    plain = all(
        isinstance(c, Fact | Typed) or (isinstance(c, Filter) and isinstance(c.right, IRI)) for c in added
    )
    return after if added and plain else None


def _applied(trouble: Trouble, calls: Sequence[Call]) -> PyQL:
    """The program after some construct actions. Raises `ActionError` for what cannot be added."""
    program = trouble.program
    for call in calls:
        if call.name not in BUILDERS:
            raise ActionError("unknown_action", f"{call.name} does not extend a program")
        program = apply(program, call.name, call.arguments, trouble.kg.profile)
    return program


def carried_out(trouble: Trouble, mend: Mend) -> Feedback:
    """What the environment says of the last call of a mend, the earlier ones taken as made.

    Raises:
        SpentError: the budget does not allow it.
    """
    bench = trouble.bench
    if len(mend.calls) > 1:
        try:
            before = _applied(trouble, mend.calls[:-1])
        except ActionError as error:
            return Feedback(error=error.code, message=error.message)
        bench = replace(bench, program=before.text(trouble.kg.profile))
    feedback = trouble.toolset.execute(bench, mend.calls[-1])
    return _answered(trouble, feedback)


def _answered(trouble: Trouble, feedback: Feedback) -> Feedback:
    """A yes/no question whose answer would be no finds nothing, whatever its preview says."""
    if feedback.error or feedback.values or feedback.outcome != Outcome.ROWS or not feedback.program:
        return feedback
    try:
        program = PyQL.parse(feedback.program, trouble.kg.profile)
    except ActionError:
        return feedback
    if not program.boolean or not program.clauses:
        return feedback
    result = trouble.kg.query(program.sparql(trouble.kg.profile))
    return feedback if result.boolean else replace(feedback, outcome=Outcome.EMPTY)


def finds(feedback: Feedback) -> bool:
    """Whether an action could be carried out and found something."""
    return not feedback.error and feedback.outcome in (Outcome.ROWS, Outcome.TRUNCATED)


def preview(trouble: Trouble, mend: Mend, feedback: Feedback) -> str:
    """What a mend finds, in a few words: values of the variables it names, relations, or yes."""
    if feedback.relations:
        names = [r for side in feedback.relations.values() for r in side]
        return _listed(relation_names(trouble.kg.kg, names[:SHOWN]), len(names))
    named = [a[1:] for a in mend.calls[-1].arguments if a.startswith("?")]
    shown = [v for v in dict.fromkeys((*reversed(named), *feedback.values)) if feedback.values.get(v)]
    if not shown:
        return feedback.observation
    new = [v for v in shown if f"?{v}" not in trouble.bound and v in named] or shown[:1]
    new = [v for v in new if v not in _unnamed(feedback)] or new
    return "; ".join(f"?{v}: {_listed(feedback.values[v], len(feedback.ids.get(v, ())))}" for v in new)


def _listed(names: Sequence[str], count: int) -> str:
    """The first few names, with dots where there are more."""
    more = max(len(names), count) > SHOWN
    return ", ".join(names[:SHOWN]) + (", ..." if more else "")


def _onward(trouble: Trouble, offer: Offer) -> Offer:
    """An offer that finds only nodes without a name, with the fact that leads to what lies behind them."""
    new = [v for v in _unnamed(offer.feedback) if f"?{v}" not in trouble.bound]
    if not new or offer.mend.calls[-1].name != "add_fact" or trouble.kg.left < ONWARD_QUERIES:
        return offer
    with suppress(SpentError, ActionError):
        variable = f"?{new[0]}"
        onward = [Mend("", (c,), r) for c, r in beyond(trouble, variable, offer.feedback.program)]
        for _, mend in ranked(trouble, onward)[:ONWARD]:
            calls = (*offer.mend.calls, *mend.calls)
            longer = replace(offer.mend, calls=calls)
            feedback = carried_out(trouble, longer)
            if finds(feedback) and _named(feedback, offer) and _leads_on(trouble, longer, feedback):
                return Offer(longer, preview(trouble, longer, feedback), offer.score, feedback)
    return offer


def _unnamed(feedback: Feedback) -> list[str]:
    """Variables that hold only nodes without a name."""
    return [v for v, names in feedback.values.items() if names and set(names) == {UNNAMED}]


def _named(feedback: Feedback, offer: Offer) -> bool:
    """Whether some variable that an offer did not bind has values with names."""
    new = [v for v in feedback.values if v not in offer.feedback.values]
    return any(name != UNNAMED for v in new for name in feedback.values[v])


def _leads_on(trouble: Trouble, mend: Mend, feedback: Feedback) -> bool:
    """Whether several calls in a row reach anything but the nodes that they and the program start from."""
    if len(mend.calls) < 2:
        return True
    start = {
        trouble.kg.profile.short(e)
        for f in trouble.program.facts()
        for e in (f.subject, f.object)
        if isinstance(e, IRI)
    }
    start |= {a for call in mend.calls for a in call.arguments}
    ids = {i for a in mend.calls[-1].arguments for i in feedback.ids.get(a[1:], ())}
    return not ids or bool(ids - start)
