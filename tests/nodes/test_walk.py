"""Walking a rule without a query: many entities at a time, nodes two steps apart."""

from __future__ import annotations

import pytest

from triplewise.graphs import State
from triplewise.nodes.embedded import Choice, decide
from triplewise.nodes.state import Step
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import ActionContext
from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import KnowledgeGraph, load_profile, open_kg
from triplewise.tools.planning.bodies import ground

EX = "http://example.org/"
TURTLE = """
@prefix ex: <http://example.org/> .
ex:rio ex:writer ex:carlos . ex:rio2 ex:writer ex:carlos ; ex:director ex:carlos .
ex:ice ex:writer ex:carlos, ex:dora ; ex:director ex:dora . ex:old ex:writer ex:carlos .
"""


@pytest.fixture
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("walk") / "films.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return open_kg(path, profile=load_profile("generic"))


def walk(kg: KnowledgeGraph, rule: Rule) -> list[Step]:
    """All steps of the policy on one rule."""
    state = State(question="Who?", rules=(rule,))
    while True:
        choice: Choice = decide(state, kg, "symbolic")
        bench = ActionContext(kg, "Who?")
        feedback = TOOLSETS["symbolic"].execute(bench, choice.call)
        step = Step(len(state.steps) + 1, choice.thought, choice.call.text(), feedback, feedback.observation)
        state = state.model_copy(update={"steps": (*state.steps, step)})
        if feedback.finished or choice.call.name == "give_up":
            return list(state.steps)


def body(*relations: str) -> Rule:
    """A rule from Rio over relations; `^r` walks one backward."""
    from triplewise.tools.core.rules import Atom

    atoms = tuple(
        Atom(f"<{EX}{r.lstrip('^')}>", not r.startswith("^"), f"x{i}") for i, r in enumerate(relations, 1)
    )
    return ground(f"<{EX}rio>", atoms)


def answers(steps: list[Step]) -> set[str]:
    return {a.strip("<>").removeprefix(EX) for a in steps[-1].feedback.answers}


def actions(steps: list[Step]) -> list[str]:
    return [s.feedback.action for s in steps]


def test_many_entities_are_looked_at_in_one_step(kg: KnowledgeGraph) -> None:
    steps = walk(kg, body("writer", "^writer", "director"))
    assert actions(steps) == ["get_rules", "search_neighbor", "search_neighbor", "search_each", "finish"]
    assert answers(steps) == {"carlos", "dora"}, "the writer may be the director: only Rio itself is left out"


def test_there_and_back_does_not_end_where_it_began(kg: KnowledgeGraph) -> None:
    assert answers(walk(kg, body("writer", "^writer"))) == {"rio2", "ice", "old"}
    three = walk(kg, body("writer", "^writer", "writer"))
    assert answers(three) == {"dora"}, "from a film back to a writer, but not to the one it was reached by"


def test_no_more_entities_than_the_limit_are_looked_at(
    kg: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triplewise.nodes.embedded.WIDTH", 1)
    assert actions(walk(kg, body("writer", "^writer", "director"))).count("search_each") == 0
