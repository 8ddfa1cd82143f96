"""Rules that a language model proposes: read, aligned to relations of the KG, and grounded (SymAgent 4.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from triplewise.tools.core.rules import Atom, DroppedRule, Rule, path_text
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.align import NEAR, Aligned, Aligner, Named, named
from triplewise.tools.planning.bodies import (
    Body,
    ground,
    grow,
    make_atom,
    node_form,
    relation_form,
    run,
    without_topic,
)
from triplewise.tools.planning.lexical.gaps import GAP, shared_places
from triplewise.tools.planning.lexical.planner import Plan
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.retrieval.encoder import Encoder

PARTIAL = 6
"""Readings of one proposal that are walked at once."""
PROPOSED = "proposed by the model"

_PATH = re.compile(r"[\[(]([^\[\]()]+(?:\([^\[\]()]*\)[^\[\]()]*)*)[\])]")
_ARROW = re.compile(r"(<?)-\[([^\]\n]+)\]-")
_CHAIN = re.compile(r"<?-\[[^\]\n]+\]->?(?:[ \t]*\?\w+[ \t]*<?-\[[^\]\n]+\]->?)*")


def parse_bodies(reply: str) -> list[tuple[str, ...]]:
    """Rule bodies in a reply: lists of relations in brackets, or chains `-[r1]-> ?x <-[r2]- ?y`.

    `^` before a relation says that it is walked from object to subject, as `<-[r]-` does.
    """
    bodies: list[tuple[str, ...]] = []
    for listed in _PATH.findall(_CHAIN.sub(_as_list, reply)):
        bodies.append(tuple(part.strip(" \n'\"`?") for part in re.split(r",|->|∧", listed)))
    return list(dict.fromkeys(b for b in bodies if b and all(b)))


def _as_list(chain: re.Match[str]) -> str:
    """A chain of arrows as a list of its relations."""
    return f"[{', '.join(('^' if back else '') + name for back, name in _ARROW.findall(chain[0]))}]"


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to walk a proposal: the atoms so far, what names were taken for, and the likeness of all."""

    body: Body = ()
    taken: tuple[str, ...] = ()
    likeness: float = 1.0


