"""Search: names in any spelling, words for what they mean, and ids that other actions take."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from tests.support.calls import parse_call
from triplewise.tools.actions import TOOLSETS, ActionContext
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Meter
from triplewise.tools.linking.search import Match, MatchKind, relations_of, search_kg
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@pytest.fixture(scope="module")
def demo() -> KnowledgeGraph:
    return open_kg("demo")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return open_encoder()


@pytest.mark.parametrize(
    ("text", "kind", "id"),
    [
        ("Goethe", "entity", "Q5879"),
        ("call of the wild", "entity", "Q476871"),
        ("Johan Wolfgang von Göthe", "entity", "Q5879"),
        ("capital", "relation", "P36"),
        ("where someone was born", "relation", "P19"),
        ("rivers", "class", "Q4022"),
    ],
)
def test_what_is_meant_comes_first_or_second(
    demo: KnowledgeGraph, encoder: Encoder, text: str, kind: MatchKind, id: str
) -> None:
    assert (id, kind) in [(m.id, m.kind) for m in search_kg(demo, text, [kind], encoder)[:2]]


@pytest.mark.parametrize(
    ("text", "id"), [("movie", "Q11424"), ("bornIn", "P19"), ("P57", "P57"), ("wdt:P57", "P57")]
)
def test_other_words_and_ids_as_written_are_found_among_all_kinds(
    demo: KnowledgeGraph, encoder: Encoder, text: str, id: str
) -> None:
    assert id in [m.id for m in search_kg(demo, text, encoder=encoder)]


def test_a_match_says_what_it_is(demo: KnowledgeGraph) -> None:
    goethe = search_kg(demo, "Goethe", ["entity"])[0]
    assert goethe.types == ("human",)
    assert goethe.text().startswith("Q5879: Johann Wolfgang von Goethe (human; German writer")


def test_a_name_brings_no_far_fetched_relations(demo: KnowledgeGraph, encoder: Encoder) -> None:
    matches = search_kg(demo, "Mont Blanc", encoder=encoder)
    assert matches[0].id == "Q583"
    assert sum(m.kind != "entity" for m in matches) < 6
    assert search_kg(demo, "?!", encoder=encoder) == ()


def test_a_search_again_asks_for_no_vocabulary_again(demo: KnowledgeGraph, encoder: Encoder) -> None:
    search_kg(demo, "capital", encoder=encoder)
    meter = Meter(demo.meter)
    search_kg(demo, "mouth", ["relation", "class"], encoder)
    assert meter.queries == 0


class _WithoutIndex:
    """The demo as an endpoint is: no label index."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg

    index = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._kg, name)


def test_a_time_out_over_the_relations_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ox.Store()
    store.add(ox.Quad(*(ox.NamedNode(f"http://e/{name}") for name in ("a", "knows", "b"))))
    kg = LocalKG(store, Profile(), "far away")
    monkeypatch.setattr(LocalKG, "is_remote", True)
    with monkeypatch.context() as patch:
        patch.setattr("triplewise.tools.linking.search.LONGEST_LOOK", 0.0)
        assert relations_of(kg) == ()
    assert [entry.names for entry in relations_of(kg)] == [("knows",)]


def test_a_graph_without_label_index_is_asked_for_exact_labels(demo: KnowledgeGraph) -> None:
    found: tuple[Match, ...] = search_kg(_WithoutIndex(demo), "mont blanc", ["entity"])  # type: ignore[arg-type]
    assert [m.id for m in found] == ["Q583"]


@pytest.mark.parametrize("toolset", ["pyql", "explore", "symbolic", "agentbench"])
def test_every_toolset_over_a_graph_searches(demo: KnowledgeGraph, toolset: str) -> None:
    tools = TOOLSETS[toolset]
    feedback = tools.execute(ActionContext(demo), parse_call("search(Mont Blanc, entity)", tools))
    assert feedback.ids["search"][0] == "Q583"
    classes = tools.execute(ActionContext(demo), parse_call("search(rivers, class)", tools))
    assert classes.ids["search"][0] == "Q4022"
    assert demo.labels([IRI("http://www.wikidata.org/entity/Q583")])
    assert tools.execute(ActionContext(demo), parse_call("search(x, colour)", tools)).error == "bad_kind"
