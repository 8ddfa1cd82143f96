"""Link: from the words of a question to entities of the KG.

The papers take entity linking as given; a user's question comes without it.
"""

from __future__ import annotations

from contextlib import suppress

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment
from triplewise.nodes.state import State, fresh_state
from triplewise.tools.core.errors import ConfigurationError, QuestionError
from triplewise.tools.linking.linker import LinkedEntity, link as link_mentions
from triplewise.tools.parsing.statements import slot_of

LONGEST, LONGEST_WORD = 2_000, 200  # Characters of a question, and of a word in it


def link(state: State, runtime: Runtime[Context]) -> Update:
    """Find the entities of the question in the label index, except those the caller gave."""
    check_question(state.question)
    env, slot = environment(runtime), slot_of(state.question)
    # In a slot (`entity [SEP] relation`) only the first part is a mention, marked as one by brackets.
    question = state.question if slot is None or state.entities else f"[{slot[0]}]"
    return begin(link_mentions(question, env.kg, state.entities, env.encoder))


def given(state: State, runtime: Runtime[Context]) -> Update:
    """Use only the entities the caller gave, as the papers do."""
    check_question(state.question)
    kg, entities = environment(runtime).kg, state.entities
    return begin(link_mentions(state.question, kg, given=entities) if entities else ())


def known(state: State, runtime: Runtime[Context]) -> Update:
    """Use the caller's entities that are in the graph: an incomplete graph may lack some."""
    check_question(state.question)
    kg, linked = environment(runtime).kg, list[LinkedEntity]()
    for mention, id_ in state.entities.items():
        with suppress(ConfigurationError):  # raised for an entity that is not in the graph
            linked += link_mentions(state.question, kg, given={mention: id_})
    return begin(tuple(linked))


def none(state: State, runtime: Runtime[Context]) -> Update:
    """Link nothing: the model looks entities up with the action `search` (ablation)."""
    check_question(state.question)
    return begin(())


VARIANTS = {"index": link, "given": given, "known": known, "none": none}


def begin(linked: tuple[LinkedEntity, ...]) -> Update:
    """Return the first update of a question: an empty state (threads are reused) with its entities."""
    return {**fresh_state(), "linked": linked, "focus": tuple(e.id for e in linked)}


def check_question(question: str) -> None:
    """Raise `QuestionError` for a question that is empty or too long."""
    if not question.strip():
        raise QuestionError("the question is empty; ask something, e.g. 'Where was Ada Lovelace born?'")
    if len(question) > LONGEST:
        raise QuestionError(f"the question has {len(question):,} characters; ask one of at most {LONGEST:,}")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise QuestionError(f"character {error.start + 1} of the question is a lone surrogate") from None
    if (longest := max(map(len, question.split()))) > LONGEST_WORD:
        limit = f"a word may have at most {LONGEST_WORD}"
        raise QuestionError(f"a word of the question has {longest:,} characters; {limit}")