@dataclass(slots=True)
class Grounder:
    """Turns proposals into rules of the KG.

    Attributes:
        documents: whether documents may fill a gap: a proposal of relations that the KG has, though not
            here, then stays a plan.
        hops: longest body.
        known: relations of the KG besides those around the entities, such as those of mined rules.
    """

    kg: KnowledgeGraph
    encoder: Encoder
    linked: Sequence[LinkedEntity]
    documents: bool = False
    hops: int = 3
    known: Sequence[str] = ()
    aligner: Aligner = field(init=False)
    _steps: dict[tuple[str, Body], list[Atom]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.aligner = Aligner(self.kg, self.encoder)

    def ground(self, proposal: Sequence[str]) -> tuple[list[Rule], DroppedRule | None]:
        """A proposal as rules, from every linked entity that it leads on from; or why it is none."""
        names = [named(text) for text in proposal]
        if len(names) > self.hops:
            return [], self._dropped(proposal, f"longer than {self.hops} relations (plan_hops)")
        walked = [
            (node_form(self.kg, e.id), self._walk(node_form(self.kg, e.id), names)) for e in self.linked
        ]
        rules = [r for anchor, found in walked for r in self._whole(anchor, found, len(names))]
        if rules:
            return rules, None
        anchor, partial = max(walked, key=lambda pair: len(pair[1][0].body))
        if len(partial[0].body) == len(names):
            return [], self._dropped(proposal, "no grounding: it only leads back to where it came from")
        return self._with_gap(proposal, anchor, partial[0], names[len(partial[0].body) :])

    def _walk(self, anchor: str, names: Sequence[Named]) -> list[_Reading]:
        """The readings that lead furthest, likeliest first."""
        readings = [_Reading()]
        for name in names:
            longer = [
                self._longer(r, name, a)
                for r in readings
                for a in self.aligner.match(name, self._around(anchor, r.body))
            ]
            if not longer:
                break
            readings = sorted(longer, key=lambda r: -r.likeness)[:PARTIAL]
        return readings

    def _around(self, anchor: str, body: Body) -> list[Atom]:
        """Steps that the KG has behind a body."""
        key = (anchor, body)
        if key not in self._steps:
            self._steps[key] = [b[-1] for b in grow(self.kg, anchor, body)]
        return self._steps[key]

    def _longer(self, reading: _Reading, name: Named, found: Aligned) -> _Reading:
        """A reading with one more atom."""
        notes = (*reading.taken, *_note(name, found))
        return _Reading((*reading.body, found.atom), notes, reading.likeness * found.likeness)

    def _whole(self, anchor: str, readings: Sequence[_Reading], length: int) -> list[Rule]:
        """Readings that are walked to their end and lead somewhere else than back."""
        rules = []
        for reading in (r for r in readings if len(r.body) == length):
            rule = without_topic(self.kg, ground(anchor, reading.body))
            if run(self.kg, rule, limit=1).outcome is not Outcome.EMPTY:
                note = "; ".join((PROPOSED, *dict.fromkeys(reading.taken)))
                rules.append(replace(rule, score=reading.likeness, provenance=note))
        return rules

    def _with_gap(
        self, proposal: Sequence[str], anchor: str, reading: _Reading, ahead: Sequence[Named]
    ) -> tuple[list[Rule], DroppedRule | None]:
        """A proposal that the graph follows only so far: a plan with documents, if its relations exist."""
        place = "behind " + path_text(reading.body) if reading.body else "at the entity"
        for name in ahead:
            found = self._elsewhere(name)
            if found is None:
                made_up = self._made_up(name, anchor, reading.body)
                return [], self._dropped(proposal, made_up, anchor)
            variables = [a.variable for a in reading.body]
            atom = make_atom(self.kg, found.atom.relation, found.atom.forward, variables)
            reading = self._longer(reading, name, replace(found, atom=atom))
        if not self.documents:
            reason = (
                f"no grounding: the graph has no {ahead[0].written} {place}, and no documents are configured"
            )
            return [], self._dropped(proposal, reason, anchor)
        note = "; ".join((PROPOSED, *dict.fromkeys(reading.taken)))
        rule = replace(ground(anchor, reading.body), score=reading.likeness, provenance=f"{note}, {GAP}")
        return [rule], None

    def _elsewhere(self, name: Named) -> Aligned | None:
        """A relation that the KG has, though not where it is needed: by its id, or among those met so far."""
        form = relation_form(self.kg, name.text)
        iri = self.kg.profile.expand(form, relation=True)
        if iri is not None and self.kg.query(f"ASK {{ ?s {iri.n3()} ?o }}").boolean is not False:
            return Aligned(Atom(form, not name.backwards, "x"), "id")
        met = [a.relation for atoms in self._steps.values() for a in atoms]
        names = dict.fromkeys((*self.known, *self.kg.profile.relations, *met))
        forms = dict.fromkeys(relation_form(self.kg, r) for r in names)
        return next(iter(self.aligner.match(name, [Atom(f, not name.backwards, "x") for f in forms])), None)

    def _made_up(self, name: Named, anchor: str, body: Body) -> str:
        """That no relation of the KG is meant, with the nearest one there is."""
        nearest = self.aligner.nearest(name, self._around(anchor, body))
        if nearest is None:
            return f"the graph has no relation like {name.text!r}"
        figures = f"{nearest.likeness:.2f}, {NEAR:.2f} is needed"
        near = f"the nearest there is {nearest.atom.relation} ({figures})"
        return f"the graph has no relation like {name.text!r}; {near}"

    def _dropped(self, proposal: Sequence[str], reason: str, anchor: str = "") -> DroppedRule:
        """A proposal that is no rule."""
        names = tuple(relation_form(self.kg, named(text).text) for text in proposal)
        known = tuple(n for n in names if self.kg.profile.expand(n, relation=True) is not None)
        return DroppedRule(f"[{', '.join(proposal)}]", reason, PROPOSED, anchor, known)


def _note(name: Named, found: Aligned) -> tuple[str, ...]:
    """What a name was taken for, where that is not just its id."""
    if found.how == "id":
        return ()
    why = f"likeness {found.likeness:.2f}" if found.how == "near" else f"its {found.how}"
    return (f"{name.text!r} read as {found.atom.relation} by {why}",)


def with_proposals(mined: Plan, proposals: Sequence[Sequence[str]], grounder: Grounder, limit: int) -> Plan:
    """A plan of what a model proposed, then of what was mined; figures of mined rules go to proposals.

    Args:
        proposals: rule bodies as `parse_bodies` reads them, the likeliest first.
        limit: most rules; those with a gap do not take the places of all others.
    """
    rules: list[Rule] = []
    left: list[DroppedRule] = []
    for proposal in proposals:
        found, reason = grounder.ground(proposal)
        rules += found
        left += [reason] if reason is not None else []
    known = {(r.anchor, r.body): r for r in mined.rules}
    rules = [_measured(r, known.get((r.anchor, r.body))) for r in dict.fromkeys(rules)]
    own = {(r.anchor, r.body) for r in rules}
    rules += [r for r in mined.rules if (r.anchor, r.body) not in own or r.constraints]
    return Plan(tuple(shared_places(rules, limit)), (*left, *mined.dropped))


def _measured(rule: Rule, known: Rule | None) -> Rule:
    """A proposed rule with the figures of the same rule mined from seeds."""
    if known is None or not known.support:
        return rule
    note = f"{rule.provenance}; {known.provenance}"
    return replace(
        rule, support=known.support, precision=known.precision, recall=known.recall, provenance=note
    )


def grounder_for(
    kg: KnowledgeGraph, encoder: Encoder, linked: Sequence[LinkedEntity], settings: PlanSettings, mined: Plan
) -> Grounder:
    """A grounder under the settings of a plan; it knows the relations of the rules that were mined."""
    known = tuple(dict.fromkeys(r for rule in mined.rules for r in rule.relations))
    return Grounder(kg, encoder, linked, settings.documents, settings.hops, known)
