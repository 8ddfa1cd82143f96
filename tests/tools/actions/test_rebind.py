"""A dead end among mediators gives way to another relation of the same node, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback
from triplewise.tools.kg import open_kg

GRAPH = Path(__file__).parents[2] / "cases" / "queryagent" / "figure7.ttl"
TEAM, ARENA = "sports.sports_team", "sports.sports_team.arena_stadium"
DEAD_END = f"add_fact(m.0j8js, {TEAM}.venue, ?place)"


def add(program: str, *arguments: str) -> Feedback:
    bench = ActionContext(kg=open_kg(GRAPH, profile="freebase"), program=program)
    return TOOLSETS["pyql"].execute(bench, Call("add_fact", arguments))


def test_a_dead_end_gives_way() -> None:
    feedback = add(DEAD_END, "m.0j8js", ARENA, "?place")
    assert feedback.program == f"add_fact(m.0j8js, {ARENA}, ?place)"
    assert set(feedback.values["place"]) == {"Miami Arena", "BB&T Center"}
    assert "was left out" in feedback.observation


@pytest.mark.parametrize(
    ("program", "fact"),
    [
        pytest.param(f"add_fact(m.0j8js, {TEAM}.location, ?place)", ("m.0j8js", ARENA, "?place"), id="named"),
        pytest.param(
            f"{DEAD_END}\nadd_fact(?place, sports.team_venue_relationship.from, ?year)",
            ("m.0j8js", ARENA, "?place"),
            id="something hangs on it",
        ),
        pytest.param(DEAD_END, ("m.0l1", ARENA, "?place"), id="another node"),
        pytest.param(DEAD_END, ("m.0j8js", f"{TEAM}.roster", "?place"), id="nothing either way"),
    ],
)
def test_all_else_stays_an_empty_result(program: str, fact: tuple[str, str, str]) -> None:
    feedback = add(program, *fact)
    assert feedback.outcome == "empty"
    assert feedback.program.startswith(program)


def test_the_only_variable_need_not_be_set() -> None:
    bench = ActionContext(
        kg=open_kg(GRAPH, profile="freebase"), program=f"add_fact(m.0j8js, {ARENA}, ?place)"
    )
    done = TOOLSETS["pyql"].execute(bench, Call("execute"))
    assert set(done.answers) == {"m.04f8n7", "m.027ys8"}
    assert done.program.endswith("set_answer(?place)")
    two = ActionContext(kg=bench.kg, program=f"add_fact(?team, {ARENA}, ?place)")
    assert TOOLSETS["pyql"].execute(two, Call("execute")).error == "execute_before_answer"
