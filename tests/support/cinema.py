"""A small graph about films, people and towns, with enough facts of each relation to tell them apart."""

from __future__ import annotations

from pathlib import Path

PEOPLE = (
    *("Ann Lee", "Bo Kim", "Carla Diaz", "Dan Okoro", "Eva Stein", "Fred Novak", "Gina Rossi", "Hal Moore"),
    *("Ida Berg", "Jon Snowdon", "Kim Park", "Leo Marsh"),
)
TOWNS = [
    "Oslo",
    "Lima",
    "Quito",
    "Porto",
    "Kyoto",
    "Perth",
    "Turin",
    "Leeds",
    "Split",
    "Essen",
    "Tampa",
    "Cairo",
]
FILMS = (
    *("Red Harbor", "The Long Winter", "Paper Moons", "Silent River", "Glass Tower", "Night Ferry"),
    *("Broken Compass", "The Last Orchard", "Salt Road", "Iron Garden", "Blue Lantern", "Hollow Hill"),
)
_HEAD = """@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""


def iri(name: str) -> str:
    """The id of a node by its name."""
    return f"http://example.org/{name.replace(' ', '_')}"


def write_cinema(folder: Path) -> Path:
    """The graph as a file. Film i has director i, actors i+1 and i+2, writer i+3, and is of 1990 + i."""
    lines = [_HEAD]
    for i, film in enumerate(FILMS):
        director, first, second, writer = (PEOPLE[(i + k) % len(PEOPLE)] for k in range(4))
        lines.append(
            f'<{iri(film)}> a :Film ; rdfs:label "{film}" ; :directedBy <{iri(director)}> ; :starring '
            f"<{iri(first)}>, <{iri(second)}> ; :writtenBy <{iri(writer)}> ; "
            f':releaseYear "{1990 + i}"^^xsd:gYear .'
        )
    for i, (person, town) in enumerate(zip(PEOPLE, TOWNS, strict=True)):
        lines.append(f'<{iri(person)}> a :Person ; rdfs:label "{person}" ; :birthPlace <{iri(town)}> .')
        lines.append(f'<{iri(town)}> a :Town ; rdfs:label "{town}" ; :population {10_000 * (i + 1)} .')
    path = folder / "cinema.ttl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
