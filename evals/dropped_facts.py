"""Documents that state the facts which an incomplete graph has lost (SymAgent, section 5 and appendix A.1).

The sentences (`dropped_facts.yaml`) share no word with the names of the relations: what a document says has
to be understood, not matched. There are sentences for the relations of MetaQA.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pyoxigraph as ox
import yaml

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.rdf import from_ox, safe_iri
from triplewise.tools.kg.subset.incomplete import DROPPED


def sentences_of(profile: str) -> Mapping[str, Sequence[str]]:
    """Return the sentences for each relation of a graph, with {s} and {o} for subject and object.

    Raises:
        ConfigurationError: there are none for graphs of this profile.
    """
    text = (files("triplewise.evals") / "dropped_facts.yaml").read_text(encoding="utf-8")
    by_profile: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    if profile not in by_profile:
        raise ConfigurationError("there are sentences for documents of MetaQA's relations only")
    return by_profile[profile]


def write_documents(kg_folder: Path, folder: Path, seed: int = 1) -> int:
    """Write the facts that a graph has lost, one document about each subject, and return how many there are.

    Args:
        kg_folder: the incomplete graph. folder: where the documents go. seed: draws a sentence for each fact.

    Raises:
        ConfigurationError: there are no sentences for the graph's relations.
    """
    kg = open_kg(kg_folder)
    short, sentences = kg.profile.short, sentences_of(kg.profile.name)
    text = (kg_folder / DROPPED).read_text(encoding="utf-8")
    triples = [(q.subject, q.predicate, q.object) for q in ox.parse(text, format=ox.RdfFormat.N_TRIPLES)]
    terms = (from_ox(end) for s, _, o in triples for end in (s, o))
    labels = kg.labels([term for term in terms if isinstance(term, IRI | Literal)])
    by_subject: dict[str, list[str]] = defaultdict(list)
    for s, p, o in triples:
        subject, value = (labels.get(t) or short(t) for t in map(from_ox, (s, o)) if t is not None)
        draw = random.Random(f"{seed} {s} {p} {o}")
        sentence = draw.choice(sentences[short(safe_iri(p.value))])
        by_subject[subject].append(sentence.format(s=subject, o=value))
    folder.mkdir(parents=True, exist_ok=True)
    for number, (subject, parts) in enumerate(sorted(by_subject.items())):
        (folder / f"{number:05}.md").write_text(f"# {subject}\n\n{' '.join(parts)}\n", encoding="utf-8")
    return len(by_subject)
