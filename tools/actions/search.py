"""The action every toolset over a KG shares: look a name up (entities, classes and relations)."""

from __future__ import annotations

from typing import Annotated

from triplewise.tools.actions.toolset import ActionContext, Feedback, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.linking.search import KINDS, MatchKind, labels_language, search_kg

_KINDS: dict[str, MatchKind] = {
    **dict.fromkeys(("entity", "entities"), "entity"),
    **dict.fromkeys(("class", "classes", "type"), "class"),
    **dict.fromkeys(("relation", "relations", "property"), "relation"),
}
FAR = 3  # Matches shown where none or few are close
SHOWN, SHOWN_OF_ALL = 10, 5  # Matches shown of the kind that was named; of each kind where none was


@action("search(Kobe Bryant, entity)", "lookup", "find_entity", "search_entity")
def search(
    context: ActionContext,
    text: Annotated[str, "text", "a name, or a few words that describe what is meant"],
    kind: Annotated[str, "text", f"{', '.join(KINDS)}; all of them if left out"] = "",
) -> Feedback:
    """Look up ids by name: use it where the entities given are missing or not the ones meant."""
    text, given = text.strip().strip("'\""), kind.strip().strip("'\"").lower()
    if given and given not in _KINDS:
        raise ActionError("bad_kind", f"search looks for {', '.join(KINDS)}, not for {kind}", given=given)
    kinds, shown = ((_KINDS[given],), SHOWN) if given else (KINDS, SHOWN_OF_ALL)
    matches = search_kg(context.kg, text, kinds, context.encoder, shown)
    lines = []
    for each in KINDS:
        of_kind = sorted((m for m in matches if m.kind == each), key=lambda m: not m.close)
        near = sum(m.close for m in of_kind)  # what is not near fills up where that is little
        if of_kind:
            head = each if near else f"{each} (none is close; the nearest)"
            lines.append(f"{head}: {' | '.join(m.text() for m in of_kind[: max(FAR, near)])}")
    language = labels_language(context.question, context.kg.profile)
    if language and not any(m.close for m in matches):
        lines.append(f"Names in this graph are {language}.")
    return Feedback(
        arguments=(text, *(kinds if given else ())),
        outcome=Outcome.ROWS,
        observation="\n".join(lines) or f"Nothing in the graph is called like {text!r}; try other words.",
        ids={"search": [m.id for m in matches]},
    )
