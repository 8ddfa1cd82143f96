"""Terms as an agent writes them and as it is shown them: names, ids, literals, and a word for mediators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from triplewise.tools.actions.toolset import ActionContext, join_names
from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.terms import IRI, Literal, Node, Term, Triple, Variable, one_line, text
from triplewise.tools.kg.protocol import KnowledgeGraph, Result
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.pyql import text as pyql
from triplewise.tools.pyql.program import Pattern

UNNAMED = "UnName_Entity"  # What a mediator (CVT, statement) is shown as (QueryAgent, table 11)
LONG = 80  # Characters above which a literal is cut
_DATELIKE = re.compile(r"-?\d{4,}-[\d:.T+Z-]*")
_WITH_NOTE = re.compile(r"(?s)(\S+) [(\[](.+)[)\]]")


def short_ids(kg: KnowledgeGraph, terms: Iterable[Term]) -> list[str]:
    """Return short ids and literal texts."""
    return [kg.profile.short(t) for t in terms]


def row_texts(kg: KnowledgeGraph, result: Result) -> list[str]:
    """Return each distinct row as text, its cells joined by commas, `-` for one without a value."""
    short, full = kg.profile.short, [row for row in result.rows if any(term is not None for term in row)]
    return list(dict.fromkeys(", ".join("-" if t is None else short(t) for t in row) for row in full))


def names(kg: KnowledgeGraph, terms: Iterable[Term | None]) -> dict[Term, str]:
    """Return the name of each term: a literal's text, a label, `UnName_Entity`, or the id. One query."""
    named = dict.fromkeys((t for t in terms if t is not None), "")
    labels = kg.labels(named)
    for term in named:
        label = labels.get(term)
        if isinstance(term, Literal):
            named[term] = one_line(term.value)
        else:
            named[term] = UNNAMED if kg.profile.is_mediator(term, label) else label or kg.profile.short(term)
    return named


def with_id(kg: KnowledgeGraph, term: Term, name: str) -> str:
    """Return a name, with the id that further actions need where it differs."""
    short = kg.profile.short(term) if isinstance(term, IRI) else name
    return name if short == name else f"{name} [{short}]"


def as_written(kg: KnowledgeGraph, terms: Sequence[Term], *, ids: bool = True) -> list[str]:
    """Return how actions take terms: names (with ids), and literals, typed, a long one cut."""
    named = names(kg, terms)
    return [
        (pyql.write_node(t, kg.profile) if len(t.value) <= LONG else f'"{t.value[:LONG]}..."')
        if isinstance(t, Literal)
        else "a node without a name"
        if named[t] == UNNAMED
        else (with_id(kg, t, named[t]) if ids else named[t])
        for t in terms
    ]


def list_values(values: Iterable[object], more: bool | str) -> str:
    """Return a list as the papers print it, with an ellipsis where it was cut; `more` may give the number."""
    rest = ["..." if more is True else f"... ({more})"] if more else []
    return f"[{', '.join([*map(repr, values), *rest])}]"


def page_number(form: str) -> int:
    """Return which page of a long list is meant: a number, or `more` for the second; 1 for ""."""
    form = form.strip().strip("'\"").lower() or "1"
    if form in ("more", "next"):
        return 2
    if not form.isdecimal() or not int(form):
        raise ActionError("bad_number", f"{form!r} is not a page: write a number from 1", given=form)
    return int(form)


def triple_lines(kg: KnowledgeGraph, triples: Sequence[Triple], limit: int) -> list[str]:
    """Return triples as `(subject, relation, object)` with names, the first `limit` of them."""
    shown = triples[:limit]
    named = names(kg, (t for triple in shown for t in (triple.subject, triple.object)))
    forms = {term: with_id(kg, term, name) for term, name in named.items()}
    relations = {t.relation: kg.profile.short(t.relation) for t in shown}
    texts = relation_texts(kg, list(relations.values()))
    lines = [f"({forms[t.subject]}, {texts[relations[t.relation]].label}, {forms[t.object]})" for t in shown]
    return [*lines, f"... and {len(triples) - limit} more"] if len(triples) > limit else lines


