"""What may have been meant by a step that failed: candidates of fixes, of the kinds in `KINDS`.

A fact turned around, another relation of the same node, a mediator put in between, an id for a name, another
variable: a kind is a function from a `FailedStep` to `Fix`es.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, ReasoningMemory, Toolset
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Layer, Outcome, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import PyQL, fresh
from triplewise.tools.pyql.text import read_iri, read_variable, write_iri
from triplewise.tools.retrieval.encoder import Encoder

EMPTY = str(Outcome.EMPTY)
SURE, LIKELY = 0.5, 0.25
"""Priors: a turned fact that finds something is nearly always right, another relation is one among many."""
FIRST_HOPS = 10
"""Relations tried as the way to a mediator that the agent left out."""
PLANNED = 0.15
"""What it adds that a verified rule of the plan uses the relation."""
SHARED = 0.15
"""What it adds that two relations share their domain or their last part."""
LEAST = 0.6
"""Names less alike than this are not taken for slips of one another."""
INDEXED = 3
"""Nodes that the label index may offer for one name."""
NAME = 0.5
"""Weight of a name beside whatever else speaks for a fix."""
PATIENCE = 5.0
"""Seconds that one query of a correction may take at most."""
TIMEOUTS = 2
"""So many time-outs end the trying: what is left would most likely time out too."""
SEEN = 200
"""Nodes of past observations whose names are compared with a label at most."""


class SpentError(Exception):
    """The budget is spent, or the KG does not answer: what was not tried yet stays untried."""


class QueryBudget(Layer):
    """A KG that asks the one below at most `budget` queries, each once; one more raises `SpentError`.

    Corrections must stay cheap and may never hang a run. Queries count for the meter of the KG below too.
    """

    def __init__(self, origin: KnowledgeGraph, budget: int) -> None:
        super().__init__(origin)
        self.budget, self.used = budget, 0
        self.timeout = min(origin.timeout, PATIENCE)
        self._labels = origin._labels
        self._failures: dict[Outcome, int] = {}
        self._results: dict[tuple[str, int | None], Result] = {}

    @property
    def shared(self) -> KnowledgeGraph:  # type: ignore[override]
        """The KG below: what is kept for it (texts of relations) holds for this one too."""
        return self.origin.shared

    @property
    def left(self) -> int:
        """Queries left; 0 once the KG has stopped answering."""
        failures = self._failures
        lost = failures.get(Outcome.UNAVAILABLE, 0) or failures.get(Outcome.TIMEOUT, 0) >= TIMEOUTS
        return 0 if lost else self.budget - self.used

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one query, or return the result it had before. Raises `SpentError` where none is left."""
        key = (sparql, limit)
        if key not in self._results:
            if self.left < 1:
                raise SpentError(f"no query is left of {self.budget}")
            seconds = self.timeout if timeout is None else min(timeout, self.timeout)
            with self.origin.meter.block() as meter:
                result = self._results[key] = self.origin.query(
                    sparql, timeout=seconds, limit=limit, foreign=foreign
                )
            self.used += meter.queries
            if not result.outcome.ok:
                self._failures[result.outcome] = self._failures.get(result.outcome, 0) + 1
        return self._results[key]

    def close(self) -> None:
        """The KG below belongs to others: nothing is closed."""


def name_similarity(text: str, other: str) -> float:
    """Return how alike two names are by their letters, 0 to 1."""
    one, two = normalise(text), normalise(other)
    return similarity(one, two) if one and two else 0.0


@dataclass(frozen=True, slots=True)
class Fix:
    """What might have been meant: one call, or a few in a row.

    Attributes:
        calls: to be made one after the other in place of the failed one.
        relation: short id of the relation that its similarity is judged by, "" if it has none.
        prior: how likely this kind is right wherever it finds something, on the scale of a cosine.
    """

    calls: tuple[Call, ...]
    relation: str = ""
    prior: float = 0.0

    def text(self) -> str:
        """Return the calls as the agent would write them."""
        return ", then ".join(call.text() for call in self.calls)


