"""Profiles: how one knowledge graph is shaped, as YAML data (`profiles/*.yaml`).

A profile is the only place where anything special about a KG may stand. `infer` makes one from a graph.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, lru_cache
from importlib import resources
from os.path import isfile
from pathlib import Path
from typing import Any, ClassVar, Literal as OneOf
from urllib.parse import quote, unquote

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.terms import IRI, RDF, RDFS, Literal, Term, one_line

_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*|_):.")
_WEB = re.compile(r"https?://\S+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_REGULAR_EXPRESSIONS = (
    *("excluded_relations", "mediator_patterns", "entity_pattern", "relation_pattern"),
    *("unlabelled_pattern", "linkable_pattern", "endpoint_hosts"),
)
_YEAR = re.compile(r"(?<=[^\W_])(?=(?:1[5-9]|20)\d\d$)")
BLANK = "urn:triplewise:blank:"  # blank nodes of files become IRIs of this namespace
_OF_NAMES = (
    *("label_predicates", "alias_predicates", "description_predicates", "language", "label_at"),
    *("entity_text", "linkable_pattern", "mediator_patterns"),
)
_EXPLANATION = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_NO_OTHER_KEYS = {"extra": "forbid"}
_PROFILES = "triplewise.tools.kg.profiles"
NOTHING = r"(?!)"  # a pattern that is found nowhere
_PLAIN_IN_IRI = "-._~!$&'()*+,;=:@/"


@dataclass(frozen=True)
class RelationText:
    """How a relation reads. `inverse` is its reading from object to subject, where it has one."""

    __pydantic_config__: ClassVar[dict[str, str]] = _NO_OTHER_KEYS

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
        label_predicates: full IRIs of what gives a node its name, in order of preference.
        alias_predicates: the same for further names.
        description_predicates: the same for what tells nodes of one name apart.
        type_predicates: instance-of predicates.
        subclass_predicates: subclass-of predicates.
        excluded_relations: regular expressions over full IRIs of relations that are never queried.
        mediator_patterns: regular expressions over full IRIs of nodes that only join others and are no
            answer (CVT, statements, blank nodes).
        unlabelled_is_mediator: whether an entity without a label counts as a mediator.
        language: preferred label language.
        entity_text: `label` (nodes are known by labels only), or `local` (a node without one is known by the
            words of its id).
        relation_text: `label` (fetched from the KG), `dotted` (Freebase), or `local` (words of the id).
        relation_schema: whether rdfs:comment, domain and range of relations are in the graph, and help.
        relations: readable text per relation (key: short id or full IRI; value: the text, or label, inverse,
            aliases, description, subject_type, object_type).
        aliases: further names of relations (key: short id or full IRI; value: a list of names), in addition
            to those that the graph itself gives.
        prefixes: prefix -> namespace, for the short forms of everything else (`p:P19`, `rdf:type`).
        entity_pattern: a regular expression; only local names that match in full are shown as short entity
            ids, all others with their prefix ("" for any).
        relation_pattern: the same for short relation ids.
        percent_names: whether ids are names, percent-encoded in the IRI and shown decoded.
        label_at: namespace of a relation -> namespace of the node that carries its label.
        relation_notes: namespace -> note added to the reading of its relations ("qualifier").
        unlabelled_pattern: full IRIs that `unlabelled_is_mediator` holds for ("" for all).
        linkable_pattern: full IRIs of the nodes that a question can be about ("" for all but relations).
        reciprocal: whether nearly every relation has an inverse of its own name in the graph, so that all can
            be followed from subject to object.
        endpoint_hosts: regular expressions over an endpoint's URL for which this profile is the default.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _NO_OTHER_KEYS

    name: str = "generic"
    entity_namespaces: tuple[str, ...] = ()
    relation_namespaces: tuple[str, ...] = ()
    label_predicates: tuple[str, ...] = (RDFS + "label",)
    alias_predicates: tuple[str, ...] = ()
    description_predicates: tuple[str, ...] = ()
    type_predicates: tuple[str, ...] = (RDF + "type",)
    subclass_predicates: tuple[str, ...] = ()
    excluded_relations: tuple[str, ...] = ()
    mediator_patterns: tuple[str, ...] = ()
    unlabelled_is_mediator: bool = False
    language: str = "en"
    entity_text: OneOf["label", "local"] = "label"
    relation_text: OneOf["label", "dotted", "local"] = "local"
    relation_schema: bool = False
    relations: dict[str, RelationText] = field(default_factory=dict)
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    entity_pattern: str = ""
    relation_pattern: str = ""
    percent_names: bool = False
    label_at: dict[str, str] = field(default_factory=dict)
    relation_notes: dict[str, str] = field(default_factory=dict)
    unlabelled_pattern: str = ""
    linkable_pattern: str = ""
    reciprocal: bool = False
    endpoint_hosts: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.name, self.entity_namespaces, self.relation_namespaces, self.label_predicates))

    def naming(self) -> Any:
        """The keys that decide which names an index holds, with their values as JSON gives them back."""
        return json.loads(json.dumps({key: getattr(self, key) for key in _OF_NAMES}))

    def short(self, term: Term) -> str:
        """The short form shown to people and models (`Q42`, `P19`, a literal's text); `expand` reads it."""
        return one_line(term.value) if isinstance(term, Literal) else self._short_form(term)

    def expand(self, form: str, relation: bool = False) -> IRI | None:
        """The IRI meant by a short form or `<full IRI>`; None if it has no such form.

        `relation` says whether the form stands where a relation does: it decides which namespaces are
        looked at first. That an IRI comes back does not say that the KG knows it.
        """
        form, value = form.strip(), ""
        prefix, colon, local = form.partition(":")
        if form.startswith("<") and form.endswith(">"):
            value = form[1:-1] if _SCHEME.match(form[1:-1]) else ""
        elif colon and prefix in self.prefixes:
            namespace = self.prefixes[prefix]
            value = namespace + (encode_name(local) if self._is_named(namespace) else local)
        elif _WEB.fullmatch(form):
            value = form
        else:
            entities = self.entity_namespaces, self.entity_pattern
            relations = self.relation_namespaces, self.relation_pattern
            for namespaces, pattern in (relations, entities) if relation else (entities, relations):
                if namespaces and form and re.fullmatch(pattern or ".+", form, re.DOTALL):
                    value = namespaces[0] + (encode_name(form) if self.percent_names else form)
                    break
        try:
            return IRI(value) if value else None
        except ValueError:
            return None

    def name_iri(self, name: str, relation: bool = False) -> IRI:
        """The IRI of something known by name only, in the first namespace of its kind, else ValueError."""
        namespaces = self.relation_namespaces if relation else self.entity_namespaces
        if not namespaces:
            raise ValueError(f"profile {self.name!r} has no namespace to make ids from names")
        return IRI(namespaces[0] + encode_name(name))

    @property
    def type_links(self) -> str:
        """The SPARQL path over what leads from an instance to its class; "" where nothing does."""
        return "|".join(IRI(p).n3() for p in self.type_predicates)

    def excludes(self, relation: IRI) -> bool:
        """Whether the agent should never be offered this relation; nodes without a name are none."""
        excluded = _any_of(self.excluded_relations)
        return relation.value.startswith("_:") or excluded.search(relation.value) is not None

    def is_mediator(self, term: Term, label: str | None) -> bool:
        """Whether a node only joins others (CVT, statement) and is not an answer by itself."""
        if isinstance(term, Literal):
            return False
        if self.unlabelled_is_mediator and not label and re.search(self.unlabelled_pattern, term.value):
            return True
        return _any_of(self.mediator_patterns).search(term.value) is not None

    def linkable(self, iri: str) -> bool:
        """Whether a node is one that questions are about: no relation, type or statement, where it shows."""
        is_mediator = _any_of(self.mediator_patterns).search(iri)
        return not is_mediator and re.search(self.linkable_pattern, iri) is not None

    def local_text(self, iri: IRI) -> str:
        """The name that an IRI itself tells where ids are names (`entity_text`), else ""."""
        is_name = self.entity_text == "local" and not _any_of(self.mediator_patterns).search(iri.value)
        return node_name(iri.value) if is_name else ""

    def label_subject(self, iri: IRI) -> IRI:
        """The node that carries the label of `iri`: itself, but for relations named in `label_at`."""
        namespace = _longest(self.label_at, iri.value)
        return IRI(self.label_at[namespace] + iri.value[len(namespace) :]) if namespace else iri

    def relation_label(self, relation: IRI, fetched: str | None = None) -> RelationText:
        """How a relation reads: the profile's own text, else the fetched label, else words of its name."""
        own = self.relations.get(self.short(relation)) or self.relations.get(relation.value)
        if own is not None:
            return own
        namespaces = [*self.relation_namespaces, *self.entity_namespaces, *self.prefixes.values()]
        local = _longest(namespaces, relation.value)
        local = self._readable(relation.value[len(local) :]) if local else local_name(relation.value)
        if self.relation_text == "dotted" and local.count(".") >= 2:
            # Words of type and name of `domain.type.name`, without repeating a word.
            *_, kind, name = local.split(".")
            subject_type = split_words(kind)
            words = subject_type.split()
            words += [w for i, w in enumerate(split_words(name).split()) if i or w not in words[-1:]]
            aliases = (fetched,) if fetched else ()
            return RelationText(" ".join(words), aliases=aliases, subject_type=subject_type)
        note = self.relation_notes.get(_longest(self.relation_notes, relation.value, whole=True), "")
        return RelationText((fetched or split_words(local)) + (f" ({note})" if note else ""))

    def dump(self, path: Path | str) -> None:
        """Write the profile as YAML, to be edited and given back by its path. Raises `DataError`."""
        from triplewise.tools.core.files import writing

        with writing(Path(path)):
            Path(path).write_text(self.yaml(), encoding="utf-8")

    def yaml(self) -> str:
        """The profile as YAML, each key explained in a comment."""
        import yaml

        values = json.loads(json.dumps(asdict(self)))  # lists for tuples: YAML has no tuples
        values["relations"] = {k: {a: b for a, b in v.items() if b} for k, v in values["relations"].items()}
        about = "A triplewise profile: how this graph is shaped. Edit it, then pass its path as the profile."
        parts = [f"# {about}\n"]
        explained = dict(_EXPLANATION.findall(inspect.getdoc(Profile) or ""))
        for key, value in values.items():
            words = " ".join(explained.get(key, "").split())
            comment = textwrap.fill(words, 110, initial_indent="# ", subsequent_indent="# ")
            parts.append(f"{comment}\n" if comment else "")
            parts.append(yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=110))
        return "".join(parts)

    def _candidate_forms(self, iri: IRI) -> Iterator[tuple[str, bool]]:
        """Short forms to try, best first, with the position each of them is for."""
        value = iri.value
        bare = [(namespace, False) for namespace in self.entity_namespaces]
        for namespace, relation in (*bare, *((namespace, True) for namespace in self.relation_namespaces)):
            form = self._readable(value.removeprefix(namespace))
            if value.startswith(namespace) and form[:1] not in ("", "<", "?", '"'):
                yield form, relation
        for prefix, namespace in sorted(self.prefixes.items(), key=lambda item: -len(item[1])):
            if value.startswith(namespace):
                local = value[len(namespace) :]
                yield f"{prefix}:{self._readable(local) if self._is_named(namespace) else local}", False

    def _is_named(self, namespace: str) -> bool:
        own = namespace in self.entity_namespaces or namespace in self.relation_namespaces
        return self.percent_names and own

    def _readable(self, local: str) -> str:
        return unquote(local, errors="replace") if self.percent_names else local

    @cached_property
    def _short_form(self) -> Callable[[IRI], str]:
        @lru_cache(200_000)
        def find(iri: IRI) -> str:
            for form, relation in self._candidate_forms(iri):
                if form.strip() == form and form.isprintable() and self.expand(form, relation) == iri:
                    return form
            return iri.n3()

        return find


