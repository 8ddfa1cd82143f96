"""KB-BINDER's drafts and binders (section 3): from a program by names to one that the graph has.

A draft is a PyQL program in which entities and relations stand by name, in quotes: it says what is asked, not
how the graph has it. An entity is bound to the linked entity of that name, else to the nodes whose labels are
most like it. A relation is bound to one of those around the node it is drafted at, ordered by BM25 and by the
similarity of vectors; the published code orders all relations within two hops of the entity. Several
candidates of each go on as a beam, and the bound programs are tried in order until one finds something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from triplewise.nodes.answer import labels_of
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal, Node, Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes, relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import (
    Reader,
    apply,
    read_bare,
    read_literal,
    read_relation,
    read_term,
    read_variable,
    scan_arguments,
    write_node,
)
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.ranking import rank_relations

ACTIONS = {
    "add_fact": "nrn",
    "add_type": "vn",
    "add_filter": "n n",
    "add_max": "v",
    "add_min": "v",
    "add_count": "vv",
    "set_answer": "v",
    "ask": "",
}
"""The actions of drafts, and what each argument is: node, relation, variable, or written as it is (blank)."""
SHOWN = 5
"""Answers of a draft that its observation shows."""
SIMILAR = 0.6
"""Least similarity (0 to 1) of a linked entity's name to the one that a draft has for it."""

Draft = tuple[Call, ...]
_CALL = re.compile(r"(?<![\w?])([a-z_]+)\s*\(")


def draft_text(draft: Draft) -> str:
    """Return a draft as it is written, one action a line."""
    return "\n".join(call.text() for call in draft)