@dataclass
class FailedStep:
    """A step that failed, with all that is known for fixing it.

    Attributes:
        context: what actions had before the step: its program does not hold the failed action, its memory
            does not know it, and its KG is `kg`.
        feedback: what the environment said of the step.
        toolset: the actions there are.
        encoder: compares texts by vectors; None compares their letters.
    """

    context: ActionContext
    kg: QueryBudget
    feedback: Feedback
    toolset: Toolset
    encoder: Encoder | None = None

    @property
    def action(self) -> str:
        """The action that failed."""
        return self.feedback.action

    @property
    def memory(self) -> ReasoningMemory:
        """The reasoning memory before the step."""
        return self.context.memory

    @property
    def cause(self) -> str:
        """The interpreter's code, or else the outcome of the query."""
        return self.feedback.error or str(self.feedback.outcome)

    @cached_property
    def args(self) -> tuple[str, ...]:
        """The arguments as written, without surrounding space."""
        return tuple(a.strip() for a in self.feedback.arguments)

    @property
    def fact(self) -> tuple[str, ...]:
        """Subject, relation and object, where the arguments are a triple or a comparison; else ()."""
        return self.args if len(self.args) == 3 else ()

    @cached_property
    def program(self) -> PyQL:
        """The program before the step; empty where it cannot be read."""
        try:
            return PyQL.parse(self.context.program, self.kg.profile)
        except ActionError:
            return PyQL()

    @cached_property
    def bound(self) -> tuple[str, ...]:
        """Variables that the program binds, newest last."""
        return tuple(v.n3() for v in self.program.variables)

    @cached_property
    def known(self) -> dict[str, str]:
        """Short ids that were linked or seen, with their names."""
        linked = dict(self.memory.linked)
        seen = sorted(i for i in self.memory.seen if i not in linked)[:SEEN]
        terms = {i: iri for i in seen if (iri := read_iri(i, self.kg.profile)) is not None}
        labels = self.kg.labels(terms.values()) if terms else {}
        return linked | {i: labels.get(iri, i) for i, iri in terms.items()}

    def fix(self, *arguments: str, relation: str = "", prior: float = 0.0) -> Fix:
        """Return a fix: the failed action with other arguments."""
        return Fix((Call(self.action, arguments),), relation, prior)

    def with_argument(self, place: int, value: str, relation: str = "", prior: float = 0.0) -> Fix:
        """Return a fix: the failed call with another argument at one place."""
        return self.fix(*self.args[:place], value, *self.args[place + 1 :], relation=relation, prior=prior)

    def is_new(self, form: str) -> bool:
        """Whether a form is a variable that nothing binds yet."""
        return form.startswith("?") and form not in self.bound

    def around(self, node: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return relations that leave and arrive at an entity or a bound variable, as short ids.

        As they were offered before, else as the KG has them.
        """
        if offered := self.memory.looked_up.get(node):
            return offered.get("forward", ()), offered.get("backward", ())
        profile = self.kg.profile
        try:
            term = read_variable(node) if node.startswith("?") else read_iri(node, profile)
        except ActionError:
            term = None
        if term is None or (isinstance(term, Variable) and term not in self.program.variables):
            return (), ()
        result = self.kg.relations(term, self.program.where(profile) if isinstance(term, Variable) else "")
        return tuple(map(profile.short, result.forward)), tuple(map(profile.short, result.backward))

    def relation_names(self, relations: Iterable[str]) -> dict[str, str]:
        """Return how relations read."""
        ids, profile = list(dict.fromkeys(relations)), self.kg.profile
        if profile.relation_text == "dotted":  # such ids read by themselves
            terms = {r: profile.expand(r, relation=True) for r in ids}
            return {r: profile.relation_label(iri).label if iri else r for r, iri in terms.items()}
        return {r: text.label for r, text in relation_texts(self.kg, ids).items()}

    def similarity(self, text: str, texts: Sequence[str]) -> list[float]:
        """Return the similarity of each text to one: a cosine, or by their letters."""
        if not text.strip() or not texts:
            return [0.0] * len(texts)
        if self.encoder is None:
            return [name_similarity(text, other) for other in texts]
        vectors = self.encoder.encode([text, *texts])
        return [float(x) for x in np.asarray(vectors[1:] @ vectors[0])]


def _is_literal(form: str) -> bool:
    return form.startswith(('"', "'"))


def swapped(step: FailedStep) -> Iterator[Fix]:
    """The same fact in the other direction."""
    if step.fact and not _is_literal(step.fact[2]):
        subject, relation, object_ = step.fact
        yield step.fix(object_, relation, subject, relation=relation, prior=SURE)


def sibling(step: FailedStep) -> Iterator[Fix]:
    """Another relation of the subject or the object, in the direction in which it is there."""
    if not step.fact:
        return
    subject, failed, object_ = step.fact
    for node, other in ((subject, object_), (object_, subject)):
        if step.is_new(node) or _is_literal(node):
            continue
        for forward, relations in zip((True, False), step.around(node), strict=True):
            for relation in relations:
                same = relation == failed and forward == (node == subject)
                if same or (not forward and _is_literal(other)):
                    continue
                ends = (node, relation, other) if forward else (other, relation, node)
                prior = _shared_parts(failed, relation) + PLANNED * (relation in step.memory.planned)
                yield step.fix(*ends, relation=relation, prior=prior)
        if step.is_new(other):
            return


def _shared_parts(relation: str, other: str) -> float:
    """Return what shared parts of their ids speak for two relations."""
    one, two = (r.replace("/", ".").replace(":", ".").split(".") for r in (relation, other))
    if min(len(one), len(two)) < 2:
        return 0.0
    return SHARED * (one[-1] == two[-1] or one[:-1] == two[:-1]) + SHARED / 3 * (one[0] == two[0])


def mediated(step: FailedStep) -> Iterator[Fix]:
    """The relation belongs to a mediator (CVT, statement) in between, and the way to it was left out."""
    profile = step.kg.profile
    if not step.fact or not (profile.mediator_patterns or profile.unlabelled_is_mediator):
        return
    subject, relation, object_ = step.fact
    anchor, other = (object_, subject) if step.is_new(subject) else (subject, object_)
    if step.is_new(anchor) or _is_literal(anchor):
        return
    taken = {v.name for v in (*step.program.variables, *step.program.local_variables)}
    node, (forward, backward) = f"?{fresh('node', taken | {other[1:]})}", step.around(anchor)
    first = [(r, Call("add_fact", (anchor, r, node))) for r in forward]
    first += [(r, Call("add_fact", (node, r, anchor))) for r in backward]
    last = relation.split(".")[-1]
    first.sort(key=lambda h: -_shared_parts(relation, h[0]) - name_similarity(last, h[0].split(".")[-1]))
    for way, call in first[:FIRST_HOPS]:
        second = Call("add_fact", (node, relation, other))
        yield Fix((call, second), relation, LIKELY + _shared_parts(relation, way))


def variable_meant(step: FailedStep) -> Iterator[Fix]:
    """A bound variable in place of one that nothing binds, the most alike first."""
    if step.action not in step.toolset:
        return
    kinds = [p.kind for p in step.toolset.action(step.action).parameters]
    for place, form in enumerate(step.args):
        due = kinds[min(place, len(kinds) - 1)] if kinds else ""
        unbound = form.startswith("?") and form not in step.bound
        if not (unbound or (due == "variable" and not form.startswith("?"))):
            continue
        for age, variable in enumerate(reversed(step.bound)):
            prior = NAME * name_similarity(variable, form) + 0.05 / (age + 1)
            yield step.with_argument(place, variable, prior=prior)


def entity_meant(step: FailedStep) -> Iterator[Fix]:
    """The id of the known or indexed node whose name was written, or was written with a slip."""
    if step.action == "add_filter" and step.cause == EMPTY:
        return
    relation = step.args[1] if step.action == "add_fact" and step.fact else ""
    for place, form in enumerate(step.args):
        if form.startswith("?") or form in step.known or (relation and place == 1):
            continue
        name, scores = form.strip("'\""), dict[str, float]()
        for node, label in step.known.items():
            if (score := max(name_similarity(name, node), name_similarity(name, label))) >= LEAST:
                scores[node] = score
        nodes = sorted(scores.items(), key=lambda s: (-s[1], s[0]))[:INDEXED]
        if not nodes:
            indexed = step.kg.names.search(name, INDEXED)
            nodes = [(write_iri(c.iri, step.kg.profile), c.score * 0.8) for c in indexed]
        for node, score in nodes:
            yield step.with_argument(place, node, relation, 0.3 + NAME * score)


def action_meant(step: FailedStep) -> Iterator[Fix]:
    """The action with the nearest name that takes so many arguments."""
    count, best = len(step.args), dict[str, float]()
    for action in step.toolset.actions.values():
        if action.required <= count and (action.variadic or count <= len(action.parameters)):
            names = (action.name, *action.aliases)
            best[action.name] = max(name_similarity(step.action, name) for name in names)
    name, alike = max(best.items(), key=lambda b: b[1], default=("", 0.0))
    if alike >= LEAST:
        yield Fix((Call(name, step.args),), prior=alike)


def answer_variable(step: FailedStep) -> Iterator[Fix]:
    """Which variable to return: another one than one that was objected to, the newest first."""
    for age, variable in enumerate(reversed(step.bound)):
        if variable not in step.args:
            yield Fix((Call("set_answer", (variable,)),), prior=0.1 / (age + 1))


_FACT = frozenset({"add_fact"})
KINDS: Sequence[tuple[Callable[[FailedStep], Iterator[Fix]], Collection[str], Collection[str]]] = (
    (swapped, {EMPTY, "bad_subject"}, _FACT),
    (sibling, {EMPTY, "bad_relation"}, _FACT),
    (mediated, {EMPTY}, _FACT),
    (variable_meant, {"unknown_variable", "bad_variable", "max_not_variable"}, ()),
    (entity_meant, {EMPTY, "bad_subject", "bad_object", "unknown_entity", "bad_type"}, ()),
    (action_meant, {"unknown_action"}, ()),
    (answer_variable, {"execute_before_answer"}, ()),
    (answer_variable, {str(Outcome.ROWS), str(Outcome.TRUNCATED)}, {"set_answer"}),
)
"""Kinds of fix with the interpreter codes or KB outcomes, and the actions (none: any) that they serve."""


def candidates(step: FailedStep) -> list[Fix]:
    """Return all fixes that any kind proposes, each once, without what failed on this program."""
    failed = {*step.memory.doubted, Call(step.action, step.feedback.arguments).text()}
    fixes: dict[tuple[Call, ...], Fix] = {}
    for make, causes, actions in KINDS:
        if step.cause not in causes or step.action not in (actions or {step.action}):
            continue
        # A kind that would need more queries than are left gives way to the ones that need none.
        with suppress(SpentError, QueryFailedError):
            for fix in make(step):
                if fix.calls[0].text() not in failed:
                    fixes.setdefault(fix.calls, fix)
    return list(fixes.values())
