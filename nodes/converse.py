"""Converse: turn a message of a conversation into a question, and its answer into a message.

Without a language model, the parser reads a message together with how the questions before it were read
(`tools/parsing/follow_up.py`). A model rewrites a message that leans on them to a self-contained question.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from triplewise.tools.linking.linker import LinkedEntity, link
from triplewise.tools.parsing.follow_up import PROVENANCE, REMEMBERED, Purpose, Turn, lacks, leans, purpose_of
from triplewise.tools.parsing.reading import Reading

KEPT, SHOWN, LABELS, LISTED, PROOF = 10, 3, 12, 30, 12
"""Most exchanges remembered, shown to a model, labels of each; most answers and facts in a message."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question as later ones may lean on it, its answer, and the reading that gave it, in words."""

    turn: Turn
    answer: Answer
    reading: str = ""

    @classmethod
    def of(cls, question: str, answer: Answer, reading: Reading | None) -> Exchange:
        """Return an exchange; a reading that found nothing is none of it."""
        if reading is None or not answer.values:
            return cls(Turn(question, values=answer.values), answer)
        return cls(Turn(question, reading.tree, answer.values, dict(reading.features)), answer, reading.text)


class Messages(BaseModel):
    """What a client sends."""

    messages: Annotated[list[AnyMessage], add_messages] = Field([], description="The conversation.")


class Conversation(Messages):
    """The state of a conversation: its messages, questions and answers, and the question at hand."""

    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")

    exchanges: tuple[Exchange, ...] = Field((), description="Questions with their answers.")
    unclear: str = Field("", description="A message that waits for the name of what it is about.")
    rewriting: Usage = Field(Usage(), description="Model usage of rewriting the message.")
    question: str = Field("", description="The question that the machine answers.")
    turns: tuple[Turn, ...] = Field((), description="Questions before it, newest first.")
    linked: tuple[LinkedEntity, ...] = Field((), description="Entities found in the question.")
    readings: tuple[Reading, ...] = Field((), description="What the question may mean.")
    attempt: int = Field(0, description="Index of the reading that was followed.")
    answer: Answer | None = Field(None, description="The answer of the machine.")

    @property
    def message(self) -> str:
        """The newest message. Raises `ConfigurationError` where there is none."""
        if not self.messages:
            raise ConfigurationError("the conversation has no message; send one, e.g. 'Who wrote Dracula?'")
        return str(self.messages[-1].text)


Next: TypeAlias = Command[Literal["ask", "__end__"]]


def read(state: Conversation, runtime: Runtime[Context]) -> Next:
    """Read the newest message; go on with the question in it, or reply if there is none."""
    env, text = environment(runtime), state.message.strip()
    purpose: Purpose = purpose_of(text) if state.exchanges else "question"
    turns = turns_of(state.exchanges)
    lacking, is_offline = lacks(text), env.context.offline
    named = link(text, env.kg, encoder=env.encoder) if state.unclear or (lacking and not turns) else ()
    if (turns or state.unclear) and leans(text):
        if is_offline and state.unclear and named:
            return _ask(state.unclear, (Turn("", values=(named[0].id,)), *turns), env.usage)
        if not is_offline and purpose == "question":
            purpose, text = rewrite(text, state, env)
    if explain := {"proof": proof_text, "query": query_text}.get(purpose):
        return _say(explain(state.exchanges[-1]))
    if not text or (lacking is not None and not turns and not named):
        what = f"what {lacking!r} stands for" if lacking else "what is asked"
        return _say(f"I cannot tell {what}. Give me the name, or ask in full.", unclear=state.message)
    return _ask(text, turns if is_offline else (), env.usage)


def turns_of(exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
    """Return what a message after some exchanges may refer to, newest first."""
    return tuple(exchange.turn for exchange in exchanges[: -REMEMBERED - 1 : -1])


def rewrite(message: str, state: Conversation, env: Environment) -> tuple[Purpose, str]:
    """Return what a message asks for, and the question that a model makes of it; "" where it cannot tell."""
    shown = state.exchanges[-SHOWN:]
    said = [(e.turn.question, ", ".join(e.answer.labels[:LABELS]) or "not found") for e in shown]
    if state.unclear:
        said.append((state.unclear, "of whom or what?"))
    line = env.ask(load_prompt("chat").render("rewrite", said=said, message=message)).text.strip()
    line = line.rpartition("\n")[2].strip() or message
    if line in ("PROOF", "QUERY"):
        return ("proof" if line == "PROOF" else "query"), line
    return "question", "" if line == "UNCLEAR" else line


def reply(state: Conversation, runtime: Runtime[Context]) -> Next:
    """Reply with the answer, and with how the message was read where it leans on earlier ones."""
    assert state.answer is not None, "the machine ends with an answer"
    answer = replace(state.answer, usage=state.answer.usage + state.rewriting)
    is_offline, is_tried = runtime.context.offline, state.attempt < len(state.readings)
    reading = state.readings[state.attempt] if is_offline and is_tried else None
    exchange = Exchange.of(state.question, answer, reading)
    text, labels = answer.text, answer.labels
    if (more := len(labels) - LISTED) > 0:
        text = f"{', '.join(labels[:LISTED])} and {more} more."
    if reading is not None and exchange.reading and reading.provenance == PROVENANCE:
        text += f"\n\nI read this as: {reading.text}"
    elif state.question.casefold() != state.message.strip().casefold():
        text += f"\n\nI read this as: {state.question}"
    if answer.status == "unsure":
        text += f"\n\nNot sure, because {answer.reason}."
    about = {"question": state.question, "answer": answer.to_dict(), "reading": exchange.reading}
    return _say(text, about, exchanges=(*state.exchanges, exchange)[-KEPT:], answer=answer)


def proof_text(exchange: Exchange) -> str:
    """Return the explanation of an answer: how the question was read, and the facts that prove it."""
    answer, more = exchange.answer, len(exchange.answer.proof) - PROOF
    read_as = f" I read this as: {exchange.reading}" if exchange.reading else ""
    lines = [f"{exchange.turn.question}{read_as}", *(f"- {fact.text}" for fact in answer.proof[:PROOF])]
    lines += [f"- and {more} more facts"] if more > 0 else []
    lines += [f"{answer.confidence:.0%} sure"] if answer.confidence is not None else []
    return "\n".join([*lines, answer.reason and f"{answer.reason}."]).strip()


def query_text(exchange: Exchange) -> str:
    """Return the query that gave an answer."""
    sparql = exchange.answer.sparql
    return f"```sparql\n{sparql}\n```" if sparql else "There is no query: nothing was found."


def _ask(question: str, turns: tuple[Turn, ...], usage: Usage) -> Next:
    update = {"question": question, "turns": turns, "rewriting": usage, "unclear": ""}
    return Command(goto="ask", update=update)


def _say(text: str, about: dict[str, Any] | None = None, unclear: str = "", **update: Any) -> Next:
    message = AIMessage(text, additional_kwargs=about or {})
    return Command(goto="__end__", update={"messages": [message], "unclear": unclear, **update})
