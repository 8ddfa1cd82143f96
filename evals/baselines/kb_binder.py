"""KB-BINDER (Li et al., ACL 2023): few-shot drafts of logical forms, bound to the graph, executed, voted on.

A model drafts a program after the seed questions most like the one asked (as KB-BINDER-R does), the binders
put entities and relations of the graph in place of its names, and it is run (section 3). The answer that most
drafts come to wins. Differences: a draft is a PyQL program, in place of an s-expression; a relation is bound
to one around its node (the published code orders all within two hops); exemplars have no annotated logical
form, so their programs are the paths that reproduce their answers best.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from langgraph.runtime import Runtime

from triplewise.evals.baselines import loop
from triplewise.nodes import answer
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.plan import settings_of
from triplewise.nodes.result import labels_of
from triplewise.nodes.state import State
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Node, Variable
from triplewise.tools.kg.labels import similarity
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.kg.vocabulary import find_classes, relation_texts
from triplewise.tools.linking.linker import LinkedEntity, without_brackets
from triplewise.tools.planning.mining import LEAST_F1, Miner
from triplewise.tools.planning.paths import with_variables
from triplewise.tools.planning.seeds import Seed
from triplewise.tools.pyql import text as pyql
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.ranking import rank_relations

ACTIONS = ("add_fact", "add_type", "add_filter", "add_max", "add_min", "add_count", "set_answer", "ask")
ENDINGS = ACTIONS[-2:]
BEAM, SHOTS = 5, 10  # candidates that go on, and exemplars
SHOWN = 5  # answers of a draft that its observation shows
SIMILAR = 0.6  # least similarity (0 to 1) of a linked entity's name to the one in a draft
QUOTES = "\"'"
_CALL = re.compile(r"(?<![\w?])([a-z_]+)\s*\(")


def read_draft(reply: str) -> tuple[Call, ...]:
    """Return the program in a reply, up to the action that ends it; () where there is none."""
    calls: list[Call] = []
    end = 0
    for match in _CALL.finditer(reply):
        if match.start() < end or match[1] not in ACTIONS:
            continue
        arguments, end = pyql.scan_arguments(reply, match.end())
        calls.append(Call(match[1], tuple(arguments)))
        if match[1] in ENDINGS:
            break
    return tuple(calls)


Bound = tuple[PyQL, int]  # a draft bound as far as it goes, and the sum of the ranks of its candidates


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds the drafts of one question; of entities, relations and programs `BEAM` candidates go on."""

    kg: KnowledgeGraph
    encoder: Encoder
    linked: Sequence[LinkedEntity]

    def execute(self, draft: Sequence[Call], last: bool) -> Feedback:
        """Return what the first bound program with answers finds, or why none does; `last` ends the run."""
        (programs, error), kg = self.bind(draft), self.kg
        bound: PyQL | None = None
        answers, outcome = tuple[str, ...](), ""
        for program in programs:
            result = kg.query(program.sparql(kg.profile))
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
            action="draft", arguments=tuple(call.text() for call in draft),
            error="" if bound is not None else "unbound", message="" if answers else error, outcome=outcome,
            observation="\n".join(filter(None, (text, found))), program=text, answers=answers, finished=last,
        )  # fmt: skip

    def bind(self, draft: Sequence[Call]) -> tuple[list[PyQL], str]:
        """Return bound programs, the likeliest first, or why there are none."""
        if not draft:
            return [], "the reply has no program"
        bound: list[Bound] = [(PyQL(), 0)]
        for call in draft:
            longer: list[Bound] = []
            for program, cost in bound:
                with suppress(ActionError):
                    for arguments, rank in self._readings(program, call):
                        with suppress(ActionError):
                            one = pyql.apply(program, call.name, arguments, pyql.Reader(self.kg.profile))
                            longer.append((compared(self.kg, program, one), cost + rank))
            if not longer:
                return [], f"nothing in the graph fits {call.text()}"
            least = dict(sorted(longer, key=lambda pair: -pair[1]))
            bound = sorted(least.items(), key=lambda pair: pair[1])[:BEAM]
        usable = [program for program, _ in bound if program.boolean or program.variables]
        complete = [p if p.answer or p.boolean else p.set_answer(p.variables[-1]) for p in usable]
        return complete, "" if complete else "the program has no variable to answer with"

    def _readings(self, program: PyQL, call: Call) -> Iterator[tuple[Sequence[str], int]]:
        """Arguments of an action with each candidate for what they name, and the ranks of these in sum."""
        profile = self.kg.profile
        match call.name, call.arguments:
            case "add_fact", (subject, relation, object_):
                for i, start in enumerate(self._nodes(subject)):
                    for j, end in enumerate(self._nodes(object_)):
                        for iri, forward, rank in self._relations(program, start, relation, end):
                            ends = [pyql.write_node(node, profile) for node in (start, end)]
                            head, tail = ends if forward else ends[::-1]
                            yield (head, pyql.write_node(iri, profile), tail), i + j + rank
            case "add_type", (variable, name):
                for rank, class_ in enumerate(find_classes(self.kg, name.strip(QUOTES))[:BEAM]):
                    yield (variable, pyql.write_node(class_, profile)), rank
            case "add_filter", (left, operator, right):
                for rank, node in enumerate(self._nodes(right)):
                    yield (left, operator, pyql.write_node(node, profile)), rank
            case _, arguments:
                yield arguments, 0

    def _relations(self, program: PyQL, start: Node, name: str, end: Node) -> Iterator[tuple[IRI, bool, int]]:
        """The relations around a bound end that a name may mean, whether they are as drafted, and their rank.

        Those of that name, else those most like it; what has to be turned comes behind all others.
        """
        near = next((n for n in (start, end) if not isinstance(n, Variable) or n in program.variables), None)
        if near is None:
            return
        kg, short, name = self.kg, self.kg.profile.short, name.strip(QUOTES)
        around = kg.relations(near, program.where(kg.profile) if isinstance(near, Variable) else "")
        sides = [(r, True) for r in around.forward] + [(r, False) for r in around.backward]
        labels = {r: text.label for r, text in relation_texts(kg, [short(r) for r, _ in sides]).items()}
        norm = normalise(name)
        found = [(*s, 0) for s in sides if norm in map(normalise, (short(s[0]), labels[short(s[0])]))]
        if not found and sides:
            named = [(str(i), labels[short(r)]) for i, (r, _) in enumerate(sides)]
            ranked = rank_relations(name, named, self.encoder, BEAM, kg=kg, is_hybrid=True)
            found = [(*sides[int(i)], rank) for rank, i in enumerate(ranked)]
        for iri, outgoing, rank in found:
            as_drafted = outgoing == (near == start)
            yield iri, as_drafted, rank + (0 if as_drafted else BEAM)

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
            nodes += [c.iri for c in self.kg.index.search(name, limit=BEAM)]
        return list(dict.fromkeys(nodes))[:BEAM]


