"""Acting: from a model's reply to one executed call, recorded as a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from langgraph.runtime import Runtime

from tests.support.openai_server import OpenAIServer
from tests.support.states import after
from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.act import ask_model, auto, carry_out, read_reply, read_values
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import prompt_values, rule_lines
from triplewise.nodes.reasoning import reasoning_memory
from triplewise.nodes.state import ScoredTriple
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import Triple
from triplewise.tools.linking.linker import LinkedEntity

from .conftest import GOETHE, chain

PYQL = TOOLSETS["pyql"]
Server = Callable[..., OpenAIServer]
Make = Callable[[str, str, str], Triple]


def test_a_reply_gives_its_thought_and_its_call() -> None:
    thought, calls = read_reply("Thought 3: look\nAction 3: get_relation(Q64)", PYQL)
    assert (thought, calls) == ("look", [Call("get_relation", ("Q64",))])


@pytest.mark.parametrize(
    ("reply", "code", "thought", "written"),
    [
        ("Thought: I am lost.", "no_action", "I am lost.", ""),
        ("Thought: so\nAction: let us think again", "no_action", "so", "let us think again"),
        ("", "no_action", "", ""),
        (
            "Thought: both\nAction: execute()\nAction: ask()",
            "several_actions",
            "both",
            "execute(); ask()",
        ),
        ("Thought 1: a\nAction 1: ask()\nThought 2: b", "several_thoughts", "a", "ask()"),
    ],
)
def test_what_cannot_be_read_keeps_its_thought(reply: str, code: str, thought: str, written: str) -> None:
    kept, error = read_reply(reply, PYQL)
    assert isinstance(error, ActionError)
    assert (error.code, kept, error.detail["written"]) == (code, thought, written)


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        ("[Canada,Yukon]", ("Canada", "Yukon")),
        ("Answer: Offenbach am Main", ("Offenbach am Main",)),
        ("- Canada\n- Yukon\n", ("Canada", "Yukon")),
        ("['Portland, Oregon', Salem]", ("Portland, Oregon", "Salem")),
        ("Portland, Oregon", ("Portland, Oregon",)),
        ("unknown.", ()),
        ("", ()),
    ],
)
def test_values_of_an_answer(reply: str, values: tuple[str, ...]) -> None:
    assert read_values(reply) == values


def test_a_step_holds_all_that_a_correction_needs(context: Context, state: Callable[..., State]) -> None:
    before = state(GOETHE, program="add_fact(Q5879, P451, ?partner)")
    update = carry_out(before, Environment(context), "why", Call("add_fact", ("?partner", "P19", "?place")))
    (step,) = update["steps"]
    assert (step.number, step.thought, step.program_before) == (1, "why", before.program)
    assert step.feedback.program == update["program"] != before.program
    assert step.feedback.values["place"] == ["Offenbach am Main"]
    assert type(step.feedback.outcome) is str


def test_a_failed_call_leaves_the_program(context: Context, state: Callable[..., State]) -> None:
    before = state(GOETHE, program="add_fact(Q5879, P451, ?partner)")
    unread = ActionError("no_action", "nothing to do", written="as written")
    for call in (unread, Call("add_fact", ("?partner",)), Call("dance")):
        update = carry_out(before, Environment(context), "hm", call)
        assert update["program"] == before.program
        assert update["steps"][-1].feedback.error
    assert carry_out(before, Environment(context), "hm", unread)["steps"][0].call == "as written"


def test_the_prompt_shows_what_is_around_and_history(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    fact = triple(GOETHE, "P451", "Q78495")
    seen = state(GOETHE, observation=(ScoredTriple(fact, 0.9),), observed=(GOETHE,))
    seen = after(seen, carry_out(seen, Environment(context), "look", Call("get_relation", (GOETHE,))))
    values = prompt_values(seen, Environment(context))
    turn = Environment(context).prompt.render("turn", **values)
    assert turn.count("-> P451 (unmarried partner): Lili Schöneman [Q78495]") == 1
    assert "Thought 1: look" in turn
    assert f"Action 1: get_relation({GOETHE})" in turn
    assert turn.endswith("Write Thought 2 and Action 2.")


def test_a_model_is_cut_off_before_it_makes_up_an_observation(
    context: Context, state: Callable[..., State], openai_server: Server
) -> None:
    server = openai_server([f"Thought: look\nAction: get_relation({GOETHE})\nObservation: ['made up']"])
    model = replace(context, model="openai:scripted", base_url=server.url)
    (step,) = ask_model(state(GOETHE), Runtime(context=model))["steps"]
    assert step.call == f"get_relation({GOETHE})"
    assert "P451" in step.observation
    assert server.chats[0].body["stop"] == ["\nObservation"]


def test_without_a_rule_the_policy_gives_up_and_says_so(
    runtime: Runtime[Context], state: Callable[..., State]
) -> None:
    update = auto(state(GOETHE), runtime)
    (step,) = update["steps"]
    assert (step.call, step.feedback.finished) == ("give_up()", True)


def test_odas_bare_answer_that_stays_unknown_is_an_error(
    context: Context, state: Callable[..., State], openai_server: Server
) -> None:
    server = openai_server(["Thought: done\nAction: Answer", "unknown"])
    model = replace(context, model="openai:scripted", base_url=server.url, toolset="explore", prompt="oda")
    (step,) = ask_model(state(GOETHE), Runtime(context=model))["steps"]
    assert step.feedback.error in ("arity", "no_answer")
    assert not step.feedback.finished


def test_what_the_observation_holds_may_be_answered_at_once(
    context: Context, state: Callable[..., State], openai_server: Server
) -> None:
    server = openai_server(["Thought: it is there\nAction: Answer", "Q78495"])
    settings = replace(context, model="openai:scripted", base_url=server.url, toolset=None, prompt=None)
    asked = {"question": "Who was the unmarried partner of Goethe?", "entities": {"Goethe": GOETHE}}
    run = State.model_validate(build_graph("oda").invoke(asked, context=settings))
    assert run.answer is not None
    assert (run.answer.values, len(run.steps)) == (("Q78495",), 1)
    assert [p.text for p in run.answer.proof] == [
        "(Johann Wolfgang von Goethe, unmarried partner, Lili Schöneman)"
    ]
    assert "-> P451 (unmarried partner): Lili Schöneman [Q78495]" in server.chats[1].text
    assert "in the first step too" in server.chats[0].text


def test_a_large_observation_is_shown_best_first_and_bounded(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    facts = [triple(f"Q{1000 + i}", f"P{i}", f"Q{5000 + i}") for i in range(900)]
    best = triple(GOETHE, "P451", "Q78495")
    seen = state(GOETHE, observed=(GOETHE,), observation_cuts=("900 facts",)).model_copy(
        update={"observation": tuple(ScoredTriple(t, 0.5) for t in (best, *facts))}
    )
    lines = prompt_values(seen, Environment(context))["observation"]()
    assert lines[1] == "-> P451 (unmarried partner): Lili Schöneman [Q78495]"
    assert sum(map(len, lines)) < 10_000
    assert lines[-2].endswith(" more relations")
    assert lines[-1] == "(not seen: 900 facts)"


def test_candidates_have_names_and_ids_each_once(context: Context, state: Callable[..., State]) -> None:
    values = prompt_values(state(GOETHE, focus=(GOETHE, "Q99999999")), Environment(context))
    assert values["candidates"]() == ["Johann Wolfgang von Goethe [Q5879]", "Q99999999"]


def run_of(context: Context, server: OpenAIServer, question: str = "Where was Goethe born?") -> State:
    """A run of the default agent, with a model that several actions are taken from."""
    settings = replace(context, model="openai:scripted", base_url=server.url, max_actions=8)
    settings = replace(settings, min_confidence=0.0)
    return State.model_validate(build_graph("agent").invoke({"question": question}, context=settings))


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (f"Action 1: ask()\nAction 2: add_fact({GOETHE}, P451, ?partner)", 1),
        (f"Action 1: ask()\nAction 2: add_fact({GOETHE}, P451, ?x)\nAction 3: get_relation(?x)", 2),
    ],
)
def test_yes_or_no_is_answered_once_a_reply_has_completed_the_query(
    context: Context, openai_server: Server, reply: str, calls: int
) -> None:
    run = run_of(context, openai_server([reply, "Action: execute()"]), "Did Goethe have a partner?")
    assert run.answer is not None
    assert (run.answer.values, run.answer.usage.calls) == (("true",), calls)


def test_a_reply_of_several_actions_is_carried_out_in_turn(context: Context, openai_server: Server) -> None:
    server = openai_server(
        [
            "Thought: his partner's birthplace\n"
            f"Action 1: add_fact({GOETHE}, P451, ?partner)\nAction 2: add_fact(?partner, P19, ?place)\n"
            "Action 3: set_answer(?place)"
        ]
    )
    run = run_of(context, server)
    assert [s.feedback.action for s in run.steps] == ["add_fact", "add_fact", "set_answer", "execute"]
    assert run.answer is not None
    assert (run.answer.status, run.answer.labels) == ("answered", ("Offenbach am Main",))
    assert len(server.chats) == 1


def test_the_first_error_drops_the_rest_and_says_so(context: Context, openai_server: Server) -> None:
    server = openai_server(
        [
            f"Thought: all\nAction 1: add_fact({GOETHE}, P451, ?partner)\nAction 2: add_fact(?nobody, P19)\n"
            "Action 3: set_answer(?partner)",
            "Thought: so\nAction: unknown(no place is given)",
        ]
    )
    run = run_of(context, server)
    assert [s.rolled_back for s in run.steps] == [False, True, False]
    assert "Not carried out after it: set_answer(?partner)" in run.steps[1].observation
    assert run.answer is not None
    assert (run.answer.status, run.answer.reason) == ("not_found", "no place is given")


def test_an_id_that_a_hint_has_shown_is_known(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    fact = triple(GOETHE, "P451", "Q78495")
    seen = state(GOETHE, observation=(ScoredTriple(fact, 0.9),), observed=(GOETHE,))
    assert "Q78495" in reasoning_memory(seen, Environment(context)).seen


def test_readings_and_rules_have_names_and_ids_that_may_be_used(
    context: Context, state: Callable[..., State]
) -> None:
    rule = Rule(GOETHE, (Atom("P451", True, "x"), Atom("P19", True, "place")))
    likely = chain(GOETHE, "P451", confidence=0.9, values=("Q78495", "2.5"))
    planned = state(GOETHE, rules=(rule,), readings=(likely, chain("Q476871", "P840")))
    planned = planned.model_copy(update={"linked": (LinkedEntity("G", 0, 1, GOETHE, "Goethe", 1.0),)})
    env = Environment(replace(context, model="openai:none"))
    values = prompt_values(planned, env)
    person = "Johann Wolfgang von Goethe [Q5879]"
    found = "Lili Schöneman [Q78495], 2.5"
    assert values["readings"]() == [f"{person} -[P451 (unmarried partner)]-> ?x1 (90% sure): {found}"]
    assert rule_lines(planned, env.kg) == [
        "Goethe [Q5879] -[P451 (unmarried partner)]-> ?x -[P19 (place of birth)]-> ?place"
    ]
    memory = reasoning_memory(planned, env)
    assert {"Q78495", GOETHE} <= memory.seen
    assert {"P451", "P19"} <= memory.shown


def test_without_a_linker_the_agent_searches(context: Context, openai_server: Server) -> None:
    server = openai_server(
        [
            "Thought: who is he\nAction: search(goethe, entity)",
            f"Thought: so\nAction 1: add_fact({GOETHE}, P451, ?partner)\nAction 2: set_answer(?partner)",
        ]
    )
    settings = replace(context, model="openai:scripted", base_url=server.url, max_actions=8)
    settings = replace(settings, min_confidence=0.0)
    run = build_graph("agent", link="none").invoke({"question": "Who was his partner?"}, context=settings)
    assert run["linked"] == ()
    assert GOETHE in run["steps"][0].observation
    assert run["answer"].labels == ("Lili Schöneman",)
