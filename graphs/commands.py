"""How commands and their options are declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperGroup

Function = TypeVar("Function", bound=Callable[..., None])


def option(metavar: str, help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """Return an option, for the default of a parameter; `shown` is what its help gives as default."""
    shown = more.pop("shown", True)
    return typer.Option(default, *names, metavar=metavar or None, help=help, show_default=shown, **more)


def flag(help: str, *names: str) -> Any:
    """Return an option without a value, False unless it is given."""
    return typer.Option(False, *names, metavar="", help=help)


def argument(metavar: str, help: str, default: Any = ...) -> Any:
    """Return an argument, for the default of a parameter; without a default it must be given."""
    return typer.Argument(default, metavar=metavar, help=help, show_default=False)


def command(
    group: typer.Typer, name: str | None = None, add: str = "command", after: str = "", **settings: Any
) -> Callable[[Function], Function]:
    """Add a function to a group as a command (`add="callback"`: as the group itself), its docstring as help.

    A parameter that is a dataclass becomes the options that are its fields. The lines under `Examples:`, last
    in the docstring, stand below the help, and `after` below them.
    """

    def decorate(function: Function) -> Function:
        text, _, lines = inspect.cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
        settings["help"] = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        shown = "\n  ".join(line.strip() for line in lines.splitlines()).replace("[", r"\[")
        examples = f"Examples:\n\n[cyan]  {shown}[/cyan]" if lines else ""
        settings["epilog"] = f"{examples}\n\n{after}".strip()
        if name:
            settings["name"] = name
        getattr(group, add)(**settings)(_unfold(function))
        return function

    return decorate


def _unfold(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer, which takes the fields of a parameter that is a dataclass as options."""
    signature = inspect.signature(function, eval_str=True)
    groups, parameters = dict[str, Any](), list[inspect.Parameter]()
    for p in signature.parameters.values():
        options = [(p.name, p.default, p.annotation)]
        if is_dataclass(p.annotation):
            groups[p.name], hints = p.annotation, get_type_hints(p.annotation, include_extras=True)
            options = [(f.name, f.default, hints[f.name]) for f in fields(p.annotation)]
        parameters += [inspect.Parameter(n, p.KEYWORD_ONLY, default=d, annotation=t) for n, d, t in options]

    @functools.wraps(function)
    def unfolded(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        function(**values)

    vars(unfolded).update(__signature__=signature.replace(parameters=parameters), __annotations__={})
    return unfolded


def with_default(name: str) -> type[TyperGroup]:
    """Return a kind of group in which what begins with no command of it is for the command `name`."""

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            is_own = not args or args[0] in self.commands or args[0] in ctx.help_option_names
            return super().parse_args(ctx, args if is_own else [name, *args])

    return Group
