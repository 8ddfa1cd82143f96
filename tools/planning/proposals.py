"""Rules that a language model proposes: demonstrations, alignment, grounding (SymAgent 4.1, equation 3).

A relation that the model names is taken for one around the place where it is walked: by its id, by a label or
an alias of it, or by the similarity of its vector to those texts. What is none of these was made up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Atom, DroppedRule, Path, Rule, path_text
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.lexicon import lexicon, root
from triplewise.tools.linking.linker import LinkedEntity, without_brackets
from triplewise.tools.parsing.similarity import NEARLY, similarities, texts_of, thresholds_of
from triplewise.tools.planning.mining import GAP, LEAST_F1, Miner, Plan, PlanSettings, has_gap, share_places
from triplewise.tools.planning.paths import (
    grow,
    leads_somewhere,
    make_atom,
    node_form,
    relation_form,
    with_variables,
)  # fmt: skip
from triplewise.tools.planning.seeds import SeedIndex
from triplewise.tools.retrieval.encoder import Encoder

DEMONSTRATED = 3  # Paths shown of one seed question, best first
PARTIAL = 6  # Ways to walk one proposal that are tried at once
PROPOSED = "proposed by the model"

_PATH = re.compile(r"[\[(]([^\[\]()]+(?:\([^\[\]()]*\)[^\[\]()]*)*)[\])]")
_ARROW = re.compile(r"(<?)-\[([^\]\n]+)\]-")
_CHAIN = re.compile(r"<?-\[[^\]\n]+\]->?(?:[ \t]*\?\w+[ \t]*<?-\[[^\]\n]+\]->?)*")
_BACKWARDS = re.compile(r"^\s*(?:[\^~]|inverse of\b)|(?:\^-1|\(inverse\))\s*$", re.IGNORECASE)
_EXPLAINED = re.compile(r"^(\S+)\s*\((.+)\)$")


def demonstrate(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> list[dict[str, object]]:
    """Return the seed questions most like a question, one of each structure, with their own mined paths.

    Each is a `question` and its `rules`: closed paths from its entity to its answers, best first. The seed
    with the clearest path of its group is shown; a group in which none has any is left out.
    """
    miner = Miner(kg, settings.caps, seeds.mined(settings.caps))
    demonstrations = list[dict[str, object]]()
    for match in seeds.groups_like(question, linked, settings.seed_count)[: settings.seed_count]:
        others = [s for s in match.seeds if s.question != question]  # never the question itself
        mined = list[tuple[str, dict[Path, float]]]()
        for seed in miner.choose(others) if others else ():
            f1 = {path: q.f1 for path, q in miner.of_seed(seed).items() if q.f1 >= LEAST_F1}
            mined += [(seed.question, f1)] if f1 else []
        if mined:
            text, f1 = max(mined, key=lambda pair: max(pair[1].values()))
            best = sorted(f1, key=lambda path: (-round(f1[path], 6), len(path), path))[:DEMONSTRATED]
            rules = tuple(path_text(with_variables(kg, path)) for path in best)
            demonstrations.append({"question": without_brackets(text), "rules": rules})
    return demonstrations


def parse_paths(reply: str) -> list[tuple[str, ...]]:
    """Return paths in a reply: lists of relations in brackets, or chains `-[r1]-> ?x <-[r2]- ?y`.

    `^` before a relation says that it is walked from object to subject, as `<-[r]-` does.
    """

    def as_list(chain: re.Match[str]) -> str:
        return f"[{', '.join(('^' if back else '') + name for back, name in _ARROW.findall(chain[0]))}]"

    paths = (
        tuple(part.strip(" \n'\"`?") for part in re.split(r",|->|∧", listed))
        for listed in _PATH.findall(_CHAIN.sub(as_list, reply))
    )
    return list(dict.fromkeys(path for path in paths if all(path)))


def with_proposals(
    mined: Plan,
    proposals: Sequence[Sequence[str]],
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
    shown: bool = False,
) -> Plan:
    """Return a plan of what a model proposed, then of what was mined; figures of mined rules go to proposals.

    Args:
        mined: the plan without the model; its relations are known to exist.
        proposals: paths as `parse_paths` reads them, the likeliest first.
        settings: the longest path, the most rules (those with a gap do not take the places of all others),
            and whether documents may fill a gap: a proposal of relations that the KG has, though not here,
            then stays a plan.
        shown: whether the model saw the mined rules: where a proposal of its own holds, those that it did not
            take and no seed question supports are left out.
    """
    grounder = _Grounder(kg, encoder, linked, settings, mined)
    rules = dict[tuple[str, Path], Rule]()
    for rule in (rule for proposal in proposals for rule in grounder.ground(proposal)):
        rules.setdefault(rule.key, rule)
    holds, others = shown and not all(map(has_gap, rules.values())), list[Rule]()
    for rule in mined.rules:
        if (same := rules.get(rule.key)) is None:
            others += [rule] if rule.support or not holds else []
        elif rule.support:
            why = f"{same.provenance}; {rule.provenance}"
            figures = {"support": rule.support, "precision": rule.precision, "recall": rule.recall}
            rules[rule.key] = replace(same, provenance=why, **figures)  # type: ignore[arg-type]
    best = share_places([*rules.values(), *others], settings.rules)
    return Plan(tuple(best), (*grounder.dropped, *mined.dropped))


class _Name(NamedTuple):
    """A relation as a model writes it: the text, and whether it says that it is walked backwards."""

    text: str
    backwards: bool

    @classmethod
    def read(cls, written: str) -> _Name:
        """Read `r`, `^r`, `inverse of r` or `r^-1`; a direction that is not written may be either."""
        bare = _BACKWARDS.sub("", written).strip(" \n'\"`?")
        return cls(bare, bare != written.strip(" \n'\"`?"))


class _Aligned(NamedTuple):
    """What a name is taken for: a step, by its id, label, alias or similarity, and the cosine (a name: 1)."""

    atom: Atom
    by: str
    similarity: float = 1.0


@dataclass(frozen=True, slots=True)
class _Walk:
    """One way to walk a proposal: the path so far, what names were taken for, and the similarity of all."""

    path: Path = ()
    notes: tuple[str, ...] = ()
    similarity: float = 1.0

    def longer(self, name: _Name, aligned: _Aligned) -> _Walk:
        """Return the walk with one more step, noting what a name was taken for if not for its id."""
        by = f"similarity {aligned.similarity:.2f}" if aligned.by == "similarity" else f"its {aligned.by}"
        note = () if aligned.by == "id" else (f"{name.text!r} read as {aligned.atom.relation} by {by}",)
        return _Walk((*self.path, aligned.atom), (*self.notes, *note), self.similarity * aligned.similarity)

    def rule(self, anchor: str, note: str = "") -> Rule:
        """Return the rule that it is, with its similarity for a score and where it comes from."""
        provenance = "; ".join((PROPOSED, *dict.fromkeys(self.notes))) + note
        return Rule(anchor, self.path, score=self.similarity, provenance=provenance)


class _Grounder:
    """Turns proposals into rules of the KG; `dropped` are those that are none."""

    def __init__(
        self,
        kg: KnowledgeGraph,
        encoder: Encoder,
        linked: Sequence[LinkedEntity],
        settings: PlanSettings,
        mined: Plan,
    ) -> None:
        self._kg, self._settings = kg, settings
        self._anchors = [node_form(kg, e.id) for e in linked]
        self._relations = tuple(dict.fromkeys(r for rule in mined.rules for r in rule.relations))
        self._encoder, self._threshold = encoder, thresholds_of(encoder).alike
        self._steps: dict[tuple[str, Path], list[Atom]] = {}
        self.dropped: list[DroppedRule] = []

    def ground(self, proposal: Sequence[str]) -> list[Rule]:
        """Return a proposal as rules, from every linked entity that it leads on from."""
        names, hops = [_Name.read(text) for text in proposal], self._settings.caps.hops
        if len(names) > hops:
            return self._drop(proposal, f"longer than {hops} relations (plan_hops)")
        walked = [(anchor, self._walk(anchor, names)) for anchor in self._anchors]
        whole = [walk.rule(a) for a, walks in walked for walk in walks if len(walk.path) == len(names)]
        if rules := [rule for rule in whole if leads_somewhere(self._kg, rule)]:
            return rules
        if whole:
            return self._drop(proposal, "no grounding: it only leads back to where it came from")
        anchor, furthest = max(walked, key=lambda pair: len(pair[1][0].path))
        return self._with_gap(proposal, anchor, furthest[0], names[len(furthest[0].path) :])

    def _walk(self, anchor: str, names: Sequence[_Name]) -> list[_Walk]:
        """Return the walks that lead furthest, likeliest first."""
        walks = [_Walk()]
        for name in names:
            longer = [
                walk.longer(name, aligned)
                for walk in walks
                for aligned in self._match(name, self._around(anchor, walk.path))
            ]
            if not longer:
                break
            walks = sorted(longer, key=lambda walk: -walk.similarity)[:PARTIAL]
        return walks

    def _around(self, anchor: str, path: Path) -> list[Atom]:
        """Return the steps that the KG has behind a path."""
        if (key := (anchor, path)) not in self._steps:
            self._steps[key] = [longer[-1] for longer in grow(self._kg, anchor, path)]
        return self._steps[key]

    def _match(self, name: _Name, steps: Sequence[Atom]) -> list[_Aligned]:
        """Return the steps that a name may mean, best first; () where it is like none of them."""
        allowed = [a for a in steps if not (name.backwards and a.forward)]
        explained = _EXPLAINED.match(name.text)
        forms = {relation_form(self._kg, t) for t in (name.text, explained[1] if explained else name.text)}
        if by_id := [_Aligned(a, "id") for a in allowed if a.relation in forms]:
            return by_id
        key = _key(name.text)
        keys = [(a, [_key(t) for t in texts]) for a, texts in zip(allowed, self._texts(allowed), strict=True)]
        labels = [_Aligned(a, "label") for a, own in keys if own[:1] == [key]]
        if by_text := labels + [_Aligned(a, "alias") for a, own in keys if key in own[1:]]:
            return by_text
        ranked = self._ranked(name, allowed)
        least = max(self._threshold, NEARLY * ranked[0].similarity) if ranked else 0.0
        return [a for a in ranked if a.similarity >= least]

    def _ranked(self, name: _Name, steps: Sequence[Atom]) -> list[_Aligned]:
        """Return steps by their best cosine to a name, however far.

        A name that holds all words of a relation's text, in any form ("film director"), is near enough.
        """
        texts, words = self._texts(steps), set(_key(name.text))
        # The id of a relation elsewhere in the KG reads as its label.
        readable = relation_texts(self._kg, [name.text])[name.text].label or name.text
        cosines = similarities(self._kg, self._encoder, texts, [readable])[:, 0] if steps else ()
        ranked = []
        for atom, group, cosine in zip(steps, texts, cosines, strict=True):
            least = self._threshold * any(set(_key(t)) <= words for t in group)
            ranked.append(_Aligned(atom, "similarity", max(float(cosine), least)))
        return sorted(ranked, key=lambda a: -a.similarity)

    def _texts(self, steps: Sequence[Atom]) -> list[tuple[str, ...]]:
        """Return what each step may be called: also the plain label where it is walked backwards."""
        docs = relation_texts(self._kg, [a.relation for a in steps])
        texts = [(docs[a.relation], texts_of(docs[a.relation], a.forward)[:1]) for a in steps]
        return [tuple(dict.fromkeys(t for t in (*main, d.label, *d.aliases) if t)) for d, main in texts]

    def _with_gap(
        self, proposal: Sequence[str], anchor: str, walk: _Walk, ahead: Sequence[_Name]
    ) -> list[Rule]:
        """Return a proposal that the graph follows only so far: a plan with documents, if all exists."""
        place = "behind " + path_text(walk.path) if walk.path else "at the entity"
        around = self._around(anchor, walk.path)
        for name in ahead:
            if (aligned := self._elsewhere(name)) is None:
                reason = f"the graph has no relation like {name.text!r}"
                for nearest in self._ranked(name, around)[:1]:
                    figures = f"{nearest.similarity:.2f}, {self._threshold:.2f} is needed"
                    reason += f"; the nearest there is {nearest.atom.relation} ({figures})"
                return self._drop(proposal, reason, anchor)
            atom = make_atom(self._kg, aligned.atom.relation, aligned.atom.forward, walk.path)
            walk = walk.longer(name, aligned._replace(atom=atom))
        if not self._settings.documents:
            lacking = f"{'^' if ahead[0].backwards else ''}{ahead[0].text}"
            reason = f"no grounding: the graph has no {lacking} {place}, and no documents are configured"
            return self._drop(proposal, reason, anchor)
        return [walk.rule(anchor, f", {GAP}")]

    def _elsewhere(self, name: _Name) -> _Aligned | None:
        """Return a relation that the KG has, though not where it is needed: by its id, or among those met."""
        form = relation_form(self._kg, name.text)
        iri = self._kg.profile.expand(form, relation=True)
        if iri is not None and self._kg.query(f"ASK {{ ?s {iri.n3()} ?o }}").boolean:
            return _Aligned(Atom(form, not name.backwards), "id")
        met = [a.relation for atoms in self._steps.values() for a in atoms]
        names = (*self._relations, *self._kg.profile.relations, *met)
        forms = dict.fromkeys(relation_form(self._kg, r) for r in names)
        return next(iter(self._match(name, [Atom(f, not name.backwards) for f in forms])), None)

    def _drop(self, proposal: Sequence[str], reason: str, anchor: str = "") -> list[Rule]:
        """Note why a proposal is no rule; returns none."""
        names = tuple(relation_form(self._kg, _Name.read(text).text) for text in proposal)
        relations = tuple(n for n in names if self._kg.profile.expand(n, relation=True) is not None)
        self.dropped.append(DroppedRule(f"[{', '.join(proposal)}]", reason, PROPOSED, anchor, relations))
        return []


def _key(text: str) -> tuple[str, ...]:
    """Return the roots of a text without words that only join others, so that forms of one wording meet."""
    words = normalise(text).split()
    return tuple(root(w) for w in words if w not in lexicon().stop) or tuple(words)
