"""Rules that a language model proposes: demonstrations, alignment, grounding (SymAgent 4.1, equation 3).

A relation that the model names is taken for one around the place where it is walked: by its id, a label or an
alias of it, or the similarity of its vector to those texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Atom, DroppedRule, Path, Rule, path_text
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.lexicon import root, word_list
from triplewise.tools.linking.linker import LinkedEntity, without_brackets
from triplewise.tools.planning import paths
from triplewise.tools.planning.mining import GAP, LEAST_F1, Miner, Plan, PlanSettings, share_places
from triplewise.tools.planning.seeds import SeedIndex
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.similarity import NEARLY, similarities, thresholds_of

DEMONSTRATED = 3  # Paths shown of one seed question, best first
PARTIAL = 6  # Ways to walk one proposal that are tried at once
PROPOSED = "proposed by the model"

_PATH = re.compile(r"[\[(]([^\[\]()]+(?:\([^\[\]()]*\)[^\[\]()]*)*)[\])]")
_ARROW = re.compile(r"(<?)-\[([^\]\n]+)\]-")
_CHAIN = re.compile(r"<?-\[[^\]\n]+\]->?(?:[ \t]*\?\w+[ \t]*<?-\[[^\]\n]+\]->?)*")
_BACKWARDS = re.compile(r"^\s*(?:[\^~]|inverse of\b)|(?:\^-1|\(inverse\))\s*$", re.IGNORECASE)
_EXPLAINED = re.compile(r"^(\S+)\s*\((.+)\)$")


def demonstrate(
    question: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, seeds: SeedIndex | None, count: int
) -> list[dict[str, object]]:
    """Return the seed questions most like a question, one of each structure, with their own mined paths.

    Each is a `question` and its `rules`, best first: of its group, the seed with the clearest path.
    """
    if seeds is None:
        return []
    miner, demonstrations = Miner(kg, seeds), list[dict[str, object]]()
    for match in seeds.groups_like(question, linked, count):
        others = [s for s in match.seeds if s.question != question]  # never the question itself
        mined = [(s.question, {p: q.f1 for p, q in miner.of_seed(s).items()}) for s in miner.choose(others)]
        text, f1 = max(mined, key=lambda found: max(found[1].values(), default=0), default=("", {}))
        best = sorted((p for p in f1 if f1[p] >= LEAST_F1), key=lambda p: (-round(f1[p], 6), len(p), p))
        if rules := tuple(map(path_text, best[:DEMONSTRATED])):
            demonstrations.append({"question": without_brackets(text), "rules": rules})
    return demonstrations


def parse_paths(reply: str) -> list[tuple[str, ...]]:
    """Return paths in a reply: lists of relations, `^` before those backwards, or `-[r]-> ?x <-[s]- ?y`."""

    def as_list(chain: re.Match[str]) -> str:
        return f"[{', '.join(('^' if back else '') + name for back, name in _ARROW.findall(chain[0]))}]"

    found = (
        tuple(part.strip(" \n'\"`?") for part in re.split(r",|->|∧", listed))
        for listed in _PATH.findall(_CHAIN.sub(as_list, reply))
    )
    return list(dict.fromkeys(path for path in found if all(path)))


def with_proposals(
    mined: Plan,
    proposals: Sequence[Sequence[str]],
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> Plan:
    """Return a plan of what a model proposed, then of what was mined; figures of mined rules go to proposals.

    Where documents may fill a gap, a proposal of relations that the KG has elsewhere stays a plan.
    """
    anchors = [paths.node_form(kg, entity.id) for entity in linked]
    grounder = _Grounder(kg, encoder, anchors, settings)
    rules = dict[tuple[str, Path], Rule]()
    for rule in (rule for proposal in proposals for rule in grounder.ground(proposal)):
        rules.setdefault(rule.key, rule)
    others = list[Rule]()
    for rule in mined.rules:
        if (same := rules.get(rule.key)) is None:
            others.append(rule)
        elif rule.support:
            why = f"{same.provenance}; {rule.provenance}"
            figures = {"support": rule.support, "precision": rule.precision, "recall": rule.recall}
            rules[rule.key] = replace(same, provenance=why, **figures)  # type: ignore[arg-type]
    best = share_places([*rules.values(), *others], settings.rules)
    return Plan(best, (*grounder.dropped, *mined.dropped))


class _Walk(NamedTuple):
    """One way to walk a proposal: the path so far, how alike its names are, what they were taken for."""

    path: Path = ()
    similarity: float = 1.0
    notes: tuple[str, ...] = ()

    def then(self, step: _Walk) -> _Walk:
        """Return it with another step behind it."""
        return _Walk(self.path + step.path, self.similarity * step.similarity, self.notes + step.notes)

    def rule(self, anchor: str, note: str = "") -> Rule:
        """Return the rule that it is, with its similarity for a score and where it comes from."""
        provenance = "; ".join((PROPOSED, *dict.fromkeys(filter(None, self.notes)))) + note
        return Rule(anchor, self.path, score=self.similarity, provenance=provenance)


class _Grounder:
    """Turns proposals into rules of the KG; `dropped` are those that could not be."""

    def __init__(
        self, kg: KnowledgeGraph, encoder: Encoder, anchors: Sequence[str], settings: PlanSettings
    ) -> None:
        self._kg, self._encoder, self._anchors, self._settings = kg, encoder, anchors, settings
        self._steps: dict[tuple[str, Path], list[Atom]] = {}
        self.dropped: list[DroppedRule] = []

    def ground(self, proposal: Sequence[str]) -> list[Rule]:
        """Return a proposal as rules, from every linked entity that it leads on from."""
        names, hops = list(map(_read_name, proposal)), self._settings.hops
        if len(names) > hops:
            return self._drop(proposal, f"longer than {hops} relations (plan_hops)")
        walked = [(anchor, self._walk(anchor, names)) for anchor in self._anchors]
        whole = [walk.rule(a) for a, walks in walked for walk in walks if len(walk.path) == len(names)]
        if whole:
            rules = [rule for rule in whole if paths.answers(self._kg, rule, limit=1)]
            return rules or self._drop(proposal, "no grounding: it only leads back to where it came from")
        anchor, (walk, *_) = max(walked, key=lambda pair: len(pair[1][0].path))
        path, (lacking, is_backwards) = walk.path, names[len(walk.path)]
        for name, backwards in names[len(path) :]:  # it has a gap: a plan with documents, if all exists
            if (step := self._elsewhere(name, backwards)) is None:
                return self._drop(proposal, f"no grounding: the graph has no relation like {name!r}", anchor)
            atom = paths.make_atom(self._kg, step.path[0].relation, not backwards, walk.path)
            walk = walk.then(step._replace(path=(atom,)))
        if self._settings.documents:
            return [walk.rule(anchor, f", {GAP}")]
        place = "behind " + path_text(path) if path else "at the entity"
        missing = f"the graph has no {'^' * is_backwards}{lacking} {place}"
        return self._drop(proposal, f"no grounding: {missing}, and no documents are configured", anchor)

    def _walk(self, anchor: str, names: Sequence[tuple[str, bool]]) -> list[_Walk]:
        """Return the walks that lead furthest, likeliest first."""
        walks = [_Walk()]
        for name in names:
            longer = list[_Walk]()
            for walk in walks:
                if (key := (anchor, walk.path)) not in self._steps:
                    self._steps[key] = [path[-1] for path in paths.grow(self._kg, anchor, walk.path)]
                longer += [walk.then(step) for step in self._match(name, self._steps[key])]
            if not longer:
                break
            walks = sorted(longer, key=lambda walk: -walk.similarity)[:PARTIAL]
        return walks

    def _match(self, name: tuple[str, bool], steps: Sequence[Atom]) -> list[_Walk]:
        """Return the steps that a name may mean, best first; [] where it is like none of them.

        Those of that very id or name, else those as similar as the best, or with all words in any form.
        """
        text, is_backwards = name
        allowed = [a for a in steps if not (is_backwards and a.forward)]
        if not allowed:
            return []
        explained, words = _EXPLAINED.match(text), _key(text)
        forms = {paths.node_form(self._kg, t, True) for t in (text, explained[1] if explained else text)}
        docs = relation_texts(self._kg, [text, *(a.relation for a in allowed)])
        read = ((docs[a.relation], a.forward) for a in allowed)
        names = [[d.label if forward else d.inverse or d.label, d.label, *d.aliases] for d, forward in read]
        # The id of a relation elsewhere in the KG reads as its label.
        cosines = similarities(self._kg, self._encoder, names, docs[text].label or text)
        least, found = thresholds_of(self._encoder).alike, list[_Walk]()
        for atom, own, cosine in zip(allowed, names, cosines, strict=True):
            keys, note = list(map(_key, own)), f"{text!r} read as {atom.relation}"
            if atom.relation in forms:
                found.append(_Walk((atom,)))
            elif words in keys:
                found.append(_Walk((atom,), 1.0, (f"{note} by its name",)))
            elif cosine >= least or any(set(key) <= set(words) for key in keys):
                alike = max(cosine, least)
                found.append(_Walk((atom,), min(alike, 0.99), (f"{note} by similarity {alike:.2f}",)))
        best = max((step.similarity for step in found), default=0.0)
        found = [s for s in found if s.similarity >= (1.0 if best == 1.0 else NEARLY * best)]
        return sorted(found, key=lambda step: -step.similarity)

    def _elsewhere(self, name: str, is_backwards: bool) -> _Walk | None:
        """Return a relation that the KG has, though not where it is needed: by its id, or among those met."""
        form = paths.node_form(self._kg, name, True)
        iri = self._kg.profile.expand(form, relation=True)
        if iri is not None and self._kg.query(f"ASK {{ ?s {iri.n3()} ?o }}").boolean:
            return _Walk((Atom(form, not is_backwards),))
        met = {a.relation for atoms in self._steps.values() for a in atoms} | {*self._kg.profile.relations}
        atoms = [Atom(paths.node_form(self._kg, r, True), not is_backwards) for r in sorted(met)]
        return next(iter(self._match((name, is_backwards), atoms)), None)

    def _drop(self, proposal: Sequence[str], reason: str, anchor: str = "") -> list[Rule]:
        """Record why a proposal is not a rule; return no rules."""
        names = tuple(paths.node_form(self._kg, _read_name(text)[0], True) for text in proposal)
        relations = tuple(n for n in names if self._kg.profile.expand(n, relation=True) is not None)
        self.dropped.append(DroppedRule(f"[{', '.join(proposal)}]", reason, PROPOSED, anchor, relations))
        return []


def _read_name(written: str) -> tuple[str, bool]:
    """Read `r`, `^r`, `inverse of r` or `r^-1`: the name, and whether it says that it is walked backwards."""
    bare = _BACKWARDS.sub("", written).strip(" \n'\"`?")
    return bare, bare != written.strip(" \n'\"`?")


def _key(text: str) -> tuple[str, ...]:
    """Return the roots of a text without words that only join others, so that forms of one wording meet."""
    words = normalise(text).split()
    return tuple(root(w) for w in words if w not in word_list("stop")) or tuple(words)
