"""A graph of ten films and questions about them, small enough to be learned in a moment."""

from __future__ import annotations

import json
from pathlib import Path

BASE = "http://films.example/"
FILMS = {
    "Alien": ("Ridley Scott", "South Shields", 1979),
    "Gladiator": ("Ridley Scott", "South Shields", 2000),
    "Jaws": ("Steven Spielberg", "Cincinnati", 1975),
    "Duel": ("Steven Spielberg", "Cincinnati", 1971),
    "Vertigo": ("Alfred Hitchcock", "London", 1958),
    "Psycho": ("Alfred Hitchcock", "London", 1960),
    "Ran": ("Akira Kurosawa", "Tokyo", 1985),
    "Ikiru": ("Akira Kurosawa", "Tokyo", 1952),
    "Brazil": ("Terry Gilliam", "Minneapolis", 1985),
    "Solaris": ("Andrei Tarkovsky", "Zavrazhye", 1972),
}
"""Film -> director, the director's place of birth, year."""
RELATIONS = {"directed_by": "directed by", "place_of_birth": "place of birth", "release_year": "release year"}


def iri(name: str) -> str:
    """The IRI of a node by its name."""
    return f"{BASE}{name.replace(' ', '_')}"


def write_graph(path: Path) -> Path:
    """The graph as an N-Triples file."""
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    names = {name: iri(name) for film, (who, where, _) in FILMS.items() for name in (film, who, where)}
    names |= {text: iri(relation) for relation, text in RELATIONS.items()}
    lines = [f'<{node}> <{label}> "{name}"@en .' for name, node in names.items()]
    for film, (who, where, year) in FILMS.items():
        lines += [
            f"<{iri(film)}> <{BASE}directed_by> <{iri(who)}> .",
            f"<{iri(who)}> <{BASE}place_of_birth> <{iri(where)}> .",
            f'<{iri(film)}> <{BASE}release_year> "{year}" .',
        ]
    path.write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")
    return path


def write_questions(path: Path, form: str = "who directed {}?") -> Path:
    """A question a film, with the names of the answers; one that nothing answers is among them."""
    records = [
        {"id": film, "question": form.format(film), "entities": {film: iri(film)}, "answers": [who]}
        for film, (who, _, _) in FILMS.items()
    ]
    unanswered = {"id": "none", "question": form.format("Jaws") + "!", "entities": {"Jaws": iri("Jaws")}}
    records.append({**unanswered, "answers": ["Nobody"]})
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path
