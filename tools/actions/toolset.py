"""A toolset: actions by name, with everything that is derived from their declarations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from triplewise.tools.actions.action import Action, ActionContext, Parameter, unknown_action, whole
from triplewise.tools.actions.terms import Resolver
from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.profile import Profile
from triplewise.tools.pyql import PyQL


@dataclass(frozen=True)
class Toolset(Collection[str]):
    """The actions an agent may take. As a collection it holds all names they may be called by.

    Attributes:
        name: as in `TOOLSETS`.
        actions: by name, in the order they are documented.
        to_pyql: the program of a run's state (`ActionContext.program`): what gives SPARQL and proof.
        spelled: a model's reply, with the toolset's own ways to write an action made `Action: name(...)`.
    """

    name: str
    actions: Mapping[str, Action]
    to_pyql: Callable[[str, Profile], PyQL] = PyQL.parse
    spelled: Callable[[str], str] = str

    @classmethod
    def of(
        cls,
        name: str,
        actions: Iterable[Action],
        *,
        to_pyql: Callable[[str, Profile], PyQL] = PyQL.parse,
        spelled: Callable[[str], str] = str,
    ) -> Toolset:
        """A toolset of some actions."""
        return cls(name, {action.name: action for action in actions}, to_pyql, spelled)

    @cached_property
    def _by_name(self) -> dict[str, Action]:
        """Actions by every spelling that is accepted."""
        named = {alias: a for a in self.actions.values() for alias in a.aliases}
        return {**named, **self.actions}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def action(self, name: str) -> Action:
        """The action of a name or alias. Raises `ActionError` with code `unknown_action`."""
        if (action := self._by_name.get(name)) is None:
            raise unknown_action(name, list(self.actions))
        return action

    def execute(self, bench: ActionContext, call: Call) -> Feedback:
        """Carry out a call. What is wrong with the call comes back as feedback with an `error`.

        Raises:
            RunError: if the KG is lost for good. Never for anything that a model wrote.
        """
        call = Call(whole(call.name), tuple(map(whole, call.arguments)))
        name = call.name
        try:
            action = self.action(call.name)
            name = action.name
            arguments = _fitted(bench, action, call.arguments)
            feedback = action.run(bench, arguments)
        except ActionError as error:
            return Feedback(
                action=name,
                arguments=call.arguments,
                error=error.code,
                message=error.message,
                detail=dict(error.detail),
                program=bench.program,
            )
        return replace(feedback, action=name, arguments=feedback.arguments or call.arguments)

    def document(self) -> str:
        """The numbered tool document for a prompt (QueryAgent, table 10; SymAgent, figure 5)."""
        lines = []
        for number, action in enumerate(self.actions.values(), 1):
            lines.append(f"{number}. {action.signature}: {action.doc} For example: {action.example}")
            lines += [f"   - {p.name}: {p.doc}" for p in action.parameters]
        return "\n".join(lines)

    def brief(self) -> str:
        """The same document in a line an action: of parameters, those with a form are explained.

        What nodes, relations and variables look like is for the prompt's rules to say, once; what was said of
        one action is not said again of the next.
        """
        said: set[str] = set()
        return "\n".join(
            f"{n}. {_in_a_line(action, said)}" for n, action in enumerate(self.actions.values(), 1)
        )

    def schemas(self) -> list[dict[str, Any]]:
        """The actions as function-calling tools in OpenAI's strict JSON form."""
        return [_schema(action) for action in self.actions.values()]

    def from_tool_call(self, name: str, args: Mapping[str, Any]) -> Call:
        """The call that a native tool call means. What does not fit shows when it is executed."""
        if name not in self:
            return Call(name, tuple(t for v in args.values() for t in _texts(v)))
        parameters = self.action(name).parameters
        known = {p.name for p in parameters}
        values = [args.get(p.name) for p in parameters] + [v for k, v in args.items() if k not in known]
        return Call(name, tuple(text for value in values for text in _texts(value)))


def _fitted(bench: ActionContext, action: Action, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments, joined where a comma in a known name split them. Raises `arity` if they do not fit."""
    least = sum(p.required for p in action.parameters)
    most = None if action.variadic else len(action.parameters)
    if most is not None and len(arguments) > most:
        arguments = tuple(Resolver(bench).joined(arguments, most))
    got = len(arguments)
    if got >= least and (most is None or got <= most):
        return arguments
    due = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    raise ActionError(
        "arity",
        f"{action.signature} takes {due} parameters, not {got}",
        got=got,
        due=len(action.parameters),
        least=least,
        name=action.name,
        signature=action.signature,
    )


_FORMS = ("value", "operator", "text")
_TELLING = 60
"""Characters from which on the text of a parameter says more than what kind of thing it is."""
_NEWS = 0.4
"""Share of words that are not yet said, below which a text is no news."""


def _in_a_line(action: Action, said: set[str]) -> str:
    """Signature and text of an action, with what its parameters need beyond that and beyond what was said."""
    notes = []
    for p in action.parameters:
        words = set(re.findall(r"[^\s,;:()]+", f"{p.name} {p.doc}"))
        if (p.kind in _FORMS or len(p.doc) > _TELLING) and len(words - said) > _NEWS * len(words):
            notes.append(f"{p.name}: {p.doc}")
            said |= words
    example = f" E.g. {action.example}" if action.variadic and notes else ""
    explained = f" ({'; '.join(notes)})" if notes else ""
    return f"{action.signature}: {action.doc}{explained}{example}"


def _texts(value: Any) -> list[str]:
    """A JSON value as argument texts."""
    match value:
        case None:
            return []
        case list() | tuple():
            return [text for item in value for text in _texts(item)]
        case bool():
            return ["true" if value else "false"]
        case _:
            return [str(value).strip()]


def _schema(action: Action) -> dict[str, Any]:
    """One action as a function. Strict mode wants every property required, so optional ones may be null."""
    last = action.parameters[-1].name if action.variadic else None
    return {
        "type": "function",
        "function": {
            "name": action.name,
            "description": f"{action.doc} For example: {action.example}",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {p.name: _property(p, p.name == last) for p in action.parameters},
                "required": [p.name for p in action.parameters],
                "additionalProperties": False,
            },
        },
    }


def _property(parameter: Parameter, repeats: bool) -> dict[str, Any]:
    """The JSON schema of one parameter."""
    if repeats:
        return {"type": "array", "items": {"type": "string"}, "description": parameter.doc}
    return {"type": "string" if parameter.required else ["string", "null"], "description": parameter.doc}
