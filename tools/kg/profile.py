"""Profiles: how one knowledge graph is shaped, as YAML data (`profiles/*.yaml`).

A profile is the only place where anything special about a KG may stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from triplewise.tools.kg.terms import IRI, Term


@dataclass(frozen=True)
class RelationText:
    """How a relation reads. `inverse` is its reading from object to subject, where it has one."""

    label: str
    inverse: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    subject_type: str = ""
    object_type: str = ""


@dataclass(frozen=True)
class Profile:
    """The shape of a KG.

    Attributes:
        name: profile name.
        entity_namespaces: namespaces whose local names are shown as short entity ids (`Q42`, `m.0crbvqz`).
        relation_namespaces: namespaces whose local names are shown as short relation ids (`P19`).
        label_predicates: in order of preference. alias_predicates, description_predicates: likewise.
        type_predicates: instance-of predicates. subclass_predicates: subclass-of predicates.
        excluded_relations: regular expressions over full IRIs, never offered to the agent.
        mediator_patterns: regular expressions over full IRIs of mediator nodes (CVT, statements, blank-like).
        unlabelled_is_mediator: whether an entity without a label counts as a mediator.
        language: preferred label language.
        relations: readable text per relation (key: short id or full IRI).
        relation_text: `label` (fetched from the KG), `dotted` (Freebase), or `local` (local name split).
    """

    name: str = "generic"
    entity_namespaces: tuple[str, ...] = ()
    relation_namespaces: tuple[str, ...] = ()
    label_predicates: tuple[str, ...] = ("http://www.w3.org/2000/01/rdf-schema#label",)
    alias_predicates: tuple[str, ...] = ()
    description_predicates: tuple[str, ...] = ()
    type_predicates: tuple[str, ...] = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type",)
    subclass_predicates: tuple[str, ...] = ()
    excluded_relations: tuple[str, ...] = ()
    mediator_patterns: tuple[str, ...] = ()
    unlabelled_is_mediator: bool = False
    language: str = "en"
    relation_text: str = "local"
    relations: dict[str, RelationText] = field(default_factory=dict)

    def short(self, term: Term) -> str:
        """The short form shown to people and models: `Q42`, `P19`, `m.0crbvqz`, a literal's text."""
        raise NotImplementedError

    def expand(self, form: str, relation: bool = False) -> IRI | None:
        """The IRI meant by a short form or `<full IRI>`; None if it has no such form."""
        raise NotImplementedError

    def excludes(self, relation: IRI) -> bool:
        """Whether the agent should never be offered this relation."""
        raise NotImplementedError

    def is_mediator(self, term: Term, label: str | None) -> bool:
        """Whether a node only joins others (CVT, statement) and is no answer by itself."""
        raise NotImplementedError
