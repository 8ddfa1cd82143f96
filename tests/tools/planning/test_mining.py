"""Closed paths of seed questions: found, scored as a plain evaluation scores them, and mined once."""

from __future__ import annotations

from itertools import product

import pyoxigraph as ox
import pytest
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.rules import Atom, Path
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning import mining
from triplewise.tools.planning.mining import GAP, Miner, PlanSettings, seed_plan, seed_rules
from triplewise.tools.planning.paths import answers
from triplewise.tools.planning.seeds import Seed, SeedIndex, group_seeds

EX = "http://example.org/"
PROFILE = Profile(entity_namespaces=(EX,), relation_namespaces=(EX,))
Fact = tuple[str, str, str]
Steps = tuple[tuple[str, bool], ...]

FILMS = """
alien director scott . gladiator director scott . rain director scott . aliens director cameron .
alien cast weaver . alien cast hurt . aliens cast weaver . aliens cast biehn . gladiator cast crowe .
scott bornIn shields . shields within england . cameron bornIn kapuskasing . kapuskasing within canada .
scott spouse facio . facio spouse scott . hurt spouse ann .
"""


def parse(text: str) -> list[Fact]:
    words = [w for w in text.split() if w != "."]
    return [(words[i], words[i + 1], words[i + 2]) for i in range(0, len(words), 3)]


def graph(facts: list[Fact]) -> LocalKG:
    store = ox.Store()
    for fact in facts:
        store.add(ox.Quad(*(ox.NamedNode(EX + name) for name in fact)))
    return LocalKG(store, PROFILE, "small")


@pytest.fixture
def films() -> LocalKG:
    return graph(parse(FILMS))


def atoms(steps: Steps) -> Path:
    return tuple(Atom(*step) for step in steps)


def miner(kg: LocalKG, hops: int = 3) -> Miner:
    return Miner(kg, SeedIndex({}, hops))


def seed(topic: str, *found: str) -> Seed:
    return Seed(f"what of {topic}", (topic,), found)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (seed("alien", "scott"), (("director", True),)),
        (seed("alien", "england"), (("director", True), ("bornIn", True), ("within", True))),
        (
            seed("england", "alien", "gladiator", "rain"),
            (("within", False), ("bornIn", False), ("director", False)),
        ),
        (seed("alien", "gladiator", "rain"), (("director", True), ("director", False))),
    ],
)
def test_closed_paths_to_three_hops(films: LocalKG, asked: Seed, path: Steps) -> None:
    best = miner(films).mine([asked])[0]
    assert (best.path, best.precision, best.recall, best.support) == (atoms(path), 1.0, 1.0, 1)


def test_the_more_precise_path_comes_first(films: LocalKG) -> None:
    mined = miner(films, 2).mine([seed("weaver", "hurt"), seed("weaver", "hurt", "biehn")])
    assert mined[0].path == atoms((("cast", False), ("cast", True)))
    facts = parse("f maker a . f maker b . f writer a . g maker c . g writer c")
    mined = miner(graph(facts), 1).mine([seed("f", "a"), seed("g", "c")])
    assert [(m.path, m.precision, m.recall, m.support) for m in mined] == [
        (atoms((("writer", True),)), 1.0, 1.0, 2),
        (atoms((("maker", True),)), 0.75, 1.0, 2),
    ]


def test_entities_the_graph_lacks_are_no_seed(films: LocalKG) -> None:
    assert miner(films).of_seed(seed("nobody", "scott")) == {}
    assert miner(films).of_seed(seed("alien", "nobody")) == {}
    assert miner(films).mine([]) == []


@pytest.mark.parametrize(("found", "expected"), [(("c",), {"c"}), (("a", "c"), {"a", "c"})])
def test_rules_of_seeds_treat_the_topic_as_seeds_do(found: tuple[str, ...], expected: set[str]) -> None:
    kg = graph(parse("a knows b . b knows a . b knows c"))
    seeds = SeedIndex(group_seeds([seed("a", *found)]))
    linked = (LinkedEntity("a", 8, 9, "a", "a", 1.0),)
    rules = seed_plan("what of a", linked, kg, seeds, PlanSettings()).rules
    assert rules[0].support == 1
    assert "seed questions" in rules[0].provenance
    assert {PROFILE.short(t) for t in answers(kg, rules[0])} == expected


def test_seeds_show_rules_with_their_evidence(films: LocalKG) -> None:
    index = SeedIndex(group_seeds([seed("alien", "scott"), seed("aliens", "cameron")]))
    linked = (LinkedEntity("rain", 8, 12, "rain", "rain", 1.0),)
    best = seed_rules("what of rain", linked, films, index, 5)[0]
    assert best.anchor == "rain"
    assert [(atom.relation, atom.forward) for atom in best.path] == [("director", True)]
    assert best.support == 2
    assert best.evidence > 0.7
    assert seed_rules("who painted rain", linked, films, index, 5) == []


def test_a_rule_that_leads_nowhere_is_kept_for_documents_only(films: LocalKG) -> None:
    index = SeedIndex(group_seeds([seed("alien", "scott")]))
    linked = (LinkedEntity("weaver", 8, 14, "weaver", "weaver", 1.0),)
    plan = seed_plan("what of weaver", linked, films, index, PlanSettings())
    assert plan.rules == ()
    assert "no grounding" in plan.dropped[0].reason
    kept = seed_plan("what of weaver", linked, films, index, PlanSettings(documents=True)).rules
    assert kept
    assert all(rule.provenance.endswith(GAP) for rule in kept)


NODES = [f"n{i}" for i in range(6)]
STEPS = [Atom(r, forward) for r in ("p", "q") for forward in (True, False)]
FACTS = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(["p", "q"]), st.sampled_from(NODES)),
    min_size=1,
    max_size=9,
    unique=True,
)


def reach(facts: list[Fact], start: str, path: Path, simple: bool = True) -> set[str]:
    """Ends of a path; where simple, a relation walked there and back does not return."""
    walked: list[tuple[str, ...]] = [(start,)]
    for i, step in enumerate(path):
        ends = [(s, o) if step.forward else (o, s) for s, r, o in facts if r == step.relation]
        there_and_back = simple and i > 0 and path[i - 1] == Atom(step.relation, not step.forward)
        walked = [
            (*nodes, end)
            for nodes in walked
            for near, end in ends
            if near == nodes[-1] and not (there_and_back and end == nodes[-2])
        ]
    return {nodes[-1] for nodes in walked}


@settings(max_examples=60, deadline=None)
@given(FACTS, st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
def test_every_path_is_found_and_scored_like_a_plain_evaluation(facts: list[Fact], gold: list[str]) -> None:
    topic = facts[0][0]
    known = {n for s, _, o in facts for n in (s, o)}
    gold = [n for n in gold if n in known] or [facts[0][2]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining, "ANSWERS", len(gold))
        mined = miner(graph(facts)).of_seed(seed(topic, *gold))
    for path, quality in mined.items():
        found = reach(facts, topic, path)
        found -= {topic} - set(gold)
        hits = len(found & set(gold))
        assert quality.precision == pytest.approx(hits / len(found) if found else 0.0), path
        assert quality.recall == pytest.approx(hits / len(gold)), path
    ends = set(gold)
    every = [path for hops in (1, 2, 3) for path in product(STEPS, repeat=hops)]
    walks = [path for path in every if ends <= reach(facts, topic, path, simple=False)]
    if len(walks) <= mining.PATHS:
        assert {path for path in walks if ends <= reach(facts, topic, path)} <= set(mined)