def read_draft(reply: str) -> Draft:
    """Return the program in a reply, up to the action that ends it; () where there is none."""
    calls: list[Call] = []
    end = 0
    for match in _CALL.finditer(reply):
        if match.start() < end or match[1] not in ACTIONS:
            continue
        arguments, end = scan_arguments(reply, match.end())
        calls.append(Call(match[1], tuple(arguments)))
        if match[1] in ("set_answer", "ask"):
            break
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class Bound:
    """A draft bound to the graph, as far as it goes.

    Attributes:
        program: the query. cost: how far down its candidates stand, added up.
        substitutes: name -> what it was taken for, where that is not the name itself.
    """

    program: PyQL
    cost: int = 0
    substitutes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the drafts of one question.

    Attributes:
        linked: the question's entities. beam: candidates of an entity or relation, and programs, that go on.
    """

    kg: KnowledgeGraph
    encoder: Encoder
    linked: Sequence[LinkedEntity]
    beam: int

    def execute(self, draft: Draft, last: bool) -> Feedback:
        """Return what the first bound program with answers finds, or why none does; `last` ends the run."""
        (programs, error), kg = self.bind(draft), self.kg
        bound: Bound | None = None
        answers, outcome = tuple[str, ...](), ""
        for candidate in programs:
            result = kg.query(candidate.program.sparql(kg.profile))
            if result.boolean is not None:
                answers = (str(result.boolean).lower(),)
            elif result.rows:
                answers = tuple(map(kg.profile.short, result.column(result.variables[0])))
            if answers or bound is None or result.outcome is not Outcome.EMPTY:
                what = "finds nothing" if result.outcome is Outcome.EMPTY else f"failed: {result.message}"
                bound, outcome, error = candidate, str(result.outcome), f"the bound program {what}"
            if answers:
                break
        program = bound.program.text(kg.profile) if bound is not None else ""
        notes = [f"{name!r} read as {other!r}" for name, other in bound.substitutes] if bound else []
        more = f" and {len(answers) - SHOWN} more" if len(answers) > SHOWN else ""
        result_text = f"finds {', '.join(labels_of(kg, answers[:SHOWN]))}{more}" if answers else error
        return Feedback(
            action="draft",
            arguments=tuple(call.text() for call in draft),
            error="" if bound is not None else "unbound",
            message="" if answers else error,
            outcome=outcome,
            observation="\n".join(filter(None, (program, *notes, result_text))),
            program=program,
            answers=answers,
            finished=last,
        )

    def bind(self, draft: Draft) -> tuple[list[Bound], str]:
        """Return bound programs, the likeliest first; and where the draft could not be bound, else "".

        Where a draft does not say which variable answers, its newest does.
        """
        if not draft:
            return [], "the reply has no program"
        partial = [Bound(PyQL())]
        for call in draft:
            longer = [grown for b in partial for grown in self._bound(b, call)]
            if not longer:
                return [], f"nothing in the graph fits {call.text()}"
            distinct = {b.program: b for b in sorted(longer, key=lambda b: -b.cost)}
            partial = sorted(distinct.values(), key=lambda b: b.cost)[: self.beam]
        complete = []
        for b in partial:
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
                    for rank, node in enumerate(self._nodes(right)):
                        forms = [left, operator, write_node(node, self.kg.profile)]
                        program = apply(b.program, call.name, forms, Reader(self.kg.profile))
                        yield replace(b, program=compared(self.kg, b.program, program), cost=b.cost + rank)
                case _:
                    program = apply(b.program, call.name, call.arguments, Reader(self.kg.profile))
                    yield replace(b, program=compared(self.kg, b.program, program))
        except ActionError:
            return

    def _facts(self, b: Bound, subject: str, relation: str, object_: str) -> Iterator[Bound]:
        """Programs longer by a fact, over each relation that may be meant, as drafted or turned round."""
        for i, start in enumerate(self._nodes(subject)):
            for j, end in enumerate(self._nodes(object_)):
                starts = [n for n in (start, end) if not isinstance(n, Variable) or n in b.program.variables]
                if not starts:
                    continue
                for iri, forward, rank in self._relations(b.program, starts[0], relation):
                    as_drafted = forward == (starts[0] == start)
                    ends = (start, end) if as_drafted else (end, start)
                    if isinstance(ends[0], Literal):
                        continue
                    try:
                        program = b.program.add_fact(ends[0], iri, ends[1])
                    except ActionError:
                        continue
                    cost = b.cost + i + j + rank + (0 if as_drafted else self.beam)
                    short, name = self.kg.profile.short(iri), relation.strip("\"'")
                    label = relation_texts(self.kg, [short])[short].label
                    same = normalise(name) in (normalise(short), normalise(label))
                    yield Bound(program, cost, (*b.substitutes, *(() if same else ((name, label),))))

    def _relations(self, program: PyQL, node: Node, written: str) -> Iterator[tuple[IRI, bool, int]]:
        """The relations around a node that a name may mean, likeliest first: relation, outgoing, rank."""
        where = program.where(self.kg.profile) if isinstance(node, Variable) else ""
        around = self.kg.relations(node, where)
        sides = [(r, True) for r in around.forward] + [(r, False) for r in around.backward]
        if not sides:
            return
        name, short = written.strip("\"'"), self.kg.profile.short
        labels = {r: text.label for r, text in relation_texts(self.kg, [short(r) for r, _ in sides]).items()}
        norm = normalise(name)
        exact = [s for s in sides if norm in (normalise(short(s[0])), normalise(labels[short(s[0])]))]
        if not exact:
            try:
                iri = read_relation(name, self.kg.profile)
                exact = [s for s in sides if s[0] == iri]
            except ActionError:
                exact = []
        if exact:
            yield from ((*side, 0) for side in exact)
            return
        ranked = rank_relations(
            name,
            [(str(i), labels[short(r)]) for i, (r, _) in enumerate(sides)],
            method="hybrid",
            encoder=self.encoder,
            cut=self.beam,
            vectors=vectors_of(self.kg, self.encoder).vectors,
        )
        yield from ((*sides[int(i)], rank) for rank, i in enumerate(ranked))

    def _nodes(self, written: str) -> list[Node]:
        """The nodes that an argument may mean, likeliest first; [] for an unknown name."""
        if written.startswith("?"):
            return [read_variable(written)]
        if (bare := read_bare(written)) is not None:
            return [bare]
        if not written.endswith(('"', "'")) and (typed := read_literal(written)) is not None:
            return [typed]
        norm, nodes = normalise(written.strip("\"'")), list[Node]()
        names = [(e, [normalise(form) for form in (e.label, e.mention, e.id)]) for e in self.linked]
        scored = [(max(similarity(norm, form) for form in forms), e) for e, forms in names]
        for score, entity in sorted(scored, key=lambda pair: -pair[0]):
            term = read_term(entity.id, self.kg.profile)
            if score >= SIMILAR and term is not None:
                nodes.append(term)
        # The graph is searched where no linked entity bears the name.
        if self.kg.index is not None and not any(norm in forms for _, forms in names):
            nodes += [c.iri for c in self.kg.index.search(written.strip("\"'"), limit=self.beam)]
        return list(dict.fromkeys(nodes))[: self.beam]
