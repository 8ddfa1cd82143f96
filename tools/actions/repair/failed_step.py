"""What fixes are made from: the step that failed, and the kinds of fix that serve it.

A kind of fix is a function from a `FailedStep` to candidate `Fix`s, registered under the codes and outcomes
it serves; nothing but the registration has to be added for a new kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from triplewise.tools.actions.repair.budget import QueryBudget, SpentError
from triplewise.tools.actions.toolset import ActionContext, ReasoningMemory, Toolset
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.program import fresh
from triplewise.tools.pyql.text import read_iri, read_variable
from triplewise.tools.retrieval.encoder import Encoder

SEEN = 200
"""Nodes of past observations whose names are compared with a label at most."""


def nearness(text: str, other: str) -> float:
    """How alike two names are by their letters, 0 to 1."""
    one, two = normalise(text), normalise(other)
    return similarity(one, two) if one and two else 0.0


class TextSimilarity:
    """Compares texts with a question by vectors, or by their letters where there is no encoder.

    The encoder keeps the vectors of texts it has seen, so nothing is embedded twice.
    """

    def __init__(self, question: str, encoder: Encoder | None = None) -> None:
        self.question, self._encoder = question, encoder

    def to_question(self, texts: Sequence[str]) -> list[float]:
        """Of each text to the question."""
        return self.between(self.question, texts)

    def between(self, text: str, texts: Sequence[str]) -> list[float]:
        """Of each text to one text: a cosine, or the similarity of their letters."""
        if not text.strip() or not texts:
            return [0.0] * len(texts)
        if self._encoder is None:
            return [nearness(text, other) for other in texts]
        vectors = self._encoder.encode([text, *texts])
        return [float(x) for x in np.asarray(vectors[1:] @ vectors[0])]


@dataclass(frozen=True, slots=True)
class Fix:
    """What might have been meant: one call, or a few in a row.

    Attributes:
        kind: name of the kind of fix it is.
        calls: to be made one after the other in place of the failed one.
        relation: short id of the relation that its similarity is judged by, "" if it has none.
        prior: how likely this kind is right wherever it finds something, on the scale of a cosine.
    """

    kind: str
    calls: tuple[Call, ...]
    relation: str = ""
    prior: float = 0.0

    def text(self) -> str:
        """The calls as the agent would write them."""
        return ", then ".join(call.text() for call in self.calls)


class Around(NamedTuple):
    """Relations that leave and that arrive at a node, as short ids."""

    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()


@dataclass
class FailedStep:
    """A step that failed, with all that is known for mending it.

    Attributes:
        context: the workbench before the step: its program does not hold the failed action, its memory does not
            know it, and its KG is an `QueryBudget`.
        feedback: what the environment said of the step.
        toolset: the actions there are.
        similarity: compares texts with the question.
    """

    context: ActionContext
    kg: QueryBudget
    feedback: Feedback
    toolset: Toolset
    similarity: TextSimilarity

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

    def call(self, *arguments: str, name: str = "") -> Call:
        """A call of the failed action, or of another one, with other arguments."""
        return Call(name or self.action, arguments)

    def with_argument(self, place: int, value: str) -> Call:
        """The failed call with another argument at one place."""
        return Call(self.action, (*self.args[:place], value, *self.args[place + 1 :]))

    def is_new(self, form: str) -> bool:
        """Whether a form is a variable that nothing binds yet."""
        return form.startswith("?") and form not in self.bound

    def is_node(self, form: str) -> bool:
        """Whether a form is an entity (not a variable, not a literal)."""
        return not form.startswith(("?", '"', "'")) and read_iri(form, self.kg.profile) is not None

    def new_variable(self, name: str = "x") -> str:
        """A variable that neither the program nor the failed call names."""
        taken = {v[1:] for v in (*self.bound, *self.args) if v.startswith("?")}
        taken |= {v.name for v in self.program.local_variables}
        return f"?{fresh(name.lstrip('?') or 'x', taken)}"

    def around(self, node: str) -> Around:
        """Relations of an entity or a bound variable: as offered before, else asked from the KG."""
        if node in self.memory.looked_up:
            offered = self.memory.looked_up[node]
            return Around(tuple(offered.get("forward", ())), tuple(offered.get("backward", ())))
        return self.relations(node, self.program)

    def relations(self, node: str, program: PyQL) -> Around:
        """Relations of an entity, or of a variable of a program, asked from the KG."""
        term = self._term(node)
        where = program.where(self.kg.profile) if isinstance(term, Variable) else ""
        if term is None or (isinstance(term, Variable) and term not in program.variables):
            return Around()
        found = self.kg.relations(term, where)
        short = self.kg.profile.short
        return Around(tuple(map(short, found.forward)), tuple(map(short, found.backward)))

    def _term(self, node: str) -> IRI | Variable | None:
        if not node.startswith("?"):
            return read_iri(node, self.kg.profile)
        try:
            return read_variable(node)
        except ActionError:
            return None

    def texts(self, relations: Iterable[str]) -> dict[str, str]:
        """How relations read."""
        wanted = list(dict.fromkeys(relations))
        if self.kg.profile.relation_text == "dotted":  # such ids read by themselves
            terms = {r: self.kg.profile.expand(r, relation=True) for r in wanted}
            return {r: self.kg.profile.relation_label(iri).label if iri else r for r, iri in terms.items()}
        return {r: text.label for r, text in relation_texts(self.kg, wanted).items()}


Maker = Callable[[FailedStep], Iterator[Fix]]


class _Kind(NamedTuple):
    """A registered kind of fix."""

    name: str
    causes: frozenset[str]
    actions: frozenset[str]
    make: Maker


KINDS: dict[str, _Kind] = {}
"""Kinds of fix by name, in the order they were registered."""


def kind(name: str, causes: Iterable[str], actions: Iterable[str] = ()) -> Callable[[Maker], Maker]:
    """Register a function as a kind of fix.

    Args:
        name: what the kind is called in records.
        causes: interpreter codes and KB outcomes that it serves (`empty`, `bad_relation`, ...).
        actions: only for these actions; none: for any.
    """

    def register(make: Maker) -> Maker:
        KINDS[name] = _Kind(name, frozenset(causes), frozenset(actions), make)
        return make

    return register


def candidates(step: FailedStep) -> list[Fix]:
    """All fixes that any kind proposes, each once, without what has failed before; not yet tried."""
    dead = {*step.memory.failed, Call(step.action, step.feedback.arguments).text()}
    found: dict[tuple[Call, ...], Fix] = {}
    for one in KINDS.values():
        if step.cause not in one.causes or (one.actions and step.action not in one.actions):
            continue
        # A kind that would need more queries than are left gives way to the ones that need none.
        with suppress(SpentError):
            for fix in one.make(step):
                if fix.calls and fix.calls[0].text() not in dead:
                    found.setdefault(fix.calls, replace(fix, kind=one.name))
    return list(found.values())


EMPTY = str(Outcome.EMPTY)
FOUND = (str(Outcome.ROWS), str(Outcome.TRUNCATED))
