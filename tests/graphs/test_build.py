"""The compiled state machine: wiring, ways to run it, budgets, checkpoints, edited states."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import Runtime
from pydantic import ValidationError

from tests.support.openai_server import Fault, OpenAIServer
from triplewise.graphs import PRESETS, Context, State, build_graph, serializer
from triplewise.nodes.environment import Update
from triplewise.nodes.state import Step
from triplewise.tools.actions import Feedback
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg import open_kg

Server = Callable[..., OpenAIServer]

GRAPH = Path(__file__).parent.parent / "cases" / "queryagent" / "figure7.ttl"
QUESTION = "where do florida panthers play"
PANTHERS = {"florida panthers": "m.0j8js"}
INPUT = {"question": QUESTION, "entities": PANTHERS}
RELATION = "sports.sports_team.arena_stadium"
LOOK, ADD = "Action: get_relation(m.0j8js)", f"Action: add_fact(m.0j8js, {RELATION}, ?arena)"
SHORT = ["Thought: look\n" + LOOK, "Thought: add\n" + ADD, "Thought: done\nAction: execute()"]
ARENAS = {"Miami Arena", "BB&T Center"}

EDGES = {
    ("__start__", "link"),
    ("link", "plan"),
    ("plan", "observe"),
    ("observe", "act"),
    ("act", "inspect"),
    ("inspect", "correct"),
    ("inspect", "reflect"),
    ("inspect", "answer"),
    ("inspect", "review"),
    ("review", "reflect"),
    ("correct", "act"),
    ("reflect", "observe"),
    ("reflect", "act"),
    ("answer", "__end__"),
    ("answer", "choose"),
    ("choose", "plan"),
    ("choose", "__end__"),
}


def scripted(server: OpenAIServer, **settings: Any) -> Context:
    """A run on the graph of figure 7 with a scripted model."""
    return Context(
        kg=str(GRAPH), profile="freebase", model="openai:scripted", base_url=server.url, **settings
    )


def small(**settings: Any) -> Context:
    """A run on the same graph without a model."""
    return Context(kg=str(GRAPH), profile="freebase", **settings)


def thread(name: str = "1") -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_draws_the_same_machine(preset: str) -> None:
    drawn = build_graph(preset).get_graph().draw_mermaid()
    edges = set(re.findall(r"^\t(\w+) -(?:->|\. .*? \.->) (\w+);", drawn, re.MULTILINE))
    assert edges == EDGES
    branches = set(re.findall(r"^\t(\w+) -\. &nbsp;(.+)&nbsp; \.-> \w+;", drawn, re.MULTILINE))
    assert {name for name, _ in branches} == {"inspect", "reflect", "answer", "choose"}
    assert {label for name, label in branches if name == "inspect"} == {
        *("error", "facts to review", "progress", "finished, or budget spent")
    }


@pytest.mark.parametrize(
    "preset", sorted({*PRESETS} - {"sql", "sql-paper", "agent-sparql", "agentbench", "agentbench-plain"})
)
def test_every_preset_runs_to_an_answer_without_a_model(preset: str) -> None:
    state = build_graph(preset).invoke(INPUT, context=small())
    assert state["answer"].status in ("answered", "unsure", "not_found")
    assert state["answer"].text
    assert state["answer"].usage.calls == 0
    assert state["answer"].usage.queries > 0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"preset": "agnt"},
            "unknown preset 'agnt'; choose one of: agent, agent-sparql, agentbench, agentbench-plain, oda",
        ),
        ({"preset": "x" * 5000}, f"unknown preset '{'x' * 79}; choose one of: agent"),
        ({"ponder": "none"}, "unknown phase 'ponder'; choose one of: act, answer, correct, inspect, link"),
        (
            {"reflect": "deep"},
            "variant of phase reflect 'deep'; choose one of: generated, none, oda, random, similarity",
        ),
    ],
)
def test_unknown_names_list_the_legal_ones(wanted: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        build_graph(**wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_seconds": 0}, "max_seconds: input should be greater than 0"),
        ({"seeds": False}, "seeds: input should be a valid string, got False"),
        ({"max_step": 3}, "did you mean .*max_steps"),
        ({"max_steps": True}, "max_steps: input should be a valid integer, got True"),
        ({"review": "yes"}, "review: input should be a valid boolean, got 'yes'"),
        ({"calling": "morse"}, "calling: input should be 'react' or 'tools', got 'morse'"),
        ({"max_steps": -1}, "max_steps: input should be greater than 0"),
        ({"temperature": float("nan")}, "temperature: input should be"),
        ({"query_timeout": float("inf")}, "query_timeout: input should be less"),
        ({"model_retries": -1}, "model_retries: input should be greater than or equal to 0"),
        (
            {"reasoning_effort": "huge"},
            "reasoning_effort: input should be 'low', 'medium' or 'high', got 'huge'",
        ),
        ({"documents": "wikipedia"}, "documents are read by a language model: name one"),
        ({"min_confidence": 7}, "min_confidence: input should be less than or equal to 1"),
        ({"query_timeout": 1e300}, "query_timeout: input should be less than"),
        ({"row_limit": 2**70}, "row_limit: input should be less than"),
        ({"model": [1]}, "model: should be a name or an object"),
        ({"kg": 5}, "kg: should be a name or an object"),
        ({"guidelines": [5]}, "guidelines: input should be a valid string"),
        ({"guidelines": "x.yaml"}, "guidelines: input should be a valid list"),
        ({"base_url": "http://h:abc/v1"}, "base_url: no URL can be"),
        ({"seeds": "seeds\0.jsonl"}, "seeds: a NUL"),
        ({"kg": "films\ud800.ttl"}, "kg: a NUL or half a character"),
    ],
)
def test_context_refuses_what_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Context(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"toolset": "hammer"}, "unknown toolset 'hammer'; choose one of: agentbench, explore, pyql"),
        ({"prompt": "sonnet"}, "unknown prompt 'sonnet'"),
        ({"documents": "/nowhere"}, "no such folder of documents"),
        ({"encoder": "x" * 5_000}, "should be a name"),
    ],
)
def test_unknown_settings_are_told_when_they_are_used(
    settings: dict[str, str], message: str, openai_server: Server
) -> None:
    graph = build_graph("symagent", plan="none")
    with pytest.raises(Exception, match=re.escape(message)):
        graph.invoke(INPUT, context=scripted(openai_server(SHORT), **settings))


def test_a_question_is_due() -> None:
    with pytest.raises(ConfigurationError, match="question is empty"):
        build_graph().invoke({"question": "  "}, context=small())
    with pytest.raises(ValidationError):
        build_graph().invoke({}, context=small())


def test_sync_async_and_streamed_runs_agree(openai_server: Server) -> None:
    graph = build_graph("queryagent")
    once = graph.invoke(INPUT, context=scripted(openai_server(SHORT)))
    later = asyncio.run(graph.ainvoke(INPUT, context=scripted(openai_server(SHORT))))
    chunks = list(graph.stream(INPUT, context=scripted(openai_server(SHORT)), stream_mode="updates"))
    assert set(once["answer"].labels) == ARENAS
    streamed = chunks[-1]["answer"]["answer"]
    assert once["answer"].sparql == later["answer"].sparql == streamed.sparql
    assert once["steps"] == later["steps"]
    step = ["act", "inspect", "reflect"]
    assert [p for c in chunks for p in c] == ["link", "plan", "observe", *step, *step, *step[:2], "answer"]
    for usage in (once["answer"].usage, later["answer"].usage, streamed.usage):
        assert usage.calls == 3
        assert usage.queries > 0


def test_phases_are_swapped_by_name_and_by_callable(openai_server: Server) -> None:
    calls: list[str] = []

    def my_reflect(state: State, runtime: Runtime[Context]) -> Update:
        calls.append(state.last.call)
        return {}

    class MyInspect:
        def __call__(self, state: State, runtime: Runtime[Context]) -> Update:
            from triplewise.nodes.inspect import unchecked

            return unchecked(state, runtime)

    graph = build_graph("queryagent", reflect=partial(my_reflect), inspect=MyInspect(), correct="raw")
    replies = ["Thought: x\nAction: add_fact(?a, ?b)", *SHORT]
    state = graph.invoke(INPUT, context=scripted(openai_server(replies)))
    assert calls == [s.call for s in state["steps"][1:3]]
    (correction,) = state["corrections"]
    assert (correction.guideline, correction.source) == ("arity", "interpreter")
    assert correction.text.startswith("add_fact(head, relation, tail) takes 3 parameters, not 2")
    assert "only Thought 2 and Action 2" in correction.text


def test_an_async_phase_runs_in_async_graphs(openai_server: Server) -> None:
    async def slow_reflect(state: State, runtime: Runtime[Context]) -> Update:
        await asyncio.sleep(0)
        return {"focus": ("m.04f8n7",)}

    graph = build_graph("queryagent", reflect=slow_reflect)
    state = asyncio.run(graph.ainvoke(INPUT, context=scripted(openai_server(SHORT))))
    assert state["focus"] == ("m.04f8n7",)
    assert state["answer"].status == "answered"


def test_unknown_keys_of_a_phase_are_refused() -> None:
    def forgetful(state: State, runtime: Runtime[Context]) -> Update:
        return {"memroy": ()}

    graph = build_graph("agent", plan=forgetful)
    with pytest.raises(
        ConfigurationError, match="phase forgetful returned unknown state keys: memroy; legal"
    ):
        graph.invoke(INPUT, context=small())


def test_a_preset_fills_in_only_what_the_caller_left_open() -> None:
    contexts: list[Context] = []

    def spy(state: State, runtime: Runtime[Context]) -> Update:
        contexts.append(runtime.context)
        return {"rules": ()}

    build_graph("oda", plan=spy).invoke(INPUT, context=small(max_steps=3))
    build_graph("oda", plan=spy, link=lambda state, runtime: {}).invoke(INPUT)
    assert (contexts[0].prompt, contexts[0].max_steps) == ("oda", 3)
    assert (contexts[1].prompt, contexts[1].max_steps, contexts[1].kg) == ("oda", 24, "demo")


def test_a_reused_thread_forgets_the_question_before(openai_server: Server) -> None:
    graph = build_graph("queryagent", checkpointer=InMemorySaver())
    first = graph.invoke(INPUT, thread(), context=scripted(openai_server(SHORT)))
    assert first["answer"].values
    server = openai_server([SHORT[0], "Thought: enough\nAction: execute()"])
    second = graph.invoke(
        {"question": "who is the captain of the Florida Panthers"},
        thread(),
        context=scripted(server, max_corrections=1, max_steps=2),
    )
    assert [s.number for s in second["steps"]] == [1, 2]
    assert [e.mention for e in second["linked"]] == ["Florida Panthers"]
    assert second["linked"][0].candidates[0].kind == "exact", "what was given before is not used again"
    assert second["program"] == ""
    assert (second["answer"].status, second["answer"].values) == ("budget_spent", ())
    assert second["answer"].usage.calls == 2
    assert "Miami" not in server.chats[0].text


def test_a_run_that_broke_off_goes_on_where_it_was(openai_server: Server) -> None:
    broken: list[int] = []

    def breaks_once(state: State, runtime: Runtime[Context]) -> Update:
        from triplewise.nodes.reflect import similarity

        if len(state.steps) == 2 and not broken:
            broken.append(1)
            raise RuntimeError("the machine was switched off")
        return similarity(state, runtime)

    server = openai_server(SHORT)
    graph = build_graph("queryagent", checkpointer=InMemorySaver(), reflect=breaks_once)
    with pytest.raises(RuntimeError, match="switched off"):
        graph.invoke(INPUT, thread(), context=scripted(server))
    assert server.used == 2
    assert graph.get_state(thread()).next == ("reflect",)
    state = graph.invoke(None, thread(), context=scripted(server))
    assert server.used == 3, "no reply is asked for twice"
    assert set(state["answer"].labels) == ARENAS
    assert [s.number for s in state["steps"]] == [1, 2, 3]
    assert state["answer"].usage.calls == 3


LOST = "Thought: hm\nAction: add_fact(?a, ?b)"


@pytest.mark.parametrize(
    ("settings", "replies", "reason"),
    [
        ({"max_steps": 2}, [SHORT[0], SHORT[1]], "the budget of 2 steps is spent"),
        ({"max_model_calls": 2}, [SHORT[0], SHORT[1]], "the budget of 2 model calls is spent"),
        ({"max_corrections": 2}, [SHORT[1], LOST, LOST, LOST], "the budget of 2 corrections is spent"),
        ({"max_queries": 1}, [SHORT[1]], "the budget of 1 KG queries is spent"),
        ({"max_tokens": 500}, [SHORT[1]], "the budget of 500 model tokens is spent"),
        ({"max_steps": 1}, [SHORT[0]], "the budget of 1 steps is spent"),
    ],
)
def test_every_budget_ends_in_an_answer(
    settings: dict[str, Any], replies: list[str], reason: str, openai_server: Server
) -> None:
    server = openai_server(replies)
    answer = build_graph("queryagent").invoke(INPUT, context=scripted(server, **settings))["answer"]
    proven = SHORT[1] in replies
    rest = "the answer is what was proven so far" if proven else "nothing was proven so far"
    assert (answer.status, answer.reason) == ("budget_spent", f"{reason}; {rest}")
    assert set(answer.labels) == (ARENAS if proven else set())
    assert len(answer.proof) == 2 * proven


def test_the_budget_of_seconds_ends_a_call_and_a_step_before_any(openai_server: Server) -> None:
    server = openai_server(SHORT, [Fault.SLOW] * 9, slow=3)
    for seconds in (0.5, 0.001):
        begin = time.perf_counter()
        answer = build_graph("queryagent").invoke(INPUT, context=scripted(server, max_seconds=seconds))[
            "answer"
        ]
        assert answer.status == "budget_spent"
        assert answer.reason == f"the budget of {seconds} seconds is spent; nothing was proven so far"
        assert time.perf_counter() - begin < 3


def test_corrections_that_are_used_up_do_not_end_a_run_that_goes_well(openai_server: Server) -> None:
    server = openai_server([LOST, *SHORT])
    answer = build_graph("queryagent").invoke(INPUT, context=scripted(server, max_corrections=1))["answer"]
    assert answer.status == "answered"
    assert len(answer.corrections) == 1


CUT_OFF = {"text": "Thought: let me think about it", "finish_reason": "length"}
SILENT = {"text": None, "usage": {"prompt_tokens": 90, "completion_tokens": 400, "total_tokens": 490}}


@pytest.mark.parametrize("calling", ["react", "tools"])
@pytest.mark.parametrize(
    ("reply", "words"), [(CUT_OFF, "cut at 1024 tokens"), (SILENT, "the 400 tokens that the model wrote")]
)
def test_replies_that_are_cut_or_silent_end_the_run_soon(
    openai_server: Server, reply: Any, words: str, calling: str
) -> None:
    server = openai_server([reply] * 12)
    state = build_graph("queryagent").invoke(INPUT, context=scripted(server, calling=calling))
    assert len(server.chats) == 2
    assert words in " ".join(server.chats[1].text.split()), "the model is told"
    assert state["answer"].status == "budget_spent"
    assert state["answer"].reason.startswith("two replies in a row held no action: the reply ")
    assert words in state["answer"].reason


def test_an_action_before_the_cut_is_carried_out(openai_server: Server) -> None:
    cut = {"text": SHORT[0], "finish_reason": "length"}
    state = build_graph("queryagent").invoke(INPUT, context=scripted(openai_server([cut, *SHORT[1:]])))
    assert set(state["answer"].labels) == ARENAS


@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.DRIP])
def test_no_model_call_outlives_the_run(openai_server: Server, fault: Fault) -> None:
    graph, settings = build_graph("queryagent"), {"max_seconds": 2.0, "model_timeout": 60.0}

    async def ask() -> Any:
        server = openai_server(SHORT, [fault] * 9, slow=60)
        return await graph.ainvoke(INPUT, context=scripted(server, **settings))

    server = openai_server(SHORT, [fault] * 9, slow=60)
    begin = time.perf_counter()
    for state in (graph.invoke(INPUT, context=scripted(server, **settings)), asyncio.run(ask())):
        assert state["answer"].status == "budget_spent"
        assert "seconds is spent" in state["answer"].reason
    assert time.perf_counter() - begin < 12


def test_native_tool_calls(openai_server: Server) -> None:
    replies: list[Any] = [
        {"text": "look first", "tool_calls": [("get_relation", {"entity_or_variable": "m.0j8js"})]},
        {"tool_calls": [("execute", {}), ("execute", {})]},
        {"tool_calls": [("add_fact", '{"head": "m.0j8')]},
        {"text": "I would rather talk."},
        {"tool_calls": [("add_fact", {"head": "m.0j8js", "relation": RELATION, "tail": "?arena"})]},
        {"tool_calls": [("execute", {})]},
    ]
    server = openai_server(replies)
    state = build_graph("queryagent").invoke(INPUT, context=scripted(server, calling="tools"))
    assert set(state["answer"].labels) == ARENAS
    assert [c.guideline for c in state["corrections"]] == ["several_actions", "other_error", "no_action"]
    assert state["steps"][0].thought == "look first"
    names = {t["function"]["name"] for t in server.chats[0].body["tools"]}
    assert {"get_relation", "add_fact", "execute"} <= names


def test_a_state_edited_as_json_goes_on(openai_server: Server) -> None:
    graph = build_graph("queryagent", checkpointer=InMemorySaver())
    server = openai_server(SHORT)
    paused = graph.invoke(INPUT, thread(), context=scripted(server), interrupt_before=["inspect"])
    assert [s.call for s in paused["steps"]] == ["get_relation(m.0j8js)"]
    step = json.loads(State.model_validate(paused).model_dump_json())["steps"][0]
    step["thought"] = "edited by a person"
    wrong = {**step, "call": "get_relation(?x)"}
    wrong["feedback"] = {"action": "get_relation", "arguments": ["?x"], "error": "unknown_variable"}
    config = graph.update_state(thread(), {"steps": [wrong]}, as_node="act")
    state = graph.invoke(None, config, context=scripted(openai_server(SHORT)))
    assert [c.guideline for c in state["corrections"]] == ["lookup_unbound_variable"]
    assert state["steps"][0].thought == "edited by a person"
    assert set(state["answer"].labels) == ARENAS


def test_every_state_survives_json(openai_server: Server) -> None:
    replies = [LOST, *SHORT]
    graph = build_graph("agent")
    for chunk in graph.stream(INPUT, context=scripted(openai_server(replies)), stream_mode="values"):
        state = State.model_validate(chunk)
        assert State.model_validate(json.loads(state.model_dump_json())) == state
    assert {type(step.feedback.outcome) for step in state.steps} == {str}


def test_batches_need_no_limit_from_the_caller(openai_server: Server) -> None:
    """A run of more than 25 phases, each question with its own environment."""
    replies = [LOST.replace("?b", f"?b{n}") for n in range(60)]
    graph, server = build_graph("queryagent"), openai_server(replies)
    context = scripted(server, max_steps=20, max_corrections=9, history="full")
    for states in (
        graph.batch([INPUT] * 3, context=context),
        asyncio.run(graph.abatch([INPUT] * 3, context=context)),
    ):
        assert [s["answer"].status for s in states] == ["budget_spent"] * 3
        assert all(len(s["corrections"]) == 9 for s in states)


def test_many_questions_wait_for_their_models_at_the_same_time(openai_server: Server) -> None:
    server = openai_server(
        lambda messages: SHORT[int(re.findall(r"Write Thought (\d+)", messages[-1]["content"])[-1]) - 1],
        latency=0.5,
    )
    graph, context = build_graph("queryagent"), scripted(server)

    async def ask() -> list[Any]:
        return list(await asyncio.gather(*(graph.ainvoke(INPUT, context=context) for _ in range(30))))

    begin = time.perf_counter()
    states = asyncio.run(ask())
    assert time.perf_counter() - begin < 30 * 0.5
    assert [set(s["answer"].labels) for s in states] == [ARENAS] * 30
    assert [s["answer"].usage.calls for s in states] == [3] * 30


def test_tokens_stream(openai_server: Server) -> None:
    graph = build_graph("queryagent")

    async def collect(context: Context) -> list[Any]:
        return [part async for part in graph.astream(INPUT, context=context, stream_mode="messages")]

    now: list[Any] = list(graph.stream(INPUT, context=scripted(openai_server(SHORT)), stream_mode="messages"))
    for parts in (now, asyncio.run(collect(scripted(openai_server(SHORT))))):
        assert len(parts) > len(SHORT), "tokens, not whole replies"
        assert {metadata["langgraph_node"] for _, metadata in parts} == {"act"}


def test_live_objects_are_taken_as_they_are() -> None:
    rdflib = pytest.importorskip("rdflib")
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    graph = rdflib.Graph().parse(
        data="""@prefix e: <http://e/> . @prefix l: <http://www.w3.org/2000/01/rdf-schema#> .
        e:anna l:label "Anna" ; e:bornIn e:bonn . e:bonn l:label "Bonn" .
        e:bornIn l:label "born in" .""",
        format="turtle",
    )
    asked = {"question": "Where was Anna born?", "entities": {"Anna": "http://e/anna"}}
    context = Context(kg=graph)
    assert build_graph("agent").invoke(asked, context=context)["answer"].labels == ("Bonn",)
    kg = open_kg("demo")
    answer = build_graph("agent").invoke(
        {"question": "What is the capital of Japan?"}, context=Context(kg=kg)
    )
    assert answer["answer"].text == "Tokyo."
    chat = FakeListChatModel(responses=["Thought 1: no\nAction 1: execute()"])
    state = build_graph("queryagent").invoke(asked, context=Context(kg=graph, model=chat, max_steps=2))
    assert (state["answer"].status, state["usage"].calls) == ("budget_spent", 2)
    assert context.name_of("kg") == "Graph"


def test_a_setting_that_is_given_wins_though_it_is_the_default() -> None:
    settings = PRESETS["queryagent-faithful"].settings
    assert Context(history="short").resolved(settings).history == "short"
    assert Context().resolved(settings).history == "full"
    assert Context(toolset=None).resolved(settings).toolset == "pyql"
    assert pickle.loads(pickle.dumps(Context(history="short"))).resolved(settings).history == "short"
    assert Context(history="short").changed(kg="x").resolved(settings).history == "short"
    assert Context().changed(kg="x").resolved(settings).history == "full"


def test_it_is_a_part_of_chains() -> None:
    chain: Any = (
        RunnableLambda(lambda text: {"question": text}) | build_graph() | (lambda state: state["answer"].text)
    )
    assert chain.batch(["Who wrote Dracula?"] * 2) == ["Bram Stoker."] * 2
    assert asyncio.run(chain.abatch(["Who wrote Dracula?"])) == ["Bram Stoker."]


def test_an_own_checkpointer_gives_back_what_it_was_given(caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        told = SqliteSaver(connection, serde=serializer())
        for saver in (told, SqliteSaver(connection), InMemorySaver()):
            graph = build_graph(checkpointer=saver)
            graph.invoke({"question": "Who wrote Dracula?"}, thread(), context=Context())
            steps = build_graph(checkpointer=saver).get_state(thread()).values["steps"]
            assert all(isinstance(step, Step) and isinstance(step.feedback, Feedback) for step in steps)
            assert steps
    assert caplog.records == []


def test_a_context_keeps_nothing_of_its_runs(openai_server: Server) -> None:
    server, graph = openai_server([*SHORT] * 3), build_graph("queryagent")
    context = scripted(server)
    before = dict(vars(context))
    states = [graph.invoke(INPUT, context=context) for _ in range(3)]
    assert [s["answer"].usage.calls for s in states] == [len(SHORT)] * 3
    assert dict(vars(context)) == before


def test_what_is_in_the_state_is_read_once(openai_server: Server) -> None:
    """A step is the same object in every phase that follows, and an update holds what is new alone."""
    seen: list[Step] = []

    def watch(state: State) -> Update:
        seen.extend(state.steps[:1])
        return {}

    graph, updates = build_graph("queryagent", reflect=watch), list[Any]()
    for chunk in graph.stream(INPUT, context=scripted(openai_server(SHORT)), stream_mode="updates"):
        updates += [update["steps"] for update in chunk.values() if "steps" in update]
        assert not any("env" in update for update in chunk.values())
    assert len(seen) > 1
    assert len(set(map(id, seen))) == 1
    assert {len(steps or ()) for steps in updates} <= {0, 1}


def test_a_phase_is_named_where_it_cannot_be_one() -> None:
    def silent(state: State) -> None: ...

    with pytest.raises(ConfigurationError, match="phase silent returned None; a phase returns a dictionary"):
        build_graph(plan=silent).invoke({"question": "Who wrote Dracula?"}, context=Context())  # type: ignore[arg-type]

    def greedy(state: State, runtime: Any, more: Any) -> Update:
        return {}

    with pytest.raises(ConfigurationError, match=r"phase greedy\(state.*a phase takes \(state, runtime\)"):
        build_graph(plan=greedy)


def test_settings_in_the_config_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"context=Context\(model=\.\.\.\)"):
        build_graph().invoke({"question": "Who?"}, {"configurable": {"model": "openai:x", "thread_id": "1"}})
