"""Converse: turn a message of a conversation into a self-contained question, and its answer into a message.

A language model rewrites the question in one call, unless it is self-contained. Without a model, rules do
(`tools/parsing/follow_up.py`); if several rewrites are possible, the one with the surest answer is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, environment
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import Answer, Usage
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.follow_up import FollowUp, Purpose, Rewrite, Turn, alone, with_names
from triplewise.tools.parsing.reading import Reading

SURE = 0.9  # Confidence from which no other rewrite of a message is tried
KEPT, SHOWN, LABELS, LISTED, PROOF = 10, 3, 12, 30, 12
"""Most exchanges remembered, shown to a model, labels of each; most answers and facts in a message."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A self-contained question, its answer, and the reading that gave it as text."""

    question: str
    entities: dict[str, str]
    answer: Answer
    reading: str = ""

    @property
    def turn(self) -> Turn:
        """What later messages may refer to."""
        return Turn(self.question, self.entities, self.answer.values, self.answer.labels)


class Messages(BaseModel):
    """What a client sends."""

    messages: Annotated[list[AnyMessage], add_messages] = Field([], description="The conversation.")


class Conversation(Messages):
    """The state of a conversation: its messages, questions and answers, and the question at hand."""

    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")

    exchanges: tuple[Exchange, ...] = Field((), description="Questions with their answers.")
    unclear: str = Field("", description="A message that waits for the name of what it is about.")
    rewrites: tuple[Rewrite, ...] = Field((), description="What else the message may mean.")
    tried: tuple[Exchange, ...] = Field((), description="Rewrites of the message that were tried.")
    rewriting: Usage = Field(Usage(), description="Model usage of rewriting the message.")
    question: str = Field("", description="The question that the machine answers.")
    entities: dict[str, str | None] = Field({}, description="Its entities: mention -> id.")
    linked: tuple[LinkedEntity, ...] = Field((), description="Entities found in the question.")
    readings: tuple[Reading, ...] = Field((), description="What the question may mean.")
    attempt: int = Field(0, description="Index of the reading that was followed.")
    answer: Answer | None = Field(None, description="The answer of the machine.")


Next: TypeAlias = Command[Literal["ask", "__end__"]]


def read(state: Conversation, runtime: Runtime[Context]) -> Next:
    """Read the newest message; go on with the question in it, or reply if there is none."""
    if not state.messages:
        raise ConfigurationError("the conversation has no message; send one, e.g. 'Who wrote Dracula?'")
    env, text = environment(runtime), str(state.messages[-1].text).strip()
    turns = [exchange.turn for exchange in state.exchanges]
    message = FollowUp(text, turns, env.kg, env.encoder, state.unclear)
    purpose, rewrites = message.purpose, tuple[Rewrite, ...]()
    if purpose == "question" and (env.context.offline or message.is_alone or not turns):
        rewrites = message.rewrites
    elif purpose == "question":
        purpose, rewrites = rewrite(message, turns, env)
    if purpose == "proof":
        return _say(proof_text(state.exchanges[-1]))
    if purpose == "query":
        sparql = state.exchanges[-1].answer.sparql
        return _say(f"```sparql\n{sparql}\n```" if sparql else "There is no query: nothing was found.")
    if not rewrites:
        what = f"what {message.reference.match[0]!r} stands for" if message.reference else "what is asked"
        return _say(f"I cannot tell {what}. Give me the name, or ask in full.", unclear=text)
    return _ask(rewrites, (), env.usage)


def rewrite(message: FollowUp, turns: list[Turn], env: Environment) -> tuple[Purpose, tuple[Rewrite, ...]]:
    """Return what a message asks for, and the question that a model rewrites it to."""
    recent = [(t.question, ", ".join(t.labels[:LABELS]) or "not found") for t in turns[-SHOWN:]]
    if message.unclear:
        recent.append((message.unclear, "of whom or what?"))
    prompt = load_prompt("chat").render("rewrite", said=recent, message=message.message)
    line = env.ask(prompt).text.strip().rpartition("\n")[2].strip()
    if line in ("PROOF", "QUERY"):
        return ("proof" if line == "PROOF" else "query"), ()
    if not line:
        return "question", message.rewrites
    named = [pair for t in turns for pair in (*zip(t.labels, t.values, strict=True), *t.entities.items())]
    entities = {mention: id_ for mention, id_ in named if mention in line and message.is_node(id_)}
    return "question", () if line == "UNCLEAR" else (alone(line, entities, env.kg, env.encoder),)


def reply(state: Conversation, runtime: Runtime[Context]) -> Next:
    """Reply with the answer; if it is unsure and the message may mean something else, try that first."""
    assert state.answer is not None, "the machine ends with an answer"
    env, reading = environment(runtime), ""
    if env.context.offline and state.answer.values and state.attempt < len(state.readings):
        reading = state.readings[state.attempt].text
    answer = replace(state.answer, usage=state.answer.usage + state.rewriting)
    turn = with_names(Turn(state.question, {e.mention: e.id for e in state.linked}), env.kg)
    tried = (*state.tried, Exchange(turn.question, dict(turn.entities), answer, reading))
    is_sure = answer.status == "answered" and (answer.confidence or 1.0) >= SURE
    if state.rewrites and not is_sure:
        return _ask(state.rewrites, tried, Usage())

    def rank(exchange: Exchange) -> tuple[bool, bool, float]:
        answer = exchange.answer
        return answer.status == "answered", bool(answer.values), answer.confidence or 0.0

    # The surest answer; the first rewrite if there is none.
    best = max(tried, key=rank)
    text, labels = best.answer.text, best.answer.labels
    if (more := len(labels) - LISTED) > 0:
        text = f"{', '.join(labels[:LISTED])} and {more} more."
    if best.question.strip(" ?.!").casefold() != str(state.messages[-1].text).strip(" ?.!").casefold():
        text += f"\n\nI read this as: {best.question}"
    if best.answer.status == "unsure":
        text += f"\n\nNot sure, because {best.answer.reason}."
    about = {"question": best.question, "answer": best.answer.to_dict(), "reading": best.reading}
    return _say(text, about, exchanges=(*state.exchanges, best)[-KEPT:], answer=best.answer)


def proof_text(exchange: Exchange) -> str:
    """Return the explanation of an answer: how the question was read, and the facts that prove it."""
    answer, more = exchange.answer, len(exchange.answer.proof) - PROOF
    read_as = f" I read this as: {exchange.reading}" if exchange.reading else ""
    lines = [f"{exchange.question}{read_as}", *(f"- {fact.text}" for fact in answer.proof[:PROOF])]
    lines += [f"- and {more} more facts"] if more > 0 else []
    lines += [f"{answer.confidence:.0%} sure"] if answer.confidence is not None else []
    return "\n".join([*lines, answer.reason and f"{answer.reason}."]).strip()


def _ask(rewrites: tuple[Rewrite, ...], tried: tuple[Exchange, ...], usage: Usage) -> Next:
    first, *others = rewrites
    update = {"question": first.question, "entities": dict(first.entities), "rewrites": tuple(others)}
    return Command(goto="ask", update={**update, "tried": tried, "rewriting": usage, "unclear": ""})


def _say(text: str, about: dict[str, Any] | None = None, unclear: str = "", **update: Any) -> Next:
    message = AIMessage(text, additional_kwargs=about or {})
    return Command(goto="__end__", update={"messages": [message], "unclear": unclear, "tried": (), **update})