@lru_cache(64)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map("(?:{})".format, patterns)) or NOTHING)


def load_profile(name_or_path: str | Path | Profile) -> Profile:
    """A packaged profile by name, or one from a YAML file. Raises `ConfigurationError` or `DataError`."""
    if isinstance(name_or_path, Profile):
        return name_or_path
    if isinstance(name_or_path, str) and name_or_path in profile_names():
        return _packaged_profile(name_or_path)
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or isfile(path):
        from triplewise.tools.core.files import read_text

        return parse_profile(read_text(path), path)
    legal = [*profile_names(), "the path of a .yaml file"]
    raise ConfigurationError.unknown("profile", str(name_or_path), legal)


@cache
def profile_names() -> tuple[str, ...]:
    """Names of the packaged profiles."""
    names = (file.name for file in resources.files(_PROFILES).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def parse_profile(text: str, path: Path | str) -> Profile:
    """A profile from YAML text; `path` only names it in errors: `DataError`, with line and key.

    `extends: NAME` starts from another profile. The text of a relation may stand for a mapping with a
    `label`.
    """
    from triplewise.tools.core.files import parse_yaml

    document = parse_yaml(text, path)
    if not isinstance(document.value, dict):
        raise DataError("a profile is a mapping of keys to values", path)
    document.value.pop("literal_dates", None)  # of an earlier version; loaded graphs have it
    base = document.value.pop("extends", None)
    if isinstance(relations := document.value.get("relations"), dict):
        relations |= {k: {"label": v} for k, v in relations.items() if isinstance(v, str)}
    settings = document.read_as(Profile)
    for key in _REGULAR_EXPRESSIONS:
        value = getattr(settings, key)
        for pattern in (value,) if isinstance(value, str) else value:
            try:
                re.compile(pattern)
            except re.error as error:
                message = f"key {key!r}: {pattern!r} is not a regular expression: {error}"
                raise document.error(message, key) from error
    if base is None:
        return settings
    return replace(load_profile(str(base)), **{key: getattr(settings, key) for key in document.value})


@cache
def _packaged_profile(name: str) -> Profile:
    text = resources.files(_PROFILES).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return parse_profile(text, f"profiles/{name}.yaml")


def encode_name(name: str) -> str:
    """A name as the local part of an IRI; `unquote` gives it back."""
    return "".join(c if c.isalnum() else quote(c, safe=_PLAIN_IN_IRI) for c in name)


def split_words(local: str) -> str:
    """A local name as words: `placeOfBirth` and `place_of_birth` become `place of birth`."""
    spaced = _CAMEL.sub(" ", re.sub(r"[_\-./]+", " ", unquote(local)))
    words = (word if word.isupper() and len(word) > 1 else word.lower() for word in spaced.split())
    return " ".join(words) or local


def node_name(iri: str) -> str:
    """The local name of an IRI as a name: `fiatStradaCustom1979` becomes `Fiat Strada Custom 1979`."""
    spaced = _CAMEL.sub(" ", re.sub(r"[_./]+", " ", unquote(local_name(iri))))
    return " ".join(word[:1].upper() + word[1:] for word in _YEAR.sub(" ", spaced).split())


def namespace(iri: str) -> str:
    """An IRI up to its local name."""
    return iri[: max(map(iri.rfind, "/#:")) + 1]


def local_name(iri: str) -> str:
    """What stands after the last `#`, `/` or `:` of an IRI (the IRI itself if nothing does)."""
    return re.split(r"[#/:]", iri.rstrip("#/:"))[-1] or iri


def _longest(namespaces: Iterable[str], iri: str, whole: bool = False) -> str:
    """The longest of the namespaces that an IRI lies in, "" if none; `whole`: it may be all of the IRI."""
    return max([n for n in filter(iri.startswith, namespaces) if whole or n != iri], key=len, default="")
