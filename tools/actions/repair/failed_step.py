"""What fixes are made from: the step that failed, and the kinds of fix that serve it.

A kind of fix is a function from a `FailedStep` to candidate `Fix`es, registered under the codes and outcomes
it serves; nothing but the registration has to be added for a new kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, ReasoningMemory, Toolset
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Layer, Outcome, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import PyQL, fresh
from triplewise.tools.pyql.text import read_iri, read_variable
from triplewise.tools.retrieval.encoder import Encoder

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

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one query, or return the result it had before. Raises `SpentError` where none is left."""
        key = (sparql, limit)
        if key not in self._results:
            if self.left < 1:
                raise SpentError(f"no query is left of {self.budget}")
            seconds = self.timeout if timeout is None else min(timeout, self.timeout)
            with self.origin.meter.block() as meter:
                result = self._results[key] = self.origin.query(sparql, timeout=seconds, limit=limit)
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


Around = tuple[Sequence[str], Sequence[str]]
"""Relations that leave and that arrive at a node, as short ids."""


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

    def new_variable(self, name: str = "x", besides: Iterable[str] = ()) -> str:
        """Return a variable that neither the program nor the failed call names."""
        taken = {v[1:] for v in (*self.bound, *self.args, *besides) if v.startswith("?")}
        taken |= {v.name for v in self.program.local_variables}
        return f"?{fresh(name.lstrip('?') or 'x', taken)}"

    def around(self, node: str, program: PyQL | None = None) -> Around:
        """Return relations of an entity or a bound variable: as offered before, else asked from the KG.

        program: asks for a variable of another program than the step's own.
        """
        if program is None and (offered := self.memory.looked_up.get(node)):
            return offered.get("forward", ()), offered.get("backward", ())
        program, profile = program or self.program, self.kg.profile
        try:
            term = read_variable(node) if node.startswith("?") else read_iri(node, profile)
        except ActionError:
            term = None
        if term is None or (isinstance(term, Variable) and term not in program.variables):
            return (), ()
        result = self.kg.relations(term, program.where(profile) if isinstance(term, Variable) else "")
        return tuple(map(profile.short, result.forward)), tuple(map(profile.short, result.backward))

    def beyond(self, variable: str, program: PyQL) -> list[Fix]:
        """Return facts that lead on from a variable of a program to something new."""
        forward, backward = self.around(variable, program)
        new = self.new_variable(besides=[v.n3() for v in program.variables])
        onward = [Fix((Call("add_fact", (variable, r, new)),), r) for r in forward]
        return onward + [Fix((Call("add_fact", (new, r, variable)),), r) for r in backward]

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


Maker = Callable[[FailedStep], Iterator[Fix]]
KINDS: list[tuple[Maker, frozenset[str], frozenset[str]]] = []
"""Kinds of fix with the causes and actions they serve, in the order they were registered."""


def kind(causes: Iterable[str], actions: Iterable[str] = ()) -> Callable[[Maker], Maker]:
    """Register a function as a kind of fix.

    Args:
        causes: interpreter codes and KB outcomes that it serves (`empty`, `bad_relation`, ...).
        actions: only for these actions; none: for any.
    """

    def register(make: Maker) -> Maker:
        KINDS.append((make, frozenset(causes), frozenset(actions)))
        return make

    return register