def draft(state: State, runtime: Runtime[Context]) -> Update:
    """Draft one more program, bind it and run it; the last of `max_steps` drafts ends the run."""
    env, number, context = environment(runtime), len(state.steps), runtime.context
    shown = list(islice(exemplars(state, env), SHOTS))[::-1]
    if number:  # an order of this draft's own, the nearest not always last
        random.Random(f"{context.draw_seed} {number} {state.question}").shuffle(shown)
    entities = [e.label for e in state.linked]
    reply = loop.ask(state, env, "kb_binder", "draft", entities=entities, exemplars=shown).text
    binder, is_last = Binder(env.kg, env.encoder, state.linked), number + 1 >= (context.max_steps or 1)
    feedback = binder.execute(read_draft(reply), is_last)
    return {"steps": (loop.make_step(state, reply, Call("draft", (str(number + 1),)), feedback),)}


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
    """Yield the seed questions most like a question, nearest first, with programs; never itself."""
    if env.seeds is None or not state.linked:
        return
    miner = Miner(env.kg, env.seeds)
    for match in env.seeds.groups_like(state.question, state.linked, settings_of(env).seed_count):
        others = [s for s in match.seeds if without_brackets(s.question) != state.question]
        for seed in miner.choose(others) if others else ():
            if program := _program_of(seed, env.kg, miner):
                yield {"question": without_brackets(seed.question), "program": program}


def _program_of(seed: Seed, kg: KnowledgeGraph, miner: Miner) -> str:
    """The path that reproduces a seed's answers best as a draft, names in place of ids; "" without one."""
    topic = next(iter(miner.anchors(seed)), "")
    mined = miner.of_seed(seed) if topic else {}
    good = [(path, quality.f1) for path, quality in mined.items() if quality.f1 >= LEAST_F1]
    if not good:
        return ""
    path, _ = min(good, key=lambda pair: (-round(pair[1], 6), len(pair[0]), pair[0]))  # a short one of equals
    start, calls = '"' + topic.replace('"', "'") + '"', list[Call]()
    for atom in with_variables(kg, path):
        label = relation_texts(kg, [atom.relation])[atom.relation].label.replace('"', "'")
        end = f"?{atom.variable}"
        head, tail = (start, end) if atom.forward else (end, start)
        calls.append(Call("add_fact", (head, f'"{label}"', tail)))
        start = end
    return "\n".join(call.text() for call in [*calls, Call("set_answer", (start,))])
