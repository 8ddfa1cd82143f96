"""The errors of QueryAgent's figures 2, 5, 6 and 7 get a guideline that says what the paper's says."""

from __future__ import annotations

import pytest

from triplewise.guidelines import load_guidelines
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory

GUIDELINES = load_guidelines()
ACTIONS = (
    "get_relation(entity_or_variable)",
    "add_fact(head, relation, tail)",
    "add_max(max_var)",
    "add_min(min_var)",
    "add_count(count_var, new_var)",
    "add_filter(ob1, op, ob2)",
    "set_answer(answer_var)",
    "execute()",
)
FREQUENCY = "measurement_unit.angular_velocity_unit.frequency_in_radians_per_second"
NUMBER = {"1.0": {"forward": [], "backward": ["astronomy.celestial_object.magnitude", FREQUENCY]}}
LIVE365 = {
    "m.04rtjj": {
        "forward": ["broadcast.content.artist", "broadcast.distributor.distributes"],
        "backward": ["broadcast.artist.content", "broadcast.broadcast.distributor"],
    }
}
VENUE = [f"sports.team_venue_relationship.{end}" for end in ("from", "team", "to", "venue")]
PANTHERS = {"m.0j8js": {"forward": ["sports.sports_team.arena_stadium", "sports.sports_team.venue"]}}

KILBURN = ReasoningMemory(
    linked={"m.07kbn": "tom kilburn"},
    looked_up={"m.07kbn": {"forward": ["computer.computer_designer.computers_designed"]}},
)
COMPUTER = ReasoningMemory(
    linked=KILBURN.linked,
    looked_up={**KILBURN.looked_up, "?computer": {"forward": ["computer.computer.introduced"]}},
    bound=("?computer",),
)

CASES = [
    pytest.param(
        Feedback("add_fact", ("?computer", "computer.computer.key_designers", "?person"), outcome="rows"),
        KILBURN,
        "two_new_variables",
        ["two new variables", "Reconsider its subject and object"],
        id="figure 2 A",
    ),
    pytest.param(
        Feedback("add_fact", ("?computer", "?year"), error="arity"),
        COMPUTER,
        "arity",
        ["add_fact(head, relation, tail) should have 3 parameters; you gave 2"],
        id="figure 2 B",
    ),
    pytest.param(
        Feedback("add_fact", ("?computer", "computer.computer.release_date", "?year"), outcome="empty"),
        COMPUTER,
        "fact_empty_subject_known",
        [
            "leads to an empty result",
            "Relations of ?computer",
            "an earlier fact may have used the wrong relation",
        ],
        id="figure 2 C",
    ),
    pytest.param(
        Feedback("add_filter", ("?angular_frequency", FREQUENCY, "1.0"), error="relation_as_operator"),
        ReasoningMemory(linked={"1.0": "1.0"}, looked_up=NUMBER, steps=2),
        "relation_as_operator",
        [
            f"You used {FREQUENCY} as the operator of add_filter",
            "use set_answer() to say which variable to return",
            "[>, <, >=, <=, =, !=]",
            "only Thought 4 and Action 4",
        ],
        id="figure 5 step 3",
    ),
    pytest.param(
        Feedback("add_fact", ("m.04rtjj", "broadcast.broadcast_on", "?stream"), outcome="empty"),
        ReasoningMemory(linked={"m.04rtjj": "live365"}, looked_up=LIVE365, steps=1),
        "fact_empty_subject_known",
        [
            "The relation broadcast.broadcast_on leads to an empty result",
            "Relations of m.04rtjj: forward: ['broadcast.content.artist', 'broadcast.dist",
            "fits the question best",
            "another way",
            "only Thought 3 and Action 3",
        ],
        id="figure 6 step 2",
    ),
    pytest.param(
        Feedback("get_relation", ("'UnName_Entity'",), error="bad_subject"),
        ReasoningMemory(
            linked={"m.0j8js": "florida panthers"}, looked_up=PANTHERS, bound=("?place",), steps=2
        ),
        "lookup_unnamed",
        ["UnName_Entity", "such as ['?place']", "such as ['m.0j8js']"],
        id="figure 7 step 3",
    ),
    pytest.param(
        Feedback("add_fact", ("?place", VENUE[3], "m.0j8js"), outcome="empty"),
        ReasoningMemory(
            linked={"m.0j8js": "florida panthers"},
            looked_up={**PANTHERS, "?place": {"forward": VENUE, "backward": []}},
            bound=("?place",),
            steps=4,
        ),
        "fact_empty",
        [
            f"{VENUE[3]} leads to an empty result",
            "choose another relation",
            *VENUE,
            "only Thought 6 and Action 6",
        ],
        id="figure 7 step 5",
    ),
]


@pytest.mark.parametrize(("feedback", "memory", "id", "parts"), CASES)
def test_the_papers_errors(feedback: Feedback, memory: ReasoningMemory, id: str, parts: list[str]) -> None:
    match = GUIDELINES.match(feedback, memory, actions=ACTIONS)
    assert match is not None
    assert (match.id, match.severity) == (id, "error")
    assert [part for part in parts if part not in match.text] == []
