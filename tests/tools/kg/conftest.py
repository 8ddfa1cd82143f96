"""One small KG behind all three engines: in memory, on disk, and in a real Virtuoso."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.virtuoso import Virtuoso
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import read_triple
from triplewise.tools.overlay.overlay import overlaid

GRAPH = "http://example.org/graph"
EX = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
HUB_SIZE = 60

LITERALS = {
    "plain": '"plain"',
    "english": '"colour"@en',
    "british": '"colour"@en-GB',
    "quotes": r'"say \"hi\" \\ back"',
    "lines": r'"two\nlines\tand a tab"',
    "unicode": '"Curaçao 日本 😀"',
    "empty": '""',
    "integer": f'"42"^^<{XSD}integer>',
    "negative": f'"-7"^^<{XSD}integer>',
    "int": f'"5"^^<{XSD}int>',
    "decimal": f'"1.50"^^<{XSD}decimal>',
    "double": f'"2.5e3"^^<{XSD}double>',
    "true": f'"true"^^<{XSD}boolean>',
    "false": f'"false"^^<{XSD}boolean>',
    "date": f'"1903-07-01"^^<{XSD}date>',
    "caesar": f'"-0044-03-15"^^<{XSD}date>',
    "moment": f'"2001-02-03T04:05:06Z"^^<{XSD}dateTime>',
    "fraction": f'"2001-02-03T04:05:06.500"^^<{XSD}dateTime>',
    "year": f'"1903"^^<{XSD}gYear>',
    "month": f'"1903-07"^^<{XSD}gYearMonth>',
    "code": f'"x-1"^^<{EX}code>',
}

FACTS = """
call author london . fang author london . call setIn yukon . fang setIn yukon . call setIn california .
yukon within canada . california within usa . london bornIn sanfrancisco . sanfrancisco within california .
london spouse bess . london spouse charmian . call genre novel . fang genre novel . eel author london .
"""
LABELS = f"""
<{EX}call> <{LABEL}> "The Call of the Wild"@en .
<{EX}call> <{LABEL}> "Ruf der Wildnis"@de .
<{EX}fang> <{LABEL}> "White Fang" .
<{EX}fang> <{LABEL}> "Wolfsblut"@de .
<{EX}eel> <{LABEL}> "Aal"@de .
<{EX}eel> <{LABEL}> "Anguille"@fr .
<{EX}london> <{EX}name> "London"@en .
<{EX}london> <{LABEL}> "Londres"@fr .
<{EX}yukon> <{EX}name> "Yukon (named)"@en .
<{EX}yukon> <{LABEL}> "Yukon"@en .
"""


def facts() -> str:
    """The KG as N-Triples."""
    lines = [LABELS.strip()]
    for fact in FACTS.replace("\n", " ").split(" . "):
        if fact.strip():
            s, p, o = fact.replace(".", "").split()
            lines.append(f"<{EX}{s}> <{EX}{p}> <{EX}{o}> .")
    lines += [f"<{EX}{key}> <{EX}value> {n3} ." for key, n3 in LITERALS.items()]
    lines += [f"<{EX}member{i:03}> <{EX}memberOf> <{EX}hub> ." for i in range(HUB_SIZE)]
    lines.append(f"<{EX}call> <{EX}published> {LITERALS['year']} .")
    lines.append(f"<{EX}eel> <{EX}published> {LITERALS['year']} .")
    return "\n".join(lines) + "\n"


PROFILE = Profile(
    name="test",
    label_predicates=(LABEL, EX + "name"),
    excluded_relations=("rdf-schema#label$", "/name$"),
    language="en",
)


@pytest.fixture(scope="session")
def virtuoso(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Virtuoso that holds the KG in the graph GRAPH."""
    if reason := Virtuoso.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("virtuoso")
    (folder / "facts.nt").write_text(facts(), encoding="utf-8")
    with Virtuoso(folder) as server:
        server.load(folder / "facts.nt", GRAPH)
        server.index_text()
        yield f"{server.url}?default-graph-uri={GRAPH}"


@pytest.fixture(scope="session")
def disk_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a bulk-loaded store."""
    folder = tmp_path_factory.mktemp("store")
    store = ox.Store(str(folder))
    store.bulk_load(facts().encode(), format=ox.RdfFormat.N_TRIPLES)
    store.flush()
    del store
    return folder


@pytest.fixture
def memory_kg() -> KnowledgeGraph:
    """The KG in memory."""
    store = ox.Store()
    store.load(facts().encode(), format=ox.RdfFormat.N_TRIPLES)
    return LocalKG(store, PROFILE, "memory")


@pytest.fixture
def overlaid_kg() -> KnowledgeGraph:
    """Two thirds of the KG in memory, with the rest laid over it as facts read from documents."""
    triples = [read_triple(line) for line in facts().splitlines()]
    below, over = [t for i, t in enumerate(triples) if i % 3], triples[::3]
    store = ox.Store()
    store.load("".join(f"{t.n3()}\n" for t in below).encode(), format=ox.RdfFormat.N_TRIPLES)
    read = [ExtractedFact(t, {}, "q", "d", "s", "x", "2026-01-01T00:00:00Z", "r", 1.0) for t in over]
    return overlaid(LocalKG(store, PROFILE, "overlaid"), read)


ENGINES = ["memory", "disk", "overlaid", pytest.param("virtuoso", marks=pytest.mark.virtuoso)]


NOT_LAID_OVER = ("test_many_nodes_in_few_queries", "test_closed_says_unavailable", "test_failures_are_told")


@pytest.fixture(params=ENGINES)
def kg(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[KnowledgeGraph]:
    """The same KG behind each engine."""
    if request.param == "overlaid" and request.node.originalname in NOT_LAID_OVER:
        pytest.skip("an overlay asks its KG once more, and leaves it open when it is closed")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    openers: dict[str, Callable[[], KnowledgeGraph]] = {
        "memory": lambda: request.getfixturevalue("memory_kg"),
        "overlaid": lambda: request.getfixturevalue("overlaid_kg"),
        "disk": lambda: LocalKG(
            ox.Store.read_only(str(request.getfixturevalue("disk_store"))), PROFILE, "disk"
        ),
        "virtuoso": lambda: EndpointKG(request.getfixturevalue("virtuoso"), PROFILE),
    }
    opened = openers[request.param]()
    yield opened
    opened.close()
