"""Rules as AgentBench's actions: they reach what PyQL reaches, and what sets cannot say is refused."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.actions import TOOLSETS, ActionContext
from triplewise.tools.actions.agentbench_script import set_script, unsayable
from triplewise.tools.core.call import Call
from triplewise.tools.core.rules import Atom, Constraint, ConstraintKind, Rule, script
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import load_profile

TURTLE = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
wd:Q1 wdt:P57 wd:Q10 ; wdt:P161 wd:Q20, wd:Q21 ; wdt:P2047 90 .
wd:Q2 wdt:P57 wd:Q10 ; wdt:P161 wd:Q21 ; wdt:P2047 120 .
wd:Q3 wdt:P57 wd:Q11 ; wdt:P161 wd:Q21 ; wdt:P2047 120 . wd:Q20 wdt:P19 wd:Q30 . wd:Q21 wdt:P19 wd:Q31 .
"""
FILMS = (Atom("P57", False, "film"),)
CAST = (*FILMS, Atom("P161", True, "actor"))
MEETS = Constraint("meets", "film", (Atom("P161", False, "film"),), value="Q21")
LONGEST = Constraint("max", "film", (Atom("P2047", True, "minutes"),))
RULES = {
    "chain": Rule("Q10", CAST),
    "meets": Rule("Q10", FILMS, (MEETS,)),
    "meets on the way": Rule("Q10", (*CAST, Atom("P19", True, "place")), (MEETS,)),
    "superlative": Rule("Q10", FILMS, (LONGEST,)),
    "least that meets": Rule("Q10", FILMS, (MEETS, Constraint("min", "film", LONGEST.atoms))),
    "count": Rule("Q10", FILMS, (Constraint("count", "count", value="?film"),)),
    "either": Rule("", (), (Constraint("either", "film", FILMS, operator="Q10", value="Q11"),)),
    "longest of either": Rule(
        "", (), (Constraint("either", "film", FILMS, operator="Q10", value="Q11"), LONGEST)
    ),
}


@pytest.fixture(scope="module")
def kg() -> EmbeddedKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return EmbeddedKG(store, load_profile("wikidata"), "films")


def answers(kg: EmbeddedKG, toolset: str, calls: tuple[Call, ...]) -> set[str]:
    """What some calls end with."""
    program = ""
    for call in calls:
        feedback = TOOLSETS[toolset].execute(ActionContext(kg, program=program), call)
        assert not feedback.error, (call.text(), feedback.message)
        program = feedback.program
    assert feedback.finished
    return set(feedback.answers)


@pytest.mark.parametrize("name", RULES)
def test_sets_reach_what_the_query_reaches(kg: EmbeddedKG, name: str) -> None:
    rule = RULES[name]
    assert unsayable(rule) == ""
    found = answers(kg, "agentbench", set_script(rule))
    assert found
    assert found == answers(kg, "pyql", script(rule))


@pytest.mark.parametrize(
    "kind", ["type", "filter", "distinct", "not", "most", "least", "ask", "holds", "max"]
)
def test_what_sets_cannot_say_is_told(kind: ConstraintKind) -> None:
    assert unsayable(Rule("Q10", FILMS, (Constraint(kind, "film", value="Q5"),)))
