"""The names of a store's nodes, as they go into its label index."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyoxigraph as ox

from triplewise.tools.kg.labels import Name
from triplewise.tools.kg.oxterms import safe_iri
from triplewise.tools.kg.profile import Profile, local_name, split_words
from triplewise.tools.kg.sources import Feed


def named(store: ox.Store, profile: Profile, feed: Feed) -> Iterator[Name]:
    """The names of a store's nodes, in order of preference: labels, then aliases.

    Relations and what the profile does not link are left out. A graph without any label is indexed by the
    words of its ids.
    """
    relations = {profile.label_subject(safe_iri(p)).value for p in feed.predicates} | feed.predicates
    found = False
    for name in _labels(store, profile):
        if name.iri not in relations and profile.linkable(name.iri):
            found = True
            yield name
    if not found:
        for iri in feed.popularity:
            if iri not in relations and profile.linkable(iri):
                yield Name(iri, split_words(local_name(iri)))


def describer(store: ox.Store, profile: Profile) -> Callable[[str], str]:
    """A function from a node's IRI to its description, "" if it has none."""
    predicates = [ox.NamedNode(p) for p in profile.description_predicates]

    def describe(iri: str) -> str:
        for predicate in predicates:
            for quad in store.quads_for_pattern(ox.NamedNode(iri), predicate, None, None):
                if isinstance(quad.object, ox.Literal) and quad.object.language in (None, profile.language):
                    return quad.object.value
        return ""

    return describe


def _labels(store: ox.Store, profile: Profile) -> Iterator[Name]:
    """Labels, then aliases, in the profile's language or in none."""
    languages = {"", "mul", profile.language}
    for alias, predicates in ((False, profile.label_predicates), (True, profile.alias_predicates)):
        for predicate in predicates:
            for quad in store.quads_for_pattern(None, ox.NamedNode(predicate), None, None):
                subject, value = quad.subject, quad.object
                if not isinstance(subject, ox.NamedNode) or not isinstance(value, ox.Literal):
                    continue
                if (value.language or "").lower().partition("-")[0] in languages:
                    yield Name(subject.value, value.value, alias)
