"""KB-BINDER (Li et al., ACL 2023): few-shot drafts of logical forms, bound to the graph, executed, voted on.

Each draft is one step: a model writes a program after the seed questions most like the one asked (as
KB-BINDER-R does), the binders put entities and relations of the graph in place of its names, and it is run
(section 3). The answer that most drafts come to wins; drafts that find nothing have no vote.

A draft is a PyQL program, in place of an s-expression, in which entities and relations stand by name, in
quotes. An entity is bound to the linked entity of that name, else to the nodes whose labels are most like it.
A relation is bound to one of those around the node it is drafted at, ordered by BM25 and by the similarity of
vectors; the published code orders all relations within two hops. Several candidates of each go on as a beam,
and the bound programs are tried in order until one finds something. Exemplars are seed questions, which have
no annotated logical form: their programs are the rules that reproduce their answers best (SymAgent, section
4.1). Each draft is shown them in an order drawn by `seed`, so that drafts differ also on a server that does
not sample.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest

from langgraph.runtime import Runtime

from triplewise.evals.baselines import Graph, loop
from triplewise.nodes import answer
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.plan import settings_of
from triplewise.nodes.result import labels_of
from triplewise.nodes.state import State
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.pyql import script
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Literal, Node, Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes, relation_texts
from triplewise.tools.linking.linker import LinkedEntity, without_brackets
from triplewise.tools.planning.mining import LEAST_F1, Miner
from triplewise.tools.planning.paths import rule_program, with_variables
from triplewise.tools.planning.seeds import Seed
from triplewise.tools.pyql import text as pyql
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder
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
QUOTES = "\"'"
_CALL = re.compile(r"(?<![\w?])([a-z_]+)\s*\(")


def draft_text(draft: Iterable[Call]) -> str:
    """Return a draft as it is written, one action a line."""
    return "\n".join(call.text() for call in draft)


def read_draft(reply: str) -> tuple[Call, ...]:
    """Return the program in a reply, up to the action that ends it; () where there is none."""
    calls: list[Call] = []
    end = 0
    for match in _CALL.finditer(reply):
        if match.start() < end or match[1] not in ACTIONS:
            continue
        arguments, end = pyql.scan_arguments(reply, match.end())
        calls.append(Call(match[1], tuple(arguments)))
        if match[1] in ("set_answer", "ask"):
            break
    return tuple(calls)


Bound = tuple[PyQL, int]
"""A draft bound to the graph, as far as it goes, and the sum of the ranks of its candidates."""


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the drafts of one question; of entities, relations and programs `beam` candidates go on."""

    kg: KnowledgeGraph
    encoder: Encoder
    linked: Sequence[LinkedEntity]
    beam: int

    def execute(self, draft: Sequence[Call], last: bool) -> Feedback:
        """Return what the first bound program with answers finds, or why none does; `last` ends the run."""
        (programs, error), kg = self.bind(draft), self.kg
        bound: PyQL | None = None
        answers, outcome = tuple[str, ...](), ""
        for program in programs:
            result = kg.query(program.sparql(kg.profile))
            answers = ()
            if result.boolean is not None:
                answers = (str(result.boolean).lower(),)
            elif result.outcome.ok and result.rows:
                answers = tuple(map(kg.profile.short, result.column(result.variables[0])))
            if answers or bound is None or result.outcome is not Outcome.EMPTY:
                what = "finds nothing" if result.outcome is Outcome.EMPTY else f"failed: {result.message}"
                bound, outcome, error = program, str(result.outcome), f"the bound program {what}"
            if answers:
                break
        text = bound.text(kg.profile) if bound is not None else ""
        more = f" and {len(answers) - SHOWN} more" if len(answers) > SHOWN else ""
        found = f"finds {', '.join(labels_of(kg, answers[:SHOWN]))}{more}" if answers else error
        return Feedback(
            action="draft",
            arguments=tuple(call.text() for call in draft),
            error="" if bound is not None else "unbound",
            message="" if answers else error,
            outcome=outcome,
            observation="\n".join(filter(None, (text, found))),
            program=text,
            answers=answers,
            finished=last,
        )

    def bind(self, draft: Sequence[Call]) -> tuple[list[PyQL], str]:
        """Return bound programs, the likeliest first; and where the draft could not be bound, else "".

        Where a draft does not say which variable answers, its newest does.
        """
        if not draft:
            return [], "the reply has no program"
        bound: list[Bound] = [(PyQL(), 0)]
        for call in draft:
            longer: list[Bound] = []
            for b in bound:
                with suppress(ActionError):
                    longer += self._bound(b, call)
            if not longer:
                return [], f"nothing in the graph fits {call.text()}"
            least = dict(sorted(longer, key=lambda pair: -pair[1]))
            bound = sorted(least.items(), key=lambda pair: pair[1])[: self.beam]
        programs = [
            p.set_answer(p.variables[-1]) if not p.answer and not p.boolean and p.variables else p
            for p, _ in bound
        ]
        complete = [program for program in programs if program.answer or program.boolean]
        return complete, "" if complete else "the program has no variable to answer with"

    def _bound(self, b: Bound, call: Call) -> Iterator[Bound]:
        """A program one action longer, with each candidate for what the action names."""
        profile, arguments, (program, cost) = self.kg.profile, call.arguments, b
        if call.name == "add_fact" and len(arguments) == 3:
            yield from self._facts(b, *arguments)
        elif call.name == "add_type" and len(arguments) == 2:
            for rank, class_ in enumerate(find_classes(self.kg, arguments[1].strip(QUOTES))[: self.beam]):
                yield program.add_type(pyql.read_variable(arguments[0]), class_), cost + rank
        else:
            forms = [arguments]
            if call.name == "add_filter" and len(arguments) == 3:
                left, operator, right = arguments
                forms = [(left, operator, pyql.write_node(node, profile)) for node in self._nodes(right)]
            for rank, form in enumerate(forms):
                longer = pyql.apply(program, call.name, form, pyql.Reader(profile))
                yield compared(self.kg, program, longer), cost + rank

    def _facts(self, b: Bound, subject: str, relation: str, object_: str) -> Iterator[Bound]:
        """Programs longer by a fact, over each relation that may be meant, as drafted or turned round."""
        program, cost = b
        for i, start in enumerate(self._nodes(subject)):
            for j, end in enumerate(self._nodes(object_)):
                starts = [n for n in (start, end) if not isinstance(n, Variable) or n in program.variables]
                for iri, forward, rank in self._relations(program, starts[0], relation) if starts else ():
                    as_drafted = forward == (starts[0] == start)
                    head, tail = (start, end) if as_drafted else (end, start)
                    if not isinstance(head, Literal):
                        with suppress(ActionError):
                            turned = 0 if as_drafted else self.beam
                            yield program.add_fact(head, iri, tail), cost + i + j + rank + turned

    def _relations(self, program: PyQL, node: Node, written: str) -> Iterator[tuple[IRI, bool, int]]:
        """The relations around a node that a name may mean, likeliest first: relation, outgoing, rank."""
        around = self.kg.relations(node, program.where(self.kg.profile) if isinstance(node, Variable) else "")
        sides = [(r, True) for r in around.forward] + [(r, False) for r in around.backward]
        name, short = written.strip(QUOTES), self.kg.profile.short
        labels = {r: text.label for r, text in relation_texts(self.kg, [short(r) for r, _ in sides]).items()}
        norm = normalise(name)
        exact = [s for s in sides if norm in (normalise(short(s[0])), normalise(labels[short(s[0])]))]
        if exact or not sides:
            yield from ((*side, 0) for side in exact)
            return
        ranked = rank_relations(
            name,
            [(str(i), labels[short(r)]) for i, (r, _) in enumerate(sides)],
            method="hybrid",
            encoder=self.encoder,
            cut=self.beam,
            kg=self.kg,
        )
        yield from ((*sides[int(i)], rank) for rank, i in enumerate(ranked))

    def _nodes(self, written: str) -> list[Node]:
        """The nodes that an argument may mean, likeliest first; [] for an unknown name."""
        if written.startswith("?"):
            return [pyql.read_variable(written)]
        if (bare := pyql.read_bare(written)) is not None:
            return [bare]
        if not written.endswith(('"', "'")) and (typed := pyql.read_literal(written)) is not None:
            return [typed]
        name, nodes = written.strip(QUOTES), list[Node]()
        norm = normalise(name)
        names = [(e, [normalise(form) for form in (e.label, e.mention, e.id)]) for e in self.linked]
        scored = [(max(similarity(norm, form) for form in forms), e) for e, forms in names]
        for score, entity in sorted(scored, key=lambda pair: -pair[0]):
            term = pyql.read_term(entity.id, self.kg.profile)
            if score >= SIMILAR and term is not None:
                nodes.append(term)
        # The graph is searched where no linked entity bears the name.
        if self.kg.index is not None and not any(norm in forms for _, forms in names):
            nodes += [c.iri for c in self.kg.index.search(name, limit=self.beam)]
        return list(dict.fromkeys(nodes))[: self.beam]


