"""Actions, declared by the functions that carry them out: prompts, schemas and checks are read from these.

An action takes an `ActionContext` (what the environment knows in this step) and its arguments as text, and
returns `Feedback`. It never raises for what a model wrote: `ActionError` becomes interpreter feedback.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from triplewise.tools.core.errors import ActionError, QueryFailedError
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import Triple
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder

_SURROGATE = re.compile("[\ud800-\udfff]")
_FORMS = ("value", "operator", "text")
_LONG, _NEWS = 60, 0.4
"""Characters from which on a parameter's text says more than its kind, and the least share of new words."""


@dataclass(frozen=True, slots=True)
class Call:
    """One action as the agent wrote it: name and arguments as text."""

    name: str
    arguments: tuple[str, ...] = ()

    def text(self) -> str:
        """The call as it stands in a trajectory, e.g. `add_fact(Q1490, P36, ?capital)`."""
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback of the environment to one action, which ERASER works on (QueryAgent 3.3)."""

    action: str = ""
    arguments: tuple[str, ...] = ()
    error: str = ""  # code, of the interpreter
    message: str = ""
    detail: dict[str, Any] = field(default_factory=dict)  # facts about the error as plain JSON
    outcome: str = ""  # of the query (see `Outcome`)
    observation: str = ""  # what the agent sees if there is no error
    program: str = ""  # the PyQL text after the action, or before a failed one
    relations: dict[str, list[str]] = field(default_factory=dict)  # offered, by direction
    values: dict[str, list[str]] = field(default_factory=dict)  # a preview of each variable as names
    ids: dict[str, list[str]] = field(default_factory=dict)  # the same as short ids
    triples: tuple[Triple, ...] = ()  # what reflection chooses from
    answers: tuple[str, ...] = ()  # the final values of an agent that has finished
    finished: bool = False
    facts: tuple[ExtractedFact, ...] = ()  # those of the triples that were just read from documents


@dataclass(frozen=True, slots=True)
class ReasoningMemory:
    """What was linked, looked up, bound and tried so far (the RM of QueryAgent, Algorithm 1).

    `looked_up`: entity or `?variable` -> its relations as last offered, as in `Feedback.relations`.
    """

    linked: dict[str, str] = field(default_factory=dict)  # short id -> label
    looked_up: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    bound: tuple[str, ...] = ()  # `?variable` names of the current program, in order of appearance
    seen: frozenset[str] = frozenset()  # short ids of nodes seen in any observation
    shown: frozenset[str] = frozenset()  # short ids of relations shown without a look-up
    calls: tuple[str, ...] = ()  # texts of all calls in order
    failed: frozenset[str] = frozenset()  # the ones that ended in an error
    doubted: frozenset[str] = frozenset()  # those that failed on the present program (for `last`: on its own)
    steps: int = 0  # how many were used
    budget: int = 0  # how many there are

    @property
    def last(self) -> str:
        """The last call."""
        return self.calls[-1] if self.calls else ""

    @property
    def tried(self) -> Counter[str]:
        """How many times each call was tried."""
        return Counter(self.calls)

    @property
    def names(self) -> set[str]:
        """Ids and labels of all entities that were linked, and ids of those that were seen."""
        return {*self.linked, *self.linked.values(), *self.seen}


Ranker = Callable[[list[str], list[str]], tuple[list[str], list[str]]]
"""(forward, backward) short relation ids -> the same, cut and ordered for the question."""


@dataclass(frozen=True)
class ActionContext:
    """All that an action may use in one step."""

    kg: KnowledgeGraph
    question: str = ""
    program: str = ""
    memory: ReasoningMemory = field(default_factory=ReasoningMemory)
    rank: Ranker = lambda forward, backward: (forward, backward)
    preview: int = 5  # values that are shown
    published: bool = False  # as the papers do, without their number or a way to see the rest
    services: Mapping[str, Any] = field(default_factory=dict)
    encoder: Encoder | None = None  # lets a search compare meanings too


class Parameter(NamedTuple):
    """A parameter of an action."""

    name: str
    kind: str  # node, entity, relation, variable, operator, value or text
    doc: str
    required: bool = True
    default: str = ""  # stands for one that is not required where a later one is given


@dataclass(frozen=True, slots=True)
class Action:
    """An action by its name, made by `action`; where it is `variadic`, its last parameter may repeat.

    `run` takes the context and the arguments, and may raise `ActionError`. A program that its feedback leaves
    out stays as it is, unless the detail says `emptied`; without an observation, the message is shown.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    run: Callable[..., Feedback]
    example: str
    variadic: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """E.g. `add_fact(head, relation, tail)`."""
        return f"{self.name}({', '.join(p.name for p in self.parameters)})"

    def fit_arguments(self, arguments: tuple[str, ...], memory: ReasoningMemory) -> tuple[str, ...]:
        """Return arguments, joined where a comma in a known name split them; else raise `arity`."""
        least, most = sum(p.required for p in self.parameters), len(self.parameters)
        if not self.variadic:
            arguments = tuple(join_names(arguments, least, memory.names))
        got = len(arguments)
        if got >= least and (self.variadic or got <= most):
            return arguments
        due = f"{least} or more" if self.variadic else str(least) if least == most else f"{least} to {most}"
        facts = {"got": got, "due": most, "least": least, "name": self.name, "signature": self.signature}
        raise ActionError("arity", f"{self.signature} takes {due} parameters, not {got}", **facts)

    def schema(self) -> dict[str, Any]:
        """Return the action as a tool in OpenAI's strict form: all properties; optional ones may be null."""
        properties: dict[str, Any] = {
            p.name: {"type": "string" if p.required else ["string", "null"], "description": p.doc}
            for p in self.parameters
        }
        if self.variadic:
            properties[self.parameters[-1].name] |= {"type": "array", "items": {"type": "string"}}
        shape = {"type": "object", "properties": properties, "required": list(properties)}
        described = {"name": self.name, "description": f"{self.doc} For example: {self.example}"}
        function = {**described, "strict": True, "parameters": {**shape, "additionalProperties": False}}
        return {"type": "function", "function": function}


