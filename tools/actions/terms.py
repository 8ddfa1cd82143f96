"""Terms as an agent writes them and as it is shown them: names, ids, literals, and a word for mediators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from triplewise.tools.actions.toolset import ActionContext, join_names
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql.program import MATCHES, OPERATORS
from triplewise.tools.pyql.text import pattern_parts, read_bare, read_iri, read_literal, write_iri

UNNAMED = "UnName_Entity"
"""What a mediator (CVT, statement) is shown as (QueryAgent, table 11)."""


def short_ids(kg: KnowledgeGraph, terms: Iterable[Term]) -> list[str]:
    """Return short ids and literal texts."""
    return [kg.profile.short(t) for t in terms]


def names(kg: KnowledgeGraph, terms: Sequence[Term]) -> dict[Term, str]:
    """Return the name of each term: a literal's text, a label, `UnName_Entity`, or the id. One query."""
    labels = kg.labels([t for t in terms if isinstance(t, IRI)])
    named: dict[Term, str] = {}
    for term in terms:
        label = labels.get(term)
        if isinstance(term, Literal):
            named[term] = term.value
        else:
            named[term] = UNNAMED if kg.profile.is_mediator(term, label) else label or kg.profile.short(term)
    return named


def with_id(kg: KnowledgeGraph, term: Term, name: str) -> str:
    """Return a name, with the id that further actions need where it differs."""
    short = kg.profile.short(term) if isinstance(term, IRI) else name
    return name if short == name else f"{name} [{short}]"


def list_values(values: Iterable[object], more: bool) -> str:
    """Return a list as the papers print it, with an ellipsis where it was cut."""
    return f"[{', '.join([*map(repr, values), *(['...'] if more else [])])}]"


def relation_names(kg: KnowledgeGraph, relations: Iterable[str]) -> list[str]:
    """Return short ids, with their text in brackets where the id alone says nothing (`P36 (capital)`)."""
    ids = list(relations)
    if kg.profile.relation_text != "label":
        return ids
    texts = relation_texts(kg, ids)
    return [f"{r} ({texts[r].label})" if texts[r].label not in ("", r) else r for r in ids]


def triple_lines(kg: KnowledgeGraph, triples: Sequence[Triple], limit: int) -> list[str]:
    """Return triples as `(subject, relation, object)` with names, the first `limit` of them."""
    shown = triples[:limit]
    ends = dict.fromkeys(t for triple in shown for t in (triple.subject, triple.object))
    forms = {term: with_id(kg, term, name) for term, name in names(kg, list(ends)).items()}
    relations = {t.relation: kg.profile.short(t.relation) for t in shown}
    texts = relation_texts(kg, list(relations.values()))
    lines = [f"({forms[t.subject]}, {texts[relations[t.relation]].label}, {forms[t.object]})" for t in shown]
    return [*lines, f"... and {len(triples) - limit} more"] if len(triples) > limit else lines


_DATELIKE = re.compile(r"-?\d{4,}-[\d:.T+Z-]*")
_WITH_NOTE = re.compile(r"(?s)(\S+) [(\[](.+)[)\]]")


