"""The action every toolset over a KG shares: look a name up (entities, classes and relations)."""

from __future__ import annotations

from triplewise.tools.actions.toolset import ActionContext, Feedback, Parameter, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.linking.search import KINDS, MatchKind, search_kg

_KINDS: dict[str, MatchKind] = {
    **dict.fromkeys(("entity", "entities"), "entity"),
    **dict.fromkeys(("class", "classes", "type"), "class"),
    **dict.fromkeys(("relation", "relations", "property"), "relation"),
}
CLOSE, FAR = 0.75, 3
"""How alike a name must be to be close to a text, and how many are shown where none is."""
SHOWN, SHOWN_OF_ALL = 10, 5
"""Matches shown of one kind that was asked for; of each kind where none was named."""


@action(
    Parameter("text", "text", "a name, or a few words that describe what is meant"),
    Parameter("kind", "text", f"{', '.join(KINDS)}; all of them if left out", False),
    example="search(Kobe Bryant, entity)",
    aliases=("lookup", "find_entity", "search_entity"),
)
def search(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Look up ids by name: use it where the entities given are missing or not the ones meant."""
    text = arguments[0].strip().strip("'\"")
    asked = arguments[1].strip().strip("'\"").lower() if len(arguments) > 1 else ""
    kind = _KINDS.get(asked)
    if asked and kind is None:
        message = f"search looks for {', '.join(KINDS)}, not for {arguments[1]}"
        raise ActionError("bad_kind", message, given=asked)
    kinds, shown = ((kind,), SHOWN) if kind else (KINDS, SHOWN_OF_ALL)
    matches = search_kg(context.kg, text, kinds, context.encoder, shown)
    lines = []
    for each in KINDS:
        of_kind, head = [m for m in matches if m.kind == each], str(each)
        if each == "entity" and of_kind and of_kind[0].score < CLOSE:
            of_kind, head = of_kind[:FAR], "entity (nothing is called so; the nearest names)"
        elif of_kind and not any(m.close for m in of_kind):
            of_kind, head = of_kind[:FAR], f"{each} (none is close; the nearest)"
        if of_kind:
            lines.append(f"{head}: {' | '.join(m.text() for m in of_kind)}")
    return Feedback(
        arguments=(text, *([kind] if kind else ())),
        outcome=Outcome.ROWS,
        observation="\n".join(lines) or f"Nothing in the graph is called like {text!r}; try other words.",
        ids={"search": [m.id for m in matches]},
    )