class Resolver(pyql.Reader):
    """Reads the arguments of one call: names that the run has shown stand for their ids (`repaired`)."""

    def __init__(self, context: ActionContext) -> None:
        super().__init__(context.kg.profile)
        self.context, self.memory = context, context.memory
        self.repaired: dict[str, str] = {}
        self._shown: dict[str, str] = {}

    def node(self, form: str, code: str = "bad_object") -> Node:
        """The variable, literal or entity that a form means."""
        form = form.strip()
        if (term := self._by_name(form)) is not None:
            return term
        node = super().node(form, code)
        if form.startswith("<") and isinstance(node, IRI):
            self._shown[form] = self.profile.short(node)
        return node

    def relation(self, form: str) -> IRI:
        """The relation of an id, without the text that was shown behind it, or of that text alone."""
        id = form.strip().strip("'\"")
        looked_up = (r for sides in self.memory.looked_up.values() for side in sides.values() for r in side)
        offered, noted = dict.fromkeys((*looked_up, *sorted(self.memory.shown))), _WITH_NOTE.fullmatch(id)
        if id not in offered and pyql.read_iri(id, self.profile, relation=True) is None:
            if noted and pyql.read_iri(noted[1], self.profile, relation=True) is not None:
                id = noted[1]
            else:
                texts = relation_texts(self.context.kg, list(offered))
                same = [r for r, text in texts.items() if text.label.casefold() == id.casefold()]
                if len(same) == 1:
                    self.repaired[id] = id = same[0]
        relation = super().relation(id)
        self._shown[form] = self.profile.short(relation) if id.startswith("<") else id
        return relation

    def value(self, form: str) -> Node:
        """What a filter compares: a node, a bare number or date, or else a word, taken as text."""
        form = form.strip()
        if (node := self._by_name(form)) is not None:
            return node
        bare = pyql.bare_datatype(form) is not None or _DATELIKE.fullmatch(form)
        if bare or form.startswith(("?", "<", '"', "'")) or pyql.read_iri(form, self.profile) is not None:
            return super().value(form)
        word = text(form)
        self.repaired[form] = self._shown[form] = word.n3()
        return word

    def parts(self, parts: list[str]) -> list[str]:
        """The parts of one item of a pattern, joined where a comma in a name has split them."""
        return join_names(parts, 3, self.memory.names)

    def pattern(self, form: str) -> Pattern:
        """A pattern of `add_union` or `add_not`."""
        pattern = super().pattern(form)
        self._shown[form] = pyql.write_pattern(pattern, self.profile)
        return pattern

    def shown(self, form: str) -> str:
        """A form as it stands in observations and memory: the short id of what it was read as."""
        return self._shown.get(form, self._shown.get(form.strip(), form))

    def entity(self, form: str) -> Term:
        """The term an exploring action starts from; raises `unknown_entity` for nothing known."""
        form = form.strip()
        term = self._by_name(form)
        if term is None and (literal := pyql.read_literal(form)) is not None:
            # Models quote ids and names; text is only a node if it was linked, or carries a language or type.
            if form in self.memory.names or not form.endswith(form[0]):
                return literal
            form = literal.value
        if term is None and not form.startswith("?"):
            term = pyql.read_iri(form, self.profile)
        if term is None or isinstance(term, Variable):
            linked = list(self.memory.linked)
            message = f"{form!r} is neither an entity id nor the name of a linked entity: {', '.join(linked)}"
            raise ActionError("unknown_entity", message, given=form, linked=linked)
        return term

    def detail(self) -> dict[str, object]:
        """What was repaired, for `Feedback.detail`."""
        return {"repaired": dict(self.repaired)} if self.repaired else {}

    def value_or_none(self, form: str) -> Term | None:
        """The entity or typed literal that a final value means; None for plain text."""
        form = form.strip()
        if form.startswith("?"):
            raise ActionError("bad_answer", f"{form} is a variable: give its values", given=form)
        if (term := self._by_name(form)) is not None or pyql.bare_datatype(form) is not None:
            return term
        with suppress(ActionError):
            if (term := pyql.read_literal(form)) is not None:
                return term
        return pyql.read_iri(form, self.profile)

    def _by_name(self, form: str) -> Term | None:
        """The term that a name stands for; None for ids, variables, literals and what means nothing known."""
        try:
            quoted = pyql.read_literal(form) is not None and form.strip("'\"") not in self.memory.names
        except ActionError:
            quoted = True
        if form.startswith(("?", "<", "(")) or quoted or (id := self._known_id(form)) is None:
            return None
        if (term := pyql.read_literal(id) or pyql.read_iri(id, self.profile)) is not None:
            self.repaired[form] = id
            self._shown[form] = self.profile.short(term) if isinstance(term, IRI) else id
        return term

    def _known_id(self, form: str) -> str | None:
        """The id that a form stands for, None if it is one itself or means nothing known."""
        memory, bare = self.memory, form.strip("'\"")
        ids = set(memory.linked) | set(memory.seen)
        if form in ids or (form != bare and self._is_text(bare)):
            return None
        noted = _WITH_NOTE.fullmatch(bare)
        for candidate in (bare, *(noted.groups() if noted else ())):
            if candidate in ids:
                return candidate
        same = bare.casefold()
        # Models like to write names as identifiers: get_relation(tom_kilburn) (QueryAgent 3.2).
        spelled = {same, same.replace("_", " ")}
        exact = [i for i, label in memory.linked.items() if {label.casefold(), i.casefold()} & spelled]
        exact = exact or [i for i in memory.seen if i.casefold() == same]
        if len(exact) == 1:
            return exact[0]
        if pyql.bare_datatype(form) is not None or pyql.read_iri(form, self.profile) is not None:
            return None
        seen = {i: iri for i in memory.seen if (iri := pyql.read_iri(i, self.profile)) is not None}
        labels = self.context.kg.labels(seen.values())
        named = [i for i, iri in seen.items() if labels.get(iri, "").casefold() == same]
        return named[0] if len(named) == 1 else None

    def _is_text(self, value: str) -> bool:
        """Whether a value was shown that is a text, though it could be an id too: no node of the graph."""
        node = pyql.read_iri(value, self.profile)
        if value not in self.memory.seen or value in self.memory.linked or node is None:
            return False
        with suppress(QueryFailedError):
            around = self.context.kg.relations(node)
            return not (around.forward or around.backward)
        return False