@dataclass
class Resolver:
    """Reads the arguments of one call.

    Attributes:
        context: what is known in the step.
        repaired: what was written -> the id it was read as, for everything that was no id.
    """

    context: ActionContext
    repaired: dict[str, str] = field(default_factory=dict)

    def node(self, form: str) -> str:
        """Return a form that PyQL reads: variables, literals and ids as they are, names as ids."""
        form = form.strip()
        if form.startswith(("?", "<", "(")) or self._is_literal(form):
            return form
        known = self._known_id(form)
        return form if known is None else self._repair(form, known)

    def relation(self, form: str) -> str:
        """Return the id of a relation, without the text that was shown behind it, or from that text alone."""
        form = form.strip().strip("'\"")
        profile = self.context.kg.profile
        noted = _WITH_NOTE.fullmatch(form)
        if form in self._offered() or read_iri(form, profile, relation=True) is not None:
            return form
        if noted and read_iri(noted[1], profile, relation=True) is not None:
            return noted[1]
        texts = relation_texts(self.context.kg, self._offered())
        found = [r for r, text in texts.items() if text.label.casefold() == form.casefold()]
        return self._repair(form, found[0]) if len(found) == 1 else form

    def value(self, form: str) -> str:
        """Return what a filter compares: a node, a bare number or date, or else a word, taken as text."""
        node = self.node(form)
        if node.startswith(("?", "<", '"', "'")) or is_bare(node) or _DATELIKE.fullmatch(node):
            return node
        if read_iri(node, self.context.kg.profile) is not None:
            return node
        self.repaired[node] = text(node).n3()
        return self.repaired[node]

    def pattern(self, form: str) -> str:
        """Return a pattern of `add_union` or `add_not` with every part resolved."""
        return " & ".join(f"({', '.join(self.triple(parts))})" for parts in pattern_parts(form))

    def comparison(self, left: str, operator: str, right: str) -> list[str]:
        """Return the parts of a filter; what text is matched with stays text."""
        if operator.strip("'\"").casefold() in MATCHES:
            return [left, operator, right if right.startswith(("?", '"', "'")) else text(right).n3()]
        return [self.value(left), operator, self.value(right)]

    def triple(self, parts: Sequence[str]) -> list[str]:
        """Return the parts of a triple, type or filter."""
        parts = join_names(parts, 3, self.context.memory.names)
        if len(parts) != 3:
            return parts
        subject, middle, end = parts
        if middle == "a":
            return [subject, middle, self._safe(self.node(end))]
        if not middle[:1].isalpha() or middle.casefold() in OPERATORS:
            left, operator, right = self.comparison(subject, middle, end)
            return [self._safe(left), operator, self._safe(right)]
        return [self._safe(self.node(subject)), self.relation(middle), self._safe(self.node(end))]

    def shown(self, form: str) -> str:
        """Return a form as it stands in observations and memory: the short id of an IRI."""
        whole = form.startswith("<") and form.endswith(">")  # not the operators < and <=
        iri = read_iri(form, self.context.kg.profile) if whole else None
        return form if iri is None else self.context.kg.profile.short(iri)

    def entity(self, form: str) -> Term:
        """Return the term an exploring action starts from.

        Raises:
            ActionError: `unknown_entity` if the form is neither an id, a literal nor a known name.
        """
        form = self.node(form.strip())
        literal = read_literal(form)
        # Models quote ids and names; text is only a node if it was linked, or carries a language or datatype.
        if literal is not None and (form in self.context.memory.names or not form.endswith(form[0])):
            return literal
        form = form if literal is None else literal.value
        iri = None if form.startswith("?") else read_iri(form, self.context.kg.profile)
        if iri is None:
            linked = list(self.context.memory.linked)
            raise ActionError(
                "unknown_entity",
                f"{form!r} is neither an entity id nor the name of a linked entity: {', '.join(linked)}",
                given=form,
                linked=linked,
            )
        return iri

    def detail(self) -> dict[str, object]:
        """Return what was repaired, for `Feedback.detail`."""
        return {"repaired": dict(self.repaired)} if self.repaired else {}

    def value_or_none(self, form: str) -> Term | None:
        """Return the entity or typed literal that a final value means; None for plain text."""
        known = self.node(form)
        if known.startswith("?"):
            raise ActionError("bad_answer", f"{form} is a variable: give its values", given=form)
        if is_bare(known):
            return None
        try:
            literal = read_literal(known)
        except ActionError:
            literal = None
        if literal is not None:
            return literal
        return read_iri(known, self.context.kg.profile)

    def _is_literal(self, form: str) -> bool:
        try:
            return read_literal(form) is not None and form.strip("'\"") not in self.context.memory.names
        except ActionError:
            return True

    def _known_id(self, form: str) -> str | None:
        """Return the id that a form stands for, None if it is one itself or means nothing known."""
        memory, profile = self.context.memory, self.context.kg.profile
        bare = form.strip("'\"")
        ids = set(memory.linked) | set(memory.seen)
        if form in ids:
            return None
        if bare in ids:
            return bare
        noted = _WITH_NOTE.fullmatch(bare)
        candidates = [x for x in noted.groups() if x in ids] if noted else []
        if candidates:
            return candidates[0]
        same = bare.casefold()
        # Models like to write names as identifiers: get_relation(tom_kilburn) (QueryAgent 3.2).
        spelled = (same, same.replace("_", " "))
        exact = [i for i, label in memory.linked.items() if {label.casefold(), i.casefold()} & set(spelled)]
        exact = exact or [i for i in memory.seen if i.casefold() == same]
        if len(exact) == 1:
            return exact[0]
        return None if is_bare(form) or read_iri(form, profile) is not None else self._seen_by_name(bare)

    def _seen_by_name(self, name: str) -> str | None:
        """Return the one entity seen so far that has a name."""
        profile, kg = self.context.kg.profile, self.context.kg
        seen = {i: iri for i in self.context.memory.seen if (iri := read_iri(i, profile)) is not None}
        labels = kg.labels(seen.values()) if seen else {}
        found = [i for i, iri in seen.items() if labels.get(iri, "").casefold() == name.casefold()]
        return found[0] if len(found) == 1 else None

    def _repair(self, form: str, known: str) -> str:
        """Note what a form was read as, and return it in a form that is safe among commas."""
        self.repaired[form] = known
        if read_literal(known) is not None:
            return known
        iri = read_iri(known, self.context.kg.profile)
        return known if iri is None else write_iri(iri, self.context.kg.profile)

    def _safe(self, form: str) -> str:
        """Return a form that cannot be torn apart at its commas."""
        plain = form.startswith(("?", '"', "'")) or is_bare(form)
        iri = None if plain else read_iri(form, self.context.kg.profile)
        return form if iri is None else write_iri(iri, self.context.kg.profile)

    def _offered(self) -> list[str]:
        """Return all relations that were shown so far."""
        shown = (
            r for sides in self.context.memory.looked_up.values() for side in sides.values() for r in side
        )
        return list(dict.fromkeys(shown))


def is_bare(form: str) -> bool:
    """Whether a form is a bare number, date or boolean."""
    try:
        return read_bare(form) is not None
    except ActionError:
        return False