def build(
    *,
    drafts: int = 6,
    beam: int = 5,
    shots: int = 10,
    seed: int = 1,
    temperature: float = 0.3,
    link: str = "index",
) -> Graph:
    """Compile KB-BINDER.

    Args:
        drafts: programs that are drafted, K, as in KB-BINDER(6). beam: candidates of a name, and bound
            programs, that go on. shots: seed questions shown. seed: of the order they are shown in.
        temperature: that drafts are sampled with, as in its code, unless the context has one.
    """
    for name, value, least in (("drafts", drafts, 1), ("beam", beam, 1), ("shots", shots, 0)):
        loop.check_number(name, value, least)

    def act(state: State, runtime: Runtime[Context]) -> Update:
        """Draft one more program, bind it and run it; the last draft ends the run."""
        env, number = environment(runtime), len(state.steps)
        shown = list(islice(exemplars(state, env), shots))[::-1]
        if number:  # an order of this draft's own, the nearest not always last
            random.Random(f"{seed} {number} {state.question}").shuffle(shown)
        entities = [e.label for e in state.linked]
        reply = loop.ask(state, env, "kb_binder", "draft", entities=entities, exemplars=shown).text
        binder = Binder(env.kg, env.encoder, state.linked, beam)
        feedback = binder.execute(read_draft(reply), last=number + 1 >= drafts)
        return {"steps": (loop.make_step(state, reply, Call("draft", (str(number + 1),)), feedback),)}

    return loop.build_loop("kb-binder", act, vote, link=link, settings={"temperature": float(temperature)})


