"""Drafts of logical forms: the few-shot exemplars of KB-BINDER, and programs as a model writes them.

A draft is a PyQL program in which entities and relations stand by name, in quotes: it says what is asked, not
how the graph has it. The exemplars of KB-BINDER are training questions with annotated s-expressions; the seed
questions of this product hold answers and no logical form. Their programs are therefore rules mined for each
seed (SymAgent, section 4.1 and the demonstrations of equation 3): the one that reproduces its answers best.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.plan import settings_of
from triplewise.nodes.state import State
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Rule, script
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.linker import LinkedEntity, without_brackets
from triplewise.tools.planning.bodies import Signature
from triplewise.tools.planning.lexical.constraints import Constraints
from triplewise.tools.planning.lexical.question import view
from triplewise.tools.planning.mining import LEAST_F1, Miner
from triplewise.tools.planning.seeds import Match, Mined, Quality, Seed
from triplewise.tools.pyql.text import read_node, read_relation, scan_arguments

LANGUAGE = {
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

Draft = tuple[Call, ...]
_CALL = re.compile(r"(?<![\w?])([a-z_]+)\s*\(")
_ENDS = ("set_answer", "ask")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A seed question with a program that finds its answers.

    Attributes:
        question: without marks around its entities. draft: the program, by names.
        topics: the seed's entities by name.
        asked: the entities of the question at hand that stand where these do, in the same order.
    """

    question: str
    draft: Draft
    topics: tuple[str, ...]
    asked: tuple[LinkedEntity, ...]


def text_of(draft: Draft) -> str:
    """A draft as it is written, one action a line."""
    return "\n".join(call.text() for call in draft)


def read_draft(reply: str) -> Draft:
    """The program in a reply, up to the action that ends it; () where there is none."""
    found: list[Call] = []
    end = 0
    for match in _CALL.finditer(reply):
        if match.start() < end or match[1] not in LANGUAGE:
            continue
        arguments, end = scan_arguments(reply, match.end())
        found.append(Call(match[1], tuple(arguments)))
        if match[1] in _ENDS:
            break
    return tuple(found)


def retold(exemplar: Exemplar) -> Draft | None:
    """The program of an exemplar about the entities of the question at hand: a draft without a model.

    None where the seed has entities that the question has nothing in the place of.
    """
    told = {quoted(old): quoted(new.label) for old, new in zip(exemplar.topics, exemplar.asked, strict=False)}
    if len(exemplar.asked) < len(exemplar.topics) and any(
        quoted(name) in call.arguments
        for name in exemplar.topics[len(exemplar.asked) :]
        for call in exemplar.draft
    ):
        return None
    return tuple(Call(c.name, tuple(told.get(a, a) for a in c.arguments)) for c in exemplar.draft)


def quoted(name: str) -> str:
    """A name as drafts write it."""
    return '"' + name.replace('"', "'") + '"'


def exemplars(state: State, context: Context, shots: int, spread: bool = True) -> list[Exemplar]:
    """The seed questions most like a question, nearest first (BM25 over masked text), with programs.

    Args:
        state: the question with its linked entities. context: names graph and seeds.
        shots: how many at most.
        spread: take one of each wording before a second one of any; otherwise all of the nearest one first.
    """
    seeds = environment(context).seeds
    if seeds is None or not state.linked:
        return []
    kg, encoder, settings = environment(context).kg, environment(context).encoder, settings_of(context)
    miner = Miner(kg, settings.mining, seeds.mined(settings.mining, encoder.name), encoder)
    teller = _Teller(kg, context, miner)
    ranked: dict[str, tuple[tuple[LinkedEntity, ...], Match]] = {}
    for asked, matches in seeds.matches(state.question, state.linked, settings.seed_count):
        for match in matches:
            if match.text not in ranked or ranked[match.text][1].score < match.score:
                ranked[match.text] = (asked, match)
    wordings = [
        teller.exemplars(match, asked, state.question)
        for asked, match in sorted(ranked.values(), key=lambda pair: -pair[1].score)
    ]
    return list(islice(_in_turn(wordings) if spread else chain.from_iterable(wordings), shots))


def _in_turn(wordings: Sequence[Iterator[Exemplar]]) -> Iterator[Exemplar]:
    """One of each, then another of each, and so on."""
    for turn in zip_longest(*wordings):
        yield from (e for e in turn if e is not None)


@dataclass(slots=True)
class _Teller:
    """Writes the programs of seeds."""

    kg: KnowledgeGraph
    context: Context
    miner: Miner

    def exemplars(self, match: Match, asked: tuple[LinkedEntity, ...], question: str) -> Iterator[Exemplar]:
        """Seeds of one wording with programs, never the question itself; mined as they are asked for."""
        others = [s for s in match.seeds if without_brackets(s.question) != question]
        for seed in self.miner.choose(others) if others else ():
            if (told := self.exemplar(seed, asked)) is not None:
                yield told

    def exemplar(self, seed: Seed, asked: tuple[LinkedEntity, ...]) -> Exemplar | None:
        """A seed with the program that reproduces its answers best; None where there is none to be told."""
        anchors = self.miner.anchors(seed)
        best = _best(self.miner.of_seed(seed))
        if best is None or not anchors:
            return None
        constraints = Constraints(self.kg, environment(self.context).encoder, view(seed.question, seed.spans))
        rule = self.miner.rule(list(anchors.values()), *best, constraints)
        draft = (
            self._named(rule, {form: name for name, form in anchors.items()}) if rule is not None else None
        )
        if draft is None:
            return None
        return Exemplar(without_brackets(seed.question), draft, tuple(anchors), asked)

    def _named(self, rule: Rule, topics: Mapping[str, str]) -> Draft | None:
        """A rule as a draft; None where it needs an action that drafts do not have."""
        calls = [c for c in script(rule) if c.name not in ("get_relation", "execute")]
        if any(c.name not in LANGUAGE for c in calls):
            return None
        try:
            return tuple(Call(c.name, tuple(self._words(c, topics))) for c in calls)
        except ActionError:
            return None

    def _words(self, call: Call, topics: Mapping[str, str]) -> Iterator[str]:
        """The arguments of a call with names in place of ids."""
        profile = self.kg.profile
        for kind, form in zip(LANGUAGE[call.name].ljust(len(call.arguments)), call.arguments, strict=False):
            if form in topics:
                yield quoted(topics[form])
            elif kind == "r":
                short = profile.short(read_relation(form, profile))
                yield quoted(relation_texts(self.kg, [short])[short].label)
            elif kind == "n" and isinstance(node := read_node(form, profile), IRI):
                yield quoted(self.kg.labels([node]).get(node) or profile.short(node))
            else:
                yield form


def _best(mined: Mined) -> tuple[Signature, Quality] | None:
    """The body of a seed that reproduces its answers best, a short one of equals; None without a good one."""
    good = [(body, found) for body, found in mined.items() if found.f1 >= LEAST_F1]
    return min(good, key=lambda pair: (-round(pair[1].f1, 6), len(pair[0]), pair[0]), default=None)