def action(example: str, *aliases: str) -> Callable[[Callable[..., Feedback]], Action]:
    """Declare the action that a function carries out: its name, docstring and parameters after `context`.

    Each parameter is `Annotated[str, kind, what it is]`, see `Parameter`. One with a default, or with False
    as a third note, may be left out; `*name` may repeat.
    """

    def declare(run: Callable[..., Feedback]) -> Action:
        _, *own = inspect.signature(run, eval_str=True).parameters.values()
        read = [(p, Parameter(p.name, *p.annotation.__metadata__)) for p in own]
        parameters = tuple(
            p if of.default is of.empty else p._replace(required=False, default=of.default) for of, p in read
        )
        doc, variadic = " ".join((run.__doc__ or "").split()), any(p.kind is p.VAR_POSITIONAL for p in own)
        return Action(run.__name__, doc, parameters, run, example, variadic, aliases)

    return declare


def whole(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs: JSON may carry them, no engine or file can."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def join_names(arguments: Iterable[str], due: int, names: Collection[str]) -> list[str]:
    """Return arguments with neighbours joined where a comma inside a name has split it, down to `due`."""
    parts = list(arguments)
    longest = max((name.count(", ") + 1 for name in names), default=1)
    i = 0
    while len(parts) > due and i < len(parts) - 1:
        for width in range(min(longest, len(parts) - due + 1), 1, -1):
            if (joined := ", ".join(parts[i : i + width])) in names:
                parts[i : i + width] = [joined]
                break
        i += 1
    return parts


@dataclass(frozen=True)
class Toolset:
    """The actions an agent may take."""

    name: str
    declared: tuple[Action, ...]
    to_pyql: Callable[[str, Profile], PyQL] = PyQL.parse  # the program of a run's state: SPARQL and proof
    spelled: Callable[[str], str] = str  # turns its own ways to write an action into `Action: name(...)`

    @cached_property
    def actions(self) -> Mapping[str, Action]:
        """The actions by name."""
        return {action.name: action for action in self.declared}

    @cached_property
    def by_name(self) -> Mapping[str, Action]:
        """The actions by all names that they may be called by."""
        return {alias: a for a in self.declared for alias in a.aliases} | dict(self.actions)

    def action(self, name: str) -> Action:
        """Return the action of a name or alias. Raises `ActionError` with code `unknown_action`."""
        if name not in self.by_name:
            legal = sorted(self.actions)
            message = f"{name} is not an action: {', '.join(legal)}"
            raise ActionError("unknown_action", message, name=name, legal=legal)
        return self.by_name[name]

    def extended(self, *actions: Action) -> Toolset:
        """Return the toolset with more actions, in place of its own of the same name."""
        return replace(self, declared=(*self.without(*(a.name for a in actions)).declared, *actions))

    def without(self, *names: str) -> Toolset:
        """Return the toolset without some of its actions."""
        return replace(self, declared=tuple(a for a in self.declared if a.name not in names))

    def execute(self, context: ActionContext, call: Call) -> Feedback:
        """Carry out a call; errors in it are returned as feedback. `RunError` if the KG is unavailable."""
        name, arguments = whole(call.name), tuple(map(whole, call.arguments))
        try:
            action = self.action(name)
            name = action.name
            feedback = action.run(context, *action.fit_arguments(arguments, context.memory))
        except ActionError as error:
            failed = Feedback(name, arguments, error.code, error.message, dict(error.detail))
            return replace(failed, program=context.program)
        except QueryFailedError as error:
            feedback = Feedback(outcome=error.outcome, message=error.message)
        return replace(
            feedback,
            action=name,
            arguments=feedback.arguments or arguments,
            observation=feedback.observation or feedback.message,
            program="" if feedback.detail.get("emptied") else feedback.program or context.program,
        )

    def document(self) -> str:
        """Return the numbered tool document for a prompt (QueryAgent, table 10; SymAgent, figure 5)."""
        lines = []
        for number, action in enumerate(self.declared, 1):
            lines.append(f"{number}. {action.signature}: {action.doc} For example: {action.example}")
            lines += [f"   - {p.name}: {p.doc}" for p in action.parameters]
        return "\n".join(lines)

    def brief(self) -> str:
        """Return the same document in a line an action: of parameters, those with a form are explained.

        What nodes, relations and variables look like is for the prompt's rules to say, once; what stands in
        the text of one action is not repeated in the next.
        """
        lines, words = [], set[str]()
        for number, action in enumerate(self.declared, 1):
            notes = []
            for p in action.parameters:
                own = set(re.findall(r"[^\s,;:()]+", f"{p.name} {p.doc}"))
                if (p.kind in _FORMS or len(p.doc) > _LONG) and len(own - words) > _NEWS * len(own):
                    notes.append(f"{p.name}: {p.doc}")
                    words |= own
            example = f" E.g. {action.example}" if action.variadic and notes else ""
            explained = f" ({'; '.join(notes)})" if notes else ""
            lines.append(f"{number}. {action.signature}: {action.doc}{explained}{example}")
        return "\n".join(lines)

    def from_tool_call(self, name: str, args: Mapping[str, Any]) -> Call:
        """Return the call that a native tool call means. What does not fit shows when it is executed."""
        texts, rest = list[str](), dict(args)
        left_out = list[str]()  # defaults that keep what follows in its place
        for parameter in self.action(name).parameters if name in self.by_name else ():
            if given := _texts(rest.pop(parameter.name, None)):
                texts += [*left_out, *given]
                left_out = []
            elif not parameter.required:
                left_out.append(parameter.default)
        return Call(name, (*texts, *(text for value in rest.values() for text in _texts(value))))


def _texts(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    if value is None or value == "":
        return []
    return [str(value).lower() if isinstance(value, bool) else str(value).strip()]


@action("unknown(there are no prices of cars)", "Unknown", "refuse", "not_found")
def unknown(
    context: ActionContext, *reason: Annotated[str, "text", "what is missing, in a few words"]
) -> Feedback:
    """End without an answer: what is asked is not in the data. Never answer from your own knowledge."""
    given = ", ".join(a.strip().strip("'\"") for a in reason if a.strip()) or "the data does not say"
    return Feedback(arguments=(given,), observation=f"Not known: {given}.", finished=True)
