"""KB-BINDER's binders (section 3): from the names of a draft to entities and relations that the graph has.

An entity is bound to the linked entity of that name, else to the nodes whose labels are most like it. A
relation is bound to one of those around the node it is drafted at, ordered by BM25 and by the likeness of
vectors; the published code orders all relations within two hops of the entity. Several candidates of each go
on as a beam, and the bound programs are tried in order until one finds something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from triplewise.evals.baselines.drafts import Draft
from triplewise.tools.actions.compare import compared
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal, Node, Variable
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.pyql import PyQL
from triplewise.tools.pyql.script import apply
from triplewise.tools.pyql.text import (
    read_bare,
    read_literal,
    read_relation,
    read_term,
    read_variable,
    write_node,
)
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.relation_ranking import rank_relations
from triplewise.tools.retrieval.vectors import vectors_of

LIKE = 0.6
"""Least likeness (0 to 1) of a linked entity's name to the one that a draft has for it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A draft bound to the graph, as far as it goes.

    Attributes:
        program: the query. cost: how far down its candidates stand, added up.
        taken: name -> what it was taken for, where that is not the name itself.
    """

    program: PyQL
    cost: int = 0
    taken: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Executed:
    """What a draft came to.

    Attributes:
        program: the bound program that was run last, None where none could be bound.
        answers: what it found, as short ids and literals. outcome: of the query, "" if none was run.
        error: why there are no answers, in words.
    """

    program: Bound | None = None
    answers: tuple[str, ...] = ()
    outcome: str = ""
    error: str = ""


@dataclass(slots=True)
class Binder:
    """Binds the drafts of one question.

    Attributes:
        linked: the question's entities. beam: candidates of an entity or relation, and programs, that go on.
    """

    kg: KnowledgeGraph
    encoder: Encoder
    linked: Sequence[LinkedEntity]
    beam: int

    def execute(self, draft: Draft) -> Executed:
        """The answers of the first bound program that has any."""
        bound, error = self.bind(draft)
        last = Executed(error=error)
        for program in bound:
            result = self.kg.query(program.program.sparql(self.kg.profile))
            if result.boolean is not None:
                return Executed(program, (str(result.boolean).lower(),), str(result.outcome))
            if result.rows:
                values = result.column(result.variables[0])
                return Executed(program, tuple(map(self.kg.profile.short, values)), str(result.outcome))
            if last.program is None or result.outcome is not Outcome.EMPTY:
                what = "finds nothing" if result.outcome is Outcome.EMPTY else f"failed: {result.message}"
                last = Executed(program, (), str(result.outcome), f"the bound program {what}")
        return last

    def bind(self, draft: Draft) -> tuple[list[Bound], str]:
        """Bound programs, the likeliest first; and where the draft could not be bound, "" if it could."""
        partial = [Bound(PyQL())]
        for call in draft:
            longer = [grown for b in partial for grown in self._bound(b, call)]
            if not longer:
                return [], f"nothing in the graph fits {call.text()}"
            distinct = {b.program: b for b in sorted(longer, key=lambda b: -b.cost)}
            partial = sorted(distinct.values(), key=lambda b: b.cost)[: self.beam]
        if not draft:
            return [], "the reply has no program"
        return self._completed(partial)

    def _completed(self, bound: Sequence[Bound]) -> tuple[list[Bound], str]:
        """Programs that answer: where a draft does not say by which variable, by its newest."""
        complete = []
        for b in bound:
            program = b.program
            if not program.answer and not program.boolean and program.variables:
                program = program.set_answer(program.variables[-1])
            if program.answer or program.boolean:
                complete.append(replace(b, program=program))
        return complete, "" if complete else "the program has no variable to answer with"

    def _bound(self, b: Bound, call: Call) -> Iterator[Bound]:
        """A program one action longer, with each candidate for what the action names."""
        try:
            match call.name, call.arguments:
                case "add_fact", (subject, relation, object_):
                    yield from self._facts(b, subject, relation, object_)
                case "add_type", (variable, name):
                    for rank, class_ in enumerate(find_classes(self.kg, name.strip("\"'"))[: self.beam]):
                        program = b.program.add_type(read_variable(variable), class_)
                        yield replace(b, program=program, cost=b.cost + rank)
                case "add_filter", (left, operator, right):
                    for node, rank in self._nodes(right):
                        forms = [left, operator, write_node(node, self.kg.profile)]
                        program = apply(b.program, call.name, forms, self.kg.profile)
                        yield replace(b, program=compared(self.kg, b.program, program), cost=b.cost + rank)
                case _:
                    program = apply(b.program, call.name, call.arguments, self.kg.profile)
                    yield replace(b, program=compared(self.kg, b.program, program))
        except ActionError:
            return

    def _facts(self, b: Bound, subject: str, relation: str, object_: str) -> Iterator[Bound]:
        """Programs longer by a fact, over each relation that may be meant, as drafted or turned round."""
        for start, i in self._nodes(subject):
            for end, j in self._nodes(object_):
                known = [n for n in (start, end) if not isinstance(n, Variable) or n in b.program.variables]
                if not known:
                    continue
                for found, forward, rank in self._relations(b.program, known[0], relation):
                    as_drafted = forward == (known[0] == start)
                    ends = (start, end) if as_drafted else (end, start)
                    if isinstance(ends[0], Literal):
                        continue
                    program = self._with_fact(b.program, ends, found)
                    if program is not None:
                        cost = b.cost + i + j + rank + (0 if as_drafted else self.beam)
                        yield Bound(program, cost, (*b.taken, *self._noted(relation, found)))

    def _with_fact(self, program: PyQL, ends: tuple[Node, Node], relation: IRI) -> PyQL | None:
        """A program with one more fact; None where it does not fit."""
        try:
            return program.add_fact(ends[0], relation, ends[1])
        except ActionError:
            return None

    def _noted(self, name: str, relation: IRI) -> tuple[tuple[str, str], ...]:
        """What a relation's name was taken for, where that is another."""
        short = self.kg.profile.short(relation)
        label = relation_texts(self.kg, [short])[short].label
        same = {normalise(short), normalise(label)}
        return () if normalise(name.strip("\"'")) in same else ((name.strip("\"'"), label),)

    def _relations(self, program: PyQL, node: Node, written: str) -> Iterator[tuple[IRI, bool, int]]:
        """The relations around a node that a name may mean, likeliest first: relation, outgoing, rank."""
        where = program.where(self.kg.profile) if isinstance(node, Variable) else ""
        around = self.kg.relations(node, where)
        sides = [(r, True) for r in around.forward] + [(r, False) for r in around.backward]
        if not sides:
            return
        name, short = written.strip("\"'"), self.kg.profile.short
        texts = relation_texts(self.kg, [short(r) for r, _ in sides])
        exact = [
            s for s in sides if normalise(name) in map(normalise, (short(s[0]), texts[short(s[0])].label))
        ]
        exact = exact or [s for s in sides if s[0] == _relation_of(name, self.kg)]
        if exact:
            yield from ((*side, 0) for side in exact)
            return
        ranked = rank_relations(
            name,
            [(str(i), texts[short(r)].label) for i, (r, _) in enumerate(sides)],
            method="hybrid",
            encoder=self.encoder,
            cut=self.beam,
            vectors=self._vectors,
        )
        yield from ((*sides[int(i)], rank) for rank, i in enumerate(ranked))

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of relation texts, kept with the graph."""
        return vectors_of(self.kg, self.encoder).vectors(texts)

    def _nodes(self, written: str) -> list[tuple[Node, int]]:
        """The nodes that an argument may mean, likeliest first, with their ranks; [] for an unknown name."""
        if written.startswith("?"):
            return [(read_variable(written), 0)]
        bare = read_bare(written)
        if bare is not None:
            return [(bare, 0)]
        if not written.endswith(('"', "'")) and (typed := read_literal(written)) is not None:
            return [(typed, 0)]
        name = written.strip("\"'")
        found = list(dict.fromkeys([*self._of_question(name), *self._of_graph(name)]))
        return [(node, rank) for rank, node in enumerate(found[: self.beam])]

    def _of_question(self, name: str) -> list[Node]:
        """Linked entities of a name, or with one much like it."""
        norm = normalise(name)
        scored = [
            (max(similarity(norm, normalise(form)) for form in (e.label, e.mention, e.id)), e)
            for e in self.linked
        ]
        best = sorted((pair for pair in scored if pair[0] >= LIKE), key=lambda pair: -pair[0])
        terms = (read_term(e.id, self.kg.profile) for _, e in best)
        return [t for t in terms if t is not None]

    def _of_graph(self, name: str) -> list[Node]:
        """Nodes whose labels are most like a name; none where a linked entity bears it."""
        norm = normalise(name)
        if self.kg.index is None or any(
            norm in map(normalise, (e.label, e.mention, e.id)) for e in self.linked
        ):
            return []
        return [c.iri for c in self.kg.index.search(name, limit=self.beam)]


def _relation_of(name: str, kg: KnowledgeGraph) -> IRI | None:
    """The relation that a name is the id of."""
    try:
        return read_relation(name, kg.profile)
    except ActionError:
        return None
