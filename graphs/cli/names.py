"""Labels for everything a run mentions by id, fetched in batches as the run goes on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg import IRI, KnowledgeGraph, readable
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.reading.entity_names import MINTED

if TYPE_CHECKING:
    from triplewise.nodes.state import Step
    from triplewise.tools.actions import Toolset
    from triplewise.tools.core.rules import Rule

ID_STYLE = "dim"


def tag_of(short: str) -> str:
    """What stands behind a label: its id, or that the graph has no such node."""
    return f" ({'not in the graph' if MINTED in short else short})"


class Names:
    """Short ids to labels. What has no label reads as its id."""

    def __init__(self, kg: KnowledgeGraph, toolset: Toolset) -> None:
        self.kg, self.toolset = kg, toolset
        self.known: dict[str, str] = {}

    def learn(self, nodes: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        """Fetch the labels of ids not seen yet: one query for nodes, one for relations."""
        new = [r for r in dict.fromkeys(relations) if r not in self.known]
        self.known |= {r: text.label or r for r, text in relation_texts(self.kg, new).items()}
        iris = {n: self.kg.profile.expand(n) for n in dict.fromkeys(nodes) if n not in self.known}
        found = self.kg.labels([iri for iri in iris.values() if iri is not None])
        self.known |= {n: found.get(iri, n) if iri else n for n, iri in iris.items()}

    def learn_rules(self, rules: Iterable[Rule]) -> None:
        """Learn what rules mention."""
        nodes, relations = [], []
        for rule in rules:
            named = (n for c in rule.constraints for n in (c.variable, c.operator, c.value))
            nodes += [rule.anchor, *(n for n in named if n)]
            relations += [a.relation for a in (*rule.body, *(a for c in rule.constraints for a in c.atoms))]
        self.learn(nodes, relations)

    def learn_step(self, step: Step) -> None:
        """Learn what a step mentions."""
        feedback = step.feedback
        for fact in feedback.facts:
            self.known |= {self.kg.profile.short(IRI(node)): name for node, name in fact.labels.items()}
        nodes = [i for ids in feedback.ids.values() for i in ids] + list(feedback.answers)
        relations = [r for side in feedback.relations.values() for r in side]
        action = self.toolset.actions.get(feedback.action)
        for parameter, argument in zip(action.parameters if action else (), feedback.arguments, strict=False):
            if parameter.kind == "relation":
                relations.append(argument)
            elif parameter.kind in ("node", "entity", "value") and not argument.startswith("?"):
                nodes.append(argument)
        self.learn(nodes, relations)

    def learn_triples(self, triples: Iterable[Triple]) -> None:
        """Learn what facts mention."""
        triples, short = list(triples), self.kg.profile.short
        nodes = [short(n) for t in triples for n in (t.subject, t.object) if isinstance(n, IRI)]
        self.learn(nodes, [short(t.relation) for t in triples])

    def label(self, short: str) -> str:
        """The label of an id, or the id."""
        return self.known.get(short, short)

    def tagged(self, short: str) -> Text:
        """The label with the id behind it, dim and in brackets; only the id where it has no label."""
        label = self.label(short)
        return Text(label) if label == short else Text.assemble(label, (tag_of(short), ID_STYLE))

    def term(self, term: Term) -> Text:
        """A node of a fact, tagged; a literal as people read it."""
        return self.tagged(self.kg.profile.short(term)) if isinstance(term, IRI) else Text(readable(term))

    def readable(self, text: str, tag: bool = False) -> Text:
        """Text with every known id in it replaced by its label, tagged if asked."""
        result, end = Text(), 0
        for match in self._pattern(self.known).finditer(text):
            result.append(text[end : match.start()])
            short = match.group()
            if text[: match.start()].endswith(f"{self.known[short]} [") and text.startswith("]", match.end()):
                # `Bram Stoker [Q36184]`: the label stands there already.
                result.right_crop(2)
                result.append(f" ({short})" if tag else "", ID_STYLE)
                end = match.end() + 1
                continue
            # An id that the text itself explains already, as in `P36 (capital)`, is only turned round.
            explained = f" ({self.known[short]})"
            end = match.end()
            if text.startswith(explained, end):
                end += len(explained)
            result.append_text(self.tagged(short) if tag else Text(self.known[short]))
        return result.append(text[end:])

    @staticmethod
    def _pattern(known: Mapping[str, Any]) -> re.Pattern[str]:
        """Finds known ids that could not be taken for words, the longest first."""
        ids = sorted(
            (i for i, label in known.items() if label != i and not i.isalpha()), key=len, reverse=True
        )
        return re.compile(rf"(?<![\w:/?.])(?:{'|'.join(map(re.escape, ids)) or '(?!)'})(?![\w:/])")