def vote(state: State, runtime: Runtime[Context]) -> Update:
    """Answer with the set that most drafts find; of several such, the one that was found first."""
    keys = {i: frozenset(found) for i, step in enumerate(state.steps) if (found := step.feedback.answers)}
    place, agreed = loop.majority(state, keys, "drafts")
    if place is None:
        return {"answer": loop.make_answer(state, runtime.context, (), agreed)}
    chosen = state.steps[place]
    finished = replace(chosen, feedback=replace(chosen.feedback, finished=True))
    program = chosen.feedback.program
    done = state.model_copy(update={"steps": (*state.steps, finished), "program": program})
    made = answer.program(done, runtime)["answer"]
    reason = f"{made.reason}; {agreed}" if made.status == "budget_spent" else agreed
    return {"answer": replace(made, reason=reason), "program": program}


def exemplars(state: State, env: Environment) -> Iterator[dict[str, str]]:
    """Yield the seed questions most like a question, nearest first (BM25 over masked text), with programs.

    One of each wording comes before a second one of any, never the question itself.
    """
    seeds = env.seeds
    if seeds is None or not state.linked:
        return
    miner, count = Miner(env.kg, seeds), settings_of(env).seed_count

    def of_wording(others: Sequence[Seed]) -> Iterator[dict[str, str]]:
        """Seeds of one wording, mined as they are needed."""
        for seed in miner.choose(others) if others else ():
            if program := _program_of(seed, env.kg, miner):
                yield {"question": without_brackets(seed.question), "program": program}

    matches = seeds.groups_like(state.question, state.linked, count)
    groups = ([s for s in m.seeds if without_brackets(s.question) != state.question] for m in matches)
    yield from filter(None, chain.from_iterable(zip_longest(*map(of_wording, groups))))


def _program_of(seed: Seed, kg: KnowledgeGraph, miner: Miner) -> str:
    """The rule that reproduces a seed's answers best as a draft, names in place of ids; "" without one."""
    anchors, profile = miner.anchors(seed), kg.profile
    mined = miner.of_seed(seed) if anchors else {}
    good = [(path, quality.f1) for path, quality in mined.items() if quality.f1 >= LEAST_F1]
    if not good:
        return ""
    path, _ = min(good, key=lambda pair: (-round(pair[1], 6), len(pair[0]), pair[0]))  # a short one of equals
    topics = {form: name for name, form in anchors.items()}
    program = rule_program(kg, Rule(next(iter(topics)), with_variables(kg, path)))
    calls = [c for c in script(program, profile) if c.name not in ("get_relation", "execute")]
    if any(call.name not in ACTIONS for call in calls):
        return ""

    def in_words(kind: str, form: str) -> str:
        name = topics.get(form, "")
        if not name and kind == "r":
            short = profile.short(pyql.read_relation(form, profile))
            name = relation_texts(kg, [short])[short].label
        elif not name and kind == "n" and isinstance(node := pyql.read_node(form, profile), IRI):
            name = kg.labels([node]).get(node) or profile.short(node)
        return '"' + name.replace('"', "'") + '"' if name else form

    try:
        return draft_text(
            Call(c.name, tuple(map(in_words, ACTIONS[c.name].ljust(len(c.arguments)), c.arguments)))
            for c in calls
        )
    except ActionError:
        return ""
